#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# If storage fails on one node of a job, no other node is affected; on that node at most the calls of LMDB return an
# error.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh disable=SC2317
. "$(dirname "$0")/job_lib.sh"
unshare -m --propagation unchanged true 2>/dev/null || skip "no mount namespaces here"
job_begin
trap 'umount "$scratch/mount" 2>/dev/null || true; mounts_each slowfs_abandon; job_clean' EXIT
make_set img 400 98316
size=$(file_size img)
# A mount of its own, so that what is mounted over it is seen by no other process: below a changed root the root
# cannot be made private.
mkdir "$scratch/mount"
mount --bind "$scratch/mount" "$scratch/mount"
mount --make-private "$scratch/mount"
export node_mount=$scratch/mount job_set=$scratch/mount/img

# Each rank is a node with a mount of its own, under the same name on all nodes.
for node in 0 1 2 3; do
	slowfs_start "$scratch/backing" "$scratch/mount$node"
done
cat >"$scratch/node" <<END
#!/bin/bash
exec unshare -m --propagation unchanged bash -c 'mount --bind "\$node_mount\$PMI_RANK" "\$node_mount" && exec "\$@"' - \
	"$lmdbio_run" "\$@"
END
chmod +x "$scratch/node"
lmdbio_run=$scratch/node
# shellcheck disable=SC2016
node_part='
	rc=0
	"$job_reader" --stride="$PMI_SIZE" --first="$PMI_RANK" scan "$job_set" \
		>"$job_scratch/seen.$PMI_RANK.1" || rc=$?
	echo "$rc" >"$job_scratch/status.$PMI_RANK"
	exit "$rc"'

mounts_each() {
	for SLOWFS_MOUNT in "$scratch"/mount[0-9]; do
		"$@"
	done
}

# node_job RANKS BAD FAULT: sets bytes to what the other nodes together have read from storage.
node_job() {
	local rank

	rm -f "$scratch"/seen.* "$scratch"/status.*
	mounts_each slowfs_control clear
	mounts_each cold
	SLOWFS_MOUNT=$scratch/mount$2
	slowfs_control "fail img/data.mdb@$3"
	job_run "$1" "$1" sh -c "$node_part"
	bytes=0
	for ((rank = 0; rank < $1; rank++)); do
		[ "$rank" != "$2" ] || continue
		SLOWFS_MOUNT=$scratch/mount$rank
		bytes=$((bytes + $(slowfs_stat img/data.mdb:bytes)))
	done
	SLOWFS_MOUNT=$scratch/mount$2
}

# rank_right RANKS RANK: whether that rank ended well, and has read its part.
rank_right() {
	[ "$(cat "$scratch/status.$2")" = 0 ] && [ "$(job_seen 1 "$2")" = \
		"$(original --stride="$1" --first="$2" scan "$scratch/backing/img" | seen)" ]
}

# rank_told_or_right RANKS RANK: the same, or a call of LMDB returned storage's error to it.
rank_told_or_right() {
	rank_right "$@" || { [ "$(cat "$scratch/status.$2")" = 3 ] && grep -q '^error 5 ' "$scratch/seen.$2.1"; }
}

# node_failing NAME RANKS BAD FAULT PERCENT JUDGE: PERCENT of the file can never be read on that node. The other nodes
# read what they own, and each for itself what the bad node owns of that; a quarter more if the chunks are spread
# unevenly. On a busy machine only a cost that recurs in every try counts.
node_failing() {
	local name=$1_with_$2_ranks rank try most

	most=$((size * ($2 - 1) * (100 + $5) * 5 / ($2 * 400)))
	for try in $job_tries; do
		node_job "$2" "$3" "$4"
		[ "$bytes" -gt "$most" ] || break
		echo "-- $name: $bytes bytes at try $try"
	done
	judge "${name}_is_met" test "$(slowfs_stat img/data.mdb:failed)" -gt 0
	for ((rank = 0; rank < $2; rank++)); do
		[ "$rank" = "$3" ] || judge "${name}_rank_${rank}_sees_the_same" rank_right "$2" "$rank"
	done
	judge "${name}_bad_$6" "rank_$6" "$2" "$3"
	equal "${name}_ends_with_its_status" "$(cat "$scratch/status.$3")" "$job_status"
	at_most "${name}_bytes_of_others" "$bytes" "$most"
	job_left "$name"
}

half=$((size / 4))-$((size * 3 / 4))
node_failing storage_failing_once 2 1 "$half:eio:1" 0 right
node_failing storage_failing_once 4 0 "$half:eio:1" 0 right
# A range large enough that the bad node owns one of its chunks.
node_failing chunks_failing_always 4 3 "$((size / 2))-$((size / 2 + 4194304)):eio" 15 told_or_right
node_failing half_failing_always 2 1 "$half:eio" 50 told_or_right
node_failing half_failing_always 4 0 "$half:eio" 50 told_or_right
# On that node the file cannot even be opened.
node_failing all_failing_always 2 0 "0-$size:eio" 100 told_or_right
node_failing all_failing_always 4 2 "0-$size:eio" 100 told_or_right
umount "$scratch/mount"
mounts_each slowfs_stop
finish
