#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that ranks of a job that open copies of a data set exchange its records, and that no rank gets records of
# another data set of the same shape: same keys, sizes, times, transaction and meta pages, but other values.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
stores_alone "$@"
job_begin
need python3
convert=$top_builddir/tools/lmdbio-convert
program=$top_builddir/tests/mpi/loader_job
MPI_LEAKS=:detect_leaks=0 # see stage_call_test.sh
cd "$scratch/backing"

# twin NAME MASK [RECORDS]: a data set with other values, in the first RECORDS of one (default: all).
twin() {
	mkdir "$1"
	cp -p one/data.mdb "$1"
	python3 "$top_srcdir/tests/data/other_values.py" "$1/data.mdb" "$2" ${3+"$3"}
	touch -r one/data.mdb "$1/data.mdb"
}

make_set one 300 20000
rm one/lock.mdb
touch -d '2024-01-02 03:04:05.678901234' one/data.mdb
twin other 255
twin few 1 10
mkdir copy later
cp -p one/data.mdb copy
cp one/data.mdb later
touch -d '2024-05-06 07:08:09' later/data.mdb
for set in one other; do
	mkdir "$set.packed" "$set.less"
	"$convert" -q $set $set.packed
	"$convert" -q --level=1 $set $set.less
done
cp -pr one.packed copy.packed
judge twins_look_alike test "$(stat -c '%s %y' one/data.mdb)" = "$(stat -c '%s %y' other/data.mdb)"
judge twins_differ sh -c '! cmp -s one/data.mdb other/data.mdb && ! cmp -s one/data.mdb few/data.mdb'
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=4000
export LMDBIO_MEMORY=64M LMDBIO_VERBOSE=1 LMDBIO_STORE=arena

# Each rank's output goes to a file of its own. The last rank opens $job_last, and has the settings of $job_more.
# shellcheck disable=SC2016
one_rank='
	path=$job_set
	if [ "$PMI_RANK" = $((PMI_SIZE - 1)) ]; then
		path=$job_last
		export $job_more
	fi
	exec "$@" "$path" >"$job_scratch/rank.$PMI_RANK"'

# opens RANKS SET LAST [SETTING]: all ranks but the last one open SET.
opens() {
	cold
	rm -f "$scratch"/rank.*
	job_status=0
	job_set=$scratch/mount/$2 job_last=$scratch/mount/$3 job_more=${4:-LMDBIO_VERBOSE=1} mpi_job "$1" "$1" \
		bash -c "$one_rank" - "$program" --batch=20 --epochs=2 >"$scratch/out" 2>"$scratch/err" || job_status=$?
	[ "$job_status" = 0 ] || cat "$scratch/err"
}

# refused NAME RANKS: no rank has opened its loader.
ESTALE=116
refused() {
	local rank expected=

	for ((rank = 0; rank < $2; rank++)); do
		expected="$expected # rank $rank: $ESTALE"
	done
	equal "$1_with_$2_ranks_is_refused_on_all" "0$expected" "$job_status $(grep -h '^# rank' "$scratch"/rank.* | xargs)"
	job_left "$1_with_$2_ranks"
}

# given NAME RANKS: all ranks get the records of the first set, from each other.
given() {
	grep -hv '^#' "$scratch"/rank.* | sort >"$scratch/came"
	equal "$1_with_$2_ranks_ends_well" 0 "$job_status"
	judge "$1_with_$2_ranks_gives_the_right_records" cmp "$scratch/expected" "$scratch/came"
	job_left "$1_with_$2_ranks"
}

opens 1 one one
grep -hv '^#' "$scratch"/rank.* | sort >"$scratch/expected"
for ranks in 2 4; do
	opens $ranks one other
	refused twin $ranks
	opens $ranks one few
	refused twin_with_few_other_values $ranks
	for copy in copy later; do
		opens $ranks one $copy
		given $copy $ranks
		judge "${copy}_with_${ranks}_ranks_has_the_nodes_exchange" grep -q "$ranks nodes keep 300 of 300 records" \
			"$scratch/err"
	done
done

# --- containers ---
opens 2 one.packed other.packed
refused container_of_a_twin 2
opens 2 one.packed copy.packed
given copy_of_a_container 2
opens 2 one.packed one.less
given container_of_another_level 2
opens 2 one one.packed
given container_of_the_data_set 2
opens 2 one other.packed
refused container_of_a_twin_of_the_data_set 2

# --- a staged copy on one node, and on all nodes: a copy counts as the file that it is a copy of ---
mkdir to
"$top_builddir/tools/lmdbio-stage" --quiet --to="$scratch/mount/to" "$scratch/mount/one"
staged=$(cd to && echo */data.mdb)
most=$(($(file_size one) * 103 / 100))
for try in $job_tries; do
	opens 2 one one "LMDBIO_STAGED=$scratch/mount/to"
	bytes=$(($(slowfs_stat one/data.mdb:bytes) + $(slowfs_stat "to/$staged:bytes")))
	[ "$bytes" -gt $most ] || break
	echo "-- staged on one node: $bytes bytes at try $try"
done
given staged_on_one_node 2
judge staged_on_one_node_is_read grep -q 'its staged copy' "$scratch/err"
at_most staged_on_one_node_reads_each_byte_once "$bytes" $most
LMDBIO_STAGED=$scratch/mount/to opens 2 one one
given staged_on_all_nodes 2
equal staged_on_all_nodes_is_read_by_both 2 "$(grep -c 'its staged copy' "$scratch/err")"
LMDBIO_STAGED=$scratch/mount/to opens 2 one other
refused twin_of_a_staged_data_set 2
cd /
slowfs_stop
finish
