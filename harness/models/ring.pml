/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ring buffer: nested writers on one CPU, a reader on another.
 *
 * Names of the model and of the kernel, all in kernel/events/ring_buffer.c unless noted:
 *
 *	get_handle()	perf_output_get_handle(): ++rb->nest, a load and a store;
 *			handle->wakeup = rb->wakeup
 *	reserve()	__perf_output_begin(): have_lost, the loop around
 *			local_try_cmpxchg(&rb->head), ring_buffer_has_space(),
 *			"head - rb->wakeup > rb->watermark"
 *	fill()		__perf_output_begin(): local_xchg(&rb->lost) and the
 *			PERF_RECORD_LOST; the record as perf_output_copy() writes it
 *	put_handle()	perf_output_put_handle(), all of it
 *	fail()		__perf_output_begin(), from "fail:" to the end
 *	wake()		perf_output_wakeup()
 *	foreign		perf_event_read_event(), core.c, of a task on another CPU, which
 *			calls this one to write: then irq() is the call
 *	work		perf_pending_irq(), core.c, with ring_buffer_wakeup()
 *	reader		poll(2), that is perf_poll() in read.c, and a program that
 *			reads as perf_output_put_handle() says: C and D
 *
 * One step is one access to memory that others see; an interrupt may come between
 * any two. Writers are a task, an IRQ and an NMI.
 *
 * Memory: stores of the writers' CPU wait in a buffer and leave it in any order,
 * until a barrier empties it. Their own loads are not of what waits there: a writer
 * does not load what the reader sees. smp_wmb() orders stores alone, and so may
 * empty the buffer: nothing that the CPU loads later depends on when they show.
 * The mutants move loads of the reader, to show what these may do.
 *
 * Sizes: the buffer has SIZE units, a record one or two, a PERF_RECORD_LOST one.
 * Positions have 8 bits, and wrap as those of the kernel do.
 *
 * These must hold: a reader finds each unit whole and in its place; data_head never
 * goes back for it; at rest, each record was read or is counted as lost, and each
 * loss is told or counted; the reader does not sleep while more than the watermark is
 * unread, nor before the first loss of a series; rb->wakeup is not ahead of rb->head.
 *
 * Left out: buffers that are overwritten, written backward or paused, and the
 * counts of more than one event.
 *
 *	Model ring
 *	Model ring_losses -DLOSSES
 *	Model ring_foreign -DFOREIGN
 *	Mutant NO_WMB: put_handle() without B
 *	Mutant NO_RMB: the reader without C
 *	Mutant TAIL_FIRST: the reader without D
 *	Mutant NO_CONTROL: the writer without A
 *	Mutant NO_SPACE: no ring_buffer_has_space()
 *	Mutant HEAD_PLAIN: a store instead of local_try_cmpxchg()
 *	Mutant NEST_FIRST: rb->nest is 0 before data_head is stored
 *	Mutant NO_RECHECK: rb->head is not looked at again
 *	Mutant AGAIN_EARLY: it is loaded before rb->nest is 1 again
 *	Mutant WAKE_FIRST: the wakeup before the head
 *	Mutant LOST_READ_SET -DLOSSES: a load and a store instead of local_xchg()
 *	Mutant LOST_PLAIN: a load and a store instead of local_inc()
 *	Mutant NO_LOSS_WAKEUP: a loss wakes no reader
 *	Mutant LOSS_WAKES_FIRST: a first loss wakes by itself, before the head is published
 *	Mutant WAKEUP_LATE: handle->wakeup is read after rb->nest was raised
 *	Mutant WAKEUP_UNSIGNED: "head - wakeup" underflows for an interrupted writer
 *	Mutant WAKEUP_ADD: both the interrupted and the interrupting writer move rb->wakeup
 *	Mutant POLL_ORDER: rb->poll may be seen before data_head
 *	Mutant FOREIGN_WRITES -DFOREIGN: the other CPU writes by itself
 */

#define SIZE		4
#define WATERMARK	2
#define LONGEST		2

#if defined(FOREIGN_WRITES)
#define SHORTEST	1
#define TASK_RECORDS	1
#define IRQ_RECORDS	0
#define NMI_RECORDS	0
#elif defined(FOREIGN)
#define SHORTEST	1
#define TASK_RECORDS	1
#define IRQ_RECORDS	1
#define NMI_RECORDS	1
#elif defined(LOSSES)
#define SHORTEST	2
#define TASK_RECORDS	2
#define IRQ_RECORDS	0
#define NMI_RECORDS	2
#else
#define SHORTEST	1
#define TASK_RECORDS	1
#define IRQ_RECORDS	1
#define NMI_RECORDS	1
#endif

#define TASK		0
#define IRQ		1
#define NMI		2

#define DIFF(a, b)	(((a) - (b)) & 255)
#define SIGNED(diff)	((diff) < 128 -> (diff) : (diff) - 256)
#define SPACE(head, tail) (((tail) - (head) - 1) & (SIZE - 1))

/* Content of a unit: its position, and in a PERF_RECORD_LOST the number of losses */
#define RECORD(at)	(at)
#define LOST(at, n)	((at) + 256 * ((n) + 1))
#define IS_LOST(unit)	((unit) >= 256)
#define LOST_OF(unit)	(((unit) >> 8) - 1)
#define NOTHING		255

/* State of the writers' CPU */
byte running;
byte head;
byte nest;
byte wakeup;
byte lost;
byte lost_samples;
bool work_queued;

/* Memory as the reader sees it */
short data[SIZE] = NOTHING;
byte data_head;
bool poll;

/* Stores that wait */
bool data_waits[SIZE];
short data_store[SIZE];
bool head_waits, poll_waits;
byte head_store;

/* The other CPU has sent its call. */
#ifdef FOREIGN
bool called;
#else
#define called		true
#endif

/* State of the reader */
byte data_tail;
bool woken;

/* History, for the checks */
byte units_written;
byte units_read;
byte told;
bool last_lost;
bool one_more;

inline store_data(at, what)
{
	atomic {
		data_store[(at) & (SIZE - 1)] = what;
		data_waits[(at) & (SIZE - 1)] = true
	}
}

/* smp_wmb(), and the part of a full barrier that matters here */
inline drain()
{
	d_step {
		i = 0;
		do
		:: i < SIZE ->
			if
			:: data_waits[i] ->
				data[i] = data_store[i];
				data_waits[i] = false
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		if
		:: head_waits -> data_head = head_store; head_waits = false
		:: else
		fi;
		if
		:: poll_waits -> poll = true; poll_waits = false
		:: else
		fi;
	}
}

inline wake()
{
#ifndef POLL_ORDER
	/* smp_wmb() */
	drain();
#endif
	poll_waits = true;
	/* irq_work_claim() is a full barrier. */
	atomic {
		drain();
		work_queued = true
	}
}

inline get_handle()
{
#ifndef WAKEUP_LATE
	handle_wakeup = wakeup;
#endif
	old = nest;
	nest = old + 1;
#ifdef WAKEUP_LATE
	handle_wakeup = wakeup
#endif
}

inline reserve()
{
	offset = head;
retry:
#ifdef NO_CONTROL
	/* Stores that do not wait for the load of data_tail. */
	store_data(offset, RECORD(offset));
	store_data(offset + 1, RECORD(offset + 1));
#endif
	atomic {
		new = offset + units;
#ifndef NO_SPACE
		if
		:: SPACE(offset, data_tail) < units -> failed = true; goto reserved
		:: else
		fi
#endif
	}
#ifdef HEAD_PLAIN
	head = new;
#else
	atomic {
		if
		:: head == offset -> head = new
		:: else -> offset = head; goto retry
		fi
	}
#endif
	atomic {
		if
#ifdef WAKEUP_UNSIGNED
		:: DIFF(new, wakeup) > WATERMARK -> seen = wakeup
#else
		:: SIGNED(DIFF(new, wakeup)) > WATERMARK -> seen = wakeup
#endif
		:: else -> goto reserved
		fi
	}
#ifdef WAKEUP_ADD
	wakeup = wakeup + WATERMARK;
#else
	atomic {
		if
		:: wakeup == seen -> wakeup = seen + WATERMARK
		:: else
		fi
	}
#endif
reserved:
	skip
}

inline fill()
{
	if
	:: have_lost ->
#ifdef LOST_READ_SET
		old = lost;
		lost = 0;
#else
		atomic { old = lost; lost = 0 }
#endif
		atomic { store_data(offset, LOST(offset, old)); offset++ }
	:: else
	fi;
	do
	:: offset != new -> atomic { store_data(offset, RECORD(offset)); offset++ }
	:: else -> break
	od
}

inline put_handle()
{
	if
	:: atomic { nest > 1 -> old = nest }; nest = old - 1; goto put
	:: nest == 1
	fi;
#ifdef WAKE_FIRST
	if
	:: atomic { handle_wakeup != wakeup -> handle_wakeup = wakeup }; wake()
	:: handle_wakeup == wakeup
	fi;
#endif
again:
	seen = head;
publish:
#ifndef NO_WMB
	drain();
#endif
#ifdef NEST_FIRST
	nest = 0;
#endif
	atomic { head_store = seen; head_waits = true }
#ifndef NEST_FIRST
	nest = 0;
#endif
#ifndef NO_RECHECK
	if
	:: seen != head ->
#ifdef AGAIN_EARLY
		seen = head;
		nest = 1;
		goto publish
#else
		nest = 1;
		goto again
#endif
	:: seen == head
	fi;
#endif
	if
	:: handle_wakeup != wakeup -> wake()
	:: handle_wakeup == wakeup
	fi;
put:
	skip
}

inline fail()
{
#ifdef LOSS_WAKES_FIRST
	if
	:: lost == 0 -> wake()
	:: else
	fi;
#elif !defined(NO_LOSS_WAKEUP)
	seen = head;
	wakeup = seen;
#endif
#ifdef LOST_PLAIN
	old = lost;
	lost = old + 1;
#else
	lost++;
#endif
	lost_samples++
}

inline output()
{
	atomic {
		if
		:: size = SHORTEST
		:: size = LONGEST
		fi;
		have_lost = (lost != 0);
		units = size + have_lost
	}
	get_handle();
	reserve();
	if
	:: failed -> fail()
	:: else -> fill()
	fi;
	put_handle();
	/* Clear dead variables, so that they do not multiply the states. */
	d_step {
		last_lost = failed;
		if
		:: failed
		:: else -> units_written = units_written + size
		fi;
		size = 0; units = 0; have_lost = false; failed = false;
		handle_wakeup = 0; old = 0; offset = 0; new = 0; seen = 0
	}
}

#define VARIABLES								\
	byte left, i, size, units, handle_wakeup, old, offset, new, seen, was;	\
	bool have_lost, failed

active proctype task() provided (running <= _pid)
{
	VARIABLES;

	left = TASK_RECORDS + 1;
	do
	:: left > 1 || (left == 1 && one_more) -> output(); left--
	:: left == 0 -> break
	od
}

active proctype irq() provided (running <= _pid)
{
	VARIABLES;

	left = IRQ_RECORDS;
	do
	:: left > 0 && called ->
		atomic { running < _pid -> was = running; running = _pid }
		output();
		atomic { running = was; left-- }
	:: left == 0 -> break
	od
}

active proctype nmi() provided (running <= _pid)
{
	VARIABLES;

	left = NMI_RECORDS;
	do
	:: left > 0 ->
		atomic { running < _pid -> was = running; running = _pid }
		output();
		atomic { running = was; left-- }
	:: else -> break
	od
}

#ifdef FOREIGN
/* Runs beside the other writers, at any of their steps. */
active proctype foreign()
{
#ifdef FOREIGN_WRITES
	VARIABLES;

	output()
#else
	called = true
#endif
}
#endif

/* Interrupts the task alone. */
active proctype work()
{
end:
	do
	:: atomic { work_queued && running == TASK -> work_queued = false; woken = true }
	od
}

/* Stores leave the buffer at any time and in any order. */
active proctype memory()
{
	byte i;

end:
	do
	:: d_step { data_waits[0] -> data[0] = data_store[0]; data_waits[0] = false }
	:: d_step { data_waits[1] -> data[1] = data_store[1]; data_waits[1] = false }
	:: d_step { data_waits[2] -> data[2] = data_store[2]; data_waits[2] = false }
	:: d_step { data_waits[3] -> data[3] = data_store[3]; data_waits[3] = false }
	:: d_step { head_waits -> data_head = head_store; head_waits = false }
	:: d_step { poll_waits -> poll = true; poll_waits = false }
	od
}

inline read_unit(at)
{
	unit = data[(at) & (SIZE - 1)];
	assert((unit & 255) == (at));
	if
	:: IS_LOST(unit) -> told = told + LOST_OF(unit)
	:: else -> units_read++
	fi
}

active proctype reader()
{
	byte to, at, last;
	short unit;

	do
	:: true ->
		/* poll_wait(): from here on the reader is woken. */
		woken = false;
check:
		if
		:: atomic { poll -> poll = false }
		:: atomic { !poll -> skip };
end:
			atomic { woken -> woken = false };
			goto check
		fi;
look:
#ifdef NO_RMB
		/* Loads the first unit ahead of data_head. */
		unit = data[data_tail & (SIZE - 1)];
		to = data_head;
		assert(to == data_tail || (unit & 255) == data_tail);
#else
		to = data_head;
#endif
		assert(DIFF(to, last) < 128);
		last = to;
		at = data_tail;
#ifdef TAIL_FIRST
		data_tail = to;
#endif
		do
		:: at != to -> atomic { read_unit(at); at++ }
		:: else -> break
		od;
		data_tail = to;
		d_step { to = 0; at = 0; unit = 0 };
		/* The reader may look again before it waits. */
		if
		:: true
		:: goto look
		fi
	od
}

/* At rest: no process can go on. */
active proctype rest()
{
	byte at;
	short unit;

	/* One more record, by the task, with no other writer beside it. */
	timeout;
	one_more = true;
	timeout;
	atomic {
		assert(running == TASK && nest == 0 && !work_queued);
		assert(data_head == head);
		/* The reader has slept through no watermark and no first loss. */
		assert(DIFF(data_head, data_tail) <= WATERMARK);
		assert(!poll);
		/* When the last record was lost, the reader has read all to make room. */
		assert(!last_lost || data_tail == data_head);
		assert(DIFF(head, wakeup) < 128);
		at = data_tail;
		do
		:: at != data_head -> read_unit(at); at++
		:: else -> break
		od;
		assert(units_read == units_written);
		assert(told + lost == lost_samples)
	}
}
