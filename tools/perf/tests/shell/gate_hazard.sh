#!/bin/bash
# perf stat: functions that are left in unusual ways are counted right or refused
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

lib=$(dirname "$0")/lib

# program NAME COMPILER...: build $tmp/NAME, or use a program that was built before
program()
{
	local name=$1
	shift

	if [ -n "$PERF_GATE_PROGRAMS" ]; then
		[ -x "$PERF_GATE_PROGRAMS/$name" ] || return 1
		ln -s "$PERF_GATE_PROGRAMS/$name" "$tmp/$name"
	else
		command -v "$1" >/dev/null 2>&1 && "$@" -o "$tmp/$name" 2>/dev/null
	fi
}

# stat OPTION...: results in $tmp/out, exit status in $status, the program's output in $tmp/said
stat()
{
	perf stat -x, -o "$tmp/out" -e page-faults:u "$@" >"$tmp/said" 2>"$tmp/err"
	status=$?
}

# count EVENT
count()
{
	awk -F, -v event="$1" '$3 == event { print $1 }' "$tmp/out"
}

# count_in REGION EVENT
count_in()
{
	awk -F, -v region="$1" -v event="$2" '$3 == event && $4 == region { print $1 }' "$tmp/out"
}

why()
{
	echo "status $status: $(cat "$tmp/said" "$tmp/out" "$tmp/err" 2>/dev/null | tr '\n' ';')"
}

# exact NAME WINDOWS FAULTS OPTION...: check that the numbers are right and the status is 0.
# With recursion, the page in which the kernel executes probed instructions may be needed
# inside of a window.
exact()
{
	local name=$1 windows=$2 faults=$3
	shift 3

	stat "$@"
	[ $status = 0 ] && [ "$(count gate_count)" = "$windows" ] &&
		{ [ "$faults" = any ] || [ $(($(count page-faults:u) - faults)) = 0 ] ||
			[ $(($(count page-faults:u) - faults)) = 1 ]; } &&
		! grep -q 'not exact' "$tmp/err"
	gate_say "$name" $? "$(why)"
}

# marked NAME TEXT OPTION...: perf says that the numbers are not exact, the status is 1, and
# the program has reached its end
marked()
{
	local name=$1 text=$2
	shift 2

	stat "$@"
	[ $status = 1 ] && grep -q '<not exact>' "$tmp/err" && grep -q -e "$text" "$tmp/err" &&
		grep -q '^end' "$tmp/said"
	gate_say "$name" $? "$(why)"
}

# refused NAME TEXT OPTION...: check that the program is not started; 134 and 139 are crashes
refused()
{
	local name=$1 text=$2
	shift 2

	rm -f "$tmp/out"
	stat "$@"
	case $status in
	0 | 1 | 134 | 139)	false ;;
	*)			grep -q -e "$text" "$tmp/err" && [ ! -s "$tmp/said" ] ;;
	esac
	gate_say "$name" $? "$(why)"
}

gate_prepare
cxx=
program cxx c++ -x c++ -O2 -g -pthread "$lib/gate_hazard.c" && cxx=$tmp/cxx
program c cc -O2 -g -pthread "$lib/gate_hazard.c" || gate_skip "no C compiler"
work=${cxx:-$tmp/c}

for depth in 1 64 65 1000; do
	exact "recursion, $depth deep" 5 $((5 * depth)) --inside deep -- "$work" deep $depth
done
exact "a function of several returns and a table" 10 105 --inside chooser -- "$work" chooser
exact "a function that ends in a call of another" 10 100 --inside tail -- "$work" tail
exact "threads of a pool" 40 any --inside job -- "$work" pool
marked "longjmp" '10 entries, 0 returns' --inside jumper -- "$work" longjmp
marked "a single longjmp" '1 entries, 0 returns' --inside jumper -- "$work" longjmp 1
exact "a fork" 10 any --inside forker -- "$work" fork
stat --inside spawner -- "$work" thread
[ $status = 0 ] && [ "$(count gate_count)" = 10 ] && [ "$(count page-faults:u)" -lt 600 ]
gate_say "a thread that is made inside" $? "$(why)"

stat --inside leaver -- "$work" exit 3
[ $status = 1 ] && grep -q '<not exact>' "$tmp/err"
gate_say "a program that ends inside" $? "$(why)"
exact "a program that ends inside, with --inside-lax" 1 10 --inside leaver --inside-lax -- "$work" exit 3
exact "main()" 1 any --inside main -- "$work" exit 3
refused "the first function" 'never returns. Use main' --inside _start -- "$work" job
stat --inside kernel:vfs_read -- "$work" sleepers
[ $status = 0 ] && [ "$(count gate_count)" -ge 40 ] && [ "$(count page-faults:u)" = 0 ]
gate_say "40 threads asleep in a function of the kernel" $? "$(why)"
# Lines and inlined functions are for a perf that reads debugging information.
if perf version --build-options 2>/dev/null | grep -q '\[ on .*HAVE_\(DWARF\|LIBDW\)_SUPPORT'; then
	exact "a function that is inlined at one place" 10 100 --inside everywhere -- "$work" one
	exact "a function that is inlined at three places" 30 300 --inside everywhere -- "$work" three
	exact "a function that is partly inlined" 20 200 --inside partly -- "$work" partly
	# Code that is moved out of the loop is a piece of its own.
	stat --inside fill -- "$work" fill
	[ $status = 0 ] && [ "$(count gate_count)" -ge 10 ] && [ $(($(count page-faults:u) / 2)) = 50 ]
	gate_say "a loop that is inlined" $? "$(why)"
	refused "an inlined function that cannot be told" 'has inlined hider where perf cannot tell it' \
		--inside hider -- "$work" hider 3
	begin=$(grep -n 'The lines begin,' "$lib/gate_hazard.c" | cut -d: -f1)
	exact "lines of a file" 10 100 --inside "gate_hazard.c:$begin-$((begin + 1))" -- "$work" lines
	exact "lines of a file of a program" 10 50 \
		--inside "$work:lib/gate_hazard.c:$begin-$begin" -- "$work" lines
	refused "lines without code" 'there is no code of lines 1 to 2 of gate_hazard.c' \
		--inside gate_hazard.c:1-2 -- "$work" lines
	refused "a line alone" 'say which lines, such as gate_hazard.c:7-8' \
		--inside gate_hazard.c:7 -- "$work" lines
	refused "lines of a program without debugging information" 'has no debugging information' \
		--inside "$perf:gate.c:1-100" -- "$work" lines
else
	refused "a function that is inlined" 'no function everywhere in' --inside everywhere -- "$work" one
fi
refused "a function whose name has a slip" 'Did you mean chooser?' --inside chooserr -- "$work" job
exact "beside the function that it is inlined in" 10 any --inside one_place -- "$work" one

exact "a region between marks" 10 100 --inside mark:region -- "$work" marks
exact "a region between marks of a program" 10 100 --inside "$work:mark:region" -- "$work" marks
refused "marks that are not there" 'has no PERF_MARK_BEGIN(nosuch)' --inside mark:nosuch -- "$work" marks

# Two regions, of which one lies in the other
stat --inside tail --inside five -e page-faults/no-gate,name=all/u -e '{page-faults:u,minor-faults:u}' -- \
	"$work" tail
[ $status = 0 ] && [ "$(count_in tail gate_count)" = 10 ] && [ "$(count_in five gate_count)" = 10 ] &&
	[ $(($(count_in tail minor-faults:u) / 2)) = 50 ] && [ "$(count_in five minor-faults:u)" = 50 ] &&
	[ "$(count_in "" all | wc -w)" = 1 ]
gate_say "two regions" $? "$(why)"
perf stat -j -o "$tmp/out" --inside tail --inside five -e page-faults:u -- "$work" tail >/dev/null
grep -q '"counter-value" : "50.000000".*"event" : "page-faults:u", "inside" : "five"' "$tmp/out"
gate_say "two regions, JSON" $? "$(cat "$tmp/out")"
# Each touch() of a program ends in one munmap(2).
perf record -o "$tmp/data" -c 1 --inside tail --inside five -e syscalls:sys_enter_munmap -- "$work" tail >/dev/null 2>"$tmp/err"
perf script -i "$tmp/data" -F event 2>>"$tmp/err" | sort | uniq -c | tr -s ' ' >"$tmp/out"
grep -q '20 syscalls:sys_enter_munmap inside of tail:' "$tmp/out" &&
	grep -q '10 syscalls:sys_enter_munmap inside of five:' "$tmp/out" &&
	grep -q '10 windows inside of tail' "$tmp/err" && grep -q '10 windows inside of five' "$tmp/err"
gate_say "two regions, samples" $? "$(cat "$tmp/out" "$tmp/err")"
refused "two regions, metrics" 'Metrics go with one --inside' --inside tail --inside five --metric-only -- "$work" tail

# With intervals, and in what programs read
stat -I 10000 --inside jumper -- "$work" longjmp
[ $status = 1 ] && grep -q ',gate_count,.*,10,open' "$tmp/out"
gate_say "longjmp, intervals" $? "$(why)"
stat --inside jumper -- "$work" longjmp
grep -q ',page-faults:u,.*,per window <not exact>$' "$tmp/out" &&
	grep -q ',gate_count,.*,10,open <not exact>$' "$tmp/out"
gate_say "longjmp, marks" $? "$(why)"
perf stat -j -o "$tmp/out" --inside jumper -e page-faults:u -- "$work" longjmp >/dev/null 2>&1
grep -q '"event" : "page-faults:u".*"metric-unit" : "per window <not exact>"}' "$tmp/out" &&
	grep -q '"event" : "gate_count".*"metric-value" : "10.000000", "metric-unit" : "open <not exact>"}' "$tmp/out"
gate_say "longjmp, marks in JSON" $? "$(cat "$tmp/out")"

if [ -n "$cxx" ]; then
	marked "an exception that leaves the function" '10 entries, 0 returns' --inside thrower -- "$work" throw
	exact "an exception that it catches" 10 100 --inside catcher -- "$work" catch
	# A perf that cannot demangle knows the symbols.
	parse=_ZN3app5parseEi
	if perf version --build-options 2>/dev/null | grep -q 'demangle.*\[ on'; then
		parse='app::parse(int)'
	fi
	stat --inside app::parse -- "$work" overloads
	if grep -q 'app::parse(int)' "$tmp/err"; then
		grep -q 'app::parse(double)' "$tmp/err" && [ $status != 0 ] && [ ! -s "$tmp/said" ]
		gate_say "two overloads" $? "$(why)"
		parse='app::parse(int)'
	fi
	exact "one of two overloads" 10 100 --inside "$parse" -- "$work" overloads
else
	echo "Not run: exceptions and overloads, without a compiler of C++"
fi

if program rust rustc -O -g "$lib/gate_panic.rs"; then
	marked "a panic that is caught" '10 entries, 5 returns' --inside risky -- "$tmp/rust"
else
	echo "Not run: a panic, without a compiler of Rust"
fi

if program go objcopy --add-section .gopclntab="$lib/gate_panic.rs" "$work"; then
	refused "a program of Go" 'is a program of Go' --inside job -- "$tmp/go" job
else
	echo "Not run: a program of Go, without objcopy"
fi

# At the path of the process, perf sees another program.
mkdir "$tmp/dir"
cp -L "$perf" "$tmp/dir/prog"
if unshare -m true 2>/dev/null; then
	unshare -m sh -c "mount -t tmpfs none $tmp/dir && cp -L $work $tmp/dir/prog && exec $tmp/dir/prog forever" &
	pid=$!
	sleep 1
	stat -p $pid --inside job -- sleep 1
	kill $pid
	[ $status = 0 ] && [ "$(count gate_count)" -gt 5 ] &&
		[ "$(count page-faults:u)" -le $((10 * $(count gate_count) + 1)) ]
	gate_say "a process that sees other files" $? "$(why)"
fi

exit $err
