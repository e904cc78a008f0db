# SPDX-License-Identifier: GPL-2.0
#
# Verbs only: each one calls a script below harness/ or qemu/. The first
# two bring everything that they need; later runs do what has changed.

H := harness
export KERNEL KERNEL_PORT ONTO SUITE FORCE TEST TOPIC FLAVOUR CONFIG RELEASE MINUTES SEED AREA

help:		## this list
	@echo 'make VERB [ARCH=x86_64|ppc64le|arm64] [KERNEL=directory or tarball of 6.12.y] [KERNEL_PORT=7.3]'
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 16

run:		## build, boot and show each feature at work
	@$(H)/demo/run

check:		## all tests on both architectures; exit status tells
	@$(H)/check

kunit: tree	## KUnit suites alone, TEST=suite one of them
	@$(H)/test/kunit

selftest: tree	## kselftests alone, TEST='gate_link ring_poll.watermark*' some, CPUS=16 a larger guest
	@$(H)/test/selftest

shell: tree	## interactive shell in the booted kernel of ARCH
	@$(H)/vm/shell $(ARCH)

bench: tree	## instruction counts, stock against patched, TOPIC= one topic alone
	@$(H)/bench/run

check-all:	## check, and the same on each base in ports/
	@$(H)/check --all

check-debug:	## the tests under KASAN, lockdep and fault injection
	@$(H)/check --debug

check-race: tree	## tests that provoke data races, under KCSAN on x86_64
	@$(H)/test/selftest --race

check-64k: tree	## tests that the page's size matters to, ppc64le with 64 KiB
	@$(H)/test/selftest --64k

compare: tree	## tests of the defects that the series mends, base beside series
	@$(H)/test/compare

models:		## models of what takes no lock, each explored whole by spin
	@$(H)/models/run

perf-record: tree	## the base's perf records from what the series changes, x86_64
	@$(H)/perf/perf-test record

perf-test: tree	## all of `perf test` by the base's perf and by that of the series, x86_64
	@$(H)/perf/perf-test compare

build: tree	## build/ARCH/kernel, both without ARCH=
	@for arch in $(or $(ARCH),$(ARCHES),x86_64 ppc64le); do $(H)/build/kernel $$arch || exit; done

lint: tree	## checkpatch, sparse, W=1, kernel-doc, words, spelling, shellcheck
	@$(H)/test/lint

coverage: tree	## lines that KUnit and kselftests reach, by gcov
	@$(H)/coverage/run

fuzz: tree	## random calls under KASAN and lockdep, MINUTES=60 SEED= AREA='gate ring aux page perfmon all'
	@$(H)/fuzz/run

cross: tree	## kernel/events/ and drivers/perf/ compiled for riscv and s390, TOPIC=
	@$(H)/build/cross

bisect: tree	## build each patch of a topic on what it needs, test the last, TOPIC=
	@$(H)/tree/bisect

tree: deps	## base and patches/ become the git tree build/linux
	@$(H)/tree/tree

save:		## commits of build/linux go back to patches/ and overlay
	@$(H)/tree/save

rebase:		## begin a port to a newer base, ONTO=VERSION, see harness/tree/rebase
	@$(H)/tree/rebase

series: tree	## mails for `git am` in build/series, one directory for each topic
	@$(H)/tree/export

deb: tree	## Debian packages in build/deb, FLAVOUR=amd64|cloud-amd64|ppc64el CONFIG=FILE|running LSMOD=FILE
	@$(H)/debian/deb

deb-check:	## install them on Debian 12 and 13 in QEMU, use and remove them
	@$(H)/debian/deb-check

deps:		## packages, emulator, busybox
	@$(H)/build/deps

qemu-pmu: deps	## the guests' QEMU: x86_64 with a PMU, ppc64le without stale code
	@qemu/build

qemu-check: tree qemu-pmu	## tests of that QEMU: its PMU on several kernels, migration, patched code
	@qemu/check

smoke: tree	## the verbs that check does not run whole, each to its first verdict
	@$(H)/test/smoke

clean:		## remove build/
	rm -rf build

.PHONY: help run check check-all kunit selftest shell bench check-debug check-race check-64k \
	compare models perf-record perf-test build deb deb-check lint coverage fuzz cross bisect tree \
	save rebase series deps qemu-pmu qemu-check smoke clean
