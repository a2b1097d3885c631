# SPDX-License-Identifier: OLDAP-2.8
# Functions for tests that run Slurm over hosts made of network namespaces: munge and slurmd on each host, slurmctld
# on host 0. Sourced, in place of cluster_lib.sh.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154
#
# Keys, sockets, logs and state files lie in $scratch/slurm. The test is the first process of a PID namespace: all
# daemons end with it, however it ends.

if [ -z "${SLURM_ALONE:-}" ] && [ "$(id -u)" -eq 0 ] && unshare --pid --fork --mount-proc true 2>/dev/null; then
	SLURM_ALONE=1 exec unshare --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi
# shellcheck source-path=SCRIPTDIR source=cluster_lib.sh
. "$(dirname "$0")/cluster_lib.sh"

# slurm_begin: as cluster_begin, or skips the test and says what is missing.
slurm_begin() {
	local missing="" command

	[ -n "${SLURM_ALONE:-}" ] || skip "no namespaces of process ids here"
	PATH=$PATH:/usr/sbin
	for command in munged:munge slurmctld:slurmctld slurmd:slurmd srun:slurm-client; do
		command -v "${command%:*}" >/dev/null || missing="$missing ${command#*:}"
	done
	[ -z "$missing" ] || skip "Slurm is missing: install$missing"
	cluster_begin
	unset "${!SLURM_@}"
	SLURM_ALONE=1
	export SLURM_CONF=$scratch/slurm/slurm.conf
}

# slurm_daemon NAME HOST COMMAND...: its output is in $scratch/slurm/log/NAME.HOST.
slurm_daemon() {
	local name=$1 host=$2

	shift 2
	cluster_in "node$host" "$@" </dev/null >"$scratch/slurm/log/$name.$host" 2>&1 &
	slurm_daemons="$slurm_daemons $!"
}

# slurm_await WHAT COMMAND...: returns when the command succeeds; all daemons must be alive until then.
slurm_await() {
	local what=$1 daemon

	shift
	until "$@" >/dev/null 2>&1; do
		for daemon in $slurm_daemons; do
			kill -0 "$daemon" 2>/dev/null || {
				tail -n 20 "$scratch"/slurm/log/*
				echo "failed: $what"
				exit 1
			}
		done
		sleep 0.05
	done
}

# slurm_start HOSTS: starts Slurm; returns when all hosts are idle.
slurm_start() {
	local host

	slurm_daemons=""
	mkdir -p "$scratch/slurm/log" "$scratch/slurm/state" "$scratch/slurm/run"
	cluster_start "$1"
	printf '%s\n' munged slurmctld slurmscriptd slurmd >"$scratch/cluster/daemons"
	head -c 128 /dev/urandom >"$scratch/slurm/munge.key"
	chmod 400 "$scratch/slurm/munge.key"
	chown 65534 "$scratch/slurm/munge.key"
	cat >"$SLURM_CONF" <<END
ClusterName=lmdbio
SlurmctldHost=node0
SlurmUser=root
AuthInfo=socket=$scratch/slurm/run/munge/socket
StateSaveLocation=$scratch/slurm/state
SlurmdSpoolDir=$scratch/slurm/run/spool
TmpFS=$scratch/slurm/run/tmp
SlurmctldPidFile=$scratch/slurm/run/slurmctld.pid
SlurmdPidFile=$scratch/slurm/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
MessageTimeout=60
TCPTimeout=60
MinJobAge=600
NodeName=node[0-$(($1 - 1))] CPUs=4
PartitionName=all Nodes=ALL Default=YES
END
	for ((host = 0; host < $1; host++)); do
		# The directories and files that each host has for itself.
		cluster_in "node$host" sh -ec 'mount -t tmpfs -o mode=755 none "$1"
			mkdir "$1/munge" "$1/spool" "$1/tmp"; chown 65534 "$1/munge"' - "$scratch/slurm/run"
		slurm_daemon munged "$host" setpriv --reuid=65534 --regid=65534 --clear-groups munged -F \
			--key-file="$scratch/slurm/munge.key" --num-threads=2 \
			--socket="$scratch/slurm/run/munge/socket" --pid-file="$scratch/slurm/run/munge/pid" \
			--seed-file="$scratch/slurm/run/munge/seed" --log-file="$scratch/slurm/run/munge/log"
		slurm_await "munged of host $host" cluster_in "node$host" munge -n -S "$scratch/slurm/run/munge/socket"
	done
	slurm_daemon slurmctld 0 slurmctld -D
	slurm_await slurmctld cluster_in node0 scontrol ping
	for ((host = 0; host < $1; host++)); do
		slurm_daemon slurmd "$host" slurmd -D -N "node$host"
	done
	slurm_await "idle hosts" slurm_are_idle "$1"
}

slurm_are_idle() {
	[ "$(cluster_in node0 sinfo -h -N -t idle | wc -l)" = "$1" ]
}

# slurm COMMAND...: runs the command on host 0, as from a user's login. A command that takes longer than MPI_SECONDS
# (300) hangs: it is told to end, status 124, or killed, 137.
slurm() {
	cluster_in node0 env LD_PRELOAD="$top_builddir/tests/mpi/.libs/polite_wait.so" \
		timeout --foreground -k 5 "${MPI_SECONDS:-300}" "$@" </dev/null
}

# slurm_submit OPTION... <SCRIPT: submits a job; its number is in $slurm_job, its output in $scratch/batch.
slurm_submit() {
	rm -f "$scratch/batch"
	{ echo "#!/bin/bash"; cat; } >"$scratch/script"
	slurm_job=$(slurm sbatch --parsable --no-requeue -o "$scratch/batch" "$@" "$scratch/script")
}

# slurm_field NAME: that field of the job, as scontrol prints it.
slurm_field() {
	cluster_in node0 scontrol -o show job "$slurm_job" | tr ' ' '\n' | sed -n "s/^$1=//p"
}

# slurm_settled: returns when Slurm knows of no running job, and no process on a host belongs to one.
slurm_settled() {
	until [ -z "$(cluster_in node0 squeue -h)" ] && ! slurm_has_steps; do
		sleep 0.05
	done
}

slurm_has_steps() {
	local pid

	for pid in $(cluster_processes); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != slurmstepd ] || return 0
	done
	return 1
}

# slurm_await_end: returns when that job has ended; sets $slurm_end to its final state.
slurm_await_end() {
	slurm_settled
	slurm_end="$(slurm_field JobState) $(slurm_field ExitCode)"
}

# slurm_batch OPTION... <SCRIPT
slurm_batch() {
	slurm_submit "$@"
	slurm_await_end
}

slurm_is_under_way() {
	case $(slurm_field JobState) in
	PENDING | CONFIGURING | RUNNING) ;;
	*) return 1 ;;
	esac
}
