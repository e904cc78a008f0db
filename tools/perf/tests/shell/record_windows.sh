#!/bin/bash
# perf record, script, report: windows of gates
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

# A function that takes 4 page faults, and 200 in every 50th call
slow="$perf test -w windows"
calls=500 every=50

# record OPTION...: run perf record with buffers that hold all data, so that none is lost
record()
{
	perf record -m 4M -o "$tmp/data" "$@" >"$tmp/err" 2>&1
}

# windows [OPTION...]: print the windows of the file
windows()
{
	perf script -i "$tmp/data" --windows "$@" 2>"$tmp/script.err" | grep PERF_RECORD_GATE
}

# missed: print how many windows perf record says it could not measure
missed()
{
	sed -n 's/.*perf record: \([0-9]*\) of them could not be measured.*/\1/p' "$tmp/err" |
		awk '{ n = $1 } END { print n + 0 }'
}

gate_prepare
record --windows --gate-on page-faults -e context-switches true ||
	! grep -q 'The kernel cannot record each window' "$tmp/err" ||
	gate_skip "$(head -n 1 "$tmp/err")"

record -c 1 -e page-faults:u --inside windows_parse --windows -- $slow $calls $every
windows >"$tmp/windows"
gate_is "each window has a record or is told" $(($(wc -l <"$tmp/windows") + $(missed))) $calls
awk '
	{
		for (i = 1; i < NF; i++)
			field[$i] = $(i + 1)
		bad += field["closed:"] - field["opened:"] != field["wall:"]
		# The kernel does not read the two clocks at the same time, and the host of a
		# virtual machine may stop it in between.
		stops += field["running:"] > 1.2 * field["wall:"] + 100000
		bad += !field["tid:"]
		bad += field["value:"] != 4 && field["value:"] != 200
		many += field["value:"] == 200
	}
	END { exit bad || stops > 2 || many < 8 || many > 10 }' "$tmp/windows"
gate_say "times, thread and count of a window" $? "$(cat "$tmp/windows")"
perf script -i "$tmp/data" -D 2>/dev/null | grep -q 'PERF_RECORD_GATE'
gate_say "raw dump" $? "$(perf script -i "$tmp/data" -D 2>&1 | tail -n 3)"
perf script -i "$tmp/data" 2>/dev/null | grep -q PERF_RECORD_GATE
gate_is "perf script without --windows" $? 1

# The limit is half of the time of the fastest slow call. If the machine stalls, some of the
# other calls take longer, too.
limit=$(awk '/value: 200$/ { sub(/.* wall: /, ""); if (!least || $1 < least) least = $1 }
	END { printf "%d\n", least / 2 }' "$tmp/windows")
sed 's/.* wall: \([0-9]*\) .* value: /\1 /' "$tmp/windows" |
	awk -v limit="$limit" '$1 > limit { n++; faults += $2 } END { print n, faults }' >"$tmp/slow"
read -r nr faults <"$tmp/slow"
gate_is "slow windows" "$(windows --windows-longer-than "${limit}ns" | wc -l)" "$nr"
[ "$nr" -ge 8 ] && [ "$nr" -lt $((calls / 2)) ]
gate_say "slow windows: some, not all" $? "$nr windows take more than $limit ns"
samples=$(perf script -i "$tmp/data" --windows-longer-than "${limit}ns" -F event 2>/dev/null |
	grep -c page-faults)
gate_is "samples of slow windows alone" "$samples" "$faults"
sum=$(perf report -i "$tmp/data" --windows-longer-than "${limit}ns" --stdio -F sample 2>/dev/null |
	awk '/^ *[0-9]/ { sum += $1 } END { print sum + 0 }')
gate_is "report of slow windows alone" "$sum" "$samples"
gate_is "samples of windows that are longer than all" \
	"$(perf script -i "$tmp/data" --windows-longer-than 1000s -F event 2>/dev/null | grep -c page-faults)" 0

perf inject -i "$tmp/data" -o "$tmp/injected" 2>"$tmp/err"
gate_is "perf inject passes windows on" \
	"$(perf script -i "$tmp/injected" --windows 2>/dev/null | grep -c PERF_RECORD_GATE)" \
	"$(wc -l <"$tmp/windows")"

record -c 1 -e page-faults:u --inside windows_parse --windows="${limit}ns" -- $slow $calls $every
windows | sed 's/.* wall: \([0-9]*\) .* value: /\1 /' >"$tmp/slow"
awk -v limit="$limit" '{ wall = $1 } wall < limit { bad++ } END { exit bad > 0 }' "$tmp/slow"
gate_say "only slow windows are recorded" $? "$(cat "$tmp/slow" "$tmp/err")"
record -c 1 -e page-faults:u --inside windows_parse --windows=1us -- $slow $calls $every
gate_is "each window is that slow" $(($(windows | wc -l) + $(missed))) $calls
record -c 1 -e page-faults:u --inside windows_parse --windows=1000s -- $slow $calls $every
gate_is "no window is that slow" "$(windows | wc -l)" 0

record -e page-faults:u -c 1 --inside windows_parse --windows -- $slow 100 $every 8
gate_is "eight threads" $(($(windows | wc -l) + $(missed))) 800
gate_is "eight threads: each has its own" \
	"$(windows | sed 's/.* tid: \([0-9]*\) .*/\1/' | sort -u | wc -l)" 8

perf record -o - -e page-faults:u --inside windows_parse --windows -- $slow 100 $every \
	2>"$tmp/err" >"$tmp/pipe"
gate_is "a pipe" $(($(perf script -i - --windows <"$tmp/pipe" 2>/dev/null |
	grep -c PERF_RECORD_GATE) + $(missed))) 100

never="touch $tmp/started"
refuses "no gate" '--windows: no event has a gate, see --inside' \
	perf record -o "$tmp/data2" --windows -e page-faults -- $never
refuses "windows of CPUs" '--windows: with -a and -C a window is one of a CPU' \
	perf record -o "$tmp/data2" --windows -a --gate-on page-faults -e context-switches -- $never
refuses "a time without a unit" "'5' is no time: give a number and ns, us, ms or s, such as 1ms" \
	perf record -o "$tmp/data2" --windows=5 --gate-on page-faults -e context-switches -- $never
refuses "a clock that not each context can read" 'the kernel cannot time its windows by the clock of -k' \
	perf record -o "$tmp/data2" --windows -k CLOCK_BOOTTIME --gate-on page-faults -e context-switches -- $never

# fails NAME TEXT COMMAND...: check that COMMAND fails and says TEXT
fails()
{
	local name=$1 text=$2
	shift 2

	! "$@" >"$tmp/err" 2>&1 && grep -q -e "$text" "$tmp/err"
	gate_say "$name" $? "$(cat "$tmp/err")"
}

# from_pipe TOOL...: let a perf tool read a pipe
from_pipe()
{
	"$@" -i - <"$tmp/pipe"
}

fails "slow windows of a pipe, perf script" 'reads its input twice, which a pipe does not allow' \
	from_pipe perf script --windows-longer-than 1ms
fails "slow windows of a pipe, perf report" 'reads its input twice, which a pipe does not allow' \
	from_pipe perf report --stdio --windows-longer-than 1ms
record -e page-faults:u -c 1 --inside windows_parse -- $slow 10 $every
fails "no windows in the file, perf script" 'has no windows. Record them with perf record --windows' \
	perf script -i "$tmp/data" --windows-longer-than 1ms
fails "no windows in the file, perf report" 'has no windows. Record them with perf record --windows' \
	perf report -i "$tmp/data" --stdio --windows-longer-than 1ms

exit $err
