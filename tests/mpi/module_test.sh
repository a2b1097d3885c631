#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that the module loads and knows its rank and node, and that no other library or command is linked with MPI.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
mpi_require
place=$top_builddir/tests/mpi/place_print

# places RANKS NODES ARGUMENT...
places() {
	mpi_job "$@" 2>&1 | sort
}

one=$(places 1 1 "$place")
judge "one_rank_knows_its_place" test "$one" = "rank 0 of 1 node 0 of 1 there 0 of 1"
four=$(places 4 2 "$place" threads)
judge "four_ranks_on_two_nodes_know_their_places" test "$four" = \
	"rank 0 of 4 node 0 of 2 there 0 of 2
rank 1 of 4 node 0 of 2 there 1 of 2
rank 2 of 4 node 1 of 2 there 0 of 2
rank 3 of 4 node 1 of 2 there 1 of 2"
# Ranks that can share no memory are nodes of their own: here each rank from 2 on has a network to itself.
# shellcheck disable=SC2016
apart='[ "$PMI_RANK" -lt 2 ] || exec unshare -n "$@"; exec "$@"'
if unshare -n true 2>/dev/null; then
	# A rank of such a job leaves MPI without MPI_Finalize.
	nets=$(MPI_LEAKS=:detect_leaks=0 places 4 1 sh -c "$apart" - "$place")
	judge "ranks_of_other_networks_are_other_nodes" test "$nets" = \
		"rank 0 of 4 node 0 of 3 there 0 of 2
rank 1 of 4 node 0 of 3 there 1 of 2
rank 2 of 4 node 1 of 3 there 0 of 1
rank 3 of 4 node 2 of 3 there 0 of 1"
fi
# Without a launcher a process is a job of its own.
alone=$("$place")
judge "no_launcher_is_a_job_of_one" test "$alone" = "rank 0 of 1 node 0 of 1 there 0 of 1"
rc=0
mpi_job 3 1 "$place" abort > "$scratch/aborted" 2>&1 || rc=$?
judge "abort_ends_the_job_with_its_status" test "$rc" = 7

needs_mpi() {
	LD_LIBRARY_PATH='' ldd "$1" | grep -q libmpich
}
needs_no_mpi() {
	! needs_mpi "$1"
}
judge "module_holds_mpi" needs_mpi "$top_builddir/compat/.libs/liblmdbio-mpi.so.0"
judge "dropin_holds_no_mpi" needs_no_mpi "$dropin"
judge "tools_hold_no_mpi" needs_no_mpi "$lmdbio_run"
finish
