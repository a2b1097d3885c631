#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that the nodes of a job never take each other's bytes for their own where a name leads to another file on one
# of them, even if that file has the same inode number, length, time and transaction, as copies on the nodes' own
# disks can have.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
unshare -m --propagation unchanged true 2>/dev/null || {
	echo "skipped: no mount namespaces here"
	exit 77
}
job_begin

# twin NAME PERCENT: a data set of the same sizes, alone on a file system of its own, whose inode numbers begin anew.
twin() {
	mkdir -p "$scratch/$1.backing" "$scratch/$1"
	mount -t tmpfs lmdbio-twin "$scratch/$1.backing"
	mkdir "$scratch/$1.backing/img"
	"$build/stores_make" "$scratch/$1.backing/img" 400 98316 "$2"
	touch -d @1700000000 "$scratch/$1.backing/img/data.mdb"
	slowfs_start "$scratch/$1.backing" "$scratch/$1"
}

# The fields that make up a file's identity in a job.
look() {
	stat -c '%i %s %y' "$scratch/$1/img/data.mdb"
}

# The trap of the sourced library unmounts only one mount.
trap 'umount -l "$scratch/one" "$scratch"/*.backing 2>/dev/null || true; stores_clean' EXIT
twin one 0
twin other 50
equal twins_look_alike "$(look one)" "$(look other)"
export job_set=$scratch/one/img job_other=$scratch/other/img job_mount=$scratch/one job_act=version
for ranks in 2 4; do
	rm -f "$scratch"/seen.*
	job_rank=$((ranks - 1)) job_run "$ranks" "$ranks" bash "$top_srcdir/tests/mpi/job_rank.sh"
	equal "twins_with_${ranks}_ranks_end_in_order" 0 "$job_status"
	for ((rank = 0; rank < ranks; rank++)); do
		mine=one
		[ "$rank" -lt $((ranks - 1)) ] || mine=other
		equal "twins_with_${ranks}_ranks_rank_${rank}_sees_its_own" \
			"$(original --stride="$ranks" --first="$rank" scan "$scratch/$mine.backing/img" | seen)" \
			"$(job_seen 1 "$rank")"
	done
	job_left "twins_with_${ranks}_ranks"
done
slowfs_stop
SLOWFS_MOUNT=$scratch/one
slowfs_stop
# The kernel closes the descriptors of an ending process one after the other.
for backing in "$scratch"/*.backing; do
	await umount "$backing"
done
finish
