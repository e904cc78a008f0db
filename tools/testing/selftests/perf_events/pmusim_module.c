// SPDX-License-Identifier: GPL-2.0
/* pmusim selftests - a module in use cannot be unloaded */
#define _GNU_SOURCE

#include "../kselftest_harness.h"
#include "pmusim_helpers.h"

#define NR_PMUS	6

static const char * const pmus[NR_PMUS] = {
	"pmusim", "pmusim_unc", "pmusim_aux", "pmusim_aux_nosg",
	"pmusim_aux_large", "pmusim_aux_excl",
};

static int unload(void)
{
	return syscall(__NR_delete_module, "pmusim", O_NONBLOCK) ? -errno : 0;
}

/* Load the module. Returns 0 or the negative errno. */
static int load(const char *path)
{
	int fd = open(path, O_RDONLY), ret;

	if (fd < 0)
		return -errno;
	ret = syscall(__NR_finit_module, fd, "", 0) ? -errno : 0;
	close(fd);
	return ret;
}

FIXTURE(module)
{
	int unused;
};

FIXTURE_SETUP(module)
{
	if (sim_skips(_metadata))
		return;
	if (access("/sys/module/pmusim/refcnt", R_OK))
		SIM_SKIP("pmusim is built in");
}

FIXTURE_TEARDOWN(module)
{
}

TEST_F(module, each_open_event_holds_it)
{
	struct perf_event_attr attr;
	unsigned int i;
	int fd;

	for (i = 0; i < NR_PMUS; i++) {
		attr = sim_attr(pmus[i], 0);
		fd = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-EAGAIN, unload());
		close(fd);
	}
}

TEST_F(module, a_mapping_of_the_registers_holds_it)
{
	int fd = open(SIM_DIR "/pmusim/counters", O_RDONLY);
	void *mem;

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EAGAIN, unload());
	mem = mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	close(fd);
	EXPECT_EQ(-EAGAIN, unload());
	munmap(mem, page_size());
}

/* The module has set up an area, and a stream is active. */
TEST_F(module, a_mapped_area_holds_it_without_the_descriptor)
{
	struct perf_event_attr attr = sim_attr("pmusim_aux", SIM_AUX_TIMER);
	struct sim_ring ring;
	int fd;

	attr.config1 = 5000 | SIM_CHUNK(2048);
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ring_map(&ring, fd, 4));
	ASSERT_EQ(0, ring_map_aux(&ring, 16 * page_size(), PROT_READ));
	close(fd);
	EXPECT_EQ(-EAGAIN, unload());
	ring_unmap(&ring);
}

/* Map the area through the event of the buffer, which is independent of the module. */
TEST_F(module, an_area_holds_it_when_its_event_is_gone)
{
	struct perf_event_attr attr = sim_attr("pmusim_aux", SIM_MANUAL);
	struct perf_event_attr clock = {
		.type	= PERF_TYPE_SOFTWARE,
		.size	= sizeof(clock),
		.config	= PERF_COUNT_SW_CPU_CLOCK,
	};
	struct sim_ring ring;
	int owner, fd;
	void *mem;

	owner = sim_open(&clock, -1, 0, -1);
	ASSERT_LE(0, owner);
	ASSERT_EQ(0, ring_map(&ring, owner, 4));
	fd = sim_open(&attr, -1, 0, -1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, sim_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, owner));
	ring.fd = fd;
	ASSERT_EQ(0, ring_map_aux(&ring, 16 * page_size(), PROT_READ));
	mem = mmap(NULL, ring.aux_size, PROT_READ, MAP_SHARED, owner, ring.size + page_size());
	ASSERT_NE(MAP_FAILED, mem);
	ring_unmap_aux(&ring);
	close(fd);
	/* The event is freed after a grace period. */
	sleep_ms(300);
	EXPECT_EQ(-EAGAIN, unload());
	munmap(mem, 16 * page_size());
	ring_unmap(&ring);
	close(owner);
}

TEST_F(module, an_open_control_file_holds_it)
{
	FILE *log;

	ASSERT_EQ(0, log_on());
	log = log_open();
	ASSERT_NE(NULL, log);
	EXPECT_EQ(-EAGAIN, unload());
	fclose(log);
}

/* Unload the module, which may take a moment, because events are freed after a grace period. */
static int unload_soon(void)
{
	__u64 end = now_ns() + 20000000000ULL;
	int ret;

	while ((ret = unload()) == -EAGAIN && now_ns() < end)
		sleep_ms(1);
	return ret;
}

TEST_F(module, it_can_go_and_come_again)
{
	struct perf_event_attr attr = sim_attr("pmusim", SIM_TIMER);
	const char *path = getenv("PMUSIM_MODULE");
	unsigned int round, i;
	int fd;

	if (!path)
		SKIP(return, "PMUSIM_MODULE does not tell where pmusim.ko is");
	attr.config1 = 10000;
	attr.sample_period = 1;
	for (round = 0; round < 5; round++) {
		fd = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, fd);
		sleep_ms(2);
		EXPECT_EQ(-EAGAIN, unload());
		close(fd);
		ASSERT_EQ(0, unload_soon());
		for (i = 0; i < NR_PMUS; i++)
			EXPECT_EQ(-1, sim_type(pmus[i]));
		EXPECT_NE(0, access(SIM_DIR, F_OK));
		/* The type does not exist any more. */
		EXPECT_EQ(-ENOENT, sim_open(&attr, -1, 0, -1));
		ASSERT_EQ(0, load(path));
		attr.type = sim_type("pmusim");
		fd = sim_open(&attr, -1, 0, -1);
		ASSERT_LE(0, fd);
		close(fd);
	}
}

TEST_HARNESS_MAIN
