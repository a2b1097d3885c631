#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio-run --mpi changes nothing about its program: status, signals, streams and variables; and how the
# job ends.
# shellcheck disable=SC2016
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
mpi_require
cd "$scratch"

status "one_rank_ends_with_the_programs_status" 7 mpi_job 1 1 "$lmdbio_run" --mpi sh -c 'exit 7'
status "no_launcher_is_a_job_of_one" 5 "$lmdbio_run" --mpi sh -c 'exit 5'
# The launcher makes one status of all ranks' statuses.
status "four_ranks_end_with_what_one_program_says" 3 mpi_job 4 2 "$lmdbio_run" --mpi -- \
	sh -c 'if [ "$PMI_RANK" = 2 ]; then exit 3; fi'
status "killed_program_is_128_and_the_signal" 137 mpi_job 2 2 "$lmdbio_run" --mpi -- \
	sh -c 'if [ "$PMI_RANK" = 1 ]; then kill -9 $$; fi'
status "missing_program_is_127" 127 mpi_job 1 1 "$lmdbio_run" --mpi -- ./no-such-program
says "missing_program_is_named" 'no-such-program: No such file'
: > plain
status "program_that_cannot_be_started_is_126" 126 mpi_job 1 1 "$lmdbio_run" --mpi -- ./plain

# A rank that crashes does not end the others: they end by themselves, afterwards.
mkfifo crashed
status "crash_leaves_the_others_running" 139 mpi_job 3 3 "$lmdbio_run" --mpi -- sh -c '
	case $PMI_RANK in
	0) echo going > crashed; kill -SEGV $$ ;;
	1) cat crashed; echo "rank 1 goes on" ;;
	esac
	echo "rank $PMI_RANK is through"'
judge "crash_lets_others_finish" test "$(grep -c 'through' out)" = 2

# Streams. Only the first rank has an input under mpiexec.
printf 'some\nlines\n' | mpi_job 2 1 "$lmdbio_run" --mpi -- \
	sh -c 'if [ "$PMI_RANK" = 0 ]; then cat; fi; echo noise >&2' > out 2> err
judge "input_reaches_the_program" test "$(cat out)" = "some
lines"
judge "errors_reach_standard_error" test "$(grep -c noise err)" = 2
# A program has read enough: the process that writes to it must learn that, while the job goes on.
yes | "$lmdbio_run" --mpi -- sh -c 'head -n 1; exec 0<&-; exec sleep 0' > out
judge "unread_input_ends_the_writer" test "$(cat out)" = y

# Variables.
mpi_job 4 2 "$lmdbio_run" --mpi -- sh -c 'echo "$PMI_RANK of $PMI_SIZE on ${LMDBIO_NODE##*#}"' \
	| sort > out
judge "programs_know_rank_and_node" test "$(cat out)" = "0 of 4 on 0
1 of 4 on 0
2 of 4 on 1
3 of 4 on 1"
mpi_job 1 1 "$lmdbio_run" --mpi -- env > out
judge "programs_have_no_door_to_the_launcher" sh -c '! grep -E "^(PMI_FD|PMI_PORT|HYDI_CONTROL_FD)=" out'
judge "programs_are_preloaded" grep -q '^LD_PRELOAD=.*liblmdb\.so\.0' out
mpi_job 1 1 env -u LMDBIO_STORE "$lmdbio_run" --mpi -- env > out
judge "programs_choose_their_store_themselves" sh -c '! grep -q ^LMDBIO_STORE= out'
LMDBIO_NODE=mine mpi_job 1 1 "$lmdbio_run" --mpi -- sh -c 'echo "$LMDBIO_NODE"' > out
judge "users_node_name_stays" test "$(cat out)" = mine
LMDBIO_NODE=mine mpi_job 2 2 "$lmdbio_run" --mpi -- sh -c 'echo "$LMDBIO_NODE"' | sort > out
judge "nodes_of_one_machine_have_names_of_their_own" test "$(cat out)" = "mine#0
mine#1"
mkdir staged0 staged1
mpi_job 2 2 "$lmdbio_run" --mpi --staged=staged%n -- sh -c 'echo "$LMDBIO_STAGED"' | sort > out
judge "nodes_directories_have_their_whole_paths" test "$(cat out)" = "$PWD/staged0
$PWD/staged1"

# Signals to lmdbio-run are meant for the program.
cat > traps <<'END'
trap 'echo told >> told; exit 9' TERM
trap 'echo user >> told' USR1
echo $PPID > ready
while :; do sleep 0.05; done
END
mkfifo ready
for signals in "TERM" "USR1 TERM"; do
	rm -f told
	"$lmdbio_run" --mpi -- sh ./traps &
	job=$!
	read -r parent < ready
	judge "program_is_a_child_of_its_rank" test "$parent" = "$job"
	for signal in $signals; do
		kill -s "$signal" "$job"
		until grep -q . told 2> /dev/null; do sleep 0.02; done
	done
	rc=0
	wait "$job" || rc=$?
	judge "signal_reaches_the_program" test "$rc" = 9
done
judge "both_signals_reach_the_program" test "$(sort -u told | tr '\n' ' ')" = "told user "
# Stopped and continued, as a shell does it: both processes stop, and both go on.
cat > count <<'END'
echo $$ > ready
read -r _ < go
END
mkfifo go
# A process group of its own, below this shell: the kernel stops no process of an orphaned group.
set -m
"$lmdbio_run" --mpi -- sh ./count &
job=$!
set +m
read -r program < ready
state() {
	sed 's/.*) \(.\).*/\1/' "/proc/$1/stat"
}
kill -s TSTP "$job"
until [ "$(state "$job")$(state "$program")" = TT ]; do sleep 0.02; done
kill -s CONT "$job"
until [ "$(state "$program")" != T ]; do sleep 0.02; done
echo go > go
rc=0
wait "$job" || rc=$?
judge "stopped_and_continued_program_ends_well" test "$rc" = 0

# Statistics: each rank has a report, and the reports count what the nodes' servers read, once for the job.
mkdir img
"$top_builddir/tests/stores/stores_make" img 100 200000
bytes=$(stat -c %s img/data.mdb)
LMDBIO_PATIENCE=20 LMDBIO_STORE=arena LMDBIO_STATS='counted-%r' mpi_job 2 2 "$lmdbio_run" --mpi -- \
	"$top_builddir/tests/stores/stores_reader" scan img > out 2> err
judge "each_rank_has_a_report" test -e counted-0 -a -e counted-1
cat counted-* > counted
add() {
	awk '{ sum += $1 } END { print sum }'
}
judge "reports_have_both_programs_values" \
	test "$(sed 's/.*"served_bytes": \([0-9]*\).*/\1/' counted | add)" = 40000000
asked=$(sed 's/.*"storage_bytes": \([0-9]*\).*/\1/' counted | add)
judge "storage_is_asked_once_by_servers_and_programs: $asked of $bytes" \
	test "$asked" -ge $((bytes * 9 / 10)) -a "$asked" -le $((bytes * 12 / 10))

# Without the module there is no job to start.
mkdir -p alone/tools alone/compat/.libs
cp "$(dirname "$lmdbio_run")/.libs/lmdbio-run" alone/tools/ 2> /dev/null || cp "$lmdbio_run" alone/tools/
cp "$dropin" "$core" alone/compat/.libs/
status "no_module_is_said" 2 env LD_LIBRARY_PATH=alone/compat/.libs alone/tools/lmdbio-run --mpi true
says "no_module_is_said_why" 'no MPI'
status "no_module_for_inside_is_said" 2 env LD_LIBRARY_PATH=alone/compat/.libs alone/tools/lmdbio-run --mpi=inside true
says "no_module_for_inside_is_said_why" 'no MPI'
# A program that was started without lmdbio-run says so, too: once for the node.
LMDBIO_MPI=1 mpi_job 2 2 env LD_PRELOAD="$PWD/alone/compat/.libs/liblmdb.so.0" \
	"$top_builddir/tests/mpi/inside_reader" never . > out 2> err || true
judge "no_module_is_said_by_the_program_once" \
	test "$(grep -c '^lmdbio: the node is not served: no MPI: ' err)" = 1
finish
