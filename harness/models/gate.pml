/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A gate that moves: the account of a member follows the depth, whatever moves the depth
 * and whatever this interrupts.
 *
 * perf_gate_make_act(), perf_gate_next_depth(), perf_gate_flip() and perf_gate_inside()
 * are those of kernel/events/gate/split.h. The rest stands for code in
 * kernel/events/gate/fire.c, settle.c and settle.h unless noted:
 *
 *	step()		perf_gate_update_depth(): atomic_fetch_xor(), or with -DNEST the
 *			loop around atomic_try_cmpxchg(); with -DTRACED also
 *			perf_gate_trace_step()
 *	fire()		__perf_gate_fire() and perf_gate_fire_links(): first with @simple,
 *			then without
 *	AT_HAND		perf_gate_update_count() can tell the count
 *	settle_active()	perf_gate_settle_active() on the CPU of the event, with
 *			perf_gate_can_settle() as CAN_SETTLE
 *	held		perf_gate_deferring
 *	ON_PMU		perf_gate_on_pmu() in gate.h
 *	READABLE	perf_gate_readable() in gate.h
 *	listed		the member is on perf_gate_state::active, where firings find it
 *	settle()	perf_gate_settle(): perf_gate_defer_begin(), pmu::read(), move()
 *	move()		perf_gate_flip_account() if the state differs, with perf_gate_publish()
 *			and its latch
 *	second		with -DSECOND, a further member on the list, which the core
 *			counts; only the state of its account is modelled
 *	read_pmu()	pmu::read() of a driver: hw.prev_count, then the count
 *	task		the CPU of the event: the task counts; the kernel, interrupts off,
 *			fires, directly or in an IRQ; reads as perf_pmu_read() and
 *			__perf_event_update_time() do, inside of perf_gate_defer_begin();
 *			takes the event out as event_sched_out() and in as
 *			event_sched_in(), both in core.c, with __perf_gate_pmu_del()
 *			and __perf_gate_pmu_add()
 *	work		perf_gate_settle_work()
 *	nmi		a trigger in an NMI; samples the count before
 *	other		a trigger that is delivered from another CPU, which has the
 *			context's lock while the event runs nowhere
 *	reader		__perf_gate_count() in account.c, on another CPU
 *
 * One step is one access to memory that others see. All triggers toggle, or with -DNEST
 * each firing is that of a starter or of a stopper. A count is one unit of work of the
 * task, and takes one unit of time. No unit comes between a firing and its irq_work,
 * which interrupts the CPU that queued it as soon as interrupts are on.
 *
 * Assertions: no transition is lost; at rest, what lies inside of the account
 * is what the task did while the depth was not 0, in count and in time; no reader
 * finds more than there is, or less than before.
 *
 * Left out: other contexts, which share nothing that moves; PMUs that are stopped, AUX
 * area events, late overflows, recorded windows, the user page (see user_page.pml), reset,
 * and links.
 *
 *	Model gate
 *	Model gate_deferred -DNO_GATE_NMI
 *	Model gate_nest -DNEST -DBY_CORE
 *	Model gate_traced -DTRACED -DBY_CORE
 *	Model gate_second -DSECOND -DNO_GATE_NMI
 *	Model gate_by_core -DBY_CORE
 *	Model gate_catch_up -DBY_CORE -DCATCH_UP
 *	Model gate_reader -DREADER
 *	Model gate_reader_by_core -DREADER -DBY_CORE
 *	Mutant DEPTH_PLAIN: a load and a store instead of atomic_fetch_xor()
 *	Mutant NEST_PLAIN -DNEST -DBY_CORE: a load and a store instead of atomic_try_cmpxchg()
 *	Mutant TRACE_HELD -DTRACED -DBY_CORE: the state from before the trace event is used after it
 *	Mutant SECOND_HELD -DSECOND -DNO_GATE_NMI: a further member follows an older state
 *	Mutant NO_HOLD: a firing that interrupts a move moves as well
 *	Mutant STEP_FIRST -DBY_CORE: a firing defers others after its step only
 *	Mutant HELD_TO_ITSELF -DBY_CORE: a firing that interrupts a move queues no irq_work
 *	Mutant NO_READ: the account takes the count as it was
 *	Mutant NO_HELD: a firing that interrupts a reader of the PMU moves as well
 *	Mutant NO_HELD_TIME -DBY_CORE: a firing that interrupts an update of the times moves
 *	Mutant NO_DISABLED: the PMU is read while it has no counter
 *	Mutant NO_WORK: nothing settles an account that could not be moved at once
 *	Mutant NO_SCHED_IN: an event that comes in is not settled
 *	Mutant ACTIVE_LATE: an event that comes in is settled before it is active
 *	Mutant ACTIVE_LATE_BY_CORE -DBY_CORE: so is an event that the core counts
 *	Mutant SCHED_IN_FIRST: it is settled before it is on this CPU
 *	Mutant NO_LATCH -DREADER: both accounts are written without a word to readers
 *	Mutant NO_RETRY -DREADER: a reader does not look at the latch again
 *	Mutant COUNT_FIRST -DREADER: a reader without smp_rmb()
 */

c_decl {
	\#include "gate-shim.h"
}

#define TASK		0
#define NMI		1

#define UNITS		3
#ifdef READER
#define ACTIONS		1
#define NMIS		1
#else
#define ACTIONS		3
#define NMIS		2
#endif

byte running;
/* The lock of the context, and the CPU that has it */
#define HERE		1
#define ELSEWHERE	2
byte locked;
byte held;
bool pmu_disabled;
bool work_queued;
bool second_work_queued;

/* perf_gate_state and perf_gate_account */
byte depth;
bool listed = true;
byte latch;
byte acct_count[2];
byte acct_time[2];
bool acct_open[2];
bool second_open;

/* perf_event. Its counter may be another event's while it is off. */
bool on_cpu = true;
bool is_active = true;
byte prev_count;
byte counter;
byte count;
byte time_running;
byte tstamp;
byte clock;

/* The depth after the firings so far, and the work inside of the windows */
byte wanted;
byte inside;

/* Variables of the functions of split.h, one for each process */
byte total[3], total_time[3], new_count[3], new_time[3];
bool new_open[3];
byte old_depth[3], new_depth[3];
bool starts[3];
byte seen_total, seen_part, value;
byte seen_open;

#define SETTLED		(acct_open[0] == (depth != 0))
#if defined(NO_HELD) || defined(NO_HELD_TIME)
#define HELD		false
#else
#define HELD		(held != 0)
#endif
#ifdef NO_DISABLED
#define ON_PMU		(on_cpu)
#else
#define ON_PMU		(on_cpu && !pmu_disabled)
#endif
#define READABLE	(ON_PMU && !HELD)
#define RUNNING_TIME	(time_running + (is_active -> clock - tstamp : 0))

/* Compute the depth after a firing from the depth before it. */
inline next_depth()
{
#ifdef NEST
	c_code {
		int pid = ((P0 *)_this)->_pid;
		unsigned long act = perf_gate_make_act(now.starts[pid] ? PERF_GATE_STARTER :
									 PERF_GATE_STOPPER, true);

		now.new_depth[pid] = perf_gate_next_depth(now.old_depth[pid], act);
	}
#else
	new_depth[_pid] = !old_depth[_pid]
#endif
}

/* Keep account of what the firings ask for, in the instant in which the depth changes. */
inline apply()
{
	depth = new_depth[_pid];
#ifdef NEST
	c_code {
		unsigned long act = perf_gate_make_act(now.starts[((P0 *)_this)->_pid] ?
						       PERF_GATE_STARTER : PERF_GATE_STOPPER,
						       true);

		now.wanted = perf_gate_next_depth(now.wanted, act);
	}
#else
	wanted = !wanted
#endif
}

inline flip()
{
	c_code {
		int pid = ((P0 *)_this)->_pid;
		struct perf_gate_split acct = {
			.count		= now.acct_count[0],
			.running	= now.acct_time[0],
			.open		= now.acct_open[0],
		};

		acct = perf_gate_flip(&acct, now.total[pid], now.total_time[pid]);
		now.new_count[pid] = acct.count;
		now.new_time[pid] = acct.running;
		now.new_open[pid] = acct.open;
	}
}

#ifdef NEST_PLAIN
#define UNCHANGED	true
#else
#define UNCHANGED	(depth == old_depth[_pid])
#endif

/*
 * Set @moves if the gate opens or closes, and @opens to its new state. An interrupt may
 * come before the result is used.
 */
inline step()
{
#ifdef NEST
	if
	:: starts[_pid] = true
	:: starts[_pid] = false
	fi;
	atomic { old_depth[_pid] = depth; next_depth() };
	do
	:: atomic { new_depth[_pid] == old_depth[_pid] -> break }
	:: atomic {
		new_depth[_pid] != old_depth[_pid] && UNCHANGED ->
			apply();
			break
	   }
	:: atomic {
		new_depth[_pid] != old_depth[_pid] && !UNCHANGED ->
			old_depth[_pid] = depth;
			next_depth()
	   }
	od;
#else
#ifdef DEPTH_PLAIN
	old_depth[_pid] = depth;
	atomic { next_depth(); apply() };
#else
	atomic { old_depth[_pid] = depth; next_depth(); apply() };
#endif
#endif
	atomic {
		moves = (old_depth[_pid] != 0) != (new_depth[_pid] != 0);
		opens = new_depth[_pid] != 0;
		old_depth[_pid] = 0;
		new_depth[_pid] = 0;
		starts[_pid] = false
	}
}

/* The state of the gate after a section in which an NMI could move it */
#ifdef TRACE_HELD
#define trace_step()	skip
#else
#define trace_step()	opens = depth != 0
#endif

inline traced_step()
{
	step();
#ifdef TRACED
	if
	:: moves -> let_go(); hold(); trace_step()
	:: !moves
	fi
#endif
}

inline read_pmu()
{
#ifndef BY_CORE
	old = prev_count;
	do
	:: true ->
		new = counter;
		if
		:: atomic { prev_count == old -> prev_count = new }; break
		:: else -> old = prev_count
		fi
	od;
	count = count + new - old;
	d_step { old = 0; new = 0 }
#else
	skip
#endif
}

#ifdef NO_READ
#define READ(how)	false
#else
#define READ(how)	(how)
#endif

/* With the account held */
inline move(opens)
{
	if
	:: acct_open[0] == (opens)
	:: acct_open[0] != (opens) ->
		total[_pid] = count;
		atomic {
			total_time[_pid] = RUNNING_TIME;
			flip();
			total[_pid] = 0;
			total_time[_pid] = 0
		};
#ifndef NO_LATCH
		latch++;
#endif
		acct_count[0] = new_count[_pid];
		acct_time[0] = new_time[_pid];
		acct_open[0] = new_open[_pid];
#ifndef NO_LATCH
		latch++;
#endif
		acct_count[1] = new_count[_pid];
		acct_time[1] = new_time[_pid];
		acct_open[1] = new_open[_pid];
		d_step { new_count[_pid] = 0; new_time[_pid] = 0; new_open[_pid] = false }
	fi
}

/* The counter is of one CPU. A process elsewhere has the lock and is alone. */
#ifdef NO_HOLD
#define HOLDS		false
#else
#define HOLDS		(_pid <= NMI)
#endif

inline hold()
{
	if
	:: HOLDS -> held++
	:: !HOLDS
	fi
}

inline let_go()
{
	if
	:: HOLDS -> held--
	:: !HOLDS
	fi
}

inline settle(reads)
{
	hold();
	if
	:: SETTLED
	:: !SETTLED ->
		if
		:: READ(reads) -> read_pmu()
		:: else
		fi;
		move(!acct_open[0])
	fi;
	let_go()
}

inline queue_work()
{
#ifdef NO_WORK
	skip
#else
	work_queued = true
#endif
}

#ifdef NO_GATE_NMI
#define GATE_NMI	false
#else
#define GATE_NMI	true
#endif

#ifdef HELD_TO_ITSELF
#define MAY_QUEUE	(!HELD)
#else
#define MAY_QUEUE	true
#endif

#ifdef BY_CORE
#define AT_HAND(direct)		true
#define CAN_SETTLE(direct)	(!HELD)
#else
#define AT_HAND(direct)		(ON_PMU && (direct || GATE_NMI))
#define CAN_SETTLE(direct)	(READABLE && (direct || GATE_NMI))
#endif

inline settle_active(direct)
{
	if
	:: CAN_SETTLE(direct) -> settle(true)
	:: !CAN_SETTLE(direct) && MAY_QUEUE -> queue_work()
	:: else
	fi
}

/* perf_gate_settle() for the further member */
inline settle_second()
{
#ifdef SECOND
	hold();
	opens = depth != 0;
	second_open = opens;
	let_go()
#else
	skip
#endif
}

#ifdef SECOND_HELD
#define second_step()	skip
#else
#define second_step()	opens = depth != 0
#endif

/* The members of a gate that moves, where the trigger interrupted nothing that defers */
inline fire_simply(direct)
{
	if
	:: AT_HAND(direct) ->
		if
		:: READ(true) -> read_pmu()
		:: else
		fi;
		move(opens)
	:: !AT_HAND(direct) ->
		let_go();
		settle_active(direct);
		hold();
		second_step()
	fi;
#ifdef SECOND
	second_open = opens
#endif
}

/* The members of a gate that moves, in other places, or if the trigger is not active */
inline fire_slowly(direct)
{
	let_go();
	settle_active(direct);
#ifdef SECOND
	if
	:: !HELD -> settle_second()
	:: HELD -> second_work_queued = true
	fi;
#endif
	hold()
}

/* On the CPU of the event */
inline fire(direct)
{
	if
	:: !HELD ->
#ifdef STEP_FIRST
		traced_step();
		hold();
#else
		hold();
		traced_step();
#endif
		if
		:: moves && listed -> fire_simply(direct)
		:: !(moves && listed)
		fi;
		let_go()
	:: true ->
		hold();
		traced_step();
		if
		:: moves && listed -> fire_slowly(direct)
		:: !(moves && listed)
		fi;
		let_go()
	fi;
	atomic { moves = false; opens = false }
}

/* __perf_event_update_time() by perf_gate_call_deferring() */
inline update_time()
{
	held++;
	if
	:: is_active -> time_running = time_running + clock - tstamp
	:: else
	fi;
	tstamp = clock;
	held--
}

inline sched_out()
{
	pmu_disabled = true;
#ifndef BY_CORE
	/* pmu::del(); the counter may be another event's now. */
	atomic { count = count + counter - prev_count; counter = prev_count + 5 };
#endif
	listed = false;
	on_cpu = false;
	update_time();
	is_active = false;
	pmu_disabled = false
}

inline sched_in()
{
	pmu_disabled = true;
#if defined(SCHED_IN_FIRST)
	settle(false);
#endif
	on_cpu = true;
	update_time();
	is_active = true;
	/* __perf_gate_pmu_add() */
#if !defined(ACTIVE_LATE) && !defined(ACTIVE_LATE_BY_CORE)
	listed = true;
#endif
#if !defined(SCHED_IN_FIRST) && !defined(NO_SCHED_IN)
	settle(false);
#endif
#if defined(ACTIVE_LATE) || defined(ACTIVE_LATE_BY_CORE)
	listed = true;
#endif
	settle_second();
	opens = false;
#ifndef BY_CORE
	/* pmu::add() */
	atomic { prev_count = 0; counter = 0 };
#endif
	held++;
	pmu_disabled = false;
	held--
}

active proctype task() provided (running <= _pid)
{
	byte old, new, left, units;
	bool moves, opens;

end:
	do
	:: atomic {
		units < UNITS && is_active && !work_queued && !second_work_queued ->
			units++;
			clock++;
#ifdef BY_CORE
			count++;
#else
			counter++;
#endif
			inside = inside + (depth != 0)
	   }
	:: left < ACTIONS && is_active -> left++; fire(true)
	:: left < ACTIONS && is_active -> left++; fire(false)
	:: left < ACTIONS && is_active ->
		/* perf_pmu_read() */
		left++;
		update_time();
		held++;
		read_pmu();
		held--
	:: atomic { left < ACTIONS && is_active && !locked -> left++; locked = HERE };
		sched_out();
		locked = false
	:: atomic { !is_active && !locked -> locked = HERE };
		sched_in();
		locked = false
	:: work_queued ->
		work_queued = false;
		/* perf_gate_settle_work() */
		if
		:: READABLE -> settle(true)
		:: else
		fi
	:: second_work_queued ->
		second_work_queued = false;
		if
		:: READABLE -> settle_second(); opens = false
		:: else
		fi
	od
}

inline inside_of()
{
	c_code {
		struct perf_gate_split acct = { .open = now.seen_open };

		now.value = perf_gate_inside(&acct, now.seen_total, now.seen_part);
	}
}

inline read_count()
{
	do
	:: true ->
#ifdef COUNT_FIRST
		seen_total = count;
#endif
		seq = latch;
		seen_part = acct_count[seq & 1];
		seen_open = acct_open[seq & 1];
#ifndef COUNT_FIRST
		seen_total = count;
#endif
#ifdef NO_RETRY
		break
#else
		if
		:: seq == latch -> break
		:: seq != latch
		fi
#endif
	od
}

active proctype nmi() provided (running <= _pid)
{
	byte old, new, left, was;
	bool moves, opens;

	do
	/* A trigger of the task runs with it. */
	:: atomic {
		left < NMIS && running < _pid && (is_active || locked == HERE) ->
			left++;
			was = running;
			running = _pid
	   };
		fire(false);
		atomic { running = was; was = 0 }
	:: left < NMIS -> left++
	:: left == NMIS -> break
	od
}

/* On another CPU, with the lock of the context. Time goes on. */
active proctype other()
{
	byte old, new;
	bool moves, opens;

	if
	:: true
	:: atomic { !locked && !is_active -> locked = ELSEWHERE };
		clock++;
		step();
		atomic { moves = false; opens = false };
#ifdef CATCH_UP
		/* __perf_gate_catch_up(), in case the event counts here */
		settle(false);
#endif
		locked = false
	fi
}

#ifdef READER
active proctype reader()
{
	byte seq, last;

	read_count();
	atomic {
		inside_of();
		last = value;
		assert(last <= inside);
		value = 0
	};
	read_count();
	atomic {
		inside_of();
		assert(value >= last && value <= inside);
		d_step { seen_total = 0; seen_part = 0; seen_open = false; value = 0; seq = 0; last = 0 }
	}
}
#endif

/* At rest: no process can go on. */
active proctype rest()
{
	timeout;
	atomic {
		assert(running == TASK && held == 0 && !work_queued && !second_work_queued);
		assert(is_active && SETTLED);
#ifdef SECOND
		assert(second_open == (depth != 0));
#endif
		assert(depth == wanted);
		assert(latch % 2 == 0 && acct_count[0] == acct_count[1]);
#ifndef BY_CORE
		count = count + counter - prev_count;
#endif
		seen_open = acct_open[0];
		seen_total = count;
		seen_part = acct_count[0];
		inside_of();
		assert(value == inside);
		seen_total = RUNNING_TIME;
		seen_part = acct_time[0];
		inside_of();
		assert(value == inside)
	}
}
