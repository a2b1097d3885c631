# SPDX-License-Identifier: OLDAP-2.8
# Functions for shell tests that start a job of several ranks, on a given number of nodes.
# Sourced, after tests/tools/harness.sh.
# shellcheck shell=sh

# mpi_require: skips the test where MPI is missing, to build with or to start jobs by; where MPI is there, a build
# without the module is a failure.
mpi_require() {
	pkg-config --exists 'mpich >= 4.0' || skip "MPICH is missing: install libmpich-dev"
	need mpiexec
	trap 'rm -rf "${scratch:-}"; mpi_sweep' EXIT
	if ! [ -e "$top_builddir/compat/liblmdbio-mpi.la" ]; then
		echo "MPICH is here, and liblmdbio-mpi was not built"
		exit 1
	fi
	# This test's programs must not find other tests' servers.
	LMDBIO_NODE=${LMDBIO_NODE:-${scratch##*/}}
	export LMDBIO_NODE
}

# mpi_job RANKS NODES COMMAND...: RANKS processes on NODES nodes, which MPICH makes of this machine, in blocks. A job
# that takes longer than MPI_SECONDS (300) hangs: it is told to end, status 124, and killed if it has not ended
# MPI_GRACE (5) seconds later, status 137.
mpi_job() {
	mpi_ranks=$1
	mpi_nodes=$2
	shift 2
	# MPICH's own leaks do not matter here. To look up the names of their functions takes longer than the job: for a
	# leak of ours `addr2line -e MODULE OFFSET` does it.
	MPIR_CVAR_NUM_CLIQUES=$mpi_nodes MPIR_CVAR_CLIQUES_BY_BLOCK=1 \
		LD_PRELOAD="$top_builddir/tests/mpi/.libs/polite_wait.so${LD_PRELOAD:+:$LD_PRELOAD}" \
		ASAN_OPTIONS="verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}" \
		LSAN_OPTIONS="suppressions=$top_srcdir/tests/mpi/lsan.suppressions:print_suppressions=0:symbolize=0${MPI_LEAKS:-}" \
		timeout -k "${MPI_GRACE:-5}" "${MPI_SECONDS:-300}" mpiexec -n "$mpi_ranks" "$@"
}

# mpi_ended STATUS: whether the job has failed, and has ended by itself. The mpiexec of MPICH 4.2 ends with 0 in one
# of six jobs of a program that uses MPI alone and whose rank 1 ends with 3 without MPI_Finalize.
mpi_ended() {
	case ${mpi_hydra:=$(mpiexec --version | awk '$1 == "Version:" { print $2 }')} in
	4.2 | 4.2.*) ;;
	*) [ "$1" -ne 0 ] || return 1 ;;
	esac
	[ "$1" -ne 124 ] && [ "$1" -ne 137 ]
}

# mpi_told STATUS WANTED: whether a job has ended with a status, with the 0 that MPICH 4.2 may put in its place, or
# with the 9 of SIGKILL, by which mpiexec ends the other ranks once one has failed.
mpi_told() {
	[ "$1" -eq "$2" ] || { [ "$1" -eq 0 ] && mpi_ended 0; } || { [ "$1" -eq 9 ] && [ "$2" -ne 0 ]; }
}

# mpi_huge_pages: whether this kernel makes huge pages of shared memory when asked (MADV_COLLAPSE).
mpi_huge_pages() {
	mpi_huge=/sys/kernel/mm/transparent_hugepage/shmem_enabled
	[ -e "$mpi_huge" ] && ! grep -q '\[deny\]' "$mpi_huge" &&
		[ "$(printf '%s\n' 6.1 "$(uname -r)" | sort -V | head -n 1)" = 6.1 ]
}

# mpi_sweep: removes what MPICH leaves in /dev/shm when a job is killed while it begins. The process that has made
# such a file keeps it open, or mapped, as long as the file is of use.
mpi_sweep() {
	for mpi_left in /dev/shm/mpich_shar_tmp* /dev/shm/ucx_shm_posix_*; do
		if [ -O "$mpi_left" ] && ! grep -qsF "$mpi_left" /proc/[0-9]*/maps &&
			[ -z "$(find /proc/[0-9]*/fd -lname "$mpi_left" 2> /dev/null)" ]; then
			rm -f "$mpi_left"
		fi
	done
}

# await COMMAND...: returns 0 when the command succeeds; 1 after a minute, when it is not to be expected any more.
await() {
	mpi_last=$(($(date +%s) + 60))
	until "$@"; do
		[ "$(date +%s)" -lt "$mpi_last" ] || return 1
		sleep 0.02
	done
}
