# SPDX-License-Identifier: OLDAP-2.8
# Functions for tests in which the ranks of a job read a set by the batch loader on a slow file system, with limits on
# its cost. Sourced; loader_job_begin is called when the sets are made.
# shellcheck shell=bash disable=SC2154
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "${BASH_SOURCE[0]%/*}/job_lib.sh"
program=$top_builddir/tests/mpi/loader_job

loader_job_begin() {
	slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=4000
	export MPI_LEAKS=:detect_leaks=0 # see stage_call_test.sh
	export LMDBIO_VERBOSE=1 LOADER_SAYS="$scratch/said"
}

# ranks_said: appends what the ranks of a job have written to out.
ranks_said() {
	cat "$scratch"/said.* >>"$scratch/out" 2>/dev/null
	rm -f "$scratch"/said.*
}

# reads RANKS NODES SET ARGUMENT...: with empty caches; the samples are in $scratch/came, sorted, the other lines in
# out.
reads() {
	local ranks=$1 nodes=$2 set=$3

	shift 3
	cold
	job_status=0
	mpi_job "$ranks" "$nodes" "$program" "$@" "$scratch/mount/$set" \
		>"$scratch/out" 2>"$scratch/err" || job_status=$?
	ranks_said
	[ "$job_status" = 0 ] || cat "$scratch/err"
	grep -v '^#' "$scratch/out" | sort >"$scratch/came"
}

# expects SET ARGUMENT...: writes down what one process gets.
expects() {
	LMDBIO_MEMORY=512M reads 1 1 "$@"
	mv "$scratch/came" "$scratch/expected"
}

# same_as_alone NAME
same_as_alone() {
	equal "$1_ends_well" 0 "$job_status"
	judge "$1_is_the_same" cmp "$scratch/expected" "$scratch/came"
}

# storage EPOCH...: the bytes that all ranks have asked storage for in those epochs.
storage() {
	for epoch in "$@"; do
		sed -n "s/^# epoch $epoch rank .* storage \([0-9]*\) .*/\1/p" "$scratch/out"
	done | awk '{ sum += $1 } END { print sum + 0 }'
}

# once NAME RANKS NODES SET MEMORY ARGUMENT...: storage is read once. On a busy machine a service may get no processor
# for a second, and its peers read storage instead: only a cost that recurs in every try counts.
once() {
	local name=$1_of_$4_on_$2_ranks_of_$3_nodes size try read again

	size=$(file_size "$4")
	for try in $job_tries; do
		LMDBIO_MEMORY=$5 reads "$2" "$3" "$4" "${@:6}"
		read=$(slowfs_stat "$4/data.mdb:bytes")
		again=$(storage 1 2)
		[ "$read" -gt $((size * 103 / 100)) ] || [ "$again" -gt 0 ] || break
		echo "-- $name: $read bytes, $again of them again, at try $try"
	done
	same_as_alone "$name"
	at_most "${name}_bytes" "$read" $((size * 103 / 100))
	equal "${name}_reads_nothing_again" 0 "$again"
}
