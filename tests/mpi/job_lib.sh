# SPDX-License-Identifier: OLDAP-2.8
# Functions for tests that run ordinary readers as a job under lmdbio-run --mpi on a slow file system, and add up what
# the readers saw. Sourced.
# shellcheck shell=bash disable=SC2154
# shellcheck source-path=SCRIPTDIR source=../stores/stores_lib.sh
. "${BASH_SOURCE[0]%/*}/../stores/stores_lib.sh"
skip() {
	echo "skipped: $*"
	exit 77
}
need() {
	command -v "$1" >/dev/null || skip "no $1 here"
}
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$top_srcdir/tests/mpi/mpi_lib.sh"
lmdbio_run=$top_builddir/tools/lmdbio-run
# On a busy machine a rank may get no processor for a second, and is no longer waited for. A figure that this would
# spoil counts only if it recurs in every try.
job_tries="1 2 3 4 5"

# All nodes that this machine plays share one page cache: only direct reads show that a byte was read twice. On a busy
# machine a rank may get no processor for a second: the others wait longer for it than they usually would.
job_begin() {
	mpi_require
	slowfs_require
	stores_begin
	export LMDBIO_IO=direct LMDBIO_PATIENCE=20 job_scratch=$scratch job_reader=$build/stores_reader
	trap 'job_clean' EXIT
}

job_clean() {
	local environ

	# An empty name would match the processes of every test.
	[ -n "$scratch" ] || return 0
	grep -slz "^job_scratch=$scratch\$" /proc/[0-9]*/environ | while read -r environ; do
		environ=${environ#/proc/}
		[ "${environ%/environ}" = $$ ] || kill -KILL "${environ%/environ}" 2>/dev/null || true
	done
	mpi_sweep
	stores_clean
}

# Reads one rank's part of a set, EPOCHS times; what it saw is in seen.RANK.EPOCH.
# shellcheck disable=SC2016
job_part='
	for epoch in $(seq "$epochs"); do
		"$job_reader" --stride="$PMI_SIZE" --first="$PMI_RANK" scan "$job_set" \
			>"$job_scratch/seen.$PMI_RANK.$epoch" || exit
	done'

# job_run RANKS NODES PROGRAM ARGUMENT...: runs it under lmdbio-run --mpi, with job_options; leaves the status in
# job_status.
job_options=
job_run() {
	local ranks=$1 nodes=$2

	shift 2
	job_status=0
	# shellcheck disable=SC2086
	mpi_job "$ranks" "$nodes" "$lmdbio_run" --mpi $job_options -- "$@" >"$scratch/job.log" 2>&1 || job_status=$?
}

# job_read RANKS NODES EPOCHS SET: every rank reads its part, with empty caches.
job_read() {
	rm -f "$scratch"/seen.*
	cold
	epochs=$3 job_set=$scratch/mount/$4 job_run "$1" "$2" sh -c "$job_part"
	[ "$job_status" = 0 ] || cat "$scratch/job.log"
}

# job_seen EPOCH [RANK...]: what those ranks (default: all) saw together, as one reader's line.
job_seen() {
	local epoch=$1 files=() file rank count bytes hash records=0 size=0 sum=0

	shift
	for rank in "$@"; do
		files+=("$scratch/seen.$rank.$epoch")
	done
	[ "$#" -gt 0 ] || files=("$scratch"/seen.*."$epoch")
	for file in "${files[@]}"; do
		read -r count bytes hash _ <"$file"
		records=$((records + count)) size=$((size + bytes)) sum=$((sum + 16#$hash))
	done
	printf '%d %d %016x\n' "$records" "$size" "$sum"
}

# The processes of the job that are alive, by the program that they run.
job_processes() {
	grep -slz "^job_scratch=$scratch" /proc/[0-9]*/environ |
		while read -r environ; do readlink "${environ%/environ}/exe" || true; done |
		grep -e lmdbio-run -e lmdbio-serve -e lmdbio-stage -e stores_reader -e loader_job -e inside_reader -e sets_reader || true
}

# Files of MPICH and its libraries that have appeared in /dev/shm since the test began and that no process has open or
# mapped. Other tests' jobs, which may begin meanwhile, have theirs open.
job_left_by_mpi() {
	local file

	find /dev/shm -maxdepth 1 \( -name 'mpich_shar_tmp*' -o -name 'ucx_shm_*' \) -user "$(id -u)" \
		-newer "$scratch/backing" | while read -r file; do
		if ! grep -qsF "$file" /proc/[0-9]*/maps &&
			[ -z "$(find /proc/[0-9]*/fd -lname "$file" 2>/dev/null)" ] && [ -e "$file" ]; then
			echo "$file"
		fi
	done
}

# job_left WHEN: no process of the job is alive, and nothing of the job is in shared memory. MPICH may leave files of
# a job that was killed (job_killed=1): they are removed first.
job_left() {
	local left

	[ -z "${job_killed:-}" ] || mpi_sweep
	left=$(job_processes
		find /dev/shm -maxdepth 1 -iname '*lmdbio*' -newer "$scratch/backing" || true
		job_left_by_mpi)
	equal "$1_leaves_nothing" none "${left:-none}"
}
