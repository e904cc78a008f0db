#!/bin/bash
# perf stat: functions that are left in unusual ways are counted right or refused
# SPDX-License-Identifier: GPL-2.0

# Variables of lib/gate.sh, which the build does not follow
# shellcheck disable=SC2154

# shellcheck source=lib/gate.sh
. "$(dirname "$0")"/lib/gate.sh

lib=$(dirname "$0")/lib

# program NAME COMPILER...: build $tmp/NAME, or take a program that was built before
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

# build_same NAME OPTION...: build $tmp/NAME from lib/gate_same.c
build_same()
{
	local name=$1 part
	shift

	for part in 1 2; do
		mkdir -p "$tmp/dir$part"
		cp "$lib/gate_same.c" "$tmp/dir$part/same.c"
		(cd "$tmp" && cc -O2 -fno-pie "$@" -DPART=$part -c -o "dir$part/same.o" "dir$part/same.c") ||
			return
	done
	cc -O2 -no-pie -fno-pie "$@" -DPART=0 -o "$tmp/$name" "$lib/gate_same.c" "$tmp"/dir?/same.o
}

# same: build or find $tmp/same, $tmp/bare without debugging information, and $tmp/contexts
same()
{
	if [ -n "$PERF_GATE_PROGRAMS" ]; then
		program same && program bare && program contexts && program stacks1 && program stacks2 &&
			program stacks3
	else
		build_same same -g && build_same bare && build_same contexts -DCONTEXTS &&
			build_same stacks1 -DSTACKS=1 && build_same stacks2 -DSTACKS=2 &&
			build_same stacks3 -DSTACKS=3
	fi 2>/dev/null
}

# needy: build or find $tmp/needy, which needs $tmp/libbetween.so, which needs $tmp/libswitch.so
needy()
{
	local origin="-Wl,-rpath,\$ORIGIN"

	program libswitch.so cc -O2 -fPIC -shared -DSTACKS=1 -DPART=0 -Wl,-soname,libswitch.so "$lib/gate_same.c" &&
		program libbetween.so cc -shared -Wl,--no-as-needed -L"$tmp" -lswitch "$origin" \
			-Wl,-soname,libbetween.so &&
		program needy cc -O2 -pthread -Wl,--no-as-needed -L"$tmp" "$lib/gate_hazard.c" -lbetween "$origin"
}

# stat OPTION...: run perf stat; set $tmp/out to its results, $tmp/said to what the program
# prints, and $status
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

# marked NAME TEXT OPTION...: check that perf says that the numbers are not exact, that the
# status is 1, and that the program has reached its end
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
cxx='' demangles='' has_lines=''
program cxx c++ -x c++ -O2 -g -pthread "$lib/gate_hazard.c" && cxx=$tmp/cxx
program c cc -O2 -g -pthread "$lib/gate_hazard.c" || gate_skip "no C compiler"
work=${cxx:-$tmp/c}
# Find out whether this perf demangles names. Only its output shows that.
if [ -n "$cxx" ] && perf stat --inside app::parse -e page-faults:u -- "$cxx" overloads 2>&1 | grep -q 'app::parse(int)'; then
	demangles=yes
fi

for depth in 1 64 65 1000; do
	exact "recursion, $depth deep" 5 $((5 * depth)) --inside deep -- "$work" deep $depth
done
exact "a function of several returns and a table" 10 105 --inside chooser -- "$work" chooser
exact "a function that ends in a call of another" 10 100 --inside tail -- "$work" tail
exact "threads of a pool" 40 any --inside job -- "$work" pool
marked "longjmp" '10 entries, 0 returns' --inside jumper -- "$work" longjmp
marked "a single longjmp" '1 entries, 0 returns' --inside jumper -- "$work" longjmp 1
# inside OPTION...: check that ten windows have ten page faults or a few more each, that the status
# is 0, and that nothing of what follows the windows was counted
inside()
{
	local name=$1 least=$2
	shift 2

	stat "$@"
	[ $status = 0 ] && [ "$(count gate_count)" = 10 ] && [ "$(count page-faults:u)" -ge "$least" ] &&
		[ "$(count page-faults:u)" -lt 600 ] && ! grep -q 'not exact' "$tmp/err"
	gate_say "$name" $? "$(why)"
}

# Processes that are made inside of a function begin there.
marked "a fork, with a child that ends inside" '10 entries, 10 processes forked inside, 10 returns' \
	--inside forker -- "$work" fork
grep -q 'ended inside, by _exit()' "$tmp/err"
gate_say "a fork, with a child that ends inside, the advice" $? "$(why)"
inside "a fork, with a child that ends inside, with --inside-lax" 100 --inside forker --inside-lax -- \
	"$work" fork
inside "a child of fork() that returns" 150 --inside splitter -- "$work" split
marked "a child of fork() returns, and its parent leaves by longjmp" '1 windows not ended' \
	--inside splitter -- "$work" split_longjmp 1
marked "children of fork() return, and their parents leave by longjmp" 'windows not ended' \
	--inside splitter -- "$work" split_longjmp
marked "a child of fork() leaves by longjmp" '10 entries, 10 processes forked inside, 10 returns' \
	--inside loser -- "$work" lose
marked "a child of fork() leaves by longjmp and executes a program" '10 returns, 10 programs executed inside, 10 calls of longjmp() or exceptions' \
	--inside loser -- "$work" lose_exec
inside "a child of fork() without windows of its own" 100 -i --inside loser -- "$work" lose
# Jumps of threads, of other processes and of the program that is executed are not of the windows.
for how in exec exec_jumps vfork spawn; do
	inside "a program that is executed inside, $how" 100 --inside executor -- "$work" $how
	inside "a program that is executed between marks, $how" 100 --inside mark:executor -- "$work" $how
done
marked "a program that is executed two calls deep" '20 entries, 10 processes forked inside, 20 returns' \
	--inside executor -- "$work" exec_deep
marked "a program that is executed in place" '1 entries, 0 returns, 1 programs executed inside' \
	--inside replaced -- "$work" replace
stat --inside replaced --inside-lax -- "$work" replace
[ $status = 0 ] && [ "$(count gate_count)" = 1 ] && [ "$(count page-faults:u)" -lt 50 ]
gate_say "a program that is executed in place, with --inside-lax" $? "$(why)"
marked "a program that is executed after longjmp" 'left the function by longjmp() before' \
	--inside jumper -- "$work" longjmp_exec
perf record -o "$tmp/data" -c 1 --inside executor -e page-faults:u -- "$work" exec >"$tmp/said" 2>"$tmp/err"
status=$?
[ $status = 0 ] && [ "$(perf script -i "$tmp/data" -F event 2>/dev/null | wc -l)" -lt 600 ]
gate_say "a program that is executed inside, samples" $? "$(why)"
perf record -o "$tmp/data" -c 1 --inside loser -e page-faults:u -- "$work" lose >"$tmp/said" 2>"$tmp/err"
status=$?
[ $status = 1 ] && grep -q '<not exact>' "$tmp/err"
gate_say "a child of fork() leaves by longjmp, samples" $? "$(why)"
stat --inside loser --inside executor -- "$work" exec
[ $status = 0 ] && [ "$(count_in executor gate_count)" = 10 ] && [ "$(count_in executor page-faults:u)" -lt 600 ]
gate_say "a program that is executed in one of two regions" $? "$(why)"
stat --inside kernel:kernel_clone -- "$work" split
[ $status = 0 ] && [ "$(count gate_count)" -ge 10 ] && [ "$(count page-faults:u)" = 0 ]
gate_say "a child of fork() in a function of the kernel" $? "$(why)"
stat --inside quitter -- "$work" quit
[ $status = 1 ] && grep -q '10 entries, 0 returns' "$tmp/err"
gate_say "a thread that ends inside" $? "$(why)"
exact "a function that a signal handler calls inside of it" 10 100 --inside raiser -- "$work" signal
marked "siglongjmp out of a signal handler" '10 entries, 0 returns' --inside raiser -- "$work" signal_longjmp
# A call that runs when perf begins is not counted. perf hardly ever begins between two calls.
"$work" naps &
pid=$!
sleep 0.5
for _ in 1 2 3; do
	stat -p $pid --inside napper -- sleep 2
	! grep -q 'running when perf began' "$tmp/err" || break
done
kill $pid
[ $status = 0 ] && [ "$(count gate_count)" -ge 2 ] && grep -q 'running when perf began are not counted' "$tmp/err" &&
	[ "$(count page-faults:u)" -ge $((10 * $(count gate_count) - 10)) ] &&
	[ "$(count page-faults:u)" -le $((10 * $(count gate_count) + 1)) ]
gate_say "a process that is inside when perf begins" $? "$(why)"

# Without tracefs, perf does not see processes and programs.
if unshare -m true 2>/dev/null; then
	tracing=/sys/kernel/tracing
	[ -e $tracing/events ] || tracing=/sys/kernel/debug/tracing
	for lax in '' --inside-lax; do
		unshare -m sh -c "mount -t tmpfs none $tracing/events && exec perf stat -x, -o $tmp/out --inside job $lax -e page-faults:u -- $work job" >"$tmp/said" 2>"$tmp/err"
		status=$?
		if [ -n "$lax" ]; then
			[ $status = 0 ] && [ "$(count gate_count)" = 10 ]
		else
			[ $status != 0 ] && grep -q 'It needs tracefs' "$tmp/err" && [ ! -s "$tmp/said" ]
		fi
		gate_say "without tracefs${lax:+, with $lax}" $? "$(why)"
	done
fi
kprobes=/sys/kernel/debug/kprobes/enabled
if [ -w $kprobes ]; then
	echo 0 >$kprobes
	refused "kprobes that are switched off" 'kprobes/enabled of debugfs' --inside job -- "$work" job
	exact "kprobes that are switched off, with --inside-lax" 10 100 --inside job --inside-lax -- "$work" job
	exact "kprobes that are switched off, main" 1 any --inside main -- "$work" job
	echo 1 >$kprobes
fi
for name in exit exit_group rt_sigreturn; do
	refused "a system call that does not return, $name" "$name() does not return" \
		--inside "syscalls:$name" -- "$work" signal
done
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
# Only a perf that reads debugging information finds lines and inlined functions.
if perf version --build-options 2>/dev/null | grep -q '\[ on .*HAVE_\(DWARF\|LIBDW\)_SUPPORT'; then
	has_lines=yes
	exact "a function that is inlined at one place" 10 100 --inside everywhere -- "$work" one
	exact "a function that is inlined at three places" 30 300 --inside everywhere -- "$work" three
	exact "a function that is partly inlined" 20 200 --inside partly -- "$work" partly
	# Code that the compiler moves out of the loop is a separate piece.
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

# Two regions, one of which lies inside of the other
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

# With intervals, and in the output for programs
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
	marked "a child of fork() leaves by an exception and executes a program" \
		'10 returns, 10 programs executed inside, 10 calls of longjmp() or exceptions' --inside throwing_parent -- "$work" throw_exec
	marked "an exception that leaves the function" '10 entries, 0 returns' --inside thrower -- "$work" throw
	exact "an exception that it catches" 10 100 --inside catcher -- "$work" catch
	# A perf that cannot demangle finds functions by their symbols.
	parse=_ZN3app5parseEi
	if [ -n "$demangles" ]; then
		parse='app::parse(int)'
		refused "two functions of a template" 'app::add<double>(double)' --inside app::add -- "$cxx" templates
		exact "one of two functions of a template" 10 100 --inside 'app::add<int>' -- "$cxx" templates
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

# Code that the program loads later
if program later.so cc -O2 -fPIC -shared -DLIBRARY "$lib/gate_later.c" &&
	program later cc -O2 "$lib/gate_later.c" -ldl; then
	inside "a program that loads nothing" 100 --inside waiter -- "$tmp/later"
	marked "a library that is loaded later switches contexts" '10 returns, [34]0 calls of setcontext() and swapcontext()' \
		--inside waiter -- "$tmp/later" "$tmp/later.so"
	stat --inside waiter --inside-lax -- "$tmp/later" "$tmp/later.so"
	[ $status = 0 ] && [ "$(count gate_count)" = 10 ] && [ "$(count page-faults:u)" -ge 1100 ]
	gate_say "a library that is loaded later, with --inside-lax" $? "$(why)"
	mkfifo "$tmp/go"
	"$tmp/later" "$tmp/later.so" wait <"$tmp/go" >"$tmp/ready" &
	pid=$!
	exec 3>"$tmp/go"
	while kill -0 $pid && ! grep -q ready "$tmp/ready"; do sleep 0.1; done
	stat -p $pid --inside "$tmp/later:waiter" -- \
		sh -c "echo >&3; while ! grep -q end $tmp/ready; do sleep 0.1; done"
	exec 3>&-
	wait $pid
	[ $status = 1 ] && grep -q 'calls of setcontext() and swapcontext()' "$tmp/err"
	gate_say "a library that a running process has loaded" $? "$(why)"
fi

# Functions that are easily taken for others
if same; then
	same=$tmp/same bare=$tmp/bare
	refused "functions of one name in two files" 'parse names 2 functions of' --inside parse -- "$bare" parse
	# The lowest address is that of the first file.
	address=$(awk '$1 ~ /^0x/ && $2 == "parse" && $4 == "same.c" { print $1 }' "$tmp/err" | sort | head -n 1)
	stat --inside "$address" -- "$bare" parse
	[ $status = 0 ] && [ "$(count gate_count)" = 10 ] &&
		[ $(($(count page-faults:u) / 2)) = 50 ]
	gate_say "a function by its address" $? "$(why)"
	refused "functions of one name in two files of one name" 'names 2 functions of' \
		--inside parse@same.c -- "$bare" parse
	refused "a function, and a copy of one of another file" 'twice.isra.0 of' --inside twice -- "$bare" twice
	refused "a global function, and a copy of one of any file" 'shared.isra.0 of' --inside shared -- "$bare" shared
	exact "a function and its copy" 20 200 --inside copied -- "$bare" copied
	refused "a function whose parts are called" 'the compiler has [s]plit split.' --inside split -- "$bare" split
	exact "a part of a function" 20 200 --inside split.part.0 -- "$bare" split
	exact "a function whose last jump takes a table" 10 100 --inside dispatch -- "$same" dispatch
	exact "functions with one code" 20 200 --inside original -- "$bare" folded
	grep -q 'original and folded are the same code' "$tmp/err"
	gate_say "functions with one code, a note" $? "$(why)"
	refused "a function that switches contexts" 'contexts that take turns on a thread' --inside yielder -- "$tmp/contexts" yielder
	for i in 1 2 3; do
		refused "a function that switches stacks by its own code, $i" \
			'contexts that take turns on a thread (code at' --inside yielder -- "$tmp/stacks$i" yielder
	done
	if needy; then
		refused "a function of a program that needs a library which switches stacks" \
			'libswitch.so (code at 0x' --inside job -- "$tmp/needy" job
		refused "a function of a library that needs one which switches stacks" \
			'libswitch.so (code at 0x' --inside "$tmp/libbetween.so:nothing" -- "$tmp/needy" job
		refused "a function of a library that switches stacks" 'libswitch.so has contexts that take turns' \
			--inside "$tmp/libswitch.so:yielder" -- "$tmp/needy" job
	fi
	if program pie cc -O2 -fPIE -static-pie -DCONTEXTS -DPART=0 "$lib/gate_same.c"; then
		refused "a program with contexts that is loaded anywhere" 'contexts that take turns on a thread' \
			--inside yielder -- "$tmp/pie" yielder
	fi
	[ "$(uname -m)" != x86_64 ] ||
		exact "a function that has another one within" 10 100 --inside around -- "$bare" around
	[ "$(uname -m)" != x86_64 ] ||
		refused "a function that cannot be probed" 'the kernel cannot probe the instruction of locked' \
			--inside locked -- "$bare" locked
	if [ -n "$has_lines" ]; then
		line=$(grep -n 'These lines' "$lib/gate_same.c" | cut -d: -f1)
		other=$(grep -n 'or these lines' "$lib/gate_same.c" | cut -d: -f1)
		refused "lines of two files of one name" 'several files of .* are named same.c' \
			--inside "same.c:$line-$other" -- "$same" parse
		# On powerpc, the compiler puts code of other lines in the middle.
		[ "$(uname -m)" = x86_64 ] && windows=10 || windows=20
		stat --inside "dir1/same.c:$line-$line" -- "$same" parse
		[ $status = 0 ] && [ "$(count gate_count)" = $windows ] &&
			[ $(($(count page-faults:u) / 2)) = 50 ]
		gate_say "lines of one of two files of one name" $? "$(why)"
	fi
else
	echo "Not run: functions that are easily taken for others, without a compiler"
fi

# Functions of the kernel
twin=$(awk '$2 ~ /^[tT]$/ && NF == 3 && $3 !~ /\./ { print $3 }' /proc/kallsyms | sort | uniq -d | head -n 1)
if [ -n "$twin" ]; then
	refused "functions of the kernel of one name" "kernel:$twin names [0-9]* functions" \
		--inside "kernel:$twin" -- "$work" job
fi
stat --inside "kernel:0x$(awk '$3 == "vfs_read" { print $1 }' /proc/kallsyms)" -- "$work" sleepers
[ $status = 0 ] && [ "$(count gate_count)" -ge 40 ] && [ "$(count page-faults:u)" = 0 ]
gate_say "a function of the kernel by its address" $? "$(why)"

# Two perfs on one function. One perf is killed, and the next one removes its probe.
probes=/sys/kernel/tracing/kprobe_events
[ -e $probes ] || probes=/sys/kernel/debug/tracing/kprobe_events
perf stat -x, -o "$tmp/other" --inside kernel:vfs_read -e page-faults:u -- "$work" sleepers >/dev/null 2>"$tmp/others" &
other=$!
stat --inside kernel:vfs_read -- "$work" sleepers
wait $other && [ $status = 0 ] && ! grep 'not exact' "$tmp/others" &&
	[ "$(count gate_count)" = "$(awk -F, '$3 == "gate_count" { print $1 }' "$tmp/other")" ] &&
	! grep perf_gate $probes
gate_say "two perfs on one function of the kernel" $? "$(why; cat "$tmp/other" "$tmp/others")"
# Wait until a perf that is starting has set its probe.
wait_for_probe()
{
	for _ in $(seq 100); do
		! grep -q perf_gate $probes || break
		sleep 0.1
	done
	# The rest of its start
	sleep 1
}
perf stat --inside kernel:vfs_read -e page-faults:u -- sleep 20 2>/dev/null &
other=$!
wait_for_probe
kill -KILL $other
wait $other 2>/dev/null
left=$(grep -c perf_gate $probes)
stat --inside kernel:vfs_read -- "$work" job
[ "$left" = 1 ] && [ $status = 0 ] && ! grep perf_gate $probes
gate_say "a perf that was killed" $? "it left $left: $(why)"
perf stat --inside kernel:vfs_read -e page-faults:u -- sleep 20 2>/dev/null &
other=$!
wait_for_probe
kill -INT $other
wait $other 2>/dev/null
! grep perf_gate $probes
gate_say "a perf that was interrupted" $? "$(cat $probes)"

# Events that take turns on the counters
if ! perf stat -e instructions:u true 2>&1 | grep -q 'not supported'; then
	# The events share a few counters in turns, and most turns come after the only window. A
	# turn may end in the window; the count of a part of it is an estimate.
	perf stat -x, -o "$tmp/out" --inside job \
		-e "$(printf 'instructions:u,%.0s' 1 2 3 4 5 6 7 8 9 10 11 12)instructions:u" -- "$work" early >/dev/null 2>"$tmp/err"
	[ $? = 0 ] && [ "$(count gate_count)" = 1 ] &&
		awk -F, '
			$3 != "instructions:u" { next }
			/not counted/ { missed++; next }
			{ count = $1; share = $5 }
			share < 100 { parts++; next }
			!value { value = count }
			count < value * 0.99 || count > value * 1.01 { differs++ }
			END { exit !((value || parts) && missed && !differs) }' "$tmp/out"
	gate_say "a window of events that take turns" $? "$(cat "$tmp/out" "$tmp/err")"
fi

# Files tell that counts are not exact.
perf stat record -o "$tmp/data" --inside jumper -e page-faults:u -- "$work" longjmp >/dev/null 2>&1
perf stat report -i "$tmp/data" >"$tmp/out" 2>&1
[ $? = 1 ] && grep -q 'stats for .* <not exact>:' "$tmp/out" &&
	grep -q '110[01] *page-faults:u .*per window <not exact>' "$tmp/out"
gate_say "longjmp, in a file of counts" $? "$(cat "$tmp/out")"
perf stat record -o - --inside jumper -e page-faults:u -- "$work" longjmp 2>/dev/null | grep -av '^end$' >"$tmp/data"
perf stat report -i - <"$tmp/data" >"$tmp/out" 2>&1
grep -q '110[01] *page-faults:u .*per window <not exact>' "$tmp/out"
gate_say "longjmp, in a pipe of counts" $? "$(cat "$tmp/out")"
perf record -o "$tmp/data" -c 1 --inside jumper -e page-faults:u -- "$work" longjmp >/dev/null 2>&1
perf report -i "$tmp/data" --stdio 2>&1 | grep -q "of event 'page-faults:u <not exact>'"
gate_say "longjmp, in a file of samples" $?

if program rust rustc -O -g "$lib/gate_panic.rs"; then
	marked "a panic that is caught" '10 entries, 5 returns' --inside risky -- "$tmp/rust"
	if [ -n "$demangles" ]; then
		stat --inside gate_panic::inner::parse -- "$tmp/rust"
		[ $status = 0 ] && [ "$(count gate_count)" = 10 ]
		gate_say "a function of Rust" $? "$(why)"
	fi
	refused "a function of Rust by half of its name" 'Functions whose name has that in it' \
		--inside inner::parse -- "$tmp/rust"
else
	echo "Not run: a panic, without a compiler of Rust"
fi

if program go objcopy --add-section .gopclntab="$lib/gate_panic.rs" "$work"; then
	refused "a program of Go" 'is a program of Go' --inside job -- "$tmp/go" job
else
	echo "Not run: a program of Go, without objcopy"
fi

# At the path of the process, perf sees another program than the process does.
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
