#!/bin/bash
# perf stat: each window of a gate, its share and its wall time
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

# A function that takes 4 page faults, and 200 in every 20th call
slow="$perf test -w windows"
calls=1000 every=20

# stat OPTION...: run perf stat with JSON in "$tmp/out"; the program prints to "$tmp/notes"
stat()
{
	perf stat -j -o "$tmp/out" "$@" >"$tmp/notes" 2>"$tmp/err"
}

# value EVENT KEY: print a member of the objects of an event, summed over all of them
value()
{
	grep "\"event\" : \"$1\"" "$tmp/out" | sed -n "s/.*\"$2\" : \"\{0,1\}\([-0-9.]*\).*/\1/p" |
		awk '{ sum += $1; n++ } END { if (n) printf "%.0f\n", sum }'
}

# is NAME EVENT KEY VALUE
is()
{
	gate_is "$1: $3 of $2" "$(value "$2" "$3")" "$4"
}

# buckets EVENT: print the number of windows in all buckets
buckets()
{
	grep "\"event\" : \"$1\"" "$tmp/out" | sed -n 's/.*"window-buckets" : \[\[\(.*\)\]\].*/\1/p' |
		sed 's/\], \[/\n/g' | awk -F', ' '{ sum += $2 } END { printf "%.0f\n", sum }'
}

# same_buckets NAME EVENT WHAT: check that perf's figures are close to those of the program
same_buckets()
{
	for key in min p50 p90 p99 max; do
		value "$2" "window-$key"
	done | tr '\n' ' ' >"$tmp/figures"
	grep "^$3 " "$tmp/notes" | cut -d' ' -f2- >>"$tmp/figures"
	awk '
		function bucket(v, n) {
			if (v < 4)
				return v
			for (n = 0; v >= 8; n++)
				v = int(v / 2)
			return 4 * n + v
		}
		{
			for (i = 1; i <= 5; i++)
				if (bucket($i) != bucket($(i + 5)))
					exit 1
		}
		END { exit NF != 10 }' "$tmp/figures"
	gate_say "$1: min p50 p90 p99 max of $2 as the program has noted them" $? "$(cat "$tmp/figures")"
}

# text NAME PATTERN COMMAND...: check that a line of the output matches PATTERN
text()
{
	local name=$1 pattern=$2
	shift 2

	"$@" >"$tmp/notes" 2>"$tmp/err"
	grep -q -e "$pattern" "$tmp/err"
	gate_say "$name" $? "$(cat "$tmp/err")"
}

gate_prepare
perf stat --per-window --gate-on page-faults -e context-switches true 2>"$tmp/err" ||
	! grep -q 'The kernel cannot record each window' "$tmp/err" ||
	gate_skip "$(head -n 1 "$tmp/err")"

stat --per-window --inside windows_parse -e page-faults:u,task-clock -- $slow $calls $every
is "a function" page-faults:u windows $calls
is "a function" page-faults:u windows-missed 0
is "a function" gate_wall windows $calls
gate_is "a function: all buckets" "$(buckets page-faults:u)" $calls
same_buckets "a function" page-faults:u faults
is "a function" page-faults:u window-p90 4
is "a function" page-faults:u window-max 200
if python3 -c 'import json' 2>/dev/null; then
	python3 -c 'import json, sys
for line in open(sys.argv[1]): line.strip() and json.loads(line)' "$tmp/out" 2>"$tmp/err"
	gate_say "JSON is valid" $? "$(cat "$tmp/err" "$tmp/out")"
fi

# The wall time of a window includes a part of the probes, and a percentile is exact up to a
# quarter. Slow calls take more than ten times as long as the others.
awk -v low="$(value gate_wall window-p50)" -v high="$(value gate_wall window-p99)" '
	$1 == "ns" { found = low >= $3 / 1.25 && low <= $3 * 3 && high >= $5 / 1.25 && high <= $5 * 3 }
	END { exit !found }' "$tmp/notes"
gate_say "a function: times as the program has noted them" $? \
	"$(value gate_wall window-p50) $(value gate_wall window-p99) $(cat "$tmp/notes")"
[ "$(value gate_wall counter-value)" -ge $((calls * $(value gate_wall window-min))) ] &&
	[ "$(value gate_wall counter-value)" -le $((calls * $(value gate_wall window-max))) ]
gate_say "a function: gate_wall is the sum of its windows" $? "$(cat "$tmp/out")"

stat --per-window --inside windows_parse -e page-faults:u -- $slow 200 $every 8
is "eight threads" page-faults:u windows 1600
is "eight threads" page-faults:u windows-missed 0
is "eight threads" gate_wall windows 1600
gate_is "eight threads: all buckets" "$(buckets page-faults:u)" 1600
same_buckets "eight threads" page-faults:u faults

stat --per-window --inside "$perf:windows_parse" -e page-faults:u -- sh -c \
	"$slow 200 $every & $slow 200 $every & $slow 200 $every & $slow 200 $every; wait"
is "four children" page-faults:u windows 800
is "four children" page-faults:u windows-missed 0
gate_is "four children: all buckets" "$(buckets page-faults:u)" 800

stat -I 50 --per-window --inside windows_parse -e page-faults:u -- $slow $calls $every
is "intervals" page-faults:u windows $calls
is "intervals" page-faults:u windows-missed 0
is "intervals" gate_count counter-value $calls
gate_is "intervals: all buckets" "$(buckets page-faults:u)" $calls
[ "$(grep -c '"event" : "page-faults:u"' "$tmp/out")" -gt 1 ]
gate_say "intervals: there are some" $? "$(cat "$tmp/out")"

stat -I 50 --summary --per-window --inside windows_parse -e page-faults:u -- $slow $calls $every
grep '"event" : "page-faults:u"' "$tmp/out" | tail -n 1 >"$tmp/last"
mv "$tmp/last" "$tmp/out"
is "summary of intervals" page-faults:u windows $calls
gate_is "summary of intervals: all buckets" "$(buckets page-faults:u)" $calls

# The program ends while perf prints an interval: the pipe is nearly full, and read later
mkfifo "$tmp/fifo"
exec 3<>"$tmp/fifo"
yes "" | head -c 61440 >&3
perf stat -j -o "$tmp/fifo" -I 10 --summary --per-window --inside "$perf:windows_parse" \
	-e page-faults:u -- sh -c "$slow 20000 $every; touch $tmp/ended" >"$tmp/notes" 2>"$tmp/err" &
pid=$!
while [ ! -e "$tmp/ended" ]; do
	sleep 0.1
done
sleep 0.5
cat <&3 >"$tmp/all" &
reader=$!
wait $pid
sleep 0.2
kill $reader
exec 3>&-
[ "$(wc -c <"$tmp/all")" -gt 65536 ]
gate_say "a late reader: perf had to wait for it" $? "$(wc -c <"$tmp/all")"
grep '"event" : "page-faults:u"' "$tmp/all" | tail -n 1 >"$tmp/out"
is "a late reader" page-faults:u windows 20000

stat -r 3 --per-window --inside windows_parse -e page-faults:u -- $slow 200 $every
is "three runs" page-faults:u windows 600
is "three runs" page-faults:u window-max 200
is "three runs" page-faults:u counter-value $((190 * 4 + 10 * 200))

stat --per-window --inside windows_parse -e '{page-faults:u,minor-faults:u}' -- $slow $calls $every
is "a group" page-faults:u windows $calls
is "a group" minor-faults:u window-max 200

stat --per-window --inside gate_inside --inside gate_outside -e page-faults:u -- $work 100 16
gate_is "two functions" "$(grep -c '"event" : "page-faults:u".*"inside" : "gate_\(in\|out\)side".*"windows" : 100, .*"window-p50" : 16, ' "$tmp/out")" 2

# A window that begins when the program ends
stat --per-window --gate-on syscalls:sys_enter_exit_group -e page-faults:u -- true
is "a window that does not end" page-faults:u windows 0
is "a window that does not end" page-faults:u windows-missed 1
text "a window that does not end: the reader is told" '^  *# *1 missed' \
	perf stat --gate-on syscalls:sys_enter_exit_group -e page-faults:u -- true

stat --per-window -a --inside syscalls:munmap -e page-faults:u -- $work 100 16
[ "$(value page-faults:u windows)" -ge 300 ]
gate_say "all CPUs" $? "$(cat "$tmp/out")"

stat --per-window -A -a --inside syscalls:munmap -e page-faults:u -- $work 100 16
[ "$(value 'page-faults:u[^"]*' windows)" -ge 300 ] &&
	[ "$(grep -c '"cpu" : .*"page-faults.*"windows" : ' "$tmp/out")" -ge 2 ]
gate_say "each CPU" $? "$(cat "$tmp/out")"

$slow 1000000 $every >/dev/null &
pid=$!
stat --per-window -p $pid --inside windows_parse -e page-faults:u sleep 0.5
[ "$(value page-faults:u windows)" -gt 0 ] &&
	[ "$(value page-faults:u windows)" -ge $(($(value gate_count counter-value) - 1)) ]
gate_say "a running process" $? "$(cat "$tmp/out")"
stat --per-window --per-thread -p $pid --inside windows_parse -e page-faults:u sleep 0.5
[ "$(value page-faults:u windows)" -gt 0 ]
gate_say "a running thread" $? "$(cat "$tmp/out")"
kill $pid

# Columns: value, unit, event, five figures, missed, time, share of time, metric and its unit
perf stat -x, -o "$tmp/out" --per-window --inside windows_parse -e page-faults:u -- $slow $calls $every \
	>/dev/null 2>&1
grep -q ",,page-faults:u,4,4,4,200,200,0,[0-9]*,100.00,[0-9.]*,per window\$" "$tmp/out"
gate_say "columns of -x" $? "$(cat "$tmp/out")"
awk -F, 'NF && NF != 13 && !/^#/ { exit 1 }' "$tmp/out"
gate_say "columns of -x: each line has as many" $? "$(cat "$tmp/out")"
text "text" '# *4 min  4 p50  4 p90  200 p99  200 max' \
	perf stat --per-window --inside windows_parse -e page-faults:u -- $slow $calls $every
text "bars" '^  *4  *950 |##*|$' \
	perf stat -v --per-window --inside windows_parse -e page-faults:u -- $slow $calls $every

# Count the same page faults inside of the function and everywhere.
stat --inside gate_inside -e page-faults:u,page-faults/no-gate,name=all/u -- $work 100 16
grep '"event" : "page-faults:u"' "$tmp/out" | sed -n 's/.*"percent-of-all" : \([0-9.]*\), .*/\1/p' |
	awk -v inside="$(value page-faults:u counter-value)" -v all="$(value all counter-value)" '
		{ off = $1 - 100 * inside / all }
		END { exit !(NR == 1 && off < 0.1 && off > -0.1) }'
gate_say "share" $? "$(cat "$tmp/out")"
! grep '"event" : "all"' "$tmp/out" | grep -q percent-of-all
gate_say "share: none for an event without a gate" $? "$(cat "$tmp/out")"
text "share: text" '# *[1-4][0-9]\.[0-9]* % of all' \
	perf stat --inside gate_inside -e page-faults:u -- $work 100 16

# A program that sleeps is on no CPU, and its window goes on.
stat --inside syscalls:clock_nanosleep -e page-faults:u -- sleep 0.2
[ "$(value gate_wall counter-value)" -ge 200000000 ] &&
	[ "$(value gate_time counter-value)" -lt 100000000 ]
gate_say "sleep: gate_wall and gate_time" $? "$(cat "$tmp/out")"
text "gate_time is time on a CPU" 'gate_time .* ns per window on a CPU' \
	perf stat --inside syscalls:clock_nanosleep -e page-faults:u -- sleep 0.1

never="touch $tmp/started"
refuses "no gate" '--per-window: no event has a gate, see --inside' \
	perf stat --per-window -e page-faults -- $never
refuses "a file" 'does not store distributions. Let perf stat print them, to a$' \
	perf stat record -o "$tmp/data" --per-window --gate-on page-faults -e context-switches -- $never

# as_user COMMAND...: run COMMAND without privileges, and with no memory that it may lock
as_user()
{
	ulimit -l 0
	ordinary "$@"
}

kb=$(cat /proc/sys/kernel/perf_event_mlock_kb)
echo 0 >/proc/sys/kernel/perf_event_mlock_kb
chmod 755 "$tmp"
if (as_user perf --version) >/dev/null 2>&1; then
	(as_user perf stat --gate-on page-faults -e minor-faults:u true) >"$tmp/out" 2>&1 &&
		grep -q ' 1 *gate_count' "$tmp/out" && grep -q '<not counted> ns *gate_wall' "$tmp/out"
	gate_say "no memory for gate_wall" $? "$(cat "$tmp/out")"
	(as_user perf stat --per-window --gate-on page-faults -e minor-faults:u true) >"$tmp/out" 2>&1
	[ $? != 0 ] && grep -q 'takes more memory than you may lock' "$tmp/out"
	gate_say "no memory for the distribution" $? "$(cat "$tmp/out")"
else
	echo "Tests as a user are left out"
fi
echo "$kb" >/proc/sys/kernel/perf_event_mlock_kb

perf stat record -o "$tmp/data" --inside gate_inside -e page-faults:u -- $work 100 16 >"$tmp/err" 2>&1
perf stat report -i "$tmp/data" >"$tmp/out" 2>&1
grep -q 'ns *gate_wall' "$tmp/out"
gate_say "stat report: gate_wall" $? "$(cat "$tmp/err" "$tmp/out")"

exit $err
