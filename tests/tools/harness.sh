# SPDX-License-Identifier: OLDAP-2.8
# Functions by which a shell test of this project begins, judges its cases and ends. Sourced.
# shellcheck shell=sh
# shellcheck disable=SC2034

set -eu
LC_ALL=C
export LC_ALL
# Descriptors that the caller has left open would count where a test allows only a few.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
top_builddir=$(cd "${top_builddir:-$top_srcdir/build}" && pwd)
dropin=$top_builddir/compat/.libs/liblmdb.so.0
core=$(echo "$top_builddir"/compat/.libs/liblmdbio-core-*.so) # the core that the drop-in loads from its own folder
lmdbio_run=$top_builddir/tools/lmdbio-run
# Only variables that a test sets itself may influence the library.
unset LMDBIO_DISABLE LMDBIO_VERBOSE LMDBIO_IO LMDBIO_STORE LMDBIO_MEMORY LMDBIO_NODE LMDBIO_STAGED LMDBIO_LMDB1 LMDBIO_SHARE \
	LMDBIO_PATIENCE LMDBIO_PREFETCH LMDBIO_AROUND LMDBIO_CHECKSUM LMDBIO_STATS LMDBIO_STATS_AT LD_PRELOAD LD_LIBRARY_PATH
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lmdbio-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
cases=0
# A sanitized build takes each third of the inputs that a test makes by number; the plain build, and a long test, take
# all.
stride=1
[ "${with_sanitizer:-no}" = no ] || [ -n "${TESTS_LONG:-}" ] || stride=3

# skip WHY...: ends the test, because the environment lacks what it needs.
skip() {
	echo "skipped: $*"
	exit 77
}

# need COMMAND...: skips the test if one of the commands is missing.
need() {
	for command in "$@"; do
		command -v "$command" >/dev/null || skip "no $command here"
	done
}

# judge NAME CONDITION-COMMAND...: one case, named <what>_<when>_<then>.
judge() {
	judged=$1
	shift
	cases=$((cases + 1))
	if "$@"; then
		echo "ok $judged"
	else
		echo "NOT OK $judged: $*"
		failures=$((failures + 1))
	fi
}

# same NAME EXPECTED-FILE FOUND-FILE
same() {
	cases=$((cases + 1))
	if cmp -s "$2" "$3"; then
		echo "ok $1"
	else
		echo "NOT OK $1"
		diff "$2" "$3" | head -n 20
		failures=$((failures + 1))
	fi
}

# same_as_listed NAME LIST OPEN LISTED: one case: $scratch/open has what no test reaches, and $scratch/listed what the
# file LIST says of it, both sorted. OPEN and LISTED are the messages for a line that only the first, or only the
# second, has.
same_as_listed() {
	comm -13 "$scratch/listed" "$scratch/open" | sed "s,.*,# &: $3,"
	comm -23 "$scratch/listed" "$scratch/open" | sed "s,.*,# &: take it out of $2: $4\, or it is not there,"
	same "$1" "$scratch/listed" "$scratch/open"
}

# status NAME EXPECTED COMMAND...: one case: the command's status; its output is in out and err.
status() {
	name=$1 expected=$2
	shift 2
	rc=0
	"$@" > out 2> err || rc=$?
	judge "$name" test "$rc" -eq "$expected"
	test "$rc" -eq "$expected" || cat out err
}

# told NAME EXPECTED PATTERN COMMAND...: one case: the command's status, and a line of its output, in out or err.
told() {
	name=$1 expected=$2 pattern=$3
	shift 3
	rc=0
	"$@" > out 2> err || rc=$?
	if [ "$rc" -ne "$expected" ] || ! cat out err | grep -q -e "$pattern"; then
		cat out err
		judge "$name" test "exit $rc" = "exit $expected, $pattern"
	else
		judge "$name" true
	fi
}

# says NAME PATTERN: one case: the last command's standard error has a line of that pattern.
says() {
	judge "$1" grep -q -e "$2" err
	grep -q -e "$2" err || cat err
}

# beside ORIGINAL TOOL: names the two commands that run_both runs. Both run under one name, because they print the
# name under which they are called.
beside() {
	original=$1
	mkdir ours
	ln -s "$2" "ours/$1"
}

# run_both ARGUMENT...: leaves output, messages and exit code of both in files.
run_both() {
	rc=0
	"$original" "$@" > theirs.out 2> theirs.err || rc=$?
	echo "exit $rc" >> theirs.err
	rc=0
	PATH=$scratch/ours:$PATH "$original" "$@" > ours.out 2> ours.err || rc=$?
	echo "exit $rc" >> ours.err
}

# both_same NAME ARGUMENT...: one case for output, messages and exit code together.
both_same() {
	name=$1
	shift
	run_both "$@"
	judge "$name" sh -c 'cmp theirs.out ours.out && cmp theirs.err ours.err'
}

# agree ARGUMENT...: the same without a case of its own; differences are counted, and reported with $line. A test may
# define both_prepare, which edits the files of run_both before they are compared.
line='' differences=0
compared=0
both_prepare() {
	:
}
agree() {
	run_both "$@"
	compared=$((compared + 1))
	both_prepare "$@"
	if ! cmp -s theirs.out ours.out || ! cmp -s theirs.err ours.err; then
		echo "differs: $line: $original $*"
		differences=$((differences + 1))
	fi
}

# tree_make TARGET: runs make for this build, with a tree in $scratch/root. One at a time: libtool links again in the
# build's own folders.
tree_make() {
	flock "$top_builddir/compat" make -C "$top_builddir" --no-print-directory "$1" DESTDIR="$scratch/root"
}

# directory VARIABLE: the folder of that make variable; make is asked once.
directory() {
	# shellcheck disable=SC2016
	[ -e "$scratch/.directories" ] ||
		printf 'show:\n\t@$(foreach each,%s,echo "$(each) $($(each))";)\n' \
			'prefix bindir datadir includedir libdir libexecdir mandir pythondir' |
		make -C "$top_builddir" -s --no-print-directory -f Makefile -f - show > "$scratch/.directories"
	sed -n "s/^$1 //p" "$scratch/.directories"
}

# configure_knows: gives another configure the results of this build's, whose checks take most of its time, and the
# shell that it runs in; in a long test configure checks for itself.
configure_knows() {
	[ -z "${TESTS_LONG:-}" ] || return 0
	sed -n '/^## Cache variables/,/^## Output variables/ { /^ac_cv_env_/d; /^[a-z]*_cv_/p; }' \
		"$top_builddir/config.log" > "$scratch/config.site"
	CONFIG_SHELL=$(sed -n 's/^SHELL = //p' "$top_builddir/Makefile")
	export CONFIG_SITE="$scratch/config.site" CONFIG_SHELL
}

# site_make PYTHON: makes a virtual environment in $scratch/site, which sees PYTHON's packages and has its pip.
site_make() {
	"$1" -m venv --system-site-packages --without-pip "$scratch/site"
	printf '#!/bin/sh\nexec "%s" -m pip "$@"\n' "$scratch/site/bin/python3" > "$scratch/site/bin/pip"
	chmod +x "$scratch/site/bin/pip"
}

# scratch_on_storage WHY: moves $scratch to a disk, or skips the test.
scratch_on_storage() {
	[ "$(stat -f -c %T "$scratch")" = tmpfs ] || return 0
	rmdir "$scratch"
	scratch=$(mktemp -d "$top_builddir/lmdbio-test.XXXXXX")
	[ "$(stat -f -c %T "$scratch")" != tmpfs ] || skip "$1"
}

# terminated NAME WORD COMMAND...: one case: once the command has printed WORD, SIGTERM ends it, and its parent sees
# that signal. Sets $terminated to its process id.
terminated() {
	name=$1 word=$2
	shift 2
	: > said
	"$@" > said 2>&1 &
	terminated=$!
	while ! grep -q "$word" said; do kill -0 $terminated || break; done
	kill -TERM $terminated
	rc=0
	wait $terminated || rc=$?
	judge "$name" test "$rc" -eq 143
}

# not_run NAME WHY...: reports a case that this machine cannot run; it is not counted.
not_run() {
	echo "-- $*"
}

finish() {
	echo "$cases cases, $failures failures"
	test "$failures" -eq 0 && test "$cases" -gt 0
	exit
}
