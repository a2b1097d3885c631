#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that programs read exactly what was staged, whatever number of ranks and nodes has staged it, and with
# whichever reader.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
stage_require
make=$top_builddir/tests/stores/stores_make
cd "$scratch"
mkdir img tiny
"$make" img 21 200000
"$make" tiny 1 10

# 9 of "RANKS NODES READER BUFFER"; three ranks on two nodes are uneven.
while read -r ranks nodes how buffer; do
	fresh to0 to1
	staging "$ranks" "$nodes" --to=to%n --reader="$how" --buffer="$buffer" img
	judge "stage_by_${how}_with_${ranks}_ranks_on_${nodes}_nodes_ends_well" test $rc -eq 0
	judge "stage_by_${how}_with_${ranks}_ranks_on_${nodes}_nodes_copies_to_each_node" \
		copies_are "$nodes" img/data.mdb to0 to1
done <<'END'
1 1 posix 16M
2 1 mpiio 64k
2 2 collective 1M
3 2 posix 64k
3 2 mpiio 16M
4 1 collective 256k
4 2 posix 1M
4 2 mpiio 256k
4 2 collective 64k
END

staging 4 2 --to=to%n img
judge stage_again_ends_well test $rc -eq 0
judge stage_again_has_nothing_to_do grep -q 'all 2 nodes have had it' out
rm -rf to1/*
staging 4 2 --to=to%n --json img
judge stage_where_one_node_has_it_serves_the_other copies_are 2 img/data.mdb to0 to1
judge stage_tells_who_has_had_it grep -q '"nodes_before": 1' out

fresh to0 to1
staging 4 2 --to=to0 --shared --buffer=64k img
judge stage_to_a_shared_directory_ends_well test $rc -eq 0
judge stage_to_a_shared_directory_makes_one_copy copies_are 1 img/data.mdb to0
fresh to0 to1
staging 4 2 --to=to%n --stagger=1 --buffer=256k img
judge stage_one_rank_at_a_time_copies copies_are 2 img/data.mdb to0 to1
fresh to0 to1
staging 4 2 --to=to%n --stagger=auto --buffer=128k --json img
judge stage_with_a_measured_group_copies copies_are 2 img/data.mdb to0 to1
judge stage_with_a_measured_group_tells_it grep -qE '"group": [124],' out

# Twelve pages in pieces of one page, for four ranks: at least one rank has none.
for how in posix mpiio collective; do
	fresh to0 to1
	staging 4 2 --to=to%n --reader=$how tiny
	judge "stage_by_${how}_with_ranks_that_have_no_share_copies" copies_are 2 tiny/data.mdb to0 to1
done

# With the data file's name behind it, the path would be longer than a path may be.
long=tiny/data.mdb
while [ ${#long} -lt 4090 ]; do
	long=./$long
done
fresh to0 to1
staging 1 1 --to=to0 "$long"
judge stage_of_a_path_as_long_as_may_be_copies copies_are 1 tiny/data.mdb to0

# --- wrong use ---
status path_that_is_missing_is_refused 2 "$stage" --to=to0 nowhere
says path_that_is_missing_is_named 'nowhere: No such file'
echo "no data set" > text
status file_that_is_no_data_set_is_refused 2 "$stage" --to=to0 text
says file_that_is_no_data_set_is_told 'text: this is no LMDB data file'
# The data set is missing on one node, and nothing is wrong with the directory.
fresh seen unseen
cp -r tiny seen/img
mkdir seen/to unseen/to
rc=0
mpi_job 1 2 -wdir "$PWD/seen" "$stage" --to=to img : -n 1 -wdir "$PWD/unseen" "$stage" --to=to img \
	< /dev/null > out 2> err || rc=$?
judge path_that_is_missing_on_one_node_is_refused mpi_told $rc 2
says path_that_is_missing_on_one_node_is_named '^lmdbio-stage: img: No such file or directory (rank 1): let each node'
judge path_that_is_missing_on_one_node_leaves_nothing nothing_in seen/to unseen/to
status no_target_is_refused 2 "$stage" img
status two_targets_are_refused 2 "$stage" --hold --to=to0 img
status odd_reader_is_refused 2 "$stage" --reader=odd --to=to0 img
status staggered_collective_is_refused 2 "$stage" --reader=collective --stagger=2 --to=to0 img
finish
