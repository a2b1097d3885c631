#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks in which folios a scan of a local file leaves it in the page cache: every later reader of the machine pays
# for small ones.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
stores_begin
# On a disk, as the build tree is: a data set in tmpfs is never cold.
place=$(mktemp -d "$build/stores-folios.XXXXXX")
trap 'rm -rf "$place"; stores_clean' EXIT
make_set img 250 196620
mv "$scratch/backing/img" "$place"
data=$place/img/data.mdb

forget() {
	sync "$data"
	dd if="$data" iflag=nocache count=0 status=none
}

# The file system must support folios of 2 MiB: ext4 since Linux 6.16, xfs since 5.18.
case $(stat -f -c %T "$place") in
ext2/ext3) knows="kernel_is 6 16" ;;
xfs) knows="kernel_is 5 18" ;;
*) knows=false ;;
esac

# faults_after READER: sets $faults to the page faults of a scan by the original, after READER has filled the page
# cache
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
	# Without large folios nothing is worse than before.
	at_most "faults_after_lmdbio_where_singly_$singly" "$faults" $((singly * 11 / 10))
fi

# Sets $asked to the requests that a scan sends ahead of need, with the disk's own settings.
asked_ahead() {
	forget
	line=$(LMDBIO_VERBOSE=1 LMDBIO_STATS=$scratch/stats reader "$@" scan "$place/img" 2>"$scratch/said")
	equal "scan_with_$*_sees_the_same" "$wanted" "$(echo "$line" | seen)"
	asked=$(sed 's/.*"prefetch_requests": \([0-9]*\).*/\1/' "$scratch/stats")
	rm -f "$scratch/stats"
}

# Where the kernel reads 2 MiB or more ahead, lmdbio leaves forward scans to it; otherwise lmdbio reads ahead itself.
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
