#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# A person names a file in a directory that is writable for all users, where another user has planted something:
# links, FIFOs, files and directories, at the name, at the partial file's name, and on the way to them. No target of a
# link is touched, even if the link comes and goes between two calls, and no command waits. The kernel's own
# protections (fs.protected_*) are off.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
[ "$(id -u)" = 0 ] || skip "only root can be another user as well"
need setpriv timeout
reader=$top_builddir/tests/data/db_read
cd "$scratch"
chmod 755 .
guards=/proc/sys/fs/protected_
restore() {
	for guard in symlinks hardlinks fifos regular; do
		[ ! -e "guard.$guard" ] || cat "guard.$guard" > "$guards$guard" 2> /dev/null || true
	done
	cd /
	rm -rf "$scratch"
}
trap restore EXIT
for guard in symlinks hardlinks fifos regular; do
	[ "$(cat $guards$guard)" = 0 ] || { cat $guards$guard > "guard.$guard"; echo 0 2> /dev/null > $guards$guard; } ||
		echo "# fs.protected_$guard stays on"
done
mkdir set pub
chmod 1777 pub
"$top_builddir/tests/stores/stores_make" set 5 3000
chmod 777 set
chmod 666 set/*
"$top_builddir/tools/lmdbio-dump" set | sed '1,/^HEADER=END/d' > right.records

as() {
	local who=$1

	shift
	setpriv --reuid "$who" --regid "$who" --clear-groups "$@"
}

as_stranger() {
	as 65534 "$@"
}

# victim: makes a directory of the user's with one file; nothing may be added to it.
victim() {
	rm -rf victim
	mkdir victim
	echo precious > victim/file
	touch -d '2024-01-02' victim/file
	chown -R "$user" victim
}

victim_is_whole() {
	[ "$(ls -A victim)" = file ] && [ "$(cat victim/file)" = precious ] &&
		[ "$(stat -c '%Y %u %a' victim/file)" = "$(date -d 2024-01-02 +%s) $user 644" ]
}

# plant WHAT PATH: the other user makes it.
plant() {
	case $1 in
	link) as_stranger ln -s "$scratch/victim/file" "$2" ;;
	link_to_none) as_stranger ln -s "$scratch/victim/new" "$2" ;;
	second_name) as_stranger ln "$scratch/victim/file" "$2" 2> /dev/null ||
		ln "$scratch/victim/file" "$2" ;; # where the kernel forbids it to other users
	fifo) as_stranger mkfifo -m 666 "$2" ;;
	file) as_stranger sh -c 'echo theirs > "$1"; chmod 666 "$1"' sh "$2" ;;
	link_to_directory) as_stranger ln -s "$scratch/victim" "$2" ;;
	directory) as_stranger mkdir -m 777 "$2" ;;
	esac
}

dump() {
	"$top_builddir/tools/lmdbio-dump" -f "${made:-pub/made}" set
}
convert() {
	"$top_builddir/tools/lmdbio-convert" set "${made:-pub/made}"
}
convert_over() {
	"$top_builddir/tools/lmdbio-convert" -f set pub/made
}
statistics() {
	LD_LIBRARY_PATH=$(dirname "$dropin") LMDBIO_STATS=pub/made "$reader" set > /dev/null
}
copy() {
	mkdir -p pub/copy
	if [ -e pub/made ] || [ -L pub/made ]; then
		mv pub/made pub/copy/data.mdb
	fi
	LD_LIBRARY_PATH=$(dirname "$dropin") mdb_copy set pub/copy
}

# records: a dump without its header.
records() {
	sed '1,/^HEADER=END/d'
}

is_made() {
	local found=pub/made

	[ "$1" != copy ] || found=pub/copy/data.mdb
	[ ! -d "$found" ] || found=pub/made/data.mdb.zst
	[ -f "$found" ] && [ ! -L "$found" ] && [ "$(stat -c %u "$found")" = "$user" ] || return 1
	if [ "$1" = dump ]; then
		records < "$found"
	else
		"$top_builddir/tools/lmdbio-dump" -n "$found" | records
	fi | cmp -s - right.records
}

export -f dump convert convert_over statistics copy
export top_builddir dropin reader
commands="dump convert convert_over statistics"
! command -v mdb_copy > /dev/null || commands+=" copy"
# Root may remove what another user has planted; other users may not.
users=0
if as 65533 "$top_builddir/tools/lmdbio-dump" --version > /dev/null 2>&1 && as 65533 test -r "$PWD/set/data.mdb"; then
	users+=" 65533"
else
	echo "# the build tree is root's alone: no other user but root is tried"
fi

# stage: makes a victim, and an empty directory that is writable for all users.
stage() {
	victim
	rm -rf pub own
	mkdir pub own
	chmod 1777 pub
	chown "$user" own
}

# attack USER COMMAND NAME WHAT: the command writes to pub/made while WHAT is planted at NAME.
attack() {
	local name=$2_by_$1_where_$4_is_planted_at_$3

	rc=0
	stage
	plant "$4" "pub/$3"
	as "$1" timeout 20 bash -c "$2" > out 2> err || rc=$?
	judge "${name}_ends" test $rc -ne 124
	judge "${name}_touches_nothing_else" victim_is_whole
	# A command that reports success has made the right file, and the user owns it.
	[ $rc -ne 0 ] || [ "$2" = statistics ] || judge "${name}_is_right" is_made "$2"
	[ $rc -eq 0 ] || judge "${name}_says_why" test -s err
}

for user in $users; do
	for command in $commands; do
		attack "$user" "$command" none none
		judge "${command}_by_${user}_without_another_user_is_done" test $rc -eq 0
		for what in link link_to_none second_name fifo file directory; do
			attack "$user" "$command" made $what
			[ "$command" = statistics ] || [ "$command" = copy ] ||
				attack "$user" "$command" .made.lmdbio-partial $what
		done
	done
done

# by_way NAME PATH COMMAND...: runs the command with a path through what another user has planted.
by_way() {
	local name=$1 path=$2 command

	shift 2
	# shellcheck disable=SC2086 # a function and its arguments
	for command in "$@"; do
		made=$path told "${command}_by_${user}_${name}_is_refused" 2 'another user may have put' \
			as "$user" timeout 20 bash -c $command
		judge "${command}_by_${user}_${name}_touches_nothing" victim_is_whole
	done
}

# by_own_way NAME PATH COMMAND...: runs the command with a path through the user's own links.
by_own_way() {
	local name=$1 path=$2 command

	shift 2
	# shellcheck disable=SC2086 # as above
	for command in "$@"; do
		rc=0
		made=$path as "$user" timeout 20 bash -c $command > out 2> err || rc=$?
		judge "${command}_by_${user}_${name}_is_done" test $rc -eq 0
		judge "${command}_by_${user}_${name}_is_right" is_made $command
	done
}

export made
for user in $users; do
	stage
	plant link_to_directory pub/out
	by_way into_a_planted_directory "$scratch/pub/out/file" dump
	by_way into_a_planted_directory_for_a_new_file pub/out/new dump convert
	by_way for_a_new_directory_behind_a_planted_one pub/out/new/made.zst convert
	by_way into_a_planted_directory_itself pub/out convert
	by_way up_from_a_planted_directory pub/out/../victim/file dump
	by_way up_from_a_planted_directory_for_a_new_file pub/out/../victim/new.zst convert
	as "$user" ln -s "$scratch/pub/out" own/out
	by_way through_an_own_link_to_a_planted_directory own/out/new dump convert
	plant link pub/made
	as "$user" ln -s ../pub/made own/link
	by_way through_an_own_link_to_a_planted_link own/link dump
	as "$user" ln -s "$scratch/own/link" pub/own
	by_way through_two_own_links_to_a_planted_link pub/own dump
	rm pub/made
	as "$user" ln -s . pub/here
	by_own_way through_an_own_link_where_it_could_be_planted pub/here/made dump
	by_own_way over_a_file_through_own_links own/link dump
	rm pub/made
	by_own_way to_a_directory_through_an_own_link pub/here/made convert
	as "$user" ln -s round own/round
	made=own/round told "dump_by_${user}_into_a_ring_of_links_is_told" 2 'Too many levels' \
		as "$user" timeout 20 bash -c dump
done

# A file that is writable for all users, in a sticky directory of the same owner.
for user in $users; do
	[ "$user" != 0 ] || continue
	stage
	chmod 1777 pub
	echo before > pub/made
	chmod 666 pub/made
	rc=0
	as "$user" timeout 20 bash -c dump > out 2> err || rc=$?
	judge "dump_by_${user}_over_the_directory_owners_file_is_done" test $rc -eq 0
	judge "dump_by_${user}_over_the_directory_owners_file_is_right" \
		sh -c "sed '1,/^HEADER=END/d' pub/made | cmp - right.records"
	judge "dump_by_${user}_over_the_directory_owners_file_keeps_it" test "$(stat -c %u pub/made)" = 0
	judge "dump_by_${user}_over_the_directory_owners_file_leaves_nothing" test "$(ls -A pub)" = made
done

# The link is away from call FIRST to call LAST: whatever two calls see, the victim's file stays.
user=0
calls=1
race=$top_builddir/tests/tools/planted_race
for ((first = 1; first <= calls; first++)); do
	for ((last = first; last <= calls; last++)); do
		stage
		plant link pub/made
		rc=0
		timeout 20 "$race" pub/made $first $last "$top_builddir/tools/lmdbio-dump" -f pub/made set > out 2> err || rc=$?
		if [ $rc -eq 77 ]; then
			not_run dump_where_a_planted_link_comes_and_goes_touches_nothing_else "no process can be traced here"
			calls=0
			break
		fi
		seen=$(cat out)
		[ "$seen" -le "$calls" ] || calls=$seen
		judge "dump_where_a_link_is_away_from_call_${first}_to_${last}_touches_nothing_else" victim_is_whole
		[ $rc -ne 0 ] || [ -L pub/made ] || judge "dump_where_a_link_is_away_from_call_${first}_to_${last}_is_right" is_made dump
	done
done
[ "$calls" -eq 0 ] || judge dump_where_a_planted_link_comes_and_goes_is_tried test "$calls" -ge 2
finish
