#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a job's ranks together get from the batch loader what one process gets, and that storage is read once
# when the nodes' memory together holds the data set.
# shellcheck source-path=SCRIPTDIR source=loader_job_lib.sh
. "$(dirname "$0")/loader_job_lib.sh"
stores_alone "$@"
job_begin
make_set img 300 196620
make_set cifar 12000 3073
loader_job_begin

# plain: true without a sanitizer; a sanitized build runs each kind of case once.
plain() {
	[ "${with_sanitizer:-no}" = no ]
}

# --- the same batches, in every order, for any number of ranks ---
for order in shuffle sequential block opportunistic; do
	arguments=("--order=$order" --block=40 --buffer=3 --resident=2000 --batch=100 --epochs=1)
	expects cifar "${arguments[@]}"
	for ranks in 2 3 4; do
		[ $ranks = 3 ] || { [ $order = shuffle ] && plain; } || continue
		LMDBIO_MEMORY=64M reads $ranks $ranks cifar "${arguments[@]}"
		same_as_alone "${order}_on_${ranks}_ranks"
	done
done

# --- no node has memory for all of it, but all together do ---
expects img --batch=14
once reading 4 4 img 40M --batch=14
if plain; then
	once reading 4 2 img 64M --batch=14
	once reading 2 2 img 64M --batch=14
fi
once reading_apart 4 4 img 40M --batch=14 --apart
judge reading_is_planned_for_all_records grep -q '4 nodes keep 300 of 300 records' "$scratch/err"
expects cifar --batch=100
once reading 4 4 cifar 40M --batch=100
! plain || once reading 3 3 cifar 40M --batch=100

# In sequential order neighbours are read together, even here, where each rank wants every second record.
make_set mid 400 100000
expects mid --batch=14 --order=sequential
once reading_in_order 2 2 mid 64M --batch=14 --order=sequential
at_most reading_in_order_requests "$(slowfs_stat mid/data.mdb:requests)" $(($(file_size mid) * 2 >> 20))

# A plan is for eight epochs: after those, homes stay, copies are chosen anew, and the older copies go. If homes were
# chosen at random, half of the records would be on the node that wants them; storage is not asked again.
# local_share FIRST LAST: per cent of those epochs' bytes that were on the reader's node.
local_share() {
	for ((epoch = $1; epoch <= $2; epoch++)); do
		sed -n "s/^# epoch $epoch rank .* memory \([0-9]*\) peer \([0-9]*\) .*/\1 \2/p" "$scratch/out"
	done | awk '{ here += $1; all += $1 + $2 } END { print int(100 * here / all) }'
}
for try in $job_tries; do
	LMDBIO_MEMORY=40M reads 4 4 img --quiet --batch=14 --epochs=16
	read=$(slowfs_stat img/data.mdb:bytes)
	[ "$read" -gt $(($(file_size img) * 103 / 100)) ] || break
	echo "-- later epochs: $read bytes at try $try"
done
equal later_epochs_end_well 0 "$job_status"
equal later_epochs_are_planned_anew_on_all_ranks 4 "$(grep -c '; [12] plans were made anew' "$scratch/err")"
at_most later_epochs_bytes "$read" $(($(file_size img) * 103 / 100))
at_most later_epochs_percent_from_peers $((100 - $(local_share 9 15))) 47

# Each node has memory for all of it: storage is still read only once.
expects img --batch=14
! plain || once reading_in_plenty 4 4 img 512M --batch=14

# Less memory than data: records without a place are read again, and all samples are right.
LMDBIO_MEMORY=20M reads 2 2 img --batch=14
same_as_alone short_memory
judge short_memory_is_used grep -q ' planned [1-9]' "$scratch/out"

# --- some ranks save their place in the epoch, and another number of ranks continues from it ---
# resumes SAVED-ON GONE-ON: numbers of ranks; a batch has 100 records, an epoch 120 batches.
resumes() {
	local name=saved_on_$1_ranks_gone_on_from_on_$2

	LMDBIO_MEMORY=64M reads "$1" "$1" cifar --batch=100 --epochs=2 --quiet --save=150 --state="$scratch/state"
	equal "${name}_saves" "0 64" "$job_status $(stat -c %s "$scratch/state")"
	LMDBIO_MEMORY=64M reads "$2" "$2" cifar --batch=100 --first=1 --epochs=1 --restore --state="$scratch/state"
	same_as_alone "$name"
}
LMDBIO_MEMORY=512M reads 1 1 cifar --batch=100 --first=1 --epochs=1
awk '$2 >= 30' "$scratch/came" >"$scratch/expected"
resumes 3 4
! plain || resumes 2 1

# --- programs that lack what the exchange of records needs ---
expects img --batch=14
reads 4 4 img --batch=14 --single
same_as_alone program_without_threads
judge program_without_threads_is_told grep -q 'not asked for MPI_THREAD_MULTIPLE' "$scratch/err"
judge program_without_threads_has_no_peers grep -q ' peers 0$' "$scratch/out"
reads 4 1 img --batch=14
same_as_alone ranks_of_one_node
at_most ranks_of_one_node_bytes "$(slowfs_stat img/data.mdb:bytes)" $(($(file_size img) * 103 / 100))
job_left loaders
slowfs_stop
finish
