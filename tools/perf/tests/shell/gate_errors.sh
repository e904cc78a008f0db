#!/bin/bash
# perf stat and record: what they say when an event cannot have a gate
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

# a program that must not be started
never="touch $tmp/started"

# notes NAME TEXT COMMAND...: check that COMMAND works and says TEXT
notes()
{
	local name=$1 text=$2
	shift 2

	"$@" >"$tmp/err" 2>&1 && grep -q -e "$text" "$tmp/err"
	gate_say "$name" $? "$(cat "$tmp/err")"
}

gate_prepare
record="perf record -o $tmp/data"

refuses "an unknown event" \
	'--gate-on=nosuch: no event of the list has this name, and it is no event itself:' \
	perf stat --gate-on nosuch -e page-faults -- $never
refuses "an unknown event of a term" \
	'gate-off=nosuch: no event of the list has this name' \
	perf stat -e page-faults/gate-off=nosuch/ -- $never
refuses "several events" \
	"--gate-on=syscalls:sys_enter_m\*: matches [0-9]* events, name a single one" \
	perf stat --gate-on 'syscalls:sys_enter_m*' -e page-faults -- $never
refuses "an event without a period" \
	'--gate-on=task-clock: the kernel does not see each occurrence of this event. Give it a period,' \
	perf stat --gate-on task-clock -e page-faults -- $never
refuses "both kinds of options" '--inside cannot be combined with --gate-on or --gate-off' \
	perf stat --inside main --gate-on page-faults -- $never
refuses "an unknown function" "--inside: no function nosuch in $perf. For a function of a library: LIBRARY:nosuch" \
	perf stat --inside "$perf:nosuch" -e page-faults -- $never
# perf script and perf timechart each have a function of this name.
refuses "a function at several places" "--inside: process_comm_event names [0-9]* functions of $perf" \
	perf stat --inside "$perf:process_comm_event" -e page-faults -- $never
refuses "no function at all" "--inside: main+4 is not the name of a function" \
	perf stat --inside "$perf:main+4" -e page-faults -- $never
refuses "an unknown program" "--inside: no program nosuch" \
	perf stat --inside main -e page-faults -- nosuch
refuses "an unknown file" "--inside: no file /nosuch" \
	perf stat --inside /nosuch:main -e page-faults -- $never
refuses "no program" "--inside: name the program of the function: PROGRAM:main" \
	perf stat -a --inside main -e page-faults -- $never
refuses "an unknown function of the kernel" "the kernel has no function no_such" \
	perf stat --inside kernel:no_such -e page-faults -- $never
refuses "events of cgroups" 'Events of cgroups and events that BPF counts cannot have gates.' \
	perf stat -a --for-each-cgroup / --gate-on page-faults -e context-switches -- $never
refuses "windows of no gate" 'gate_count: no event has a gate, see --inside, --gate-on and --gate-off' \
	perf stat -e gate_count,page-faults -- $never
# Tools that do not open and close gates
for tool in "top --stdio -p $$" "trace -p $$"; do
	# shellcheck disable=SC2086 # words
	timeout 20 perf $tool -e page-faults/gate-on=context-switches/ </dev/null >"$tmp/err" 2>&1
	status=$?
	[ $status != 0 ] && { [ $status -lt 124 ] || [ $status -gt 143 ]; } &&
		grep -q 'page-faults.*: only perf stat and perf record open and close gates' "$tmp/err"
	gate_say "perf ${tool%% *}" $? "status $status: $(cat "$tmp/err")"
done
refuses "an event that switches the output" 'only perf stat and perf record open and close gates' \
	$record --switch-output-event page-faults/gate-on=context-switches/ -e dummy -- $never
refuses "no name of a function" "name a function, such as parse" \
	perf stat --inside '' -e page-faults -- $never
refuses "the same function twice" "--inside main: say it once" \
	perf stat --inside main --inside main -e page-faults -- $never
refuses "two starters by options" '--gate-on context-switches: --gate-on page-faults was given before' \
	perf stat --gate-on page-faults --gate-on context-switches -e page-faults -- $never
refuses "two stoppers by options" '--gate-off context-switches: --gate-off page-faults was given before' \
	$record --gate-off page-faults --gate-off context-switches -e page-faults -- $never
for command in "perf stat" "$record"; do
	# shellcheck disable=SC2086 # words
	refuses "${command%% -*}: --inside-lax without --inside" 'there is no --inside whose result' \
		$command --inside-lax --gate-on page-faults -e context-switches -- $never
done
refuses "perf record --per-window" 'perf stat prints how windows are distributed; here take --windows' \
	$record --per-window --gate-on page-faults -e context-switches -- $never
refuses "perf stat --windows" 'perf record writes windows to a file; here take --per-window' \
	perf stat --windows=1ms --gate-on page-faults -e context-switches -- $never
refuses "metrics of single windows" '--metric-only prints metrics, which have no distribution' \
	perf stat --per-window --metric-only --gate-on page-faults -e context-switches -- $never
notes "windows of a CPU" 'Note: windows are of CPUs, not of tasks' \
	perf stat -a --gate-on page-faults -e context-switches -- true
notes "no window" 'No window was opened: syscalls:sys_enter_sethostname was not reached while events were enabled.' \
	perf stat --inside syscalls:sethostname -e page-faults -- true
notes "no window in a profile" 'No window was opened: syscalls:sys_enter_sethostname was not reached' \
	$record --inside syscalls:sethostname -e page-faults -- true

chmod 755 "$tmp"
if ordinary perf --version >/dev/null 2>&1; then
	refuses "probes of a user" "gate_inside: probes of programs need root or CAP_SYS_ADMIN" \
		ordinary perf stat --inside gate_inside -e page-faults:u -- $work 1
	notes "software events of a user" '  1 *gate_count' \
		ordinary perf stat --gate-on page-faults -e minor-faults:u -- $work 1
else
	echo "Tests as a user are left out"
fi

exit $err
