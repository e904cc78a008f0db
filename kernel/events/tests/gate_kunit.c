// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of performance event gates.
 */

#include <kunit/test-bug.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hw_breakpoint.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>
#include <trace/events/perf_gate.h>

#include "../internal.h"
#include "../gate/gate.h"

struct next_row {
	const char	*name;
	int		depth;
	unsigned int	role;
	bool		nest;
	int		want;
};

static const struct next_row next_rows[] = {
	{ "starter opens",		0, PERF_GATE_STARTER, false, 1 },
	{ "open stays open",		1, PERF_GATE_STARTER, false, 1 },
	{ "stopper closes",		1, PERF_GATE_STOPPER, false, 0 },
	{ "closed stays closed",	0, PERF_GATE_STOPPER, false, 0 },
	{ "nested starter opens",	0, PERF_GATE_STARTER, true, 1 },
	{ "nested starter deepens",	1, PERF_GATE_STARTER, true, 2 },
	{ "inner stopper keeps open",	2, PERF_GATE_STOPPER, true, 1 },
	{ "outer stopper closes",	1, PERF_GATE_STOPPER, true, 0 },
	{ "stopper without starter",	0, PERF_GATE_STOPPER, true, 0 },
	{ "depth does not wrap",	INT_MAX, PERF_GATE_STARTER, true, INT_MAX },
};

static void next_row_name(const struct next_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(next, next_rows, next_row_name);

static void depth_follows_the_triggers(struct kunit *test)
{
	const struct next_row *row = test->param_value;

	KUNIT_EXPECT_EQ(test, row->want,
			perf_gate_next_depth(row->depth, perf_gate_make_act(row->role, row->nest)));
}

static u64 inside_count(const struct perf_gate_split *split, u64 total)
{
	return perf_gate_inside(split, total, split->count);
}

static void fresh_gate_hides_nothing(struct kunit *test)
{
	const struct perf_gate_split split = { .open = true };

	KUNIT_EXPECT_EQ(test, inside_count(&split, 0), 0);
	KUNIT_EXPECT_EQ(test, inside_count(&split, 42), 42);
	KUNIT_EXPECT_EQ(test, inside_count(&split, U64_MAX), U64_MAX);
}

static void closed_gate_keeps_what_it_let_through(struct kunit *test)
{
	struct perf_gate_split split = { .open = true };

	split = perf_gate_flip(&split, 100, 1000);
	KUNIT_EXPECT_FALSE(test, split.open);
	KUNIT_EXPECT_EQ(test, inside_count(&split, 100), 100);
	KUNIT_EXPECT_EQ(test, inside_count(&split, 5000), 100);
	KUNIT_EXPECT_EQ(test, perf_gate_inside(&split, 9000, split.running), 1000);

	split = perf_gate_flip(&split, 5000, 9000);
	KUNIT_EXPECT_TRUE(test, split.open);
	KUNIT_EXPECT_EQ(test, inside_count(&split, 5000), 100);
	KUNIT_EXPECT_EQ(test, inside_count(&split, 5007), 107);
	KUNIT_EXPECT_EQ(test, perf_gate_inside(&split, 9070, split.running), 1070);
}

static void window_without_occurrence_adds_nothing(struct kunit *test)
{
	struct perf_gate_split split = { .open = false };

	split = perf_gate_flip(&split, 77, 88);
	split = perf_gate_flip(&split, 77, 88);
	KUNIT_EXPECT_FALSE(test, split.open);
	KUNIT_EXPECT_EQ(test, inside_count(&split, 1000), 0);
	KUNIT_EXPECT_EQ(test, perf_gate_inside(&split, 1000, split.running), 0);
}

/* Totals may wrap: only differences matter. */
static void account_agrees_with_a_sum_of_windows(struct kunit *test)
{
	struct perf_gate_split split = { .open = true };
	u64 total = U64_MAX - 5000, sum = total;
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, 20090323);
	for (i = 0; i < 100000; i++) {
		u32 n = prandom_u32_state(&rnd) % 100;

		total += n;
		if (split.open)
			sum += n;
		if (prandom_u32_state(&rnd) & 1)
			split = perf_gate_flip(&split, total, total);
		if (inside_count(&split, total) != sum)
			break;
	}
	KUNIT_EXPECT_EQ_MSG(test, i, 100000, "differs after step %d", i);
}

/* Two events that run on this CPU; the trigger is a starter of the target. */
struct pair {
	struct perf_event	*trigger;
	struct perf_event	*target;
};

static bool account_is_open(struct perf_event *event)
{
	return READ_ONCE(event->gate_account->split[0].open);
}

static struct perf_event *periodic_event(struct kunit *test, int cpu, u64 config, u64 period)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= config,
		.pinned		= 1,
		.sample_period	= period,
	};
	struct perf_event *event;

	event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	if (IS_ERR(event))
		return NULL;

	KUNIT_EXPECT_EQ(test, event->state, PERF_EVENT_STATE_ACTIVE);

	return event;
}

static struct perf_event *running_event(struct kunit *test, int cpu, u64 config)
{
	return periodic_event(test, cpu, config, 0);
}

/* Open a sampling event, which gates stop and start. */
static struct perf_event *sampling_event(struct kunit *test, int cpu)
{
	return periodic_event(test, cpu, PERF_COUNT_SW_DUMMY, 1000);
}

static struct perf_event *paused_event_on(int cpu)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.start_paused	= 1,
	};

	return perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
}

static int pair_init_target(struct kunit *test, u64 config)
{
	struct pair *pair = kunit_kzalloc(test, sizeof(*pair), GFP_KERNEL);
	int cpu;

	test->priv = pair;
	if (!pair)
		return -ENOMEM;

	/* Pin the thread of this test, which ends with it, so nothing is restored. */
	cpu = raw_smp_processor_id();
	if (set_cpus_allowed_ptr(current, cpumask_of(cpu)))
		return -EINVAL;

	pair->trigger = running_event(test, cpu, PERF_COUNT_SW_DUMMY);
	pair->target = running_event(test, cpu, config);
	if (!pair->trigger || !pair->target)
		return -ENOMEM;

	return perf_gate_link(pair->trigger, pair->target, PERF_GATE_STARTER);
}

static int pair_init(struct kunit *test)
{
	return pair_init_target(test, PERF_COUNT_SW_DUMMY);
}

/* Use a clock as the target, because its pmu::read() is not safe in every context. */
static int clock_pair_init(struct kunit *test)
{
	return pair_init_target(test, PERF_COUNT_SW_TASK_CLOCK);
}

static void pair_exit(struct kunit *test)
{
	struct pair *pair = test->priv;

	if (!pair)
		return;

	if (pair->trigger)
		perf_event_release_kernel(pair->trigger);
	if (pair->target)
		perf_event_release_kernel(pair->target);
}

/* Fire @trigger, the pair's trigger or one inherited from it, once in this role. */
static void fire_from(struct pair *pair, struct perf_event *trigger, unsigned int role)
{
	struct perf_gate_link *link;

	preempt_disable();
	link = hlist_entry(pair->trigger->gate_links.first, struct perf_gate_link, node);
	link->act = perf_gate_make_act(role, false);
	__perf_gate_fire(trigger, PERF_GATE_BEFORE | PERF_GATE_AFTER);
	preempt_enable();
}

static void fire(struct pair *pair, unsigned int role)
{
	fire_from(pair, pair->trigger, role);
}

static u64 nr_opened(struct perf_event *event)
{
	u64 opened = 0;

	KUNIT_EXPECT_EQ(kunit_get_current_test(),
			perf_gate_add_values(event, PERF_FORMAT_GATE_COUNT, 0, true, &opened), 1);

	return opened;
}

static void expect_windows(struct kunit *test, unsigned int opener, unsigned int closer)
{
	struct pair *pair = test->priv;
	struct perf_event *target = pair->target;
	int i;

	for (i = 0; i < 1000; i++) {
		local64_add(5, &target->count);
		fire(pair, opener);
		local64_add(3, &target->count);
		fire(pair, closer);
	}

	KUNIT_EXPECT_EQ(test, local64_read(&target->count), 8000);
	KUNIT_EXPECT_EQ(test, perf_gate_count(target), 3000);
	KUNIT_EXPECT_EQ(test, nr_opened(target), 1000);
}

static void window_holds_what_is_counted_in_it(struct kunit *test)
{
	expect_windows(test, PERF_GATE_STARTER, PERF_GATE_STOPPER);
}

static void toggling_opens_and_closes(struct kunit *test)
{
	expect_windows(test, PERF_GATE_TOGGLE, PERF_GATE_TOGGLE);
}

static void open_on_open_is_no_opening(struct kunit *test)
{
	struct pair *pair = test->priv;

	fire(pair, PERF_GATE_STARTER);
	fire(pair, PERF_GATE_STARTER);
	KUNIT_EXPECT_EQ(test, nr_opened(pair->target), 1);
	KUNIT_EXPECT_FALSE(test, perf_gate_closed(pair->target));
}

struct firing {
	struct pair	*pair;
	bool		open;
};

static void fire_both_in_motion(void *data)
{
	struct firing *firing = data;

	fire(firing->pair, PERF_GATE_STARTER);
	local64_add(9, &firing->pair->target->count);
	fire(firing->pair, PERF_GATE_STOPPER);
}

/* Both firings interrupt the same section, so one irq_work settles them together. */
static void window_that_collapses_counts_once_and_holds_nothing(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct firing firing = { .pair = pair };
	unsigned long flags;

	local_irq_save(flags);
	__perf_gate_call_deferring(fire_both_in_motion, &firing);
	local_irq_restore(flags);
	irq_work_sync(&pair->target->gate_account->work);

	KUNIT_EXPECT_EQ(test, perf_gate_count(pair->target), 0);
	KUNIT_EXPECT_EQ(test, nr_opened(pair->target), 1);
	KUNIT_EXPECT_TRUE(test, perf_gate_closed(pair->target));
}

static void fire_in_motion(void *data)
{
	struct firing *firing = data;

	fire(firing->pair, PERF_GATE_STARTER);
	firing->open = account_is_open(firing->pair->target);
}

/* A tracepoint in a PMU driver fires like this, or an NMI while events are scheduled. */
static void firing_while_events_are_in_motion_is_deferred(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_gate_account *account = pair->target->gate_account;
	struct firing firing = { .pair = pair };
	unsigned long flags;

	local_irq_save(flags);
	__perf_gate_call_deferring(fire_in_motion, &firing);
	local_irq_restore(flags);

	KUNIT_EXPECT_FALSE(test, firing.open);
	irq_work_sync(&account->work);
	KUNIT_EXPECT_TRUE(test, account->split[0].open);
	KUNIT_EXPECT_EQ(test, nr_opened(pair->target), 1);
}

/* The first firing is deferred; the second one comes before the irq_work of the first. */
static void firing_before_a_deferred_one_is_settled_moves_nothing(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_gate_account *account = pair->target->gate_account;
	struct firing firing = { .pair = pair };
	unsigned long flags;

	local_irq_save(flags);
	__perf_gate_call_deferring(fire_in_motion, &firing);
	local64_add(7, &pair->target->count);
	fire(pair, PERF_GATE_STOPPER);
	KUNIT_EXPECT_FALSE(test, account->split[0].open);
	local_irq_restore(flags);
	irq_work_sync(&account->work);

	KUNIT_EXPECT_FALSE(test, account->split[0].open);
	KUNIT_EXPECT_EQ(test, perf_gate_count(pair->target), 0);
	KUNIT_EXPECT_EQ(test, nr_opened(pair->target), 1);
}

static void close_what_opens(void *data, struct perf_event *trigger, u64 gate)
{
	struct pair *pair = data;

	if (gate == pair->target->gate->id)
		fire(pair, PERF_GATE_STOPPER);
}

/* The later of two firings wins, even if it interrupts the tracing of the first. */
static void firing_inside_of_the_tracing_of_another_one_counts(struct kunit *test)
{
	struct pair *pair = test->priv;

	if (!IS_ENABLED(CONFIG_TRACEPOINTS))
		kunit_skip(test, "needs CONFIG_TRACEPOINTS");

	KUNIT_ASSERT_EQ(test, register_trace_open(close_what_opens, pair), 0);
	fire(pair, PERF_GATE_STARTER);
	unregister_trace_open(close_what_opens, pair);
	tracepoint_synchronize_unregister();

	local64_add(9, &pair->target->count);
	KUNIT_EXPECT_TRUE(test, perf_gate_closed(pair->target));
	KUNIT_EXPECT_FALSE(test, account_is_open(pair->target));
	KUNIT_EXPECT_EQ(test, perf_gate_count(pair->target), 0);
	KUNIT_EXPECT_EQ(test, nr_opened(pair->target), 1);
}

static struct pair *interrupted;

/* Start an event as the core does, then let a stopper fire. */
static void start_and_close(struct perf_event *event, int flags)
{
	event->hw.state = 0;
	fire(interrupted, PERF_GATE_STOPPER);
}

/* An NMI closes the gate while a firing that opens it is between two members. */
static void firing_between_two_members_counts_for_both(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_event *steered;
	struct pmu *pmu, *closing;

	closing = kunit_kzalloc(test, sizeof(*closing), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, closing);
	steered = sampling_event(test, raw_smp_processor_id());
	KUNIT_ASSERT_NOT_NULL(test, steered);
	/* A firing moves the most recently joined member first. */
	KUNIT_EXPECT_EQ(test, perf_gate_link(steered, pair->target, PERF_GATE_MEMBER), 0);

	interrupted = pair;
	pmu = steered->pmu;
	*closing = *pmu;
	closing->start = start_and_close;
	steered->pmu = closing;
	fire(pair, PERF_GATE_STARTER);
	steered->pmu = pmu;

	KUNIT_EXPECT_TRUE(test, perf_gate_closed(pair->target));
	KUNIT_EXPECT_FALSE(test, account_is_open(steered));
	KUNIT_EXPECT_FALSE(test, account_is_open(pair->target));
	KUNIT_EXPECT_EQ(test, nr_opened(pair->target), 1);
	perf_event_release_kernel(steered);
}

/* Make an event of a task that is being forked and never runs. */
static struct perf_event *forked_event(struct kunit *test, struct perf_event *parent,
				       struct perf_event_context *ctx)
{
	struct perf_event *child = kunit_kzalloc(test, sizeof(*child), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, child);
	child->parent = parent;
	child->group_leader = child;
	child->ctx = ctx;
	child->pmu = parent->pmu;
	child->attr = parent->attr;
	child->event_caps = parent->event_caps;
	child->state = PERF_EVENT_STATE_EXIT;
	child->oncpu = -1;

	return child;
}

static void inherit(struct kunit *test, struct perf_event *child, struct perf_event *source)
{
	guard(mutex)(&child->parent->child_mutex);

	KUNIT_ASSERT_EQ(test, __perf_gate_inherit(child, source), 0);
}

static void end_forked(struct perf_event *child)
{
	perf_gate_release(child);
	perf_gate_free_rcu(child);
}

static struct perf_event_context *forked_context(struct kunit *test)
{
	struct perf_event_context *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	raw_spin_lock_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->event_list);

	return ctx;
}

/*
 * JOIN_GATE finds one member of a new task before fork(2) has inherited the next one,
 * and cannot know the depth that the new task will start with.
 */
static void fork_corrects_the_guess_of_a_join(struct kunit *test)
{
	struct perf_event *joined, *early, *late, *later;
	struct perf_event_context *ctx;
	struct pair *pair = test->priv;

	ctx = forked_context(test);
	joined = running_event(test, raw_smp_processor_id(), PERF_COUNT_SW_DUMMY);
	KUNIT_ASSERT_NOT_NULL(test, joined);
	early = forked_event(test, joined, ctx);
	late = forked_event(test, pair->target, ctx);
	later = forked_event(test, pair->target, ctx);

	fire(pair, PERF_GATE_STARTER);
	list_add(&early->child_list, &joined->child_list);
	KUNIT_EXPECT_EQ(test, perf_gate_link(joined, pair->target, PERF_GATE_MEMBER), 0);
	KUNIT_ASSERT_NOT_NULL(test, early->gate_state);
	KUNIT_EXPECT_EQ(test, atomic_read(&early->gate_state->depth), 0);

	inherit(test, late, pair->target);
	KUNIT_EXPECT_PTR_EQ(test, late->gate_state, early->gate_state);
	KUNIT_EXPECT_EQ(test, atomic_read(&late->gate_state->depth), 1);
	KUNIT_EXPECT_TRUE(test, account_is_open(late));

	/* From now on, firings of the task move its state, so fork(2) must not set it again. */
	fire(pair, PERF_GATE_STOPPER);
	inherit(test, later, pair->target);
	KUNIT_EXPECT_EQ(test, atomic_read(&later->gate_state->depth), 1);
	KUNIT_EXPECT_TRUE(test, account_is_open(later));

	list_del(&early->child_list);
	end_forked(early);
	end_forked(late);
	end_forked(later);
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&ctx->gate_states.tree[0]));
	perf_event_release_kernel(joined);
	/* Wait for firings that have found the state in @ctx. */
	synchronize_rcu();
}

/* Events of a task that is being forked: a trigger, and a member of its gate. */
struct family {
	struct pair			*pair;
	struct perf_event_context	*ctx;
	struct perf_event		*trigger;
	struct perf_event		*member;
	struct perf_event		*joined;
	struct completion		ready;
	bool				go;
	bool				done;
};

static struct family *new_family(struct kunit *test)
{
	struct family *family = kunit_kzalloc(test, sizeof(*family), GFP_KERNEL);
	struct pair *pair = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, family);
	family->pair = pair;
	family->ctx = forked_context(test);
	family->trigger = forked_event(test, pair->trigger, family->ctx);
	family->trigger->state = PERF_EVENT_STATE_INACTIVE;
	family->member = forked_event(test, pair->target, family->ctx);
	inherit(test, family->member, pair->target);
	init_completion(&family->ready);

	return family;
}

static struct family *in_a_join;

static void read_and_close(struct perf_event *event)
{
	struct family *family = in_a_join;

	/* JOIN_GATE has looked up all that it needs, but the child has not joined yet. */
	KUNIT_EXPECT_NULL(kunit_get_current_test(), family->joined->gate_state);
	fire_from(family->pair, family->trigger, PERF_GATE_STOPPER);
}

/* A child's trigger fires after JOIN_GATE has looked at the child, and before it joins. */
static void firing_in_the_middle_of_a_join_counts(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_event *joined;
	struct pmu *pmu, *reading;
	struct family *family;

	fire(pair, PERF_GATE_STARTER);
	family = new_family(test);
	KUNIT_EXPECT_EQ(test, atomic_read(&family->member->gate_state->depth), 1);
	fire(pair, PERF_GATE_STOPPER);

	joined = running_event(test, raw_smp_processor_id(), PERF_COUNT_SW_DUMMY);
	KUNIT_ASSERT_NOT_NULL(test, joined);
	family->joined = forked_event(test, joined, family->ctx);
	list_add(&family->joined->child_list, &joined->child_list);

	reading = kunit_kzalloc(test, sizeof(*reading), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, reading);
	pmu = joined->pmu;
	*reading = *pmu;
	reading->read = read_and_close;
	in_a_join = family;
	/* perf_gate_join() closes the event itself first, and reads it for that. */
	joined->pmu = reading;
	KUNIT_EXPECT_EQ(test, perf_gate_link(joined, pair->target, PERF_GATE_MEMBER), 0);
	joined->pmu = pmu;

	KUNIT_EXPECT_PTR_EQ(test, family->joined->gate_state, family->member->gate_state);
	KUNIT_EXPECT_EQ(test, atomic_read(&family->joined->gate_state->depth), 0);
	KUNIT_EXPECT_FALSE(test, account_is_open(family->joined));

	list_del(&family->joined->child_list);
	end_forked(family->joined);
	end_forked(family->member);
	perf_event_release_kernel(joined);
	synchronize_rcu();
}

static int leave_elsewhere(void *data)
{
	struct family *family = data;
	struct perf_gate_change change = { .event = family->member };

	complete(&family->ready);
	while (!READ_ONCE(family->go))
		cond_resched();
	scoped_guard(mutex, &family->pair->target->child_mutex)
		perf_gate_change(&change);
	WRITE_ONCE(family->done, true);

	return 0;
}

static void let_member_leave_elsewhere(struct kunit *test, struct family *family)
{
	unsigned int there = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	struct task_struct *task;

	if (there >= nr_cpu_ids)
		kunit_skip(test, "one CPU");

	task = kthread_create_on_cpu(leave_elsewhere, family, there, "gate_kunit/%u");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	wake_up_process(task);
	wait_for_completion(&family->ready);
}

/* Let the other CPU go on. Return whether it is done within a tenth of a second. */
static bool is_done_elsewhere(struct family *family)
{
	ktime_t end = ktime_add_ms(ktime_get(), 100);

	WRITE_ONCE(family->go, true);
	while (!READ_ONCE(family->done) && ktime_before(ktime_get(), end))
		cpu_relax();

	return READ_ONCE(family->done);
}

/* An exiting task runs on no CPU, so the lock of its context protects its events. */
static void member_of_an_exiting_task_leaves_under_its_lock(struct kunit *test)
{
	struct family *family = new_family(test);
	unsigned long end = jiffies + 10 * HZ;
	bool left, done;

	let_member_leave_elsewhere(test, family);
	raw_spin_lock_irq(&family->ctx->lock);
	done = is_done_elsewhere(family);
	left = !READ_ONCE(family->member->gate_state);
	raw_spin_unlock_irq(&family->ctx->lock);
	while (!READ_ONCE(family->done) && time_before(jiffies, end))
		cond_resched();

	KUNIT_EXPECT_FALSE(test, done);
	KUNIT_EXPECT_FALSE(test, left);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(family->done));
	KUNIT_EXPECT_NULL(test, family->member->gate_state);
	end_forked(family->member);
	synchronize_rcu();
}

#define NR_FRESH	128

/* Tell if new objects reuse @memory, as they soon do if it was freed too early. */
static bool is_allocated_again(const void *memory, size_t size)
{
	void **fresh = kcalloc(NR_FRESH, sizeof(*fresh), GFP_ATOMIC);
	bool again = false;
	int i;

	for (i = 0; fresh && i < NR_FRESH; i++) {
		fresh[i] = kzalloc(size, GFP_ATOMIC);
		again |= fresh[i] == memory;
	}
	for (i = 0; fresh && i < NR_FRESH; i++)
		kfree(fresh[i]);
	kfree(fresh);

	return again;
}

struct stretched {
	struct family	*family;
	bool		done;
	bool		again;
};

/* The firing that is traced still uses a link, its gate and the child's state. */
static void close_all_meanwhile(void *data, struct perf_event *trigger, u64 gate)
{
	struct stretched *stretched = data;
	struct family *family = stretched->family;
	struct perf_gate_state *state = family->member->gate_state;
	struct perf_gate_link *link;

	if (trigger != family->trigger)
		return;

	link = hlist_entry(family->pair->trigger->gate_links.first, struct perf_gate_link, node);
	perf_gate_unlink(link, PERF_GATE_TOGGLE);
	stretched->done = is_done_elsewhere(family);
	stretched->again = is_allocated_again(link, sizeof(*link)) ||
			   is_allocated_again(state, sizeof(*state));
}

/* close() keeps an object until the firings that have found it are over. */
static void closing_takes_nothing_away_from_a_firing(struct kunit *test)
{
	struct family *family = new_family(test);
	struct stretched stretched = { .family = family };
	struct pair *pair = test->priv;
	struct perf_event_context *ctx;

	if (!IS_ENABLED(CONFIG_TRACEPOINTS))
		kunit_skip(test, "needs CONFIG_TRACEPOINTS");

	let_member_leave_elsewhere(test, family);
	ctx = perf_event_ctx_lock(pair->trigger);
	KUNIT_EXPECT_EQ(test, register_trace_open(close_all_meanwhile, &stretched), 0);
	fire_from(pair, family->trigger, PERF_GATE_STARTER);
	unregister_trace_open(close_all_meanwhile, &stretched);
	perf_event_ctx_unlock(pair->trigger, ctx);
	tracepoint_synchronize_unregister();

	KUNIT_EXPECT_TRUE(test, stretched.done);
	KUNIT_EXPECT_FALSE(test, stretched.again);
	KUNIT_EXPECT_TRUE(test, hlist_empty(&pair->trigger->gate_links));
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&family->ctx->gate_states.tree[0]));
	end_forked(family->member);
	synchronize_rcu();
}

struct last_trigger {
	struct pair		*pair;
	struct completion	ready;
	bool			go;
	bool			done;
};

static int unlink_elsewhere(void *data)
{
	struct last_trigger *last = data;
	struct perf_event *trigger = last->pair->trigger;
	struct perf_event_context *ctx;

	complete(&last->ready);
	while (!READ_ONCE(last->go))
		cond_resched();
	ctx = perf_event_ctx_lock(trigger);
	perf_gate_unlink_trigger(trigger, PERF_GATE_STARTER);
	perf_event_ctx_unlock(trigger, ctx);
	WRITE_ONCE(last->done, true);

	return 0;
}

/* The traced firing has closed the first gate, and goes on to the link of the second. */
static void unlink_meanwhile(void *data, struct perf_event *trigger, u64 gate)
{
	struct last_trigger *last = data;
	ktime_t end = ktime_add_ms(ktime_get(), 100);

	if (trigger != last->pair->trigger || READ_ONCE(last->go))
		return;

	WRITE_ONCE(last->go, true);
	while (!READ_ONCE(last->done) && ktime_before(ktime_get(), end))
		cpu_relax();
}

/* A gate that loses its last trigger opens when no firing uses the link any more. */
static void firing_does_not_close_a_gate_that_has_no_trigger(struct kunit *test)
{
	unsigned int there = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	struct last_trigger last = { .pair = test->priv };
	struct perf_event *target = last.pair->target, *other;
	unsigned long end = jiffies + 10 * HZ;
	struct perf_gate_link *link;
	struct task_struct *task;

	if (!IS_ENABLED(CONFIG_TRACEPOINTS))
		kunit_skip(test, "needs CONFIG_TRACEPOINTS");
	if (there >= nr_cpu_ids)
		kunit_skip(test, "one CPU");

	other = running_event(test, raw_smp_processor_id(), PERF_COUNT_SW_DUMMY);
	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_ASSERT_EQ(test, perf_gate_link(last.pair->trigger, other, PERF_GATE_STARTER), 0);
	fire(last.pair, PERF_GATE_STARTER);
	KUNIT_EXPECT_TRUE(test, account_is_open(target) && account_is_open(other));

	init_completion(&last.ready);
	task = kthread_create_on_cpu(unlink_elsewhere, &last, there, "gate_kunit/%u");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	wake_up_process(task);
	wait_for_completion(&last.ready);

	hlist_for_each_entry(link, &last.pair->trigger->gate_links, node)
		link->act = perf_gate_make_act(PERF_GATE_STOPPER, false);
	KUNIT_EXPECT_EQ(test, register_trace_close(unlink_meanwhile, &last), 0);
	fire(last.pair, PERF_GATE_STOPPER);
	unregister_trace_close(unlink_meanwhile, &last);
	tracepoint_synchronize_unregister();
	while (!READ_ONCE(last.done) && time_before(jiffies, end))
		cond_resched();

	KUNIT_EXPECT_TRUE(test, READ_ONCE(last.go));
	KUNIT_EXPECT_TRUE(test, READ_ONCE(last.done));
	KUNIT_EXPECT_TRUE(test, account_is_open(target));
	KUNIT_EXPECT_TRUE(test, account_is_open(other));
	perf_event_release_kernel(other);
}

/* An event takes over the openings of the gate that it joins, and so do its children. */
static void join_forgets_openings_of_children_that_are_gone(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_event *paused;
	u64 opened = 0;

	paused = paused_event_on(raw_smp_processor_id());
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paused);
	atomic64_set(&perf_gate_member(paused)->child_opened, 7);
	fire(pair, PERF_GATE_STARTER);
	KUNIT_EXPECT_EQ(test, perf_gate_link(paused, pair->target, PERF_GATE_MEMBER), 0);
	perf_gate_add_values(paused, PERF_FORMAT_GATE_COUNT, 0, false, &opened);
	KUNIT_EXPECT_EQ(test, opened, 1);
	perf_event_release_kernel(paused);
}

static void firing_in_motion_is_latched_while_the_target_is_off(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct firing firing = { .pair = pair };
	unsigned long flags;

	perf_event_disable(pair->target);
	local_irq_save(flags);
	__perf_gate_call_deferring(fire_in_motion, &firing);
	local_irq_restore(flags);
	perf_event_enable(pair->target);

	KUNIT_EXPECT_TRUE(test, account_is_open(pair->target));
}

static void closed_trigger_does_not_fire(struct kunit *test)
{
	struct pair *pair = test->priv;

	/* As a starter of its own trigger, the target closes the gate of the trigger. */
	KUNIT_ASSERT_EQ(test, perf_gate_link(pair->target, pair->trigger, PERF_GATE_STARTER), 0);
	fire(pair, PERF_GATE_STARTER);
	KUNIT_EXPECT_TRUE(test, perf_gate_closed(pair->target));
	KUNIT_EXPECT_EQ(test, nr_opened(pair->target), 0);
}

static void disabled_trigger_does_not_fire(struct kunit *test)
{
	struct pair *pair = test->priv;

	perf_event_disable(pair->trigger);
	fire(pair, PERF_GATE_STARTER);
	KUNIT_EXPECT_TRUE(test, perf_gate_closed(pair->target));
}

static void firing_is_latched_while_the_target_is_off(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_event *target = pair->target;

	perf_event_disable(target);
	fire(pair, PERF_GATE_STARTER);
	perf_event_enable(target);
	local64_add(4, &target->count);
	KUNIT_EXPECT_EQ(test, perf_gate_count(target), 4);
}

static void severed_target_keeps_its_state(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_event *target = pair->target;

	fire(pair, PERF_GATE_STARTER);
	local64_add(2, &target->count);
	fire(pair, PERF_GATE_STOPPER);
	perf_event_release_kernel(pair->trigger);
	pair->trigger = NULL;

	local64_add(50, &target->count);
	KUNIT_EXPECT_EQ(test, target->gate->nr_starters, 0);
	KUNIT_EXPECT_EQ(test, perf_gate_count(target), 2);
}

/* The event of an exiting child may hold a reference to its parent event. */
static void closed_trigger_that_stays_for_a_while_is_unlinked(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_event *target = pair->target;
	struct perf_event *trigger = pair->trigger;

	atomic_long_inc(&trigger->refcount);
	perf_event_release_kernel(trigger);
	KUNIT_EXPECT_EQ(test, target->gate->nr_starters, 0);
	KUNIT_EXPECT_TRUE(test, hlist_empty(&trigger->gate_links));

	/* Drop the other reference: the event is detached a second time. */
	perf_event_release_kernel(trigger);
	pair->trigger = NULL;
}

static void reset(struct perf_event *event)
{
	struct perf_event_context *ctx = perf_event_ctx_lock(event);

	perf_gate_reset(event);
	perf_event_ctx_unlock(event, ctx);
}

static void reset_empties_the_windows_alone(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_event *target = pair->target;

	local64_add(10, &target->count);
	fire(pair, PERF_GATE_STARTER);
	local64_add(3, &target->count);
	reset(target);
	KUNIT_EXPECT_EQ(test, perf_gate_count(target), 0);
	local64_add(6, &target->count);
	fire(pair, PERF_GATE_STOPPER);
	local64_add(10, &target->count);

	KUNIT_EXPECT_EQ(test, perf_gate_count(target), 6);
	KUNIT_EXPECT_EQ(test, nr_opened(target), 1);
}

static void firing_with_interrupts_off_is_deferred_not_lost(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_gate_account *account = pair->target->gate_account;
	unsigned long flags;
	bool open, closed;

	local_irq_save(flags);
	fire(pair, PERF_GATE_STARTER);
	open = account->split[0].open;
	closed = perf_gate_closed(pair->target);
	local_irq_restore(flags);

	KUNIT_EXPECT_FALSE(test, open);
	KUNIT_EXPECT_FALSE(test, closed);
	irq_work_sync(&account->work);
	KUNIT_EXPECT_TRUE(test, account->split[0].open);
}

/* The target moves to another CPU before the irq_work that would settle it runs. */
static void deferred_work_follows_the_target(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_gate_account *account = pair->target->gate_account;
	unsigned int here = raw_smp_processor_id(), there;
	unsigned long end;

	there = cpumask_any_but(cpu_online_mask, here);
	if (there >= nr_cpu_ids)
		kunit_skip(test, "one CPU");

	fire(pair, PERF_GATE_STARTER);
	KUNIT_EXPECT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(there)), 0);
	atomic_set(&pair->target->gate_state->depth, 0);
	irq_work_queue(&account->work);
	end = jiffies + 10 * HZ;
	while (READ_ONCE(account->split[0].open) && time_before(jiffies, end))
		cpu_relax();
	irq_work_sync(&account->work);
	KUNIT_EXPECT_FALSE(test, account->split[0].open);
	KUNIT_EXPECT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(here)), 0);
	KUNIT_EXPECT_EQ(test, nr_opened(pair->target), 1);
}

static void stopped_clock_settles_before_it_starts(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_gate_account *account = pair->target->gate_account;

	perf_event_disable(pair->target);
	fire(pair, PERF_GATE_STARTER);
	KUNIT_EXPECT_FALSE(test, account->split[0].open);
	perf_event_enable(pair->target);
	KUNIT_EXPECT_TRUE(test, account->split[0].open);
}

static void firing_with_interrupts_on_acts_at_once(struct kunit *test)
{
	struct pair *pair = test->priv;
	struct perf_gate_account *account = pair->target->gate_account;

	fire(pair, PERF_GATE_STARTER);
	KUNIT_EXPECT_TRUE(test, account->split[0].open);
}

static int tracepoint_id(const char *system, const char *name)
{
	struct trace_event_file *file = trace_get_event_file(NULL, system, name);
	int id;

	if (IS_ERR(file))
		return PTR_ERR(file);

	id = file->event_call->event.type;
	trace_put_event_file(file);

	return id;
}

/*
 * Only the core stops a software event. When the event is scheduled in again, it must
 * count, whatever its state was.
 */
static void expect_to_run_again(struct kunit *test, struct perf_event_attr *attr)
{
	struct perf_event *event;
	int cpu;

	cpu = raw_smp_processor_id();
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(cpu)), 0);
	event = perf_event_create_kernel_counter(attr, cpu, NULL, NULL, NULL);
	if (IS_ERR(event))
		kunit_skip(test, "the event cannot be opened: %pe", event);

	local_irq_disable();
	event->pmu->stop(event, PERF_EF_UPDATE);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, event->hw.state, PERF_HES_STOPPED);
	perf_event_disable(event);
	perf_event_enable(event);
	KUNIT_EXPECT_EQ(test, event->state, PERF_EVENT_STATE_ACTIVE);
	KUNIT_EXPECT_EQ(test, event->hw.state, 0);
	perf_event_release_kernel(event);
}

static void stopped_tracepoint_event_is_scheduled_in_running(struct kunit *test)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_TRACEPOINT,
		.size	= sizeof(attr),
	};
	int id = tracepoint_id("perf_gate", "open");

	KUNIT_ASSERT_GT(test, id, 0);
	attr.config = id;
	expect_to_run_again(test, &attr);
}

/* An event gets its filter after a hit has found none and before the hit is counted. */
static void hit_that_found_no_filter_is_counted(struct kunit *test)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_TRACEPOINT,
		.size	= sizeof(attr),
	};
	int id = tracepoint_id("perf_gate", "open"), cpu = raw_smp_processor_id();
	struct perf_event *event;

	KUNIT_ASSERT_GT(test, id, 0);
	attr.config = id;
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(cpu)), 0);
	event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, event);

	preempt_disable();
	/* perf_tp_count() must not dereference the filter. */
	event->filter = ERR_PTR(-EINVAL);
	perf_tp_count(this_cpu_ptr(event->tp_event->perf_events), 1, NULL, NULL);
	event->filter = NULL;
	preempt_enable();

	KUNIT_EXPECT_EQ(test, local64_read(&event->count), 1);
	perf_event_release_kernel(event);
}

static unsigned long watched;

static void stopped_breakpoint_is_scheduled_in_running(struct kunit *test)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(attr),
		.pinned		= 1,
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= (unsigned long)&watched,
		.bp_len		= HW_BREAKPOINT_LEN_4,
	};

	if (!IS_ENABLED(CONFIG_HAVE_HW_BREAKPOINT))
		kunit_skip(test, "no hardware breakpoints");
	expect_to_run_again(test, &attr);
}

/* The key goes off within two seconds; give a busy machine ten times as long. */
static bool key_goes_off(void)
{
	unsigned long end = jiffies + 20 * HZ;

	while (static_key_enabled(&perf_gate_key.key)) {
		if (time_after(jiffies, end))
			return false;
		msleep(20);
	}
	return true;
}

/* The key stays on until the last event with a gate is freed. */
static void key_is_off_again_after_the_last_gate(struct kunit *test)
{
	struct perf_event *first, *last;

	KUNIT_ASSERT_TRUE_MSG(test, key_goes_off(), "gates of others exist, or a test left one");

	first = paused_event_on(0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, first);
	KUNIT_EXPECT_TRUE(test, static_key_enabled(&perf_gate_key.key));
	last = paused_event_on(0);
	if (!IS_ERR(last)) {
		perf_event_release_kernel(first);
		msleep(2000);
		KUNIT_EXPECT_TRUE(test, static_key_enabled(&perf_gate_key.key));
	} else {
		KUNIT_FAIL(test, "second event: %pe", last);
		last = first;
	}
	perf_event_release_kernel(last);
	KUNIT_EXPECT_TRUE(test, key_goes_off());
}

struct size_row {
	const char	*name;
	size_t		size;
	size_t		most;
};

static const struct size_row size_rows[] = {
	{ "account of an opened event",		sizeof(struct perf_gate_member), 192 },
	{ "account of an inherited event",	sizeof(struct perf_gate_account), 128 },
	{ "gate",				sizeof(struct perf_gate), 192 },
	{ "state in a task",			sizeof(struct perf_gate_state), 128 },
	{ "link",				sizeof(struct perf_gate_link), 64 },
};

static void size_row_name(const struct size_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(size, size_rows, size_row_name);

static void object_takes_what_is_documented(struct kunit *test)
{
	const struct size_row *row = test->param_value;
	void *object;

	if (!IS_ENABLED(CONFIG_64BIT) || IS_ENABLED(CONFIG_DEBUG_LOCK_ALLOC))
		kunit_skip(test, "the documentation tells of 64 bits, without checks of locks");

	object = kunit_kzalloc(test, row->size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, object);
	KUNIT_EXPECT_EQ(test, ksize(object), row->most);
}

static struct kunit_case state_cases[] = {
	KUNIT_CASE_PARAM(depth_follows_the_triggers, next_gen_params),
	KUNIT_CASE(fresh_gate_hides_nothing),
	KUNIT_CASE(closed_gate_keeps_what_it_let_through),
	KUNIT_CASE(window_without_occurrence_adds_nothing),
	KUNIT_CASE(account_agrees_with_a_sum_of_windows),
	KUNIT_CASE_PARAM(object_takes_what_is_documented, size_gen_params),
	{}
};

static struct kunit_suite state_suite = {
	.name		= "perf_gate_state",
	.test_cases	= state_cases,
};

static struct kunit_case fire_cases[] = {
	KUNIT_CASE(window_holds_what_is_counted_in_it),
	KUNIT_CASE(toggling_opens_and_closes),
	KUNIT_CASE(open_on_open_is_no_opening),
	KUNIT_CASE(window_that_collapses_counts_once_and_holds_nothing),
	KUNIT_CASE(firing_while_events_are_in_motion_is_deferred),
	KUNIT_CASE(firing_before_a_deferred_one_is_settled_moves_nothing),
	KUNIT_CASE(firing_inside_of_the_tracing_of_another_one_counts),
	KUNIT_CASE(firing_between_two_members_counts_for_both),
	KUNIT_CASE(fork_corrects_the_guess_of_a_join),
	KUNIT_CASE(firing_in_the_middle_of_a_join_counts),
	KUNIT_CASE(member_of_an_exiting_task_leaves_under_its_lock),
	KUNIT_CASE(closing_takes_nothing_away_from_a_firing),
	KUNIT_CASE(firing_does_not_close_a_gate_that_has_no_trigger),
	KUNIT_CASE(join_forgets_openings_of_children_that_are_gone),
	KUNIT_CASE(firing_in_motion_is_latched_while_the_target_is_off),
	KUNIT_CASE(closed_trigger_does_not_fire),
	KUNIT_CASE(disabled_trigger_does_not_fire),
	KUNIT_CASE(firing_is_latched_while_the_target_is_off),
	KUNIT_CASE(severed_target_keeps_its_state),
	KUNIT_CASE(closed_trigger_that_stays_for_a_while_is_unlinked),
	KUNIT_CASE(reset_empties_the_windows_alone),
	{}
};

static struct kunit_suite fire_suite = {
	.name		= "perf_gate",
	.init		= pair_init,
	.exit		= pair_exit,
	.test_cases	= fire_cases,
};

static struct kunit_case clock_cases[] = {
	KUNIT_CASE(firing_with_interrupts_off_is_deferred_not_lost),
	KUNIT_CASE(deferred_work_follows_the_target),
	KUNIT_CASE(stopped_clock_settles_before_it_starts),
	KUNIT_CASE(firing_with_interrupts_on_acts_at_once),
	{}
};

static struct kunit_suite clock_suite = {
	.name		= "perf_gate_clock",
	.init		= clock_pair_init,
	.exit		= pair_exit,
	.test_cases	= clock_cases,
};

/* Gates of other events, which any user may have, must not disturb the read. */
static void event_of_a_package_is_read_on_any_of_its_cpus(struct kunit *test)
{
	struct perf_event *event = kunit_kzalloc(test, sizeof(*event), GFP_KERNEL);
	bool alone;
	u64 value;

	KUNIT_ASSERT_NOT_NULL(test, event);
	event->oncpu = -1;
	event->group_caps = PERF_EV_CAP_READ_ACTIVE_PKG;
	scoped_guard(migrate) {
		event->cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
		alone = event->cpu >= nr_cpu_ids || topology_physical_package_id(event->cpu) !=
						topology_physical_package_id(smp_processor_id());
		if (alone)
			break;
		KUNIT_EXPECT_EQ(test, 0, perf_event_read_local(event, &value, NULL, NULL));
		perf_gate_get_key();
		KUNIT_EXPECT_EQ(test, 0, perf_event_read_local(event, &value, NULL, NULL));
		perf_gate_put_key();
	}
	if (alone)
		kunit_skip(test, "no other CPU in the package");
}

static struct kunit_case core_cases[] = {
	KUNIT_CASE(event_of_a_package_is_read_on_any_of_its_cpus),
	KUNIT_CASE(stopped_tracepoint_event_is_scheduled_in_running),
	KUNIT_CASE(stopped_breakpoint_is_scheduled_in_running),
	KUNIT_CASE(hit_that_found_no_filter_is_counted),
	KUNIT_CASE_SLOW(key_is_off_again_after_the_last_gate),
	{}
};

static struct kunit_suite core_suite = {
	.name		= "perf_gate_core",
	.test_cases	= core_cases,
};

kunit_test_suites(&state_suite, &fire_suite, &clock_suite, &core_suite);

MODULE_DESCRIPTION("KUnit tests of performance event gates");
MODULE_LICENSE("GPL");
