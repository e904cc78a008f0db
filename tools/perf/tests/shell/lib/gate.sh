# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Helpers of the tests of gates, which count page faults of `perf test -w gate`, whose
# gate_inside() and gate_outside() take a known number in each call. The page in which the
# kernel executes probed instructions is first needed at a return, when the window has
# ended. The directory $tmp exists while a test runs. A test must exit with $err.

err=0
perf=$(readlink -f "$(command -v perf)")
# shellcheck disable=SC2034 # not each test uses it
work="$perf test -w gate"
tmp=$(mktemp -d /tmp/perf_test.gate.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT

# gate_skip REASON
gate_skip()
{
	echo "Skip: $1"
	exit 2
}

# gate_say NAME STATUS [WHY]
gate_say()
{
	if [ "$2" = 0 ]; then
		echo "$1 [Success]"
	else
		echo "$1 [Failed]${3:+ $3}"
		err=1
	fi
}

# gate_is NAME VALUE WANTED
gate_is()
{
	[ "$2" = "$3" ]
	gate_say "$1" $? "it is '$2' and not '$3'"
}

# refuses NAME TEXT COMMAND...: check that COMMAND fails without a crash, says TEXT, and
# does not create $tmp/started
refuses()
{
	local name=$1 text=$2 status=0
	shift 2

	rm -f "$tmp/started"
	"$@" >"$tmp/err" 2>&1 || status=$?
	case $status in
	0 | 134 | 139)	false ;;
	*)		grep -q -e "$text" "$tmp/err" && [ ! -e "$tmp/started" ] ;;
	esac
	gate_say "$name" $? "$(cat "$tmp/err")"
}

# ordinary COMMAND...: run COMMAND as a user without privileges
ordinary()
{
	local program

	if setpriv --reuid 65534 true 2>/dev/null; then
		setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
	else
		program=$(command -v "$1")
		shift
		# start-stop-daemon of busybox executes the program in its own process.
		start-stop-daemon -S -c 65534:65534 -x "$program" -- "$@"
	fi
}

# gate_prepare: skip the test without root or without gates in the kernel. If gates exist
# and do not work, the tests fail.
gate_prepare()
{
	[ "$(id -u)" = 0 ] || gate_skip "probes are for root"
	perf stat --gate-on page-faults -e context-switches true 2>"$tmp/err" ||
		! grep -q CONFIG_PERF_EVENTS_GATE "$tmp/err" ||
		gate_skip "$(head -n 1 "$tmp/err")"
}
