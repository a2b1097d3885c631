#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that all ranks of a program that calls lmdbio_mpi_stage() get the same code, also when the call is wrong or
# the file changes meanwhile.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
stage_require
call=$top_builddir/tests/mpi/stage_call
# UCX unloads its modules before leaks are looked for, so the report cannot name its functions; it can name ours.
# (Other tests of programs that use MPI do not look for leaks.)
MPI_LEAKS=:exitcode=0
make=$top_builddir/tests/stores/stores_make
cd "$scratch"
mkdir made large img to
made=made

# calling NAME: in a job of four ranks on two nodes, on an unchanged copy of the data.
calling() {
	rm -rf img to
	cp -rp "$made" img
	mkdir to
	rc=0
	mpi_job 4 2 "$call" "$1" "${2-img/data.mdb}" "$scratch/to" > out 2> err || rc=$?
	cat err >> errors
}

# all_return CODE
all_return() {
	test "$rc $(grep -c "^rank [0-3]: $1\$" out)" = "0 4" || { cat out err; return 1; }
}

"$make" made 9 200000
cp made/data.mdb made/data.mdb.other
EINVAL=22 ECANCELED=125 ESTALE=116
calling plain
judge call_with_a_data_file_returns_0 all_return 0
judge call_with_a_data_file_copies copies_are 1 img/data.mdb to
calling plain img
judge call_with_a_directory_copies copies_are 1 img/data.mdb to
calling some
judge call_by_some_of_the_ranks_returns_0 all_return 0
judge call_by_some_of_the_ranks_copies copies_are 1 img/data.mdb to
calling held
judge call_that_holds_returns_0 all_return 0
calling short
judge call_of_an_older_program_returns_0 all_return 0
judge call_of_an_older_program_copies copies_are 1 img/data.mdb to
for name in null unlike buffer unheld staggered hints; do
	calling $name
	judge "call_with_wrong_options_${name}_returns_EINVAL" all_return $EINVAL
	judge "call_with_wrong_options_${name}_leaves_nothing" nothing_in to
done
for name in touch overwrite shorten replace; do
	calling $name
	judge "call_while_the_file_changes_by_${name}_returns_ESTALE" all_return $ESTALE
	judge "call_while_the_file_changes_by_${name}_leaves_nothing" nothing_in to
done
calling cancel
judge call_that_is_cancelled_by_one_rank_returns_its_code all_return $ECANCELED
judge call_that_is_cancelled_leaves_nothing nothing_in to
# The killed rank ends the job. The next staging removes the unfinished copy at once, because a disk may have no room
# for two copies. It leaves a file that has no byte yet: another job may have made that just now.
calling die
judge call_in_which_a_rank_is_killed_ends_the_job mpi_ended "$rc"
find to -name '*.partial' > partials
judge call_in_which_a_rank_is_killed_leaves_no_copy test -z "$(find to -name data.mdb)"
judge call_in_which_a_rank_is_killed_leaves_a_part test -s partials
young=$(dirname "$(head -1 partials)")/young.partial
: > "$young"
mpi_job 4 2 "$call" plain img/data.mdb "$scratch/to" > out 2> err
judge call_after_a_rank_was_killed_removes_the_part test "$(find to -name '*.partial')" = "$young"
rm "$young"
judge call_after_a_rank_was_killed_copies copies_are 1 img/data.mdb to

# Each node stages a part: there are chunks enough for several steps of each rank.
"$make" large 60 200000
cp large/data.mdb large/data.mdb.other
made=large
calling parts-plain
judge call_for_parts_returns_0 all_return 0
judge call_for_parts_makes_them parts_are 2 img/data.mdb to
calling parts-hints
judge call_for_parts_by_mpiio_returns_EINVAL all_return $EINVAL
for name in touch shorten; do
	calling parts-$name
	judge "call_for_parts_while_the_file_changes_by_${name}_returns_ESTALE" all_return $ESTALE
	judge "call_for_parts_while_the_file_changes_by_${name}_leaves_nothing" nothing_in to
done
calling parts-cancel
judge call_for_parts_that_is_cancelled_returns_its_code all_return $ECANCELED
judge call_for_parts_that_is_cancelled_leaves_nothing nothing_in to
calling parts-die
judge call_for_parts_in_which_a_rank_is_killed_ends_the_job mpi_ended "$rc"
find to -type f > partials
judge call_for_parts_in_which_a_rank_is_killed_leaves_no_part test -z "$(grep -v '\.partial$' partials)"
judge call_for_parts_in_which_a_rank_is_killed_leaves_what_goes test -s partials
mpi_job 4 2 "$call" parts-plain img/data.mdb "$scratch/to" > out 2> err
judge call_for_parts_after_a_rank_was_killed_makes_them parts_are 2 img/data.mdb to
leaks_of_ours() {
	grep '#[0-9]* .*/liblmdbio-[a-z]*[-.0-9]*\.so[.0-9]*+0x' errors
}
judge leaks_are_none_of_ours test -z "$(leaks_of_ours)"
judge leaks_are_all_that_sanitizers_find sh -c "! grep -e 'ERROR: AddressSanitizer' -e 'runtime error' errors"
finish
