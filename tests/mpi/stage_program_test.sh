#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that programs find what was staged, and nothing else; containers, too.
# shellcheck disable=SC2086
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
stage_require
reader=$top_builddir/tests/data/db_read
cd "$scratch"
mkdir img packed
"$top_builddir/tests/stores/stores_make" img 21 200000

# --- programs ---
mkdir to=
judge program_is_told_of_a_directory_that_ends_with_an_equals_sign test \
	"$("$stage" --quiet --to=to= img -- sh -c 'echo "$LMDBIO_STAGED"')" = "$PWD/to="
odd=$(printf 'odd\377')
ln -s img "$odd"
"$stage" --measure --json "$odd" > out
judge path_that_is_no_utf_8_is_told_in_json grep -qF '"path": "odd\\xff"' out
# Not by lmdbio-run, because a sanitized library cannot be preloaded.
ours="LD_LIBRARY_PATH=$(dirname "$dropin") LMDBIO_VERBOSE=1"
fresh to0
"$reader" img > original
rc=0
mpi_job 2 1 "$stage" --quiet --to=to0 img -- env $ours "$reader" img \
	> out 2> err || rc=$?
judge program_after_the_staging_ends_well test $rc -eq 0
judge program_of_each_rank_reads_the_same test "$(grep -cxF -f original out)" -eq 2
judge program_says_that_it_reads_the_copy grep -q 'data.mdb: its staged copy' err
judge program_reads_the_copy test "$(grep -c 'its staged copy' err)" -eq 2
"$stage" --quiet --to=to0 img -- sh -c 'set_path=$PWD/$3; cd / && env $1 "$2" "$set_path"' sh "$ours" "$reader" img > out 2> err
same program_in_another_directory_reads_the_same original out
judge program_in_another_directory_reads_the_copy grep -q 'its staged copy' err
env $ours LMDBIO_STAGED=to0 "$reader" img > out 2> err
same program_reads_the_copy_later_on original out
judge program_says_so_later_on grep -q 'its staged copy' err
touch img/data.mdb
env $ours LMDBIO_STAGED=to0 "$reader" img > out 2> err
same program_reads_the_original_when_the_copy_is_old original out
judge program_says_that_there_is_no_copy grep -q 'no staged copy in .*: No such file' err
fresh to0
staging 1 1 --to=to0 img
chmod o+w to0/*/data.mdb
env $ours LMDBIO_STAGED=to0 "$reader" img > out 2> err
same program_reads_the_original_when_others_may_write_to_the_copy original out
judge program_says_that_it_does_not_trust_the_copy grep -q 'no staged copy in .*: Operation not perm' err
rc=0
mpi_job 2 1 "$stage" --quiet --to=to0 img -- sh -c 'exit 7' > out 2>&1 || rc=$?
judge program_that_fails_is_the_status mpi_told $rc 7
rc=0
"$stage" --quiet --to=to0 img -- no-such-program > out 2>&1 || rc=$?
judge program_that_is_not_there_is_127 mpi_told $rc 127
# Signals that come while the program's data is staged reach the program when it begins; this one checks that itself.
python3 -c '
import os, signal, sys
kept = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM]
signal.pthread_sigmask(signal.SIG_BLOCK, kept)
for number in kept:
    os.kill(os.getpid(), number)
os.execv(sys.argv[1], sys.argv[1:])' "$stage" --quiet --tier=memory img -- \
	python3 -c 'import signal; print(*sorted(n.name for n in signal.sigpending()))' > out 2>&1 || true
judge signals_before_the_program_has_begun_are_kept test "$(cat out)" = "SIGALRM SIGUSR1 SIGUSR2"
# A signal to end comes while MPI begins or after the last step: no program begins, on any rank.
for at in before after; do
	rc=0
	KILLED_AT=$at KILLED_BY=15 KILLED_RANK=0 LD_PRELOAD=$top_builddir/tests/mpi/.libs/killed_at_init.so \
		mpi_job 1 1 "$stage" --to=to0 img -- touch begun > out 2> err || rc=$?
	judge signal_${at}_mpi_has_begun_is_the_status mpi_told $rc 143
done
rc=0
KILLED_AT=after KILLED_BY=15 LD_PRELOAD=$top_builddir/tests/mpi/.libs/killed_at_init.so \
	mpi_job 2 1 "$stage" --to=to0 img -- touch begun > out 2> err || rc=$?
judge signal_to_another_rank_is_told grep -q 'img: interrupted' err
judge program_of_an_interrupted_staging_does_not_begin test ! -e begun
# The same while another rank's process keeps MPI from beginning.
# begins_with COMMAND...: starts the command as rank 0; its process id is in the file pid.
begins_with() {
	rm -f pid
	# shellcheck disable=SC2016
	mpi_job 1 1 sh -c 'echo $$ > pid.new; mv pid.new pid; exec "$@"' - "$@" : -n 1 sleep 1000 > out 2>&1 &
	job=$!
	await test -e pid
}
# serves: the process in pid has a server.
serves() {
	pgrep -P "$(cat pid)" lmdbio-server > found
}
has_mpi() {
	grep -q libmpich "/proc/$(cat pid)/maps"
}
job=''
trap '[ -z "$job" ] || kill $(pgrep -P "$job") "$job" 2> /dev/null; rm -rf "$scratch"; mpi_sweep' EXIT
interrupted() {
	kill -TERM "$(cat pid)"
	rc=0
	wait $job || rc=$?
	job=''
	judge "$1" mpi_ended $rc
}
for what in "" true; do
	begins_with "$stage" --quiet --tier=memory img ${what:+-- $what}
	await serves
	interrupted "memory_tier_${what:-alone}_is_interrupted_while_mpi_begins"
done
begins_with "$top_builddir/tools/lmdbio-serve"
await has_mpi
interrupted server_is_interrupted_while_mpi_begins
rc=0
mpi_job 2 2 "$stage" --quiet --hold img -- env $ours LMDBIO_STORE=arena LMDBIO_STATS=1 "$reader" img \
	> out 2> err || rc=$?
judge program_finds_what_is_held test "$(grep -cxF -f original out)" -eq 2
judge program_finds_all_of_it test "$(grep -c 'requests to storage  *0$' err)" -eq 2
if mpi_huge_pages; then
	# On each rank the staging process is its program's parent.
	# shellcheck disable=SC2016
	mpi_job 2 2 "$stage" --quiet --hold img -- \
		sh -c 'grep ShmemPmdMapped "/proc/$PPID/smaps" | sort -u' > out
	judge memory_that_holds_it_is_huge_pages test "$(grep -vc ' 0 kB' out)" -gt 0
else
	echo "-- huge_pages: this kernel has none of shared memory"
fi

# --- containers ---
"$top_builddir/tools/lmdbio-convert" --quiet img packed
fresh to0 to1
staging 3 2 --to=to%n --buffer=64k packed
judge container_is_staged_as_it_is copies_are 2 packed/data.mdb.zst to0 to1
env $ours LMDBIO_STAGED=to0 "$reader" packed > out 2> err
same container_is_read_from_the_copy original out
judge container_says_that_it_reads_the_copy grep -q 'data.mdb.zst: its staged copy' err
# Each reader decompresses into memory: chunks smaller than a step, and chunks that take many steps.
"$top_builddir/tools/lmdbio-convert" --quiet --chunk-size=64k img small
"$top_builddir/tools/lmdbio-convert" --quiet --chunk-size=4M img large
for how in mpiio collective; do
	for packed in small large; do
		rc=0
		mpi_job 3 2 "$stage" --quiet --hold --buffer=192k --reader=$how $packed -- \
			env $ours LMDBIO_STORE=arena LMDBIO_STATS=1 "$reader" $packed > out 2> err || rc=$?
		judge container_of_${packed}_chunks_is_held_by_$how test $rc -eq 0
		judge container_of_${packed}_chunks_held_by_${how}_is_read test "$(grep -cxF -f original out)" -eq 3
		judge container_of_${packed}_chunks_held_by_${how}_needs_no_storage \
			test "$(grep -c 'requests to storage  *0$' err)" -eq 3
	done
	# Damage in the last rank's share gives the same error on all ranks.
	mkdir -p bad
	cp small/data.mdb.zst bad/
	printf '\1\2\3\4' | dd of=bad/data.mdb.zst bs=1 conv=notrunc status=none \
		seek=$(($(stat -c %s bad/data.mdb.zst) * 3 / 4))
	staging 3 2 --hold --reader=$how bad -- true
	judge damaged_container_is_not_held_by_$how mpi_told $rc 2
	judge damaged_container_is_told_by_$how grep -q 'damaged or cut off' err
done
finish
