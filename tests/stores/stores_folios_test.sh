#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks how a scan of a local file leaves it in the page cache, which is what
# every later reader of the machine pays for.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
stores_begin
# On a disk, which the build tree's is: memory is never cold.
place=$(mktemp -d "$build/stores-folios.XXXXXX")
trap 'rm -rf "$place"; stores_clean' EXIT
make_set img 250 196620
mv "$scratch/backing/img" "$place"
data=$place/img/data.mdb

forget() {
	sync "$data"
	dd if="$data" iflag=nocache count=0 status=none
}

# The kernel has to know folios of 2 MiB: ext4 since 6.16, xfs since 5.18.
case $(stat -f -c %T "$place") in
ext2/ext3) knows="kernel_is 6 16" ;;
xfs) knows="kernel_is 5 18" ;;
*) knows=false ;;
esac

# faults_after READER: into $faults, of a scan by the original, of what a reader has left
faults_after() {
	local line

	forget
	line=$("$1" --nordahead scan "$place/img")
	equal "scan_of_$1_sees_the_same" "$wanted" "$(echo "$line" | seen)"
	line=$(original scan "$place/img")
	equal "scan_after_$1_sees_the_same" "$wanted" "$(echo "$line" | seen)"
	faults=$(field minor "$line")
}

wanted=$(original scan "$place/img" | seen)
faults_after original
singly=$faults
faults_after reader
if $knows; then
	at_most "faults_after_lmdbio_where_singly_$singly" "$faults" $((singly / 2))
else
	# As before, then: nothing is worse.
	at_most "faults_after_lmdbio_where_singly_$singly" "$faults" $((singly * 11 / 10))
fi

# What a scan has asked for ahead of need, on the disk as it is set.
asked_ahead() {
	forget
	line=$(LMDBIO_VERBOSE=1 LMDBIO_STATS=$scratch/stats reader "$@" scan "$place/img" 2>"$scratch/said")
	equal "scan_with_$*_sees_the_same" "$wanted" "$(echo "$line" | seen)"
	asked=$(sed 's/.*"prefetch_requests": \([0-9]*\).*/\1/' "$scratch/stats")
	rm -f "$scratch/stats"
}

# A kernel that reads 2 MiB ahead and more is left to it, forward; else we do.
disk=$(stat -c %Hd:%Ld "$place")
ahead=$(cat "/sys/class/bdi/$disk/read_ahead_kb" 2>/dev/null ||
	cat "/sys/dev/block/$disk/../queue/read_ahead_kb" 2>/dev/null || echo 0)
asked_ahead --nordahead
judge "scan_told_not_to_read_ahead_is_looked_ahead_of" [ "$asked" -gt 0 ]
asked_ahead --backward
judge "backward_scan_is_looked_ahead_of" [ "$asked" -gt 0 ]
asked_ahead
left="left to the kernel, which reads $ahead KiB ahead"
if [ "$ahead" -ge 2048 ]; then
	equal "scan_where_the_kernel_reads_${ahead}_kib_ahead_asks_for" 0 "$asked"
	equal "scan_where_the_kernel_reads_${ahead}_kib_ahead_says_so" 1 "$(grep -c "$left" "$scratch/said")"
else
	judge "scan_where_the_kernel_reads_${ahead}_kib_ahead_is_looked_ahead_of" [ "$asked" -gt 0 ]
fi
finish
