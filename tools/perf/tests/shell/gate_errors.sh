#!/bin/bash
# perf stat and record: what they say when an event cannot have a gate
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

# A program that must not be started.
never="touch $tmp/started"

# refuses NAME TEXT COMMAND...: it fails, says so, and starts nothing
refuses()
{
	local name=$1 text=$2
	shift 2

	rm -f "$tmp/started"
	"$@" >"$tmp/err" 2>&1
	[ $? -ge 129 ] && grep -q -e "$text" "$tmp/err" && [ ! -e "$tmp/started" ]
	gate_say "$name" $? "$(cat "$tmp/err")"
}

# notes NAME TEXT COMMAND...: it works, and says so
notes()
{
	local name=$1 text=$2
	shift 2

	"$@" >"$tmp/err" 2>&1 && grep -q -e "$text" "$tmp/err"
	gate_say "$name" $? "$(cat "$tmp/err")"
}

# ordinary COMMAND...: as a user without privileges
ordinary()
{
	local program

	if setpriv --reuid 65534 true 2>/dev/null; then
		setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
	else
		program=$(command -v "$1")
		shift
		# That of busybox runs it in its own place.
		start-stop-daemon -S -c 65534:65534 -x "$program" -- "$@"
	fi
}

gate_prepare
record="perf record -o $tmp/data"

refuses "an unknown event" \
	'--gate-on=nosuch: there is no event of this name in the list, and it is none by itself:' \
	perf stat --gate-on nosuch -e page-faults -- $never
refuses "an unknown event of a term" \
	'gate-off=nosuch: there is no event of this name' \
	perf stat -e page-faults/gate-off=nosuch/ -- $never
refuses "several events" \
	"--gate-on=syscalls:sys_enter_m\*: that is [0-9]* events, but only one can do this" \
	perf stat --gate-on 'syscalls:sys_enter_m*' -e page-faults -- $never
refuses "an event without a period" \
	'--gate-on=task-clock: the kernel does not see each occurrence of this event. Give it a period,' \
	perf stat --gate-on task-clock -e page-faults -- $never
refuses "both kinds of options" '--inside goes without --gate-on and --gate-off' \
	perf stat --inside main --gate-on page-faults -- $never
refuses "an unknown function" "--inside: no function nosuch in $perf. If it is one of a library, say so: LIBRARY:nosuch" \
	perf stat --inside "$perf:nosuch" -e page-faults -- $never
# That of perf script, and that of perf timechart
refuses "a function at several places" "--inside: process_comm_event is at [0-9]* places of $perf" \
	perf stat --inside "$perf:process_comm_event" -e page-faults -- $never
refuses "no function at all" "--inside: main+4 is not the name of a function" \
	perf stat --inside "$perf:main+4" -e page-faults -- $never
refuses "an unknown program" "--inside: no program nosuch" \
	perf stat --inside main -e page-faults -- nosuch
refuses "an unknown file" "--inside: no file /nosuch" \
	perf stat --inside /nosuch:main -e page-faults -- $never
refuses "no program" "--inside: a function of which program? Say PROGRAM:main" \
	perf stat -a --inside main -e page-faults -- $never
refuses "an unknown function of the kernel" "kernel:no_such, which opens or closes a gate" \
	perf stat --inside kernel:no_such -e page-faults -- $never
refuses "events of cgroups" 'Gates are neither for events of cgroups nor for those that BPF counts.' \
	perf stat -a --for-each-cgroup / --gate-on page-faults -e context-switches -- $never
refuses "a precise event" "page-faults:pp cannot have a gate" \
	$record -e page-faults:pp --gate-on context-switches -- $never
refuses "windows of no gate" 'gate_count: no event has a gate, see --inside, --gate-on and --gate-off' \
	perf stat -e gate_count,page-faults -- $never
notes "windows of a CPU" 'Note: a window is one of a CPU, not of a task' \
	perf stat -a --gate-on page-faults -e context-switches -- true
notes "no window" 'No window was opened: syscalls:sys_enter_sethostname was not reached while events were enabled.' \
	perf stat --inside syscalls:sethostname -e page-faults -- true
notes "no window in a profile" 'No window was opened: syscalls:sys_enter_sethostname was not reached' \
	$record --inside syscalls:sethostname -e page-faults -- true

chmod 755 "$tmp"
if ordinary perf --version >/dev/null 2>&1; then
	refuses "probes of a user" "gate_inside: probes of programs are for root and those with CAP_SYS_ADMIN" \
		ordinary perf stat --inside gate_inside -e page-faults:u -- $work 1
	notes "software events of a user" '  1 *gate_count' \
		ordinary perf stat --gate-on page-faults -e minor-faults:u -- $work 1
else
	echo "Tests as a user are left out"
fi

exit $err
