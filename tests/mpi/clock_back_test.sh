#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# A data set or a container changes while the machine's clock is set back, so that a later state has the earlier
# times: no process, shared memory, server, staged copy, stage file or job takes one state's bytes for the other's.
# slowfs reports the times of such a clock.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$(dirname "$0")/../slowfs/slowfs_lib.sh"
slowfs_require
stage_require
trap 'cd /; slowfs_abandon; rm -rf "$scratch"; mpi_sweep' EXIT
serve=$top_builddir/tools/lmdbio-serve
reader=$top_builddir/tests/data/db_read
export LD_LIBRARY_PATH=
node=$LMDBIO_NODE
cd "$scratch"

# loads DIRECTORY OPTION...: what a batch loader with little memory reads.
loads() {
	local set=$1

	shift
	"$top_builddir/tests/loader/loader_read" --memory=1048576 --epochs=2 "$@" "$set" 2> said
}

# sums: prints the lines of each epoch's records, without the fields of their cost.
sums() {
	sed -n 's/^\(epoch .*\) storage .*/\1/p'
}

# Three data sets whose meta pages are the same: the same keys and sizes, other values.
mkdir backing one two three
"$top_builddir/tests/stores/stores_make" one 60 98316
rm -f one/lock.mdb
cp one/data.mdb two
python3 "$top_srcdir/tests/data/other_values.py" two/data.mdb
cp one/data.mdb three
python3 "$top_srcdir/tests/data/other_values.py" three/data.mdb 15
for set in one two three; do
	mkdir $set.packed
	"$top_builddir/tools/lmdbio-convert" $set $set.packed 2> err
	"$reader" $set > $set.seen
	loads $set | sums > $set.sums
done
touch -d '2024-01-02 03:04:05.678901234' ./*/data.mdb*
judge data_sets_differ sh -c '! cmp -s one.seen two.seen && ! cmp -s two.seen three.seen'
slowfs_start "$PWD/backing" "$PWD/mount" -o latency=0,bandwidth=0

reads() {
	LD_LIBRARY_PATH=$(dirname "$dropin") LMDBIO_STORE=$1 LMDBIO_VERBOSE=1 "$reader" mount/img > seen 2> said
}

# become STATE HOURS: changes the data set through the mount, as all its users do; then sets the clock back by HOURS
# hours.
become() {
	local file=backing/img/data.mdb$kind

	case $how in
		overwritten) cp -p "$1$suffix/data.mdb$kind" mount/img ;;
		renamed)
			cp -p "$1$suffix/data.mdb$kind" mount/aside
			mv mount/aside "mount/img/data.mdb$kind"
			;;
	esac
	slowfs_control "clock -$(($2 * 3600))"
	[ -e "$file" ] || exit 1
	stat -c '%Z' "mount/img/data.mdb$kind" > time.now
	judge "${name}_${1}_has_an_earlier_time" sh -c '! [ -e time.before ] || [ "$(cat time.now)" -lt "$(cat time.before)" ]'
	mv time.now time.before
}

# One server for each of two nodes, which send each other chunks.
serve_begin() {
	mpi_job 2 2 "$serve" > serve.log 2>&1 8>&- 9<&- &
	served=$!
	for number in 0 1; do
		until LMDBIO_NODE=$node#$number "$serve" --status > status.out 2> /dev/null; do
			kill -0 "$served" || { cat serve.log; exit 1; }
			sleep 0.05
		done
	done
}

serve_end() {
	LMDBIO_NODE=$node#0 "$serve" --stop > stop.out 2>&1 || cat stop.out
	wait "$served" || true
}

# A killed loader leaves its file on the local disk, once it has one.
kill_loader() {
	"$top_builddir/tests/loader/loader_read" --memory=1048576 --stage=ssd --epochs=1000000 mount/img > loaded 2> said &
	loader=$!
	until grep -q '^epoch 2' loaded && [ -n "$(ls ssd)" ]; do
		kill -0 "$loader" || { cat said; exit 1; }
		sleep 0.05
	done
	kill -KILL "$loader"
	wait "$loader" 2> /dev/null || true
}

# each_reads STATE: new readers of both nodes, with each store, beside the old copy, and a loader with a local disk.
each_reads() {
	for number in 0 1; do
		for store in arena cache; do
			[ "$store$suffix" != cache.packed ] || continue
			LMDBIO_NODE=$node#$number reads $store
			same "${name}_${1}_by_${store}_of_node_$number" "$1.seen" seen
		done
	done
	LMDBIO_STAGED=to reads arena
	same "${name}_${1}_beside_the_copy" "$1.seen" seen
	loads mount/img --stage=ssd | sums > loaded
	same "${name}_${1}_by_a_loader" "$1.sums" loaded
}

attack() {
	how=$1 suffix=$2 kind=${2:+.zst} name=$1${2/./_}
	rm -rf mount/img time.before
	mkdir mount/img
	fresh to ssd
	become one 0
	serve_begin
	staging 1 1 --to=to mount/img
	LMDBIO_STAGED=to reads arena
	judge "${name}_copy_is_read" grep -q 'its staged copy' said
	kill_loader
	judge "${name}_loader_leaves_its_file" test -n "$(ls ssd)"
	LMDBIO_NODE=$node#0 hold mount/img
	each_reads one
	become two 2
	each_reads two
	# The copy of state one is still there.
	staging 1 1 --to=to mount/img
	kill_loader
	become three 5
	each_reads three
	let_go
	serve_end
	slowfs_control 'clock 0'
}

for suffix in '' .packed; do
	attack overwritten "$suffix"
	attack renamed "$suffix"
done
slowfs_stop
finish
