# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions and variables that every script of the harness shares. Source it first:
#
#	. "$(dirname "$(readlink -f "$0")")/../lib.sh"

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# KERNEL_PORT=7.3 selects the series on another base. Patches and overlay of the main base
# are in the repository itself, those of a port where harness/tree/port renders them.
port=${KERNEL_PORT:+$top/ports/$KERNEL_PORT}
origin=${port:+$top/build/port-${KERNEL_PORT:-}/origin}
origin=${origin:-$top}
# harness/tree/bisect builds and tests other commits in a place of its own.
build=${HARNESS_BUILD:-$top/build${port:+/port-$KERNEL_PORT}}
linux=$build/linux
if [ -n "$port" ]; then
	[ -f "$port/BASE" ] || {
		echo "harness: no port to '$KERNEL_PORT', there are: $(cd "$top/ports" && echo *)" >&2
		exit 1
	}
	# Emulators and packages are the same for all.
	if [ -z "${HARNESS_BUILD:-}" ] && ! [ -e "$build/tools" ]; then
		mkdir -p "$top/build"/{tools,apt} "$build"
		ln -sfn ../tools ../apt "$build/"
	fi
fi
# The architectures of the daily tests. arm64 is tested on request: ARCH=arm64 or
# ARCHES="x86_64 arm64".
ARCHES=${ARCHES:-x86_64 ppc64le}

# Messages of git, gcc and sort order must not depend on the caller's language.
export LC_ALL=C.UTF-8
export top build linux port origin ARCHES

# Directories of the overlay: a file of the repository below one of them is a
# new file of the kernel tree.
overlay_dirs="arch Documentation drivers include kernel samples tools"
export overlay_dirs

die()
{
	progress_clear
	echo "harness: $*" >&2
	exit 1
}

note()
{
	progress_clear
	echo "harness: $*" >&2
}

# progress TEXT: say how far a long job is. On a terminal the line rewrites
# itself; otherwise a plain line comes at most every PROGRESS_EVERY seconds.
_progress_last=$SECONDS
_progress_shown=
progress()
{
	if [ -t 2 ]; then
		printf '\r\033[K%s' "$*" >&2
		_progress_shown=1
	elif ((SECONDS - _progress_last >= ${PROGRESS_EVERY:-30})); then
		echo "$*" >&2
		_progress_last=$SECONDS
	fi
}

progress_clear()
{
	if [ -n "$_progress_shown" ]; then
		printf '\r\033[K' >&2
		_progress_shown=
	fi
}

# elapsed SECONDS: 75 -> "1 min 15 s"
elapsed()
{
	if (($1 < 60)); then
		echo "$1 s"
	else
		printf '%d min %02d s\n' $(($1 / 60)) $(($1 % 60))
	fi
}

# lock NAME: wait until no other process holds this lock, and hold it until this
# script ends. Scripts that it calls may take the same lock.
lock()
{
	local held=HARNESS_LOCKED_${1//[^A-Za-z0-9]/_} fd

	[ -z "${!held:-}" ] || return 0
	mkdir -p "$build/locks"
	exec {fd}>"$build/locks/$1"
	if ! flock -n "$fd"; then
		note "waiting for another run, which holds the lock $1"
		flock "$fd"
	fi
	export "$held=1"
}

# arch_env ARCH: set what differs between the guests' architectures.
#   KARCH	the kernel's name of it
#   CROSS	prefix of the cross tools, empty when the host can do without
#   CC		compiler for the guest's programs and, under ccache, its kernel
#   IMAGE	bootable image below the objects
#   QEMU	the emulator
#   PMU_QEMU	that of qemu/build, there or not
#   DEBARCH	Debian's name of it
arch_env()
{
	ARCH=$1
	case $1 in
	x86_64)
		KARCH=x86_64 IMAGE=arch/x86/boot/bzImage DEBARCH=amd64
		CROSS=x86_64-linux-gnu- QEMU=$build/tools/bin/qemu-system-x86_64
		;;
	ppc64le)
		KARCH=powerpc IMAGE=vmlinux DEBARCH=ppc64el
		CROSS=powerpc64le-linux-gnu- QEMU=$build/tools/bin/qemu-system-ppc64
		;;
	arm64)
		KARCH=arm64 IMAGE=arch/arm64/boot/Image DEBARCH=arm64
		CROSS=aarch64-linux-gnu- QEMU=$build/tools/bin/qemu-system-aarch64
		;;
	*)
		die "unknown architecture '$1', known: x86_64 ppc64le arm64"
		;;
	esac
	if [ "$(uname -m)" = "${1/#arm64/aarch64}" ]; then
		CROSS=
	fi
	PMU_QEMU=$build/tools/bin/qemu-pmu-$1
	CC=${CROSS}gcc
	export ARCH KARCH CROSS CC IMAGE QEMU PMU_QEMU DEBARCH
}

# kgit ARGS: run git in build/linux without any configuration of the user or the
# system, so that the same series gives the same commits everywhere.
kgit()
{
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git -C "$linux" \
		-c safe.directory='*' -c core.compression=0 -c gc.auto=0 \
		-c core.autocrlf=false -c core.quotePath=false \
		-c commit.gpgSign=false -c advice.detachedHead=false "$@"
}

# base_version: print what the base was unpacked from; for a file, only its name
base_version()
{
	sed -n '1{s,^\(/[^ ]*\) .*,\1,; p}' "$build/base.stamp"
}

# inside_overlay PATH: tell whether the series may add this file
inside_overlay()
{
	case " $overlay_dirs " in
	*" ${1%%/*} "*)	return 0 ;;
	*)		return 1 ;;
	esac
}

# overlay_files: print every new file of the kernel tree that the repository holds.
# In a clone, git tells what belongs there; a tarball and a port have only files.
overlay_files()
{
	local dirs=() dir

	for dir in $overlay_dirs; do
		[ ! -d "$origin/$dir" ] || dirs+=("$dir")
	done
	[ ${#dirs[@]} != 0 ] || return 0
	cd "$origin"
	if [ -e .git ]; then
		git -c safe.directory='*' -c core.quotePath=false ls-files \
			--cached --others --exclude-standard -- "${dirs[@]}"
	else
		find "${dirs[@]}" -type f
	fi | sort -u | while read -r file; do
		[ ! -e "$file" ] || echo "$file"
	done
	cd - >/dev/null
}

# names_in FILE: print its lines without comments
names_in()
{
	[ -f "$1" ] || return 0
	sed -e 's/[[:space:]]*#.*//' -e '/^[[:space:]]*$/d' "$1"
}

# series_topics: print the names in patches/series, in order
series_topics()
{
	names_in "$origin/patches/series"
}

# topic_patches TOPIC: print its patches as TOPIC/NAME, in order
topic_patches()
{
	names_in "$origin/patches/$1/series" | sed "s,^,$1/,"
}

# series_patches: print the patches of all topics, one topic after the other
series_patches()
{
	local topic

	series_topics | while read -r topic; do
		topic_patches "$topic"
	done
}

# topic_needs TOPIC: print the topics that its cover names
topic_needs()
{
	sed -n 's/^Needs: *//p' "$origin/patches/$1/cover.txt" | tr -s ' ' '\n' | sed '/^-*$/d'
}

# topic_closure TOPIC: print all topics that it needs, directly or not, in the order
# of patches/series
topic_closure()
{
	local all=" $1 " topic

	# Each needs only topics before it, so one pass from the end finds all.
	while read -r topic; do
		[[ $all != *" $topic "* ]] || all+="$(topic_needs "$topic" | tr '\n' ' ')"
	done < <(series_topics | tac)
	series_topics | while read -r topic; do
		[[ $topic = "$1" || $all != *" $topic "* ]] || echo "$topic"
	done
}

# topic_place: set $place and make a worktree of build/linux there, with its own objects,
# so that a topic can be built alone while build/linux is in use
topic_place()
{
	place=$build/bisect
	lock bisect
	mkdir -p "$place/log"
	ln -sfn ../tools "$place/tools"
	[ ! -e "$place/linux/.git" ] || return 0
	note "checking out the base into ${place#"$top/"}/linux"
	kgit worktree prune
	kgit worktree add -q --detach "$place/linux" base
}

# apart SCRIPT ARGUMENT...: run a script of the harness on the tree of topic_place
apart()
{
	local script=$1

	shift
	HARNESS_BUILD=$place "$top/harness/$script" "$@"
}

# overlay_of TOPIC...: print the new files of these topics
overlay_of()
{
	local topic name

	for topic; do
		topic_patches "$topic" | while read -r name; do
			sed -n 's/^Overlay: *//p' "$origin/patches/$name"
		done
	done
}

# series_inputs: print one hash of all that `make tree` makes the series of
series_inputs()
{
	local name

	{
		kgit rev-parse base
		series_topics | while read -r name; do
			echo "$name"
			cat "$origin/patches/$name"/{cover.txt,series} 2>/dev/null || echo missing
		done
		series_patches | while read -r name; do
			cat "$origin/patches/$name" 2>/dev/null || echo missing
		done
		overlay_files | (
			cd "$origin"
			xargs -r -d '\n' stat -c '%n %A'
		)
		overlay_files | (
			cd "$origin"
			xargs -r -d '\n' sha256sum
		)
	} | sha256sum | cut -d' ' -f1
}
