#!/bin/bash
# perf record: samples inside of functions only
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

calls=100 pages=16
inside=$((calls * pages))

# record OPTION...: run perf record with buffers that hold all data, so that none is lost
record()
{
	perf record -m 4M -o "$tmp/data" "$@" >"$tmp/err" 2>&1
}

# samples SYMBOL: count the samples with this symbol in the call chain
samples()
{
	perf script -i "$tmp/data" -F ip,sym 2>/dev/null | grep -c "$1"
}

gate_prepare

record -g -c 1 -e page-faults:u --inside gate_inside -- $work $calls $pages
gate_is "samples inside of the function" "$(samples gate_inside)" "$inside"
gate_is "samples outside of it" "$(samples gate_outside)" 0
gate_is "all samples" \
	"$(perf script -i "$tmp/data" -F event 2>/dev/null | grep -c page-faults)" $inside
grep -q "perf record: $calls windows inside of gate_inside, " "$tmp/err"
gate_say "number of windows" $? "$(cat "$tmp/err")"
perf evlist -v -i "$tmp/data" | grep -q 'start_paused: 1.*gate_nest: 1'
gate_say "attributes in the file" $? "$(perf evlist -v -i "$tmp/data")"
perf report -i "$tmp/data" --stdio --no-children -g none 2>/dev/null | grep -q 'perf.*touch'
gate_say "report" $? "$(perf report -i "$tmp/data" --stdio --no-children -g none 2>&1)"

record -c 1 -e page-faults:u --gate-on syscalls:sys_exit_madvise --gate-off syscalls:sys_enter_munmap \
	-- $work $calls $pages
gate_is "samples between two events" \
	"$(perf script -i "$tmp/data" -F event 2>/dev/null | grep -c page-faults)" $((2 * inside))

record -g -c 1 -e page-faults:u --inside gate_inside -- $work $((calls / 2)) $pages 1 8
gate_is "eight threads that move in each window: samples inside" \
	"$(samples gate_inside)" $((4 * inside))
gate_is "eight threads that move in each window: samples outside" \
	"$(samples gate_outside)" 0
grep -q "perf record: $((4 * calls)) windows" "$tmp/err"
gate_say "eight threads that move in each window: number of windows" $? "$(cat "$tmp/err")"

# Events of the list are opened for each CPU, but not what their gate needs: the entry, the return,
# the end by another program, and the events of the guard.
opened()
{
	grep -c 'sys_perf_event_open: pid [0-9]*  cpu -1 ' "$tmp/err"
}

record -vv -c 1000 -e page-faults:u --inside gate_inside -- $work 10 $pages
of_one=$(opened)
many=$(printf 'page-faults:u,%.0s' $(seq 40))
record -vv -c 1000 -e "${many%,}" --inside gate_inside -- $work 10 $pages
[ "$of_one" -ge 5 ] && [ "$(opened)" = "$of_one" ]
gate_say "40 events on each CPU have one set of triggers" $? "$(opened) and not $of_one"
grep -q "perf record: 10 windows" "$tmp/err"
gate_say "40 events on each CPU: number of windows" $? "$(tail -n 3 "$tmp/err")"

exit $err
