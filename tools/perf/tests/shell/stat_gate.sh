#!/bin/bash
# perf stat: events inside of functions and system calls
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

calls=100 pages=16
inside=$((calls * pages))

# stat OPTION...: run perf stat with its results in "$tmp/out"
stat()
{
	perf stat -x, -o "$tmp/out" "$@" 2>"$tmp/err"
}

# count EVENT: the count in the results of the last run, summed over all lines
count()
{
	awk -F, -v event="$1" '
	{
		for (i = 2; i <= NF; i++)
			if ($i == event) {
				seen = 1
				sum += $(i == 3 || i == 4 ? i - 2 : 1)
			}
	}
	END { if (seen) printf "%.0f\n", sum }' "$tmp/out"
}

# is NAME EVENT VALUE
is()
{
	gate_is "$1: $2" "$(count "$2")" "$3"
}

gate_prepare

stat --inside gate_inside -e page-faults:u -- $work $calls $pages
is "a function" page-faults:u $inside
is "a function" gate_count $calls
grep -q ',page-faults:u,[0-9]*,100.00,16.00,per window$' "$tmp/out"
gate_say "a function: per window" $? "$(cat "$tmp/out")"

stat --inside "$perf:gate_outside" -e page-faults:u,page-faults/no-gate,name=all/u -- $work $calls $pages
is "a function of a file" page-faults:u $inside
[ "$(count all)" -gt $((2 * inside)) ]
gate_say "no-gate: all page faults" $? "$(count all)"

stat --inside gate_inside -e page-faults:u -- $work $calls $pages 5
# The first return is inside of the window and may take the fault of the kernel's page.
over=$(($(count page-faults:u) - 5 * inside))
[ $over = 0 ] || [ $over = 1 ]
gate_say "recursion: page-faults:u" $? "$(cat "$tmp/out")"
is "recursion" gate_count $calls

stat --inside gate_inside -e '{page-faults:u,minor-faults:u}' -- $work $calls $pages
is "a group" page-faults:u $inside
is "a group" minor-faults:u $inside
is "a group" gate_count $calls

stat --inside gate_inside -e page-faults:u -- $work $calls $pages 1 8
is "eight threads that move in each window" page-faults:u $((8 * inside))
is "eight threads that move in each window" gate_count $((8 * calls))

stat --inside "$perf:gate_inside" -e page-faults:u -- sh -c \
	"$work $calls $pages & $work $calls $pages & $work $calls $pages & $work $calls $pages; wait"
is "four children" page-faults:u $((4 * inside))
is "four children" gate_count $((4 * calls))

stat -i --inside "$perf:gate_inside" -e page-faults:u -- sh -c "$work $calls $pages; true"
is "no inheritance" page-faults:u 0

stat --inside syscalls:munmap -e page-faults:u,syscalls:sys_enter_munmap/no-gate/ -- \
	$work $calls $pages
is "a system call" page-faults:u 0
is "a system call" gate_count "$(count syscalls:sys_enter_munmap)"

stat --inside kernel:ksys_write -e page-faults:u,syscalls:sys_enter_write/no-gate/ -- \
	dd if=/dev/zero of=/dev/null bs=1 count=$calls
is "a function of the kernel" gate_count "$(count syscalls:sys_enter_write)"

# madvise(2) comes before the faults and munmap(2) after them, in both functions.
stat -e 'page-faults/gate-on=syscalls:sys_exit_madvise,gate-off=syscalls:sys_enter_munmap,name=in/u' \
	-e 'page-faults/gate-on=syscalls:sys_exit_munmap,gate-off=syscalls:sys_enter_madvise,name=out/u' \
	-- $work $calls $pages
is "terms" in $((2 * inside))
[ "$(count out)" -lt $pages ]
gate_say "terms with another gate" $? "$(cat "$tmp/out")"

stat --gate-on syscalls:sys_exit_madvise --gate-off syscalls:sys_enter_munmap -e page-faults:u \
	-- $work $calls $pages
is "events" page-faults:u $((2 * inside))
# Each call does each system call twice if it changes the CPU, and once otherwise.
is "events" gate_count $((3 * calls))

stat -e syscalls:sys_enter_munmap --filter "len > $((pages * $(getconf PAGESIZE 2>/dev/null || echo 4096) - 1))" \
	--gate-on syscalls:sys_enter_munmap -e page-faults:u -- $work 1 $pages
is "an event of the list with its filter" gate_count 1

stat -r 3 --inside gate_inside -e page-faults:u -- $work $calls $pages
is "three runs" page-faults:u $inside
is "three runs" gate_count $calls

stat -I 50 --inside gate_inside -e page-faults:u -- $work $calls $pages
is "intervals" page-faults:u $inside
is "intervals" gate_count $calls

$work 1000000 $pages &
pid=$!
stat -p $pid --inside gate_inside -e page-faults:u,faults/no-gate,name=all/u sleep 0.5
kill $pid
[ "$(count gate_count)" -gt 0 ] &&
	[ "$(count page-faults:u)" -le $(($(count gate_count) * pages + 1)) ] &&
	[ "$(count page-faults:u)" -gt $((($(count gate_count) - 1) * pages - 1)) ]
gate_say "a running process" $? "$(cat "$tmp/out")"

# A perf that is killed in a window leaves no probe and no gate behind.
perf stat --inside "$perf:gate_inside" -e page-faults:u -- sh -c "echo \$\$ >$tmp/pid; exec $work 1000000 $pages" \
	>/dev/null 2>&1 &
pid=$!
while [ ! -s "$tmp/pid" ]; do sleep 0.1; done
sleep 0.3
kill -KILL $pid
wait $pid 2>/dev/null
stat --inside gate_inside -e page-faults:u -- $work $calls $pages
kill "$(cat "$tmp/pid")"
is "beside one whose perf was killed" page-faults:u $inside
is "beside one whose perf was killed" gate_count $calls

# More events than a trigger can have as targets
events=page-faults:u
for _ in 1 2 3 4 5 6 7; do
	events=$events,$events
done
events=$(echo "$events" | cut -d, -f1-70)
stat --inside gate_inside -e "$events" -- $work $calls $pages
is "70 events" page-faults:u $((70 * inside))
is "70 events" gate_count $calls

stat -a --inside syscalls:munmap -e page-faults:u -- $work $calls $pages
[ "$(count gate_count)" -ge $((3 * calls)) ]
gate_say "all CPUs" $? "$(cat "$tmp/out")"

# Four events share one counter and count nanoseconds, so each event misses most of the time
# inside, and its count is scaled. The scale is the share of the time inside, not of all
# time: in one window, which is hardly longer than a turn of multiplexing, these differ.
# If the host stalls, an event may miss a part of a window.
if [ -d /sys/bus/event_source/devices/pmusim ]; then
	turns=
	for name in a b c d; do
		turns=$turns${turns:+,}pmusim/event=1,ctrmask=1,name=$name/
	done
	for windows in 4000 1; do
		stat --inside gate_inside -e "page-faults:u,$turns" -- $work $windows 16
		awk -F, -v windows=$windows '
			$3 == "gate_time" { time = $1 }
			$3 ~ /^[abcd]$/ { n++ }
			$3 ~ /^[abcd]$/ && $5 >= 5 { count[$3] = $1; share += $5 }
			END {
				for (name in count) {
					off = count[name] / time - 1
					if (windows == 1 ? off > 0.5 : off > 0.1 || off < -0.1)
						exit 1
				}
				exit n != 4 || share < 80 || share > 120
			}' "$tmp/out"
		gate_say "events that take turns, $windows windows" $? "$(cat "$tmp/out")"
	done
else
	echo "Not run: events that take turns, without a simulated PMU (CONFIG_PERF_PMUSIM)"
fi

perf stat record -o "$tmp/data" --inside gate_inside -e page-faults:u -- $work $calls $pages >"$tmp/err" 2>&1
perf stat report -i "$tmp/data" >"$tmp/out" 2>&1
awk -v calls=$calls -v faults=$inside '
	{ gsub(",", "") }
	$2 == "gate_count" { calls -= $1 }
	$2 == "page-faults:u" { faults -= $1 }
	END { exit calls || faults }' "$tmp/out"
gate_say "stat record and report" $? "$(cat "$tmp/err" "$tmp/out")"
grep -q 'page-faults:u  *# *16.00 per window' "$tmp/out"
gate_say "stat report: per window" $? "$(cat "$tmp/out")"

perf stat -j -o "$tmp/out" --inside gate_inside -e page-faults:u -- $work $calls $pages
grep -q '"event" : "page-faults:u".*"metric-value" : "16.000000", "metric-unit" : "per window"}' "$tmp/out"
gate_say "JSON" $? "$(cat "$tmp/out")"

exit $err
