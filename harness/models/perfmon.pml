/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A context of perfmon: its overflow handler, what that leaves to an irq_work, and calls
 * that stop, restart and detach it meanwhile, while the target moves between CPUs.
 *
 * Names of the model and of the kernel, all in kernel/events/perfmon:
 *
 *	step()		pfm_step() in run.c, with pfm_overflow_late(), pfm_reg_handle_late(),
 *			pfm_step_masked() and pfm_reset_pending()
 *	take()		pfm_handle_overflow() in ovfl.c: pfm_decide_overflow(), and pfm_freeze() or
 *			pfm_reset_now() with pfm_reset_counting()
 *	nmi		pfm_overflow()
 *	work()		pfm_step_work() with perf_event_call_inatomic() of core.c
 *	cpu		a CPU that the target may be on: its irq_work, what pfm_call()
 *			sends there, and the scheduler, each with interrupts off
 *	controller	the holder of pfm_context::mutex: pfm_stop(), pfm_start(),
 *			pfm_restart(), and pfm_stop_for_unload() with irq_work_sync()
 *	counter		the PMU: an overflow is every second event
 *
 * One step is one access to memory that others see. The NMI is one step: a process that
 * could see a part of it is on its CPU and waits. PMUs are stopped and started in one step,
 * and not while an overflow is on its way, as an NMI cannot be held off.
 *
 * There is one set with one register. An overflow is one that notifies, or one that
 * resets the register and goes on.
 *
 * These must hold: a change of the register's base is never lost; at rest, nothing is
 * pending, a register that is neither masked nor stopped counts and has not wrapped, and
 * each overflow that was to notify has led to a message, unless a stop came first; no
 * process touches a context that was detached.
 *
 * Left out: switches of sets, timers, throttling, sampling buffers, hotplug.
 *
 *	Model perfmon
 *	Mutant STEP_IDLE: a step does not say that it is one
 *	Mutant NO_LATE: what comes meanwhile is not noted
 *	Mutant LATE_CLEARED: a note is taken away after it was looked at
 *	Mutant LATE_DROPPED: one that comes during the step is forgotten with the rest
 *	Mutant STOP_FORGETS: so is one that comes while monitoring is stopped
 *	Mutant NO_REQUEUE: the irq_work does not follow the target
 *	Mutant NO_CHECK: nor looks whether it is on this CPU
 *	Mutant NO_SYNC: detaching does not wait for the irq_work
 *	Mutant STARTED_UNSEEN: a step masks a context that was stopped
 *	Mutant NO_FREEZE: the counter goes on until the step
 *
 * The comment at the top of ovfl.c tells what cannot be helped, and the model does not do:
 *
 *	Limit MOVE_UNFREEZES: a target that another CPU gets before the step counts on there
 */

#define NOWHERE		2

#define LOADED		0
#define MASKED		1
#define UNLOADED	2

#define LATE		1
#define MASK		2

#define STOP		1
#define START		2
#define RESTART		3
#define HALT		4

#define PERIOD		2
#define TICKS		5
#define CALLS		2
#define MOVES		1

/* The target, and the lock of its perf context */
byte place = 0;
bool locked;

/* pfm_context */
byte state = LOADED;
bool started = true;
byte busy;
byte pend;
bool freed;
/* step_work: where it is queued, and whether it runs */
byte queued = NOWHERE;
byte works;

/* pfm_set and pfm_reg */
bool late;
bool povfl;
bool reset_pend;
short base;
byte count;

/* The event and its counter */
bool is_enabled = true;
bool on_pmu = true;
bool stopped;
byte counted;
bool overflow;

/* A call to where the target is */
byte call;

/* History, for the checks */
short moved;
bool owed;
byte frozen_at;

#define VALUE		(base + count)
#define WRAPPED		(VALUE >= PERIOD)

inline queue_work(where)
{
	if
	:: queued == NOWHERE -> queued = where
	:: else
	fi
}

/* pfm_run(): the frozen counters run again. */
inline run_set()
{
	atomic {
		is_enabled = true;
		stopped = false;
		counted = VALUE;
		on_pmu = (place != NOWHERE)
	}
}

inline pause_set()
{
	atomic { !overflow -> is_enabled = false; on_pmu = false }
}

/* pfm_reg_reset(): the register begins anew, and its counter with it. */
inline reset_reg()
{
	old = base;
	d_step {
		value = VALUE;
		moved = moved + value
	}
	base = old - value;
	d_step {
		povfl = false;
		counted = VALUE;
		value = 0;
		old = 0
	}
}

inline reset_pending()
{
	if
	:: reset_pend -> reset_pend = false; reset_reg()
	:: else
	fi
}

/* In an NMI, or in a step with busy set */
inline take(where)
{
	if
	:: true ->
		/* It notifies. */
		atomic {
			povfl = true;
			pend = pend | MASK;
			queue_work(where);
			owed = true;
			reset_pend = true
		};
#ifndef NO_FREEZE
		atomic { stopped = true; frozen_at = count }
#else
		frozen_at = count
#endif
	:: true ->
		reset_reg()
	fi
}

inline step(where)
{
	if
	:: pend == 0
	:: pend != 0 ->
		/* No CPU touches the PMU of another one. */
		assert(!freed && (place == where || place == NOWHERE));
#ifndef STEP_IDLE
		busy++;
#endif
		if
		:: atomic { pend & LATE -> pend = pend & ~LATE };
			if
			:: late ->
#ifndef LATE_CLEARED
				late = false;
#endif
				if
#ifndef STOP_FORGETS
				:: state == LOADED && WRAPPED ->
#else
				:: state == LOADED && started && WRAPPED ->
#endif
					if
					:: !started || (pend & MASK) ->
						povfl = true;
						reset_pend = true
					:: started && !(pend & MASK) -> take(where)
					fi
				:: else
				fi;
#ifdef LATE_CLEARED
				late = false
#endif
			:: else
			fi
		:: else
		fi;
		atomic { todo = pend; pend = 0 };
#ifndef LATE_DROPPED
		if
		:: todo & LATE -> pend = pend | LATE
		:: else
		fi;
#endif
		if
#ifdef STARTED_UNSEEN
		:: state == LOADED && (todo & MASK) ->
#else
		:: state == LOADED && started && (todo & MASK) ->
#endif
			assert(started);
			pause_set();
			/* No event was counted since the overflow was decided. */
			assert(count == frozen_at);
			atomic { state = MASKED; owed = false }
		:: else
		fi;
#ifndef STEP_IDLE
		busy--;
#endif
		todo = 0
	fi
}

/* The function that pfm_call() calls, with the lock, where the target is */
inline called(where)
{
	step(where);
	busy++;
	if
	:: call == STOP || call == HALT ->
		if
		:: started && state == LOADED -> pause_set()
		:: else
		fi;
		atomic { started = false; owed = false };
		busy--;
		if
		:: call == HALT -> state = UNLOADED
		:: else
		fi
	:: call == START ->
		if
		:: state == LOADED && !started ->
			reset_pending();
			started = true;
			run_set()
		:: else -> started = true
		fi;
		busy--
	:: call == RESTART ->
		if
		:: state == MASKED ->
			state = LOADED;
			reset_pending();
			if
			:: started -> run_set()
			:: else
			fi
		:: else
		fi;
		busy--
	fi;
	atomic { call = 0; locked = false }
}

/* On CPU @id, whose irq_work has begun */
inline work(id)
{
	assert(!freed);
	if
	:: state == UNLOADED
	:: else ->
#ifdef NO_CHECK
		atomic { !locked -> locked = true };
		step(id);
		locked = false
#else
		if
		:: atomic { !locked && (place == id || place == NOWHERE) -> locked = true };
			step(id);
			locked = false
		:: atomic { place == 1 - id ->
#ifndef NO_REQUEUE
			queue_work(place)
#endif
		   }
		fi
#endif
	fi;
	works--
}

/* Its irq_work comes as soon as interrupts are on. */
proctype cpu(byte id)
{
	byte todo, moves;
	short old, value;

end:
	do
	:: atomic { queued == id -> queued = NOWHERE; works++ };
		work(id)
	:: atomic { queued != id && call != 0 && place == id && !locked -> locked = true };
		called(id)
	:: atomic {
		queued != id && place == id && !locked && moves < MOVES ->
			locked = true;
			moves++
	   };
		/* The scheduler takes it away. */
		atomic { !overflow -> on_pmu = false };
		place = NOWHERE;
		locked = false
	:: atomic { queued != id && place == NOWHERE && !locked -> locked = true };
		place = id;
		atomic {
			on_pmu = is_enabled;
			counted = VALUE;
#ifdef MOVE_UNFREEZES
			stopped = false
#else
			stopped = stopped && (pend & MASK)
#endif
		};
		locked = false
	od
}

active proctype nmi()
{
	short old, value;
	byte id;

end:
	do
	:: atomic {
		overflow && place != NOWHERE ->
			id = place;
			overflow = false;
			assert(!freed);
			if
			:: busy ->
#ifndef NO_LATE
				late = true;
				pend = pend | LATE;
				queue_work(id);
#endif
				goto out
			:: else
			fi;
			if
			:: state != LOADED || !started -> goto out
			:: else
			fi;
			if
			:: !WRAPPED -> counted = VALUE
			:: WRAPPED && (pend & MASK) -> povfl = true; reset_pend = true
			:: WRAPPED && !(pend & MASK) -> take(id)
			fi;
out:
			id = 0
	   }
	od
}

/* Counts in any context but the NMI's, which is one step. */
active proctype counter()
{
	byte ticks;

end:
	do
	:: atomic {
		ticks < TICKS && on_pmu && !stopped && !overflow ->
			ticks++;
			count++;
			counted++;
			if
			:: counted >= PERIOD -> counted = 0; overflow = true
			:: else
			fi
	   }
	od
}

/* To where the target is, or here if it is nowhere */
inline send(what)
{
	call = what;
	if
	:: call == 0
	:: atomic { call != 0 && place == NOWHERE && !locked -> locked = true };
		called(place)
	fi
}

active proctype controller()
{
	byte todo, calls;
	short old, value;

	do
	:: calls < CALLS -> calls++; send(STOP)
	:: calls < CALLS -> calls++; send(START)
	:: calls < CALLS -> calls++; send(RESTART)
	:: true -> goto end
	:: true ->
		send(HALT);
#ifndef NO_SYNC
		/* irq_work_sync() */
		atomic { queued == NOWHERE && works == 0 };
#endif
		freed = true;
		break
	od;
end:
	skip
}

init {
	atomic { run cpu(0); run cpu(1) };
	/* At rest: no process can go on. */
	timeout;
	atomic {
		assert(!locked && busy == 0 && queued == NOWHERE && works == 0 && call == 0);
		assert(base == 0 - moved);
		assert(freed || pend == 0 && !late);
		assert(!owed);
		assert(state != LOADED || !started || (on_pmu && !stopped && !WRAPPED));
		assert((state == LOADED && started) || !on_pmu)
	}
}
