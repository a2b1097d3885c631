#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Jobs, loaders, servers and staging over hosts with a network between them: storage is read once, all other bytes
# come over the network, and nothing is left on a host.
# shellcheck source-path=SCRIPTDIR source=cluster_lib.sh disable=SC2016,SC2154
. "$(dirname "$0")/cluster_lib.sh"
cluster_begin
make_set img 300 196620
make_set cifar 24000 3073
loader_job_begin
cluster_start 4

# cluster_count: sets $counted to the bytes that the hosts have received over the network. cluster_counted: prints how
# many more they have received since.
cluster_count() {
	local host

	counted=0
	for ((host = 0; host < cluster_hosts; host++)); do
		counted=$((counted + $(cluster_bytes "$host")))
	done
}
cluster_counted() {
	local before=$counted

	cluster_count
	echo $((counted - before))
}

# --- each host is a node, without settings of MPICH's ---
mpi_job 4 2 "$lmdbio_run" --mpi -- sh -c 'echo "$PMI_RANK $(hostname) $LMDBIO_NODE"' >"$scratch/out"
equal hosts_keep_the_users_name "$LMDBIO_NODE" "$(cut -d ' ' -f 3 "$scratch/out" | sort -u)"
equal ranks_are_in_blocks "0 node0,1 node0,2 node1,3 node1," "$(sort "$scratch/out" | cut -d ' ' -f 1,2 | tr '\n' ',')"
mpi_job 4 2 "$top_builddir/tests/mpi/place_print" >"$scratch/out" || true
equal hosts_are_told_apart "0 of 2,0 of 2,1 of 2,1 of 2," "$(sed 's/.*node \([0-9]* of [0-9]*\).*/\1/' "$scratch/out" | sort | tr '\n' ',')"

# --- a job reads each data set once ---
# job_once RANKS HOSTS SET
job_once() {
	local name=job_of_$1_on_$2_hosts_reads_$3 size try read moved

	size=$(file_size "$3")
	for try in $job_tries; do
		cluster_count
		job_read "$1" "$2" 2 "$3"
		read=$(slowfs_stat "$3/data.mdb:bytes")
		moved=$(cluster_counted)
		[ "$read" -gt $((size * 103 / 100)) ] || break
		echo "-- $name: $read bytes at try $try"
	done
	equal "${name}_and_ends_well" 0 "$job_status"
	for epoch in 1 2; do
		equal "${name}_as_the_original_in_epoch_$epoch" "$(original scan "$scratch/backing/$3" | seen)" "$(job_seen $epoch)"
	done
	judge "${name}_whole" test "$read" -ge $((size * 99 / 100))
	at_most "${name}_once" "$read" $((size * 103 / 100))
	# Each rank reads all pages: bytes that other hosts have read come over the network, once.
	at_most "${name}_by_the_network" $((size * ($2 - 1) * 9 / 10)) "$moved"
	at_most "${name}_by_the_network_once" "$moved" $((size * ($2 - 1) * 125 / 100))
	cluster_left "$name"
}
# A rank reads by page faults while it opens its node's memory. With 20 ms a request few of them fit into that time,
# also where a busy machine makes it long.
slowfs_control "latency 20000"
job_once 2 2 img
job_once 4 2 cifar
job_once 4 4 img
job_once 8 4 cifar
slowfs_control "latency 500"

# --- a job ends, where MPI_Finalize would not return ---
for ranks in 2 4 8; do
	status=0
	MPI_SECONDS=30 mpi_job "$ranks" $((ranks > 4 ? 4 : ranks)) "$top_builddir/tests/mpi/place_print" >"$scratch/out" || status=$?
	equal "job_of_${ranks}_ends" 0 "$status"
done
for how in never plain multiple; do
	status=0
	MPI_SECONDS=30 mpi_job 4 4 "$lmdbio_run" --mpi=inside -- "$top_builddir/tests/mpi/inside_reader" "$how" \
		"$scratch/mount/img" >"$scratch/out" 2>&1 || status=$?
	equal "job_with_a_session_ends_$how" 0 "$status"
	cluster_left "job_with_a_session_$how"
done

# --- the batch loader ---
expects img --batch=14
cluster_finalize=1
for hosts in 2 4; do
	once loading_over_hosts "$hosts" "$hosts" img 64M --batch=14
	cluster_left "loading_over_${hosts}_hosts"
done
cluster_finalize=

# --- servers, and programs that come and go ---
serve=$top_builddir/tools/lmdbio-serve
set_path=$scratch/mount/img
whole=$(original scan "$scratch/backing/img" | seen)
size=$(file_size img)
cold
mpi_job 2 2 "$serve" "$set_path" >"$scratch/serve.log" 2>&1 &
served=$!
for host in 0 1; do
	until cluster_in "node$host" "$serve" --status >"$scratch/status" 2>/dev/null; do
		kill -0 "$served" || { cat "$scratch/serve.log"; exit 1; }
		sleep 0.05
	done
done
until [ "$(slowfs_stat img/data.mdb:bytes)" -ge "$size" ]; do
	kill -0 "$served" || { cat "$scratch/serve.log"; exit 1; }
	sleep 0.05
done
for host in 0 1 0; do
	equal "program_on_host_${host}_sees_the_same" "$whole" \
		"$(LD_LIBRARY_PATH=$library cluster_in "node$host" "$build/stores_reader" scan "$set_path" | seen)"
done
at_most served_programs_read_once "$(slowfs_stat img/data.mdb:bytes)" $((size * 103 / 100))
cluster_in node1 "$serve" --status >"$scratch/status"
judge server_knows_its_host grep -q "^1/2 .*  $set_path/data.mdb\$" "$scratch/status"
cluster_in node1 "$serve" --stop
rc=0
wait "$served" || rc=$?
equal stopping_one_server_ends_all 0 "$rc"
cluster_left servers

# --- staging to the hosts' own disks ---
disk=/dev/shm/disk # each host has its own
for host in 0 1 2 3; do
	cluster_in "node$host" mkdir "$disk"
done
cold
status=0
mpi_job 4 4 "$top_builddir/tools/lmdbio-stage" --to="$disk" "$set_path" >"$scratch/out" 2>&1 || status=$?
equal staging_ends_well 0 "$status"
at_most staging_reads_once "$(slowfs_stat img/data.mdb:bytes)" $((size * 103 / 100))
slowfs_reset
for host in 0 1 2 3; do
	equal "host_${host}_has_a_copy" "$whole" \
		"$(LD_LIBRARY_PATH=$library LMDBIO_STAGED=$disk cluster_in "node$host" "$build/stores_reader" scan "$set_path" | seen)"
done
at_most staged_programs_read_next_to_nothing "$(slowfs_stat img/data.mdb:bytes)" 262144
for host in 0 1 2 3; do
	cluster_in "node$host" rm -r "$disk"
done
cluster_left staging
job_left hosts
cluster_stop
slowfs_stop
finish
