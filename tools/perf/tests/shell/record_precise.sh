#!/bin/bash
# perf record: precise samples of windows
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

gate_prepare
caps=/sys/bus/event_source/devices/cpu/caps/max_precise
[ -r $caps ] || gate_skip "the PMU does not tell how precise it can be"
# The kernel tells it only while there is an event of the PMU, such as the NMI watchdog's.
max=$(perf stat -e cycles:u -o "$tmp/stat" -- cat $caps)
# AMD has another PMU for cycles, which the kernel takes for precise ones.
precise_cycles=$max
[ ! -d /sys/bus/event_source/devices/ibs_op ] || precise_cycles=2
work="$perf test -w brstack 400000"

# The kernel lowers the sample rate when interrupts take long, as on a host that stalls.
rate=/proc/sys/kernel/perf_event_max_sample_rate
percent=/proc/sys/kernel/perf_cpu_time_max_percent
old_rate=$(cat $rate) old_percent=$(cat $percent)
echo 1000000 >$rate
echo 100 >$percent

# precision: print attr.precise_ip of the events in $tmp/data
precision()
{
	local level

	level=$(perf evlist -v -i "$tmp/data" | sed -n 's/.*precise_ip: \([0-9]*\).*/\1/p')
	echo "${level:-0}"
}

# Records without the baseline of Ice Lake have no gates, and perf says what that costs.
costs=no
if [ "$max" -gt 0 ] && ! perf record -q -o "$tmp/data" -e cycles:upp --inside brstack -- $work \
	>"$tmp/err" 2>&1; then
	grep -q "cycles:uppH* cannot have a gate" "$tmp/err"
	gate_say "a precise event is refused for its gate" $? "$(cat "$tmp/err")"
	costs=yes max=0 precise_cycles=0
fi
# Emulators say what they have.
[ -z "${QEMU_PMU_PEBS:-}" ] || gate_is "precise events have gates" "$costs" no
[ -z "${QEMU_PMU_PEBS_BASIC:-}" ] || gate_is "records without the baseline have none" "$costs" yes
perf record -o "$tmp/data" --inside brstack -- $work >"$tmp/err" 2>&1
gate_say "the default event has a gate" $? "$(cat "$tmp/err")"
gate_is "the default event is as precise as the PMU can be" "$(precision)" "$precise_cycles"
grep -q "has a gate, so it is less precise" "$tmp/err" && told=yes || told=no
gate_is "perf tells if the gate costs precision" "$told" "$costs"
if [ $costs = yes ]; then
	refuses "addresses of an event that is not precise" "which cannot have gates" \
		perf record -d -o "$tmp/data" --inside brstack -- $work
fi

# A period of instructions, so samples can be counted
perf stat -x, -o "$tmp/counts" -e instructions:u --inside brstack -- $work
due=$(($(grep instructions "$tmp/counts" | cut -d, -f1) / 100003))
perf record -q -o "$tmp/data" -c 100003 -e instructions:uP --inside brstack -- $work \
	>"$tmp/err" 2>&1
gate_say "a period has a gate" $? "$(cat "$tmp/err")"
gate_is "a period is as precise as the PMU can be" "$(precision)" "$max"
perf script -i "$tmp/data" -F ip,sym 2>/dev/null | awk '{ print $2 }' >"$tmp/symbols"
taken=$(wc -l <"$tmp/symbols")
[ $due -gt 50 ] && [ $((taken * 100)) -ge $((due * 95)) ] &&
	[ $((taken * 100)) -le $((due * 105)) ]
gate_say "samples are as many as periods inside" $? "$taken of $due"
outside=$(grep -cvE "^brstack(_bench|_foo|_bar)?\$" "$tmp/symbols")
# Without a record, a sample whose interrupt is late has the address of where the window ends.
[ "$outside" -le $((max ? 0 : 1)) ]
gate_say "no sample is of outside" $? "$outside are"

# A gate that is open at first
perf record -q -o "$tmp/data" --gate-off page-faults -- $work >"$tmp/err" 2>&1
gate_say "the default event has a stopper alone" $? "$(cat "$tmp/err")"
perf record -q -o "$tmp/data" -c 100003 -e instructions:uP --gate-off page-faults -- $work \
	>"$tmp/err" 2>&1
gate_say "a period has a stopper alone" $? "$(cat "$tmp/err")"

# perf has events of memory accesses for PMUs that have them.
if [ -n "${QEMU_PMU_IBS:-}" ] ||
   { [ $costs = no ] && perf mem record -o "$tmp/data" -- true >"$tmp/err" 2>&1; }; then
	perf mem record -o "$tmp/data" --inside brstack -- $work >"$tmp/err" 2>&1
	gate_say "perf mem record takes windows" $? "$(cat "$tmp/err")"
	perf mem report -i "$tmp/data" --stdio >"$tmp/report" 2>&1
	grep -q "brstack_bar" "$tmp/report"
	gate_say "perf mem report shows them" $? "$(cat "$tmp/report")"
fi

if [ "$max" -lt 3 ]; then
	refuses "more precision than the PMU has" "instructions:upppH* cannot have a gate" \
		perf record -o "$tmp/data" -e instructions:uppp --inside brstack -- $work
fi
echo "$old_percent" >$percent
echo "$old_rate" >$rate
exit $err
