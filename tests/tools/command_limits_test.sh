#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Runs commands with limits on their address space, descriptors, processes, locked memory or file length, in twenty
# steps from too little to enough (without TESTS_LONG in six of them). A command finishes its work, or says what it
# lacked and leaves nothing under the final name; it never ends by a signal; without the limit it works again.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
tools=$top_builddir/tools
cd "$scratch"
for command in convert dump check stage; do
	[ ! -x "$tools/lmdbio-$command" ] || commands="${commands:-} $command"
done
mkdir set tree apart
"$top_builddir/tests/stores/stores_make" set 300 10000 30 > /dev/null
for ((i = 0; i < 30; i++)); do
	head -c $((1000 + i * 500)) set/data.mdb > tree/file$i
done
"$tools/lmdbio-convert" -q set whole.zst
"$tools/lmdbio-dump" -f whole.dump set
"$tools/lmdbio-convert" -q --to=lmdb whole.zst whole
"$tools/lmdbio-convert" -q tree imported
"$tools/lmdbio-dump" -f imported.dump imported

# The same for the file of counters that the library writes for a program.
rc=0
(ulimit -f 0 && LMDBIO_STATS=counters LD_LIBRARY_PATH=${dropin%/*} "$top_builddir/tests/stores/stores_reader" scan set 2>&1) |
	cat > seen || rc=$?
judge counters_that_may_not_be_written_end_no_program test "${PIPESTATUS[0]}$rc" = 00
judge counters_that_may_not_be_written_are_told_of grep -q 'counters: File too large' seen

# The limit of processes does not hold for root. So a user without other processes runs the commands. That user runs
# copies of them, because a build tree of root's may be closed to other users.
user=
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
	chmod 777 .
	cp "$tools"/lmdbio-{convert,dump,check} "$core" apart
	chmod -R a+rwX set tree whole whole.zst apart
	user=$((2000000 + $$))
fi

# command_of WHAT: sets $run to the command line, with $made as the target.
command_of() {
	case $1 in
	pack) run=("$at/lmdbio-convert" -q set "$made") ;;
	unpack) run=("$at/lmdbio-convert" -q --to=lmdb whole.zst "$made") ;;
	import) run=("$at/lmdbio-convert" -q tree "$made") ;;
	dump) run=("$at/lmdbio-dump" -f "$made" set) ;;
	check) run=("$at/lmdbio-check" whole.zst) ;;
	stage) run=("$at/lmdbio-stage" -q "--to=$made" set) ;;
	esac
}

# is_right WHAT: whether the command's result is right.
# shellcheck disable=SC2317 # judge calls it
is_right() {
	case $1 in
	pack) cmp -s whole.zst "$made" ;;
	unpack) cmp -s whole/data.mdb "$made/data.mdb" ;;
	import) "$tools/lmdbio-dump" "$made" | cmp -s - imported.dump ;;
	dump) cmp -s whole.dump "$made" ;;
	check) true ;;
	stage) cmp -s set/data.mdb "$made"/*/data.mdb ;;
	esac
}

# limited LIMIT VALUE: runs the command; leaves its status in rc and its output in $said. All output goes through a
# pipe, because the limit of file lengths does not apply there.
limited() {
	rc=0
	# shellcheck disable=SC2016 # the inner shell's
	said=$(timeout -k 5 120 ${as:+setpriv --reuid="$as" --clear-groups} env LD_LIBRARY_PATH="$libraries" \
		bash -c 'ulimit -S "$0" "$1" && shift && exec "$@"' "$1" "$2" "${run[@]}" 2>&1 < /dev/null) || rc=$?
}

# step WHAT LIMIT VALUE
step() {
	local what=$1

	made=made.$what
	[ "$what" != pack ] || made=made.zst
	rm -rf "$made"*
	[ "$what" != stage ] || mkdir "$made"
	command_of "$what"
	limited "$2" "$3"
	if [ "$rc" = 0 ]; then
		is_right "$what" && fine=$((fine + 1)) && return
	elif [ "$rc" -lt 124 ] || { [ "$rc" -le 127 ] && [[ $said == *"shared librar"* ]]; }; then
		# The original returns EIO for a write that reaches the limit.
		if [[ $said =~ "Cannot allocate memory"|"ulimit -v"|"Resource temporarily unavailable"|"Too many open files"|"File too large"|"Input/output error"|"shared " ]] &&
			{ [ "$what" = stage ] || [ ! -e "$made" ]; } &&
			# Without a descriptor, memory or file UCX would end the process by SIGABRT.
			{ [ "$what" != stage ] || [[ $said != *UCX* && $said != *"Abort("* ]]; }; then
			refused=$((refused + 1))
			# Runs the command again without the limit.
			[ -z "${TESTS_LONG:-}" ] && [ "$refused" -gt 1 ] && return
			limited "$2" hard
			[ "$rc" = 0 ] && is_right "$what" && return
			echo "without the limit:"
		fi
	fi
	echo "$what, ulimit $2 $3: status $rc: $said"
	bad=$((bad + 1))
}

# The least address space in which programs begin to run: the kernel kills a program that has no room for its
# libraries.
least=8
until (ulimit -v $((least << 10)) && "$tools/lmdbio-convert" --version) > /dev/null 2>&1; do
	least=$((least + 4))
	if [ $least -gt 1024 ]; then
		not_run commands "no program begins to run under ulimit -v of 1 GiB"
		finish
	fi
done

# value LIMIT STEP: MPI needs more descriptors than a command that works alone.
value() {
	case $1 in
	-v) echo $(((least << 10) + $2 * $2 * 2048)) ;;
	-n) [ "$what$2" = stage19 ] && echo 128 || echo $((4 + $2)) ;;
	-u) echo $((1 + $2)) ;;
	*)
		value=$(($2 ? 1 << ($2 - 1) : 0)) hard=$(ulimit -H "$1")
		[ "$hard" = unlimited ] || [ "$value" -le "$hard" ] || value=hard
		echo "$value"
		;;
	esac
}

steps="0 4 8 12 16 19"
[ -z "${TESTS_LONG:-}" ] || steps=$(seq 0 19)
for what in pack unpack import dump check stage; do
	case $what in
	pack | unpack | import) needed=convert ;;
	*) needed=$what ;;
	esac
	[[ " $commands " == *" $needed "* ]] || continue
	for limit in -v -n -u -l -f; do
		at=$tools libraries='' as=
		if [ $limit = -u ] || [ $limit = -l ]; then
			[ -n "$user" ] || continue
			[ $what != stage ] || continue
			at=apart libraries=apart as=$user
		fi
		bad=0 fine=0 refused=0
		for step in $steps; do
			step $what $limit "$(value $limit "$step")"
		done
		judge "${what}_with_ulimit_${limit#-}_works_or_says_why_not" test $bad -eq 0
		judge "${what}_with_ulimit_${limit#-}_works_with_enough" test $fine -gt 0
		echo "-- $what, $limit: $fine times done, $refused times refused"
	done
done
finish
