/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The user page: which code writes it, and what a program may believe of it.
 *
 * Names of the model and of the kernel, in kernel/events/user_page.c unless noted:
 *
 *	publish()	perf_event_update_userpage(), all of it; fill_times() and
 *			fill_count() are perf_event_fill_times() and
 *			perf_event_fill_count(), hidden is perf_event_index()
 *	kernel		the CPU of the event in task context or in an interrupt,
 *			interrupts off and perf_event_context::lock held: it reads the
 *			event, as perf_pmu_read() does, publishes it, or takes it off
 *			its PMU and brings it back; runs __perf_event_publish()
 *	count()		x86_perf_event_update() and power_pmu_read(), both in arch/:
 *			hw.prev_count by cmpxchg, then perf_event::count
 *	times()		__perf_event_update_time() in core.c
 *	nmi		the handler of an overflow: count(), a new period, publish()
 *	other		perf_event_publish() on another CPU, with its loop
 *	program		on the event's CPU: the loop of perf_event_mmap_page, as in
 *			samples/perf_events/self_read.c
 *	remote		the same on another CPU, without index and counter
 *
 * One step is one access to memory that others see. The kernel interrupts the
 * program, and the NMI both; whichever is interrupted waits.
 *
 * Memory: the program on the CPU of the event sees its stores in order. For the
 * remote one, -DREMOTE, they wait in a buffer: a FIFO, as on x86; or with
 * REMOTE_WEAK any of them may be first. The lock of the context empties it.
 *
 * These must hold: between two equal values of the lock a program finds a count
 * that the event had meanwhile, and times of one instant.
 *
 * Left out: the clock of cap_user_time, widths, capabilities, the gate that hides
 * the index, and events in the same buffer that have no page.
 *
 *	Model user_page
 *	Model user_page_remote -DREMOTE
 *	Mutant NMI_TIMES: an NMI writes the times as well
 *	Mutant NO_AGAIN: the interrupted update does not begin again
 *	Mutant NMI_UNCOUNTED: an NMI does not count itself
 *	Mutant UPDATES_LATE: userpage_updates is loaded after the count
 *	Mutant NO_RETRY: the program does not look at the lock again
 *	Mutant LOCK_ONCE -DREMOTE: the lock changes at the beginning alone
 *	Mutant LOCK_LATE -DREMOTE: the lock changes at the end alone
 *	Mutant REMOTE_ODD -DREMOTE: a reader elsewhere takes an odd lock
 *	Mutant INDEX_KEPT: an event off its PMU keeps its index
 *	Mutant PUBLISH_HERE: another CPU does not go to where the event is
 *	Mutant PUBLISH_UNCHECKED: nor looks again whether it is active
 *
 * The comment at the top of user_page.c names limits of the page. Unless a limit is
 * defined, the model publishes after a read() that was interrupted, and the remote one
 * has no NMI, orders the stores, and looks whether the lock is odd.
 *
 *	Limit NMI_IN_READ: an NMI inside of pmu::read() publishes a count that lacks what is being added
 *	Limit REMOTE_NMI -DREMOTE: the lock is even while an NMI is in an update, a reader elsewhere takes halves
 *	Limit REMOTE_WEAK -DREMOTE: no smp_wmb(), a reader elsewhere takes halves on weakly ordered CPUs
 */

#define PROGRAM		0
#define KERNEL		1
#define NMI		2

#define TICKS		1
#define WORKS		2
#if defined(REMOTE) && !defined(REMOTE_NMI)
#define NMIS		0
#else
#define NMIS		1
#endif

/* On the CPU of the event no program finds an update half done. */
#if defined(REMOTE) && !defined(REMOTE_ODD)
#define ODD(lock)	((lock) & 1)
#else
#define ODD(lock)	false
#endif

byte running;
bool locked;

/* The event and its counter */
bool on_pmu = true;
byte prev_count;
byte count;
byte pmc;
byte total;
byte time_enabled, time_running;
byte updates;

/* The page */
byte page_lock;
byte page_index = 1;
byte page_offset;
byte page_enabled, page_running;

/* An interrupt that another CPU requested, and its result */
bool ipi, ipi_done, ipi_failed;

#ifdef REMOTE
/* Stores of the event's CPU on their way to the other one */
#define SLOTS		8
#define AT_LOCK		0
#define AT_OFFSET	1
#define AT_ENABLED	2
#define AT_RUNNING	3
byte seen[4];
chan stores = [SLOTS] of { byte, byte };
/* The stores of another CPU are made with the lock held: they show at once. */
#define STORE(what, value, at)						\
	atomic {							\
		what = value;						\
		if							\
		:: _pid <= NMI -> stores!at,what			\
		:: else -> seen[at] = what				\
		fi							\
	}
#else
#define STORE(what, value, at)	what = value
#endif

inline drain()
{
#ifdef REMOTE
	/* Wait until memory has taken all stores. */
	empty(stores)
#else
	skip
#endif
}

/*
 * One instruction on x86. Elsewhere an NMI may come between the load and the store, which then
 * overwrites both increments of the NMI.
 */
inline raise_lock()
{
	STORE(page_lock, page_lock + 1, AT_LOCK)
}

inline fill_times()
{
	STORE(page_enabled, time_enabled, AT_ENABLED);
	STORE(page_running, time_running, AT_RUNNING)
}

inline fill_count()
{
	/* perf_event_index(), which no NMI changes */
	atomic { index = on_pmu; offset = count };
	if
	:: index -> offset = offset - prev_count
	:: else
	fi;
#ifdef INDEX_KEPT
	page_index = 1;
#else
	page_index = index;
#endif
	STORE(page_offset, offset, AT_OFFSET)
}

inline publish()
{
#ifndef LOCK_LATE
	raise_lock();
#endif
#ifdef NMI_TIMES
	fill_times();
#else
	if
	:: _pid != NMI -> fill_times()
	:: else -> skip
	fi;
#endif
again:
#ifndef UPDATES_LATE
	before = updates;
#endif
	fill_count();
#ifdef UPDATES_LATE
	before = updates;
#endif
#ifndef NO_AGAIN
	if
	:: before != updates -> goto again
	:: before == updates
	fi;
#endif
#ifdef NMI_UNCOUNTED
	if
	:: _pid != NMI -> updates = before + 1
	:: else
	fi;
#else
	updates = before + 1;
#endif
#ifndef LOCK_ONCE
	raise_lock();
#endif
	d_step { before = 0; index = 0; offset = 0 }
}

inline count_events()
{
	old = prev_count;
retry:
	new = pmc;
	atomic {
		if
		:: prev_count == old -> prev_count = new
		:: else -> old = prev_count; goto retry
		fi
	}
	count = count + new - old;
	d_step { old = 0; new = 0 }
}

inline times()
{
	time_enabled++;
	time_running++
}

#define VARIABLES	byte old, new, before, index, offset, left, was, noted

inline read_page(lock_, offset_, enabled_, running_)
{
	low = total;
again:
	seq = lock_;
#ifndef REMOTE
	index = page_index;
#endif
	value = offset_;
#ifndef REMOTE
	if
	:: index -> value = value + pmc
	:: else
	fi;
#endif
	time = enabled_;
	time2 = running_;
#ifndef NO_RETRY
	if
	:: seq != lock_ || ODD(seq) -> goto again
	:: seq == lock_ && !ODD(seq)
	fi
#endif
}

active proctype program() provided (running <= _pid)
{
#ifndef REMOTE
	byte seq, index, value, time, time2, low;

	read_page(page_lock, page_offset, page_enabled, page_running);
	atomic {
		assert(low <= value && value <= total);
		assert(time == time2)
	}
#else
	skip
#endif
}

active proctype kernel() provided (running <= _pid)
{
	VARIABLES;
	bool silent, asked;

end:
	do
	:: atomic { (left < WORKS || ipi) && !locked -> running = _pid; locked = true };
		if
		:: left < WORKS && on_pmu ->
			/* perf_event_read(): nothing is published. */
			left++;
			times();
			noted = updates;
			count_events();
#ifdef NMI_IN_READ
			silent = true
#else
			/* An update published in between was wrong. */
			silent = (noted == updates)
#endif
		:: left < WORKS && on_pmu ->
			left++;
			times()
		:: left < WORKS && on_pmu ->
			/* pmu::del(): its overflows find it gone. */
			left++;
			atomic { on_pmu = false; old = prev_count; new = pmc };
			count = count + new - old;
			times()
		:: left < WORKS && !on_pmu ->
			/* pmu::add() */
			left++;
			atomic { prev_count = 0; pmc = 0; on_pmu = true }
		:: ipi ->
			/* __perf_event_publish() */
			asked = true;
			ipi = false;
#ifndef PUBLISH_UNCHECKED
			if
			:: on_pmu
			:: else -> silent = true; ipi_failed = true
			fi
#endif
		fi;
		if
		:: silent
		:: else -> publish()
		fi;
		drain();
		d_step {
			if
			:: asked -> ipi_done = true
			:: else
			fi;
			old = 0; new = 0; noted = 0; silent = false; asked = false;
			locked = false; running = PROGRAM
		}
	od
}

/*
 * Every process that could see a step of the NMI is on its CPU and waits, except for
 * the reader elsewhere. So the NMI is one step.
 */
#ifdef REMOTE
#define ATOMIC
#else
#define ATOMIC		atomic
#endif

active proctype nmi() provided (running <= _pid)
{
	VARIABLES;

	do
	:: left < NMIS ->
		left++;
		if
		:: true -> break
		:: ATOMIC {
			atomic { running < _pid && on_pmu -> was = running; running = _pid };
			count_events();
			/* A new period. The PMU stands still until the handler is done. */
			atomic { prev_count = 0; pmc = 0 };
			publish();
			atomic { running = was; was = 0 }
		   }
		fi
	:: else -> break
	od
}

/* The counter counts what happens in any context but the NMI's. */
active proctype counter()
{
	byte left;

	do
	:: atomic { left < TICKS && running < NMI && on_pmu -> pmc++; total++; left++ }
	:: true -> break
	od
}

/* perf_event_publish() */
active proctype other()
{
	VARIABLES;

	do
	:: true ->
#ifndef PUBLISH_HERE
		if
		:: on_pmu ->
			ipi = true;
			atomic { ipi_done -> ipi_done = false };
			if
			:: ipi_failed -> ipi_failed = false
			:: else -> goto done
			fi
		:: !on_pmu
		fi;
#endif
		atomic { !locked -> locked = true };
#if !defined(PUBLISH_UNCHECKED) && !defined(PUBLISH_HERE)
		if
		:: on_pmu -> locked = false
		:: else -> break
		fi
#else
		break
#endif
	od;
	publish();
	locked = false;
done:
	skip
}

#ifdef REMOTE
active proctype memory()
{
	byte at, value;

end:
	do
#ifdef REMOTE_WEAK
	/* Any place may be first, but stores to one place stay in order. */
	:: atomic { stores??AT_LOCK,value; seen[AT_LOCK] = value }
	:: atomic { stores??AT_OFFSET,value; seen[AT_OFFSET] = value }
	:: atomic { stores??AT_ENABLED,value; seen[AT_ENABLED] = value }
	:: atomic { stores??AT_RUNNING,value; seen[AT_RUNNING] = value }
#else
	:: atomic { stores?at,value -> seen[at] = value; at = 0; value = 0 }
#endif
	od
}

active proctype remote()
{
	byte seq, value, time, time2, low;

	read_page(seen[AT_LOCK], seen[AT_OFFSET], seen[AT_ENABLED], seen[AT_RUNNING]);
	assert(time == time2)
}
#endif
