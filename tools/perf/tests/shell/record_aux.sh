#!/bin/bash
# perf record of AUX areas: snapshots, gaps that the kernel reports, gates
# SPDX-License-Identifier: GPL-2.0
#
# perf recognizes PMUs with AUX areas by their names. In a mount namespace, the simulated
# PMU of the kernel takes the name intel_bts, whose data perf treats as a stream of bytes.
# The PMU writes as many bytes as a test requests, in words that contain their position
# in the stream in the lower 48 bits.

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

devices=/sys/bus/event_source/devices

skip()
{
	echo "Skip: $1"
	exit 2
}

if [ "$1" != inside ]; then
	[ "$(id -u)" = 0 ] || skip "mounts are for root"
	grep -q GenuineIntel /proc/cpuinfo || skip "perf looks for intel_bts on processors of Intel"
	[ -e "$devices/pmusim_aux" ] || skip "the kernel has no simulated PMU (CONFIG_PERF_PMUSIM)"
	unshare -m true 2>/dev/null || skip "no mount namespaces"
	exec unshare -m sh "$0" inside
fi

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

mount --make-rprivate / && mount -t tmpfs none "$devices" || exit 1
for name in software tracepoint; do
	ln -s "/sys/devices/$name" "$devices/$name"
done
ln -s /sys/devices/pmusim_aux "$devices/intel_bts"
mkfifo "$tmp/control" "$tmp/answer" || exit 1

# Functions for the traced shell, whose parent is perf. perf has read all data when it has
# answered twice, because the first answer may come from a round that began before.
cat >"$tmp/functions" <<END
ask() { echo ping >$tmp/control; read -r answer <$tmp/answer; }
store() { echo pmusim_aux 0 \$1 >/sys/kernel/debug/pmusim/cpu0/tick; }
snapshot() { kill -USR2 \$PPID; ask; ask; }
overrun() { kill -STOP \$PPID; store \$1; store \$1; kill -CONT \$PPID; ask; ask; store 24; }
END

# record SCRIPT OPTION...: record a shell on CPU 0, whose simulated PMU SCRIPT controls
record()
{
	local script=$1

	shift
	rm -f "$tmp/data"*
	perf record -v -o "$tmp/data" --control "fifo:$tmp/control,$tmp/answer" --per-thread "$@" -- \
		taskset 1 sh -c ". $tmp/functions; $script" 2>"$tmp/said" >&2
}

# chunks: print the sizes of the pieces that perf took from the area
chunks()
{
	perf script -D -i "$tmp/data" 2>/dev/null |
		sed -n 's/.* PERF_RECORD_AUXTRACE size: 0x\([0-9a-f]*\) .*/\1/p' |
		while read -r size; do
			printf '%d ' $((0x$size))
		done
}

# errors: count the errors that --itrace=e reports for lost data
errors()
{
	perf script -i "$tmp/data" --itrace=e 2>&1 | grep -c 'instruction trace error'
}

# Write less than the area holds, then more so that it wraps, then little, then more than
# the whole area. No snapshot repeats data of an earlier one. perf drops a rest of less
# than three words before the end of the area.
record "store 6000; snapshot; store 16008; snapshot; store 1200; snapshot; store 24000; snapshot" \
	-m 64,4 -S16384 -e intel_bts/config=0/
gate_is "each snapshot has what is new" "$(chunks)" "6000 15992 1200 16384 "
gate_is "the kernel tells what it is" "$(grep -c 'the kernel tells of a snapshot' "$tmp/said")" 4

# An area of two pages overflows twice.
record "store 24; overrun 8208; overrun 8208" -m 64,2 -e intel_bts/config=0,aux-lost/
lost=$(perf script --show-lost-events -i "$tmp/data" 2>"$tmp/err" | grep -c PERF_RECORD_AUX_LOST)
gate_is "gaps are told by records" "$lost" 2
told=$(errors)
perf script -D -i "$tmp/data" 2>/dev/null |
	sed -n 's/.* PERF_RECORD_AUX_LOST .* time: \([0-9]*\) to \([0-9]*\) stops: \([0-9]*\)$/\1 \2 \3/p' |
	awk '{ if ($1 < last || $2 <= $1 || $3 < 1) bad = 1; last = $2 } END { exit bad || NR != 2 }'
gate_say "gaps are intervals one after the other" $?
perf evlist -v -i "$tmp/data" 2>/dev/null | grep -q 'aux_lost: 1'
gate_say "the file says that they were asked for" $?

record "store 24; overrun 8208; overrun 8208" -m 64,2 -e intel_bts/config=0/
lost=$(perf script -D -i "$tmp/data" 2>/dev/null | grep -c PERF_RECORD_AUX_LOST)
gate_is "no record is written without a request" "$lost" 0
gate_is "an error at the end of each gap" "$told" $(($(errors) + 2))

perf record -o "$tmp/data" -e dummy/aux-lost/ true 2>"$tmp/said"
grep -q 'has no AUX area' "$tmp/said"
gate_say "other events have no such term" $? "$(cat "$tmp/said")"

# Write 240 bytes in each of 20 windows and as many outside.
record 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		cd /; store 240; umask 022; store 240
	done' \
	-m 64,16 -e intel_bts/config=0/ --gate-on syscalls:sys_enter_chdir \
	--gate-off syscalls:sys_enter_umask
taken=$(chunks | awk '{ for (i = 1; i <= NF; i++) n += $i } END { print n + 0 }')
gate_is "a gate pauses the trace" "$taken" 4800

# Write more bytes than 32 bits can count, if the machine has the memory.
if [ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -gt 4600000 ]; then
	record "store 6000; store 240" -m 64,4G -e intel_bts/config=0/
	taken=$(chunks | awk '{ for (i = 1; i <= NF; i++) n += $i } END { print n + 0 }')
	gate_is "an area of four gigabytes" "$taken" 6240
else
	echo "Not run: an area of four gigabytes, for want of memory"
fi
exit $err
