# SPDX-License-Identifier: OLDAP-2.8
# Functions for tests of the stores: they make data sets, mount them on slow storage, run readers on the library under
# test or on the original, and check that nothing is left. Sourced.
# shellcheck shell=bash
# shellcheck disable=SC2034
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh

set -eu
export LC_ALL=C
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
top_builddir=$(cd "${top_builddir:-$top_srcdir/build}" && pwd)
export top_srcdir top_builddir
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
unset LD_PRELOAD LD_LIBRARY_PATH LMDBIO_STORE LMDBIO_IO LMDBIO_MEMORY LMDBIO_SHARE LMDBIO_STAGED LMDBIO_PATIENCE LMDBIO_PREFETCH LMDBIO_AROUND LMDBIO_CHECKSUM \
	LMDBIO_STATS LMDBIO_VERBOSE LMDBIO_DISABLE
library=$top_builddir/compat/.libs
build=$top_builddir/tests/stores
failures=0 cases=0
times=1 # more at night
[ -z "${TESTS_LONG:-}" ] || times=10
# A node name of this test's own, by which its processes are also recognised.
export LMDBIO_NODE=stores-$$

# stores_alone ARGUMENT...: runs the test again in its own network namespace. The names that lead to an arena belong to
# that namespace, so no other process has them. Called first, with the test's own arguments.
stores_alone() {
	if [ -z "${STORES_ALONE:-}" ] && unshare -n true 2>/dev/null; then
		STORES_ALONE=1 exec unshare -n -- bash "$0" "$@"
	fi
}

# Skips a test whose Python script switches to another user, where that is not possible.
stores_needs_users() {
	if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
		echo "skipped: only root can become another user, by setpriv"
		exit 77
	fi
	if ! python3 -c '' 2>/dev/null; then
		echo "skipped: no python3 here"
		exit 77
	fi
}

stores_begin() {
	# The data lies in memory if there is enough of it: so only slowfs makes storage slow.
	local room=${TMPDIR:-/tmp}

	if [ -w /dev/shm ] && [ "$(df -Pm /dev/shm | awk 'NR == 2 { print $4 }')" -ge 1024 ]; then
		room=/dev/shm
	fi
	scratch=$(mktemp -d "$room/stores-test.XXXXXX")
	trap 'stores_clean' EXIT
	trap 'exit 1' HUP INT TERM
	mkdir "$scratch/backing"
}

stores_clean() {
	local pid

	for pid in $(stores_processes); do
		kill -CONT "$pid" 2>/dev/null || true
		kill -KILL "$pid" 2>/dev/null || true
	done
	slowfs_abandon
	rm -rf "$scratch"
	group_end
}

# group_make MIB: makes a control group with so much memory, in $group. Returns false where none can be made.
group_make() {
	local v1=/sys/fs/cgroup/memory/lmdbio-$$ v2=/sys/fs/cgroup

	if mkdir "$v1" 2>/dev/null; then
		group=$v1
		echo $(($1 << 20)) >"$group/memory.limit_in_bytes"
		return
	fi
	if ! grep -qw memory "$v2/cgroup.subtree_control" 2>/dev/null; then
		{ echo +memory >"$v2/cgroup.subtree_control"; } 2>/dev/null || return 1
		group_root=$v2
	fi
	mkdir "$v2/lmdbio-$$" 2>/dev/null || return 1
	group=$v2/lmdbio-$$
	echo $(($1 << 20)) >"$group/memory.max"
}

# group_end: removes the group once its processes are gone, and leaves the machine's groups as they were.
group_end() {
	local tries

	for ((tries = 0; tries < 500; tries++)); do
		[ -n "${group:-}" ] && ! rmdir "$group" 2>/dev/null || break
		sleep 0.02
	done
	[ -z "${group_root:-}" ] || { echo -memory >"$group_root/cgroup.subtree_control"; } 2>/dev/null || true
}

# The living readers of this test: processes with its node name in their environment, except the test itself
# and its shells.
stores_processes() {
	local environ pid

	grep -slzx "LMDBIO_NODE=$LMDBIO_NODE" /proc/[0-9]*/environ | while read -r environ; do
		pid=${environ#/proc/}
		pid=${pid%/environ}
		case $(readlink "/proc/$pid/exe" || true) in
		"$top_builddir"/tests/stores/*) echo "$pid" ;;
		esac
	done
}

# judge NAME CONDITION-COMMAND...: one case, named <what>_<when>_<then>.
judge() {
	local name=$1

	shift
	cases=$((cases + 1))
	if "$@"; then
		echo "ok $name"
	else
		echo "NOT OK $name: $*"
		failures=$((failures + 1))
	fi
}

# ran NAME COMMAND...: one case; prints the command's last line, or its first forty if it fails.
ran() {
	local name=$1 rc=0

	shift
	"$@" >"$scratch/log" 2>&1 || rc=$?
	cases=$((cases + 1))
	if [ "$rc" = 0 ]; then
		echo "ok $name: $(grep -v '^  ' "$scratch/log" | tail -n 1)"
	else
		echo "NOT OK $name: exit $rc"
		head -n 40 "$scratch/log"
		failures=$((failures + 1))
	fi
}

# at_most WHAT VALUE LIMIT
at_most() {
	cases=$((cases + 1))
	if [ "$2" -le "$3" ]; then
		echo "ok $1: $2 of at most $3"
	else
		echo "NOT OK $1: $2, more than $3"
		failures=$((failures + 1))
	fi
}

# equal WHAT EXPECTED FOUND
equal() {
	cases=$((cases + 1))
	if [ -n "$2" ] && [ "$2" = "$3" ]; then
		echo "ok $1"
	else
		echo "NOT OK $1: expected '$2', found '$3'"
		failures=$((failures + 1))
	fi
}

finish() {
	echo "$cases cases, $failures failed"
	[ "$cases" -gt 0 ] && [ "$failures" = 0 ]
	exit
}

# make_set NAME RECORDS VALUE-SIZE[,VALUE-SIZE...] [PERCENT]: a data set written by the original, with the sizes in
# turn; PERCENT of each value is zeroes.
make_set() {
	mkdir "$scratch/backing/$1"
	"$build/stores_make" "$scratch/backing/$1" "$2" "$3" "${4:-0}"
}

# faults NAME SET RECORDS COMMAND...: makes reads of a set fail; COMMAND runs what follows it with something
# forbidden, or unchanged (env). The long form makes the reads of each page fail. Otherwise a call takes one page in
# $faults_every, and the next call with the same set takes the pages beside them.
declare -A faults_calls
faults_every=3
faults() {
	local name=$1 set=$2 records=$3 rc=0 hash every=$faults_every

	shift 3
	[ "$times" = 1 ] || every=1
	faults_calls[$set]=$((${faults_calls[$set]:--1} + 1))
	hash=$(original scan "$scratch/backing/$set" | cut -d ' ' -f 3)
	SECONDS=0
	LD_LIBRARY_PATH=$library "$@" "$build/stores_errors" "$scratch/mount" "$set" \
		"$scratch/backing/$set" "$records" "$hash" "$every" $((faults_calls[$set] % every)) \
		>"$scratch/log" 2>&1 || rc=$?
	cases=$((cases + 1))
	if [ "$rc" = 0 ]; then
		echo "ok ${name}_$set: $(tail -n 1 "$scratch/log") in $SECONDS s"
	else
		echo "NOT OK ${name}_$set: exit $rc, $(tail -n 1 "$scratch/log")"
		head -n 20 "$scratch/log"
		failures=$((failures + 1))
	fi
}

# Prints a line of stores_reader without the fields that say what it cost.
seen() {
	sed 's/ major .*//'
}

# field NAME LINE
field() {
	echo "$2" | awk -v name="$1" '{ for (i = 1; i < NF; i++) if ($i == name) print $(i + 1) }'
}

original() {
	"$build/stores_reader" "$@"
}

reader() {
	LD_LIBRARY_PATH=$library "$build/stores_reader" "$@"
}

# kernel_is MAJOR MINOR: whether the kernel is at least that new
kernel_is() {
	printf '%s\n' "$1.$2" "$(uname -r)" | sort -CV
}

file_size() {
	stat -c %s "$scratch/backing/$1/data.mdb"
}

# Empties the page cache and resets the counters.
cold() {
	slowfs_drop
	slowfs_reset
}

left_behind() {
	stores_processes
	if [ -n "${STORES_ALONE:-}" ]; then
		grep -i 'lmdbio' /proc/net/unix || true
	fi
	find /dev/shm -maxdepth 1 -iname '*lmdbio*' -newer "$scratch/backing" 2>/dev/null || true
}

# nothing_left WHEN
nothing_left() {
	local left

	left=$(left_behind)
	cases=$((cases + 1))
	if [ -z "$left" ]; then
		echo "ok $1_leaves_nothing"
	else
		echo "NOT OK $1_leaves_nothing: $left"
		failures=$((failures + 1))
	fi
}
