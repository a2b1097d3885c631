#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# A data set or a container is replaced, by `cp -p` over it or by rename, while a reader, its shared memory, a server
# of the node and a staged copy live: every later reader sees the new one's bytes.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
stage_require
serve=$top_builddir/tools/lmdbio-serve
reader=$top_builddir/tests/data/db_read
export LD_LIBRARY_PATH=
cd "$scratch"

# Two data sets whose meta pages are the same: the same keys and sizes, other values.
mkdir one two
"$top_builddir/tests/stores/stores_make" one 60 98316
cp one/data.mdb two
python3 "$top_srcdir/tests/data/other_values.py" two/data.mdb
rm -f ./*/lock.mdb
for set in one two; do
	mkdir $set.packed
	"$top_builddir/tools/lmdbio-convert" $set $set.packed 2> err
	"$reader" $set > $set.seen
done
touch -d '2024-01-02 03:04:05.678901234' ./*/data.mdb*
judge data_sets_differ sh -c '! cmp -s one.seen two.seen'
judge data_sets_have_the_same_size_and_time test "$(stat -c '%s %y' one/data.mdb)" = "$(stat -c '%s %y' two/data.mdb)"

# reads SET STORE: what a new reader sees of it; a container's output is data.mdb.zst.
reads() {
	LD_LIBRARY_PATH=$(dirname "$dropin") LMDBIO_STORE=$2 LMDBIO_VERBOSE=1 "$reader" "$1" > seen 2> said
}

# replace HOW NEW OLD: repeated until the time of change differs, because the kernel's times advance in ticks.
replace() {
	local before

	before=$(stat -c '%i %z' "$3")
	while [ "$(stat -c '%i %z' "$3")" = "$before" ]; do
		if [ "$1" = overwritten ]; then
			cp -p "$2" "$3"
		else
			cp -p "$2" aside
			mv aside "$3"
		fi
	done
}

# served: a server of this node holds the data set's bytes, and has given them to the reader that stays.
serve_begin() {
	mpi_job 1 1 "$serve" > serve.log 2>&1 &
	served=$!
	until "$serve" --status > status.out 2> /dev/null; do
		kill -0 "$served" || { cat serve.log; exit 1; }
		sleep 0.05
	done
}

serve_end() {
	"$serve" --stop > stop.out 2>&1 || cat stop.out
	wait "$served" || true
}

attack() {
	local how=$1 by=$2 suffix=$3 name=$1_$2$3

	name=${name//./_}
	fresh img
	cp -p "one$suffix"/data.mdb* img
	file=$(echo img/data.mdb*)
	[ "$by" != server ] || serve_begin
	hold img
	reads img arena
	same "${name}_is_read_before" one.seen seen
	if [ "$by" = copy ]; then
		fresh to
		staging 1 1 --to=to img
		LMDBIO_STAGED=to reads img arena
		same "${name}_has_its_copy_read" one.seen seen
		judge "${name}_is_read_from_its_copy" grep -q 'its staged copy' said
	fi
	replace "$how" "two$suffix/$(basename "$file")" "$file"
	for store in arena cache; do
		[ "$store$suffix" != cache.packed ] || continue
		reads img $store
		same "${name}_is_read_anew_by_$store" two.seen seen
		if [ "$by" = copy ]; then
			LMDBIO_STAGED=to reads img $store
			same "${name}_has_its_old_copy_left_alone_by_$store" two.seen seen
		fi
	done
	if [ "$by" = copy ]; then
		staging 1 1 --to=to img
		LMDBIO_STAGED=to reads img arena
		same "${name}_is_staged_again" two.seen seen
		# The first data set comes back, with the same bytes but another time of change.
		replace "$how" "one$suffix/$(basename "$file")" "$file"
		LMDBIO_STAGED=to reads img arena
		same "${name}_and_back_is_read_anew" one.seen seen
	fi
	let_go
	[ "$by" != server ] || serve_end
}

for suffix in '' .packed; do
	for by in reader server copy; do
		attack overwritten $by "$suffix"
		attack renamed $by "$suffix"
	done
done
finish
