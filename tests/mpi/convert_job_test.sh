#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that the ranks of a job together make the same file as one process, and that no half of it is left when one
# of them fails.
# shellcheck disable=SC2317
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
mpi_require
convert=$top_builddir/tools/lmdbio-convert
make=$top_builddir/tests/stores/stores_make
trap 'convert_clean' EXIT
cd "$scratch"

convert_clean() {
	cd /
	slowfs_abandon
	umount "$scratch/full" 2> /dev/null || true
	rm -rf "$scratch"
	mpi_sweep
}

# together RANKS NODES OPTION...: converts; leaves the output in out and err, and the status in rc. mpiexec would read
# the input of a loop around it.
together() {
	together_ranks=$1
	together_nodes=$2
	shift 2
	rc=0
	mpi_job "$together_ranks" "$together_nodes" "$convert" --no-progress "$@" \
		< /dev/null > out 2> err || rc=$?
}

# nothing_of NAME: neither the target nor a part of it.
nothing_of() {
	[ ! -e "$1" ] && [ -z "$(find . -name ".$1.*")" ]
}

mkdir img cifar
"$make" img 150 196620 50
"$make" cifar 4000 3090 50

# --- the same file, whatever number of ranks makes it; at night every number makes each ---
numbers="1 2 3 4"
while read -r name source options; do
	# shellcheck disable=SC2086
	"$convert" --quiet $options "$source" "one-$name.zst"
	for ranks in $numbers; do
		# shellcheck disable=SC2086
		together $ranks $((ranks / 2 + 1)) --quiet $options "$source" many.zst
		judge "container_of_${name}_by_${ranks}_ranks_is_that_of_one" cmp "one-$name.zst" many.zst
		rm -f many.zst
	done
	[ -n "${TESTS_LONG:-}" ] || numbers=3
done <<'END'
values img --to=container
records cifar --to=container --chunk-size=64k -T2
dictionary cifar --to=container --train-dictionary=20k -1
long cifar --to=container --long --chunk-size=4M -5
again one-values.zst --to=container -9
END
for ranks in 1 2 3; do
	together $ranks 1 --quiet --to=lmdb one-records.zst back.mdb
	judge "data_back_by_${ranks}_ranks_is_the_original" cmp cifar/data.mdb back.mdb
	rm -f back.mdb
done
together 3 1 --quiet --relayout --to=container cifar relaid.zst
"$convert" --quiet --relayout --to=container cifar one-relaid.zst
judge container_laid_anew_by_ranks_is_that_of_one cmp one-relaid.zst relaid.zst
mkdir files
for i in 1 2 3 4 5; do echo "file $i" > files/$i.txt; done
"$convert" --quiet --to=container files one-import.zst
together 2 1 --quiet --to=container files import.zst
judge import_by_ranks_is_that_of_one cmp one-import.zst import.zst

# Without the launcher's connection, which another process then has, each rank works alone.
# shellcheck disable=SC2016
mpi_job 2 1 env -u PMI_FD sh -c '"$0" --quiet --to=container img alone-"$PMI_RANK".zst' "$convert" \
	< /dev/null
judge rank_without_connection_works_alone cmp alone-0.zst alone-1.zst
judge rank_without_connection_makes_the_same cmp alone-0.zst one-values.zst

# --- going on, looking, refusing ---
head -c $(($(stat -c %s one-records.zst) * 3 / 5)) one-records.zst > .gone-on.zst.lmdbio-partial
together 3 2 --resume --json --to=container --chunk-size=64k cifar gone-on.zst
judge container_gone_on_with_by_ranks_is_that_of_one cmp one-records.zst gone-on.zst
judge ranks_go_on_where_it_was grep -q '"resumed_bytes":[1-9]' out
together 3 1 --verify --quiet --to=container --chunk-size=64k cifar gone-on.zst
judge verifying_by_ranks_ends_well test $rc -eq 0
printf '\377\377\377' | dd of=gone-on.zst bs=1 seek=2000000 conv=notrunc status=none
together 3 1 --verify --quiet --to=container --chunk-size=64k cifar gone-on.zst
judge verifying_by_ranks_finds_damage mpi_told $rc 1
judge verifying_by_ranks_names_it grep -q 'damaged at byte' err
cp one-values.zst there.zst
together 2 1 --to=container cifar there.zst
judge target_that_exists_is_refused_by_all_ranks mpi_told $rc 2
judge target_that_exists_stays cmp one-values.zst there.zst
together 2 1 --to=container nowhere target.zst
judge source_that_is_missing_is_refused mpi_told $rc 2
together 3 1 --verify --json --to=container img verified.zst
judge ranks_convert_and_verify test $rc -eq 0
judge one_summary_is_told test "$(grep -c '"verified":true' out)" -eq 1
# The ranks themselves have the source open.
cp -r cifar gone
together 3 1 --rm --quiet --to=container --chunk-size=64k gone removed.zst
judge ranks_remove_the_source test $rc -eq 0 -a ! -e gone/data.mdb
judge ranks_that_remove_the_source_have_converted_it cmp one-records.zst removed.zst

# --- failing ---
whole_or_nothing() {
	[ ! -e cut.zst ] || "$convert" --verify --quiet --to=container cifar cut.zst
}

# Interrupts the job once the partial file has so many 512-byte blocks. Not before there is a partial file: until the
# ranks have met, MPICH's launcher asks for a second signal.
for blocks in 0 2048 8192; do
	timeout -k 5 300 mpiexec -n 3 "$convert" --quiet --to=container -12 cifar cut.zst < /dev/null > out 2> err &
	until [ "$(stat -c %b .cut.zst.lmdbio-partial 2> /dev/null || echo -1)" -ge $blocks ] || ! kill -0 $! 2> /dev/null; do
		sleep 0.01
	done
	kill -INT $! 2> /dev/null || true
	wait $! || true
	judge "interrupted_after_${blocks}_blocks_leaves_nothing_or_all" whole_or_nothing
	rm -f cut.zst .cut.*
done
mkdir full
if mount -t tmpfs -o size=2m none full 2> /dev/null; then
	together 3 2 --to=container img full/target.zst
	judge full_disk_fails mpi_told $rc 2
	judge full_disk_is_told grep -q 'No space left' err
	judge full_disk_keeps_nothing test -z "$(ls -A full)"
	umount full
fi
if [ -c /dev/fuse ] && [ -x "$SLOWFS" ] && [ "$(id -u)" = 0 ]; then
	slowfs_start "$scratch/img" "$scratch/mount" -o latency=50,bandwidth=0
	size=$(stat -c %s img/data.mdb)
	for at in $((size / 3)) $((size - 1)); do
		slowfs_drop
		slowfs_control "fail data.mdb@$at:eio"
		together 4 2 --to=container mount target.zst
		judge "read_that_fails_at_${at}_ends_all_ranks" mpi_told $rc 2
		judge "read_that_fails_at_${at}_is_told" grep -q 'Input/output error' err
		judge "read_that_fails_at_${at}_leaves_nothing" nothing_of target.zst
		slowfs_control clear
	done
	slowfs_stop
fi
finish
