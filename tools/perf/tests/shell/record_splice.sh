#!/bin/bash
# perf record to a pipe by splice(2)
# SPDX-License-Identifier: GPL-2.0

err=0
tmp=$(mktemp -d /tmp/perf_test.splice.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT

# Each write of one byte is a sample.
samples=10000
work="dd if=/dev/zero of=/dev/null bs=1 count=$samples"

# say NAME STATUS [WHY]
say()
{
	if [ "$2" = 0 ]; then
		echo "$1 [Success]"
	else
		echo "$1 [Failed]${3:+ $3}"
		err=1
	fi
}

# record OPTION...: record to standard output, with messages to $tmp/err
record()
{
	perf record -v -c 1 -e syscalls:sys_enter_write --filter 'count == 1' "$@" -o - \
		-- $work 2>"$tmp/err"
}

# spliced: check that all buffers were read by splice(2)
spliced()
{
	sed -n 's/^\([0-9]*\) of \([0-9]*\) buffers are read by splice(2)$/\1 \2/p' "$tmp/err" |
		awk '{ bad += $1 != $2 || !$1 } END { exit bad || NR != 1 }'
}

# counts: count the samples and the lost records in the stream on standard input
counts()
{
	perf script -i - -F comm --show-lost-events 2>"$tmp/script" | awk '
		/PERF_RECORD_LOST/ { lost += $NF; next }
		/^ *dd *$/	   { samples++ }
		END		   { print samples + 0, lost + 0 }'
}

# all NAME RECORDED: check that each sample arrived, by splice(2)
all()
{
	[ "$2" = "$samples 0" ] && spliced
	say "$1" $? "samples and losses: $2, $(grep splice "$tmp/err")"
}

[ "$(id -u)" = 0 ] || { echo "Skip: trace events are for root"; exit 2; }
record -m 8M | cat >"$tmp/data"
grep -q 'buffers are read by splice(2)' "$tmp/err" || {
	echo "Skip: $(tail -n 1 "$tmp/err")"
	exit 2
}
grep -q '^0 of ' "$tmp/err" && {
	echo "Skip: this kernel has no buffers for splice(2)"
	exit 2
}

all "a stream has each sample" "$(counts <"$tmp/data")"
all "and from all CPUs" "$(record -m 8M -a | counts)"
all "and of one thread" "$(record -m 8M --per-thread | counts)"
all "and to a reader that sleeps" "$(record -m 8M | { sleep 2; cat; } | counts)"

# Losses after the last record are reported as well.
record -m 1 | { sleep 2; cat; } | counts >"$tmp/counts"
read -r there lost <"$tmp/counts"
[ "$lost" -gt 0 ] && [ $((there + lost)) -ge $samples ] && [ $((there + lost)) -lt $((samples + 20)) ] && spliced
say "what is lost is told" $? "$there samples, $lost lost, $(grep splice "$tmp/err")"

# Outputs that are not pipes, and data that perf has to process itself
record -m 8M >"$tmp/data"
[ "$(counts <"$tmp/data")" = "$samples 0" ] && ! grep -q splice "$tmp/err"
say "a file gets the same, written" $? "$(grep splice "$tmp/err")"
if perf version --build-options 2>&1 | grep -q 'zstd: \[ on'; then
	record -m 8M -z | counts >"$tmp/counts"
	[ "$(cat "$tmp/counts")" = "$samples 0" ] && ! grep -q splice "$tmp/err"
	say "so does what perf compresses" $? "$(cat "$tmp/counts") $(grep splice "$tmp/err")"
fi

# perf fails and ends if its reader is gone.
{ record -m 1; echo $? >"$tmp/status"; } | head -c 1000 >"$tmp/data"
[ "$(cat "$tmp/status")" != 0 ]
say "a reader that is gone is noticed" $? "status $(cat "$tmp/status")"

exit $err
