#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Other users may write to the staging directory: nothing that they put there is followed, replaced, deleted or read.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
stage_require
[ "$(id -u)" = 0 ] || skip "only root can be another user as well"
need setpriv
reader=$top_builddir/tests/data/db_read
ours="env LD_LIBRARY_PATH=$(dirname "$dropin") LMDBIO_VERBOSE=1"
cd "$scratch"
chmod 755 .
mkdir img other
"$top_builddir/tests/stores/stores_make" img 21 200000
cp img/data.mdb other
python3 "$top_srcdir/tests/data/other_values.py" other/data.mdb
"$reader" img > img.seen

as_stranger() {
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

# names: the names that staging gives to the data set's directory.
fresh names
staging 1 1 --to=names img
name=$(cd names && echo *)

# victim: a directory of root's with a data.mdb and an old partial file.
victim() {
	fresh victim
	echo precious > victim/data.mdb
	echo precious > victim/data.mdb.1-0.partial
	touch -d '2024-01-02' victim/*
	find victim -type f -exec md5sum {} + | sort > victim.before
}

victim_is_whole() {
	find victim -type f -exec md5sum {} + | sort > victim.after
	cmp victim.before victim.after
}

reads_the_original() {
	$ours LMDBIO_STAGED="$1" "$reader" img > seen 2> said || return 1
	cmp img.seen seen && ! grep -q 'its staged copy' said
}

reads_the_copy() {
	$ours LMDBIO_STAGED="$1" "$reader" img > seen 2> said || return 1
	cmp img.seen seen && grep -q 'its staged copy' said
}

# --- writable for all users, and sticky, as /tmp is ---
fresh pub
chmod 1777 pub
staging 2 1 --to=pub img
judge stage_to_a_directory_for_everybody_is_done test $rc -eq 0
judge stage_to_a_directory_for_everybody_makes_one_of_the_users_own \
	test "$(stat -c '%a %u' pub/lmdbio-0) $(ls pub)" = "700 0 lmdbio-0"
judge copy_in_it_is_read reads_the_copy pub
rm -rf pub/*

for how in directory parts; do
	more=
	[ $how = directory ] || more=--tier=ssd
	for planted in "$name" lmdbio-0; do
		victim
		as_stranger ln -s "$scratch/victim" "pub/$planted"
		# shellcheck disable=SC2086
		staging 2 1 $more --to=pub img
		judge "stage_${how}_where_a_link_was_planted_leaves_what_it_leads_to" victim_is_whole
		if [ "$planted" = lmdbio-0 ]; then
			judge "stage_${how}_where_a_link_is_in_the_way_is_refused" mpi_told $rc 2
			judge "stage_${how}_where_a_link_is_in_the_way_says_which" \
				grep -q 'pub/lmdbio-0: not used, because it is a symbolic link .*remove it' err
			judge "stage_${how}_where_a_link_is_in_the_way_says_so_once" \
				test "$(grep -c 'not used' err)" -eq 1
			judge "read_${how}_where_a_link_is_in_the_way_is_the_original" reads_the_original pub
		fi
		rm -rf pub/*
	done
	for planted in "$name" lmdbio-0; do
		as_stranger mkdir -m 0777 "pub/$planted"
		# shellcheck disable=SC2086
		staging 2 1 $more --to=pub img
		judge "stage_${how}_where_a_directory_was_planted_puts_nothing_into_it" \
			test -z "$(ls "pub/$planted")"
		if [ "$planted" = lmdbio-0 ]; then
			judge "stage_${how}_where_a_directory_is_in_the_way_is_refused" mpi_told $rc 2
			judge "stage_${how}_where_a_directory_is_in_the_way_says_which" \
				grep -q 'pub/lmdbio-0: not used, because it belongs to user 65534' err
		fi
		rm -rf pub/*
	done
done

# --- writable for other users, and not sticky ---
fresh open
chmod 777 open
staging 2 1 --verbose --to=open img
judge stage_to_a_directory_that_others_may_write_to_is_refused_on_all_ranks \
	all_ranks_say 2 'Operation not permitted'
judge stage_to_a_directory_that_others_may_write_to_says_what_to_do \
	grep -q 'open: not used, because other users may write to it (mode 0777): chmod go-w it' err
judge stage_to_a_directory_that_others_may_write_to_puts_nothing_there nothing_in open
chmod 2775 open
staging 1 1 --to=open img
judge stage_to_a_directory_that_its_group_may_write_to_is_refused mpi_told $rc 2
rm -r open
as_stranger true
mkdir -m 755 open
chown 65534 open
staging 1 1 --to=open img
judge stage_to_another_users_directory_is_refused mpi_told $rc 2
judge stage_to_another_users_directory_says_so grep -q 'open: not used, because it belongs to user 65534' err
judge stage_to_another_users_directory_puts_nothing_there nothing_in open

# --- copies that were swapped while other users could write ---
fresh to
staging 1 1 --to=to img
staging 1 1 --to=to other
judge copies_of_both_are_there test "$(find to -name data.mdb | wc -l)" -eq 2
judge copy_is_read reads_the_copy to
swap() {
	# shellcheck disable=SC2046
	set -- $(echo to/*)
	as_stranger mv "$1" to/aside && as_stranger mv "$2" "$1" && as_stranger mv to/aside "$2"
}
chmod 777 to
judge stranger_can_swap_them swap
judge read_of_a_directory_that_others_may_write_to_is_the_original reads_the_original to
judge read_of_a_directory_that_others_may_write_to_says_why \
	grep -q 'to: not used, because other users may write to it' said
chmod 755 to
judge read_of_copies_that_were_swapped_is_the_original reads_the_original to
chmod 777 to
swap
chmod 755 to
judge read_of_copies_that_were_swapped_back_is_the_copy reads_the_copy to

# A copy is changed, and keeps its length and its time.
copy=$(find to -name data.mdb -path "*$name*")
printf X | dd of="$copy" bs=1 seek=50000 conv=notrunc status=none
touch -r img/data.mdb "$copy"
judge read_of_a_copy_that_was_written_to_is_the_original reads_the_original to
staging 1 1 --to=to img
judge copy_that_was_written_to_is_staged_again reads_the_copy to
rm "$copy.seal"
judge read_of_a_copy_without_a_seal_is_the_original reads_the_original to
staging 1 1 --to=to img
judge copy_without_a_seal_is_staged_again reads_the_copy to

# A job finds a file of its own user where its directory should be: a link that no other user can have put there is
# still not followed.
fresh to
victim
ln -s "$scratch/victim" "to/$name"
staging 1 1 --to=to img
judge link_of_the_users_own_in_the_place_of_the_copy_is_refused mpi_told $rc 2
judge link_of_the_users_own_in_the_place_of_the_copy_is_not_followed victim_is_whole
# The staging directory itself may be named by a link.
fresh to
ln -s to link
staging 1 1 --to=link img
judge directory_that_a_link_of_the_users_own_leads_to_is_used reads_the_copy link
ln -s "$scratch/to" pub/theirs
chown -h 65534 pub/theirs
staging 1 1 --to=pub/theirs img
judge directory_that_another_users_link_leads_to_is_refused mpi_told $rc 2
finish
