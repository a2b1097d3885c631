#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Jobs of a real Slurm over four hosts: with each start that the manuals name a job reads each data set from storage
# once and gets the original's answers; each other start says what to do; and a cancelled job leaves nothing.
# shellcheck source-path=SCRIPTDIR source=slurm_lib.sh disable=SC2016,SC2034,SC2154
. "$(dirname "$0")/slurm_lib.sh"
slurm_begin
make_set img 300 196620
size=$(file_size img)
whole=$(original scan "$scratch/backing/img" | seen)
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=4000
slurm_start 4
serve=$top_builddir/tools/lmdbio-serve
stage=$top_builddir/tools/lmdbio-stage
convert=$top_builddir/tools/lmdbio-convert
export lmdbio_run serve stage convert
export job_set=$scratch/mount/img

# Reads a task's part of the set, numbered by mpiexec or else by Slurm.
cat >"$scratch/part" <<'END'
#!/bin/sh
rank=${PMI_RANK:-$SLURM_PROCID}
for epoch in ${epochs:-1}; do
	"$job_reader" --stride="${PMI_SIZE:-$SLURM_STEP_NUM_TASKS}" --first="$rank" scan "$job_set" \
		>"$job_scratch/seen.$rank.$epoch" || exit
done
END
chmod +x "$scratch/part"

fresh() {
	rm -f "$scratch"/seen.*
	cold
}

# asked: sets $read to the bytes that the job has asked storage for. These are more than it needed if a node got no
# processor for a second and the others went on without it; then the job is run again.
asked() {
	read=$(slowfs_stat img/data.mdb:bytes)
	[ "$read" -le $((size * ${copies:-1} * 104 / 100)) ] && return
	echo "-- $read bytes at try $try"
	return 1
}

# saw NAME EPOCH...: the tasks saw what the original sees, storage was read once (copies times), and nothing is left.
saw() {
	local name=$1 epoch

	shift
	for epoch; do
		equal "${name}_as_the_original_in_epoch_$epoch" "$whole" "$(job_seen "$epoch")"
	done
	judge "${name}_reads_all" test "$read" -ge $((size * 98 / 100))
	at_most "${name}_reads_once" "$read" $((size * ${copies:-1} * 104 / 100))
	cluster_left "$name"
}

# batch NAME OPTION... <SCRIPT: a job that reads the set.
batch() {
	local script try

	script=$(cat)
	for try in $job_tries; do
		fresh
		slurm_batch "${@:2}" <<<"$script"
		! asked || break
	done
	equal "$1_ends_well" "COMPLETED 0:0" "$slurm_end"
	[ "$slurm_end" = "COMPLETED 0:0" ] || cat "$scratch/batch"
}

# --- programs that a batch script starts by itself: each node reads the set once ---
LMDBIO_VERBOSE=1 batch print_env_on_a_node -N 1 --ntasks-per-node=4 <<'END'
srun env $("$lmdbio_run" --print-env) "$job_scratch/part"
END
judge print_env_makes_programs_read_by_lmdbio grep -q "img: read by lmdbio" "$scratch/batch"
saw print_env_on_a_node 1
copies=4 batch print_env_on_4 -N 4 --ntasks-per-node=2 <<'END'
srun env $("$lmdbio_run" --print-env) "$job_scratch/part"
END
copies=4 saw print_env_on_4 1

# --- mpiexec in an allocation ---
for nodes in 2 4; do
	epochs="1 2" batch "mpiexec_on_$nodes" -N "$nodes" --ntasks-per-node=2 <<'END'
mpiexec "$lmdbio_run" --mpi -- "$job_scratch/part"
END
	equal "mpiexec_on_${nodes}_starts_all_tasks" $((2 * nodes)) "$(find "$scratch" -name 'seen.*.1' | wc -l)"
	saw "mpiexec_on_$nodes" 1 2
done

# --- srun with a PMI ---
# srun_part NAME OPTION...
srun_part() {
	local name=$1 rc try

	shift
	for try in $job_tries; do
		fresh
		rc=0
		epochs="1 2" slurm srun "$@" "$lmdbio_run" --mpi -- "$scratch/part" >"$scratch/out" 2>&1 || rc=$?
		slurm_settled
		! asked || break
	done
	equal "${name}_ends_well" 0 "$rc"
	[ "$rc" = 0 ] || cat "$scratch/out"
	judge "${name}_is_one_job" sh -c '! grep -q "each works for itself" "$1"' - "$scratch/out"
	saw "$name" 1 2
}
srun_part srun_on_2 -N 2 --ntasks-per-node=2 --mpi=pmi2
srun_part srun_on_4 -N 4 --ntasks-per-node=1 --mpi=pmi2
SLURM_MPI_TYPE=pmi2 srun_part srun_on_4_as_the_site_says -N 4 --ntasks-per-node=2
rc=0
slurm srun -N 4 --ntasks-per-node=1 --mpi=pmi2 "$lmdbio_run" --mpi -- sh -c 'exit $((SLURM_PROCID == 2 ? 3 : 0))' \
	>"$scratch/out" 2>&1 || rc=$?
equal srun_has_the_programs_status 3 "$rc"
for how in never plain multiple; do
	rc=0
	slurm srun -N 4 --ntasks-per-node=1 --mpi=pmi2 "$lmdbio_run" --mpi=inside -- \
		"$top_builddir/tests/mpi/inside_reader" "$how" "$job_set" >"$scratch/out" 2>&1 || rc=$?
	equal "srun_with_a_session_ends_$how" 0 "$rc"
	[ "$rc" = 0 ] || cat "$scratch/out"
done
slurm_settled
cluster_left srun_of_programs

# --- srun without a PMI that MPICH understands: each task works for itself, and the first says what to do ---
# Debian's pmix plug-in opens the libpmix.so of libpmix-dev.
# says_once NAME COMMAND
says_once() {
	equal "$1_says_once_what_to_do" \
		"$2: Slurm has started 4 tasks (--mpi=$mpi), which MPICH cannot make one job: each works for itself; start them with srun --mpi=pmi2" \
		"$(grep 'each works for itself' "$scratch/out")"
}
for mpi in none cray_shasta pmix; do
	if ! slurm srun --mpi=$mpi true >"$scratch/out" 2>&1; then
		echo "-- srun --mpi=$mpi: $(tail -n 1 "$scratch/out")"
		continue
	fi
	fresh
	rc=0
	slurm srun -N 4 --ntasks-per-node=1 --mpi=$mpi "$lmdbio_run" --mpi -- "$scratch/part" >"$scratch/out" 2>&1 || rc=$?
	equal "run_under_${mpi}_ends_well" 0 "$rc"
	says_once "run_under_$mpi" lmdbio-run
	equal "run_under_${mpi}_as_the_original" "$whole" "$(job_seen 1)"
	rc=0
	slurm srun -N 4 --ntasks-per-node=1 --mpi=$mpi "$stage" --measure "$job_set" >"$scratch/out" 2>&1 || rc=$?
	equal "stage_under_${mpi}_ends_well" 0 "$rc"
	says_once "stage_under_$mpi" lmdbio-stage
	rc=0
	slurm srun -N 4 --ntasks-per-node=1 --mpi=$mpi sh -c '"$convert" -qf "$job_set" "$job_scratch/alone.$SLURM_PROCID.zst"' \
		>"$scratch/out" 2>&1 || rc=$?
	equal "convert_under_${mpi}_ends_well" 0 "$rc"
	says_once "convert_under_$mpi" lmdbio-convert
done
slurm_settled
rm -f "$scratch"/alone.*
cluster_left srun_without_a_pmi

# --- servers for the programs of an allocation ---
batch servers -N 4 --ntasks-per-node=1 <<'END'
srun --overlap --mpi=pmi2 "$serve" "$job_set" &
until srun "$serve" --status; do sleep 0.1; done >/dev/null 2>&1
epochs=1 srun "$lmdbio_run" "$job_scratch/part"
epochs=2 srun "$lmdbio_run" "$job_scratch/part"
srun -N 1 -n 1 -w node3 "$serve" --status
"$serve" --stop
wait
END
judge servers_know_their_hosts grep -q "^3/4 .*  $job_set/data.mdb\$" "$scratch/batch"
saw servers 1 2

# --- staging to the hosts' own disks, and by all hosts to one container ---
disk=/dev/shm/disk # each host has its own
export disk
disks() {
	local host

	for host in 0 1 2 3; do
		cluster_in "node$host" "$@" "$disk"
	done
}
disks mkdir
batch staging -N 4 --ntasks-per-node=2 <<'END'
srun --mpi=pmi2 "$stage" --to="$disk" "$job_set"
srun "$lmdbio_run" --staged="$disk" -- "$job_scratch/part"
END
judge staging_tells_of_its_hosts grep -q "8 ranks on 4 nodes" "$scratch/batch"
disks rm -r
saw staging 1
batch staging_to_memory -N 4 --ntasks-per-node=1 <<'END'
srun --mpi=pmi2 "$stage" --tier=memory "$job_set" -- "$lmdbio_run" "$job_scratch/part"
END
saw staging_to_memory 1
"$convert" -q "$scratch/backing/img" "$scratch/alone.zst"
slurm_batch -N 4 --ntasks-per-node=1 <<'END'
srun --mpi=pmi2 "$convert" -q "$job_set" "$job_scratch/together.zst"
END
equal converting_ends_well "COMPLETED 0:0" "$slurm_end"
judge converting_makes_the_same_file cmp "$scratch/alone.zst" "$scratch/together.zst"

# halfway OPTION... <SCRIPT: starts a job; returns in the middle of its reads.
halfway() {
	fresh
	# Slow storage: the moment must not pass before the loop below sees it.
	slowfs_control "bandwidth 4"
	slurm_submit "$@"
	until [ "$(slowfs_stat img/data.mdb:bytes)" -gt $((size / 5)) ]; do
		slurm_is_under_way || { cat "$scratch/batch"; exit 1; }
	done
}

# --- a server that is killed: its programs and the other hosts go on ---
halfway -N 4 --ntasks-per-node=1 <<'END'
srun --mpi=pmi2 "$lmdbio_run" --mpi -- "$job_scratch/part"
END
killed=0
for pid in $(cluster_processes 2); do
	if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = lmdbio-server ]; then
		kill -KILL "$pid"
		killed=$((killed + 1))
	fi
done
equal job_loses_a_server 1 "$killed"
slowfs_control "bandwidth 4000"
slurm_await_end
equal job_without_a_server_ends_well "COMPLETED 0:0" "$slurm_end"
judge job_without_a_server_says_so grep -q "the server of this rank has ended by signal 9" "$scratch/batch"
equal job_without_a_server_as_the_original "$whole" "$(job_seen 1)"
cluster_left job_without_a_server

# --- a job that is cancelled ---
# cancelled NAME SCANCEL-OPTION... <SCRIPT
cancelled() {
	local name=$1

	shift
	disks mkdir
	halfway -N 4 --ntasks-per-node=2
	slurm scancel "$@" "$slurm_job"
	slurm_settled
	slowfs_control "bandwidth 4000"
	equal "${name}_is_cancelled" CANCELLED "$(slurm_field JobState)"
	equal "${name}_leaves_no_file" none "$(disks find | grep -vx "$disk" || echo none)"
	disks rm -r
	cluster_left "$name"
}
for option in "" --signal=KILL; do
	how=${option:+_by_SIGKILL}
	cancelled "print_env_job$how" $option <<'END'
srun env $("$lmdbio_run" --print-env) "$job_scratch/part"
END
	cancelled "srun_job$how" $option <<'END'
srun --mpi=pmi2 "$lmdbio_run" --mpi -- "$job_scratch/part"
END
	cancelled "mpiexec_job$how" $option <<'END'
mpiexec "$lmdbio_run" --mpi -- "$job_scratch/part"
END
	cancelled "servers$how" $option <<'END'
srun --mpi=pmi2 "$serve" "$job_set"
END
done
# The read in flight ends before Slurm kills the job's processes (KillWait, 30 s).
cancelled staging_job <<'END'
srun --mpi=pmi2 "$stage" --buffer=256k --to="$disk" "$job_set"
END
cancelled staging_to_memory_job <<'END'
srun --mpi=pmi2 "$stage" --tier=memory "$job_set"
END
job_killed=1
job_left slurm
cluster_stop
slowfs_stop
finish
