#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio keeps a small memory budget, and that every pointer that a scan returned stays valid to the end.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
allowance=16384 # KiB besides the budget
case ${with_sanitizer:-no} in
no) ;;
*) allowance=1048576 ;; # a sanitizer's own memory is not lmdbio's
esac

make_set img 550 196620
make_set cifar 20000 3090
make_set small 200000 100
slowfs_start "$scratch/backing" "$scratch/mount"
export LMDBIO_STORE=arena # auto takes the arena only for a data set that has room in it

# kept NAME SET RECORDS BUDGET-KIB
kept() {
	local line memfd

	cold
	line=$(LMDBIO_MEMORY=${4}k reader --nordahead --records="$3" keep "$scratch/mount/$2") || true
	equal "${1}_sees_the_same" "${whole[$2]}" "$(echo "$line" | seen)"
	memfd=$(field memfd "$line")
	at_most "${1}_kib" $((memfd + $(field anon "$line"))) $(($4 + allowance))
	# Without an arena this case would prove nothing.
	judge "${1}_has_an_arena" test "$memfd" -gt 0
	if [ "${with_sanitizer:-no}" != no ]; then
		at_most "${1}_arena_kib" "$memfd" $(($4 + 16384))
	fi
}

declare -A whole
whole[img]=$(original scan "$scratch/backing/img" | seen)
whole[cifar]=$(original scan "$scratch/backing/cifar" | seen)
whole[small]=$(original scan "$scratch/backing/small" | seen)
for mib in 1 8 32; do
	kept "img_with_${mib}_mib" img 550 $((mib * 1024))
	kept "cifar_with_${mib}_mib" cifar 20000 $((mib * 1024))
done
kept "small_with_1_mib" small 200000 1024
nothing_left "small_budgets"

# An arena that holds only a part of the data does not evict what the scan is about to reach.
for set in img cifar; do
	for way in "" --backward; do
		most=$(($(file_size "$set") * 13 / 10 >> 20))
		# If the loader gets no processor for a while, the program sends requests of less than a MiB.
		for _ in 1 2 3; do
			cold
			# shellcheck disable=SC2086
			line=$(LMDBIO_MEMORY=32M reader $way scan "$scratch/mount/$set")
			[ "$(slowfs_stat "$set/data.mdb:requests")" -gt "$most" ] || break
		done
		equal "scan_of_$set${way}_with_32_mib_sees_the_same" "${whole[$set]}" "$(echo "$line" | seen)"
		at_most "scan_of_$set${way}_with_32_mib_bytes" "$(slowfs_stat "$set/data.mdb:bytes")" \
			$(($(file_size "$set") * 106 / 100))
		at_most "scan_of_$set${way}_with_32_mib_requests" "$(slowfs_stat "$set/data.mdb:requests")" "$most"
	done
done

# All processes of a node share one budget.
mkfifo "$scratch/lines"
exec 7<>"$scratch/lines"
cold
for _ in 1 2 3 4; do
	LMDBIO_MEMORY=8M reader --records=550 keep "$scratch/mount/img" >&7 7>&- &
done
most=0
for _ in 1 2 3 4; do
	read -r line <&7
	equal "four_keepers_see_the_same" "${whole[img]}" "$(echo "$line" | seen)"
	memfd=$(field memfd "$line")
	most=$((memfd > most ? memfd : most))
done
wait
exec 7>&-
at_most "four_keepers_arena_kib" "$most" $((8192 + 16384))
nothing_left "four_keepers"

# All data sets of a node share it, too: if one has all of it, another gets just enough memory to be read through.
mkfifo "$scratch/hold" "$scratch/held"
exec 9<>"$scratch/hold"
cold
LMDBIO_MEMORY=48M LD_LIBRARY_PATH=$library "$build/stores_reader" --hold scan "$scratch/mount/img" \
	<"$scratch/hold" >"$scratch/held" 9>&- &
holder=$!
exec 6<"$scratch/held"
read -r line <&6
equal "first_of_two_sets_sees_the_same" "${whole[img]}" "$(echo "$line" | seen)"
line=$(LMDBIO_MEMORY=48M reader --records=20000 keep "$scratch/mount/cifar" 9>&- 6<&-)
equal "second_of_two_sets_sees_the_same" "${whole[cifar]}" "$(echo "$line" | seen)"
judge "second_of_two_sets_has_an_arena" test "$(field memfd "$line")" -gt 0
at_most "second_of_two_sets_kib" "$(field memfd "$line")" $((16384 + 8192))
exec 9>&-
wait "$holder"
exec 6<&-
nothing_left "two_sets"

# A data set larger than the budget is left to the page cache, which has room for it: any number of programs read it
# from storage once, as with the original.
for store in auto cache; do
	cold
	for _ in 1 2; do
		line=$(LMDBIO_STORE=$store LMDBIO_MEMORY=8M reader --records=550 keep "$scratch/mount/img")
		equal "more_than_the_budget_by_${store}_sees_the_same" "${whole[img]}" "$(echo "$line" | seen)"
		equal "more_than_the_budget_by_${store}_has_no_arena" 0 "$(field memfd "$line")"
	done
	at_most "more_than_the_budget_by_${store}_bytes" "$(slowfs_stat img/data.mdb:bytes)" \
		$(($(file_size img) * 102 / 100))
	# Kernels before Linux 5.18 send requests of 128 KiB.
	if kernel_is 5 18; then
		at_most "more_than_the_budget_by_${store}_requests" "$(slowfs_stat img/data.mdb:requests)" \
			$(($(file_size img) * 2 >> 20))
	fi
done
nothing_left "more_than_the_budget"

# A process reads a data set in an arena that holds all of it: a filled arena reduces the budget of processes that
# start later. An arena that holds only a part of the data set is of no use to such a process.
for memory in 256M 64M; do
	cold
	LMDBIO_STORE=arena LMDBIO_MEMORY=$memory LD_LIBRARY_PATH=$library "$build/stores_reader" --hold scan \
		"$scratch/mount/img" <"$scratch/hold" >"$scratch/held" &
	holder=$!
	exec 9>"$scratch/hold" 6<"$scratch/held"
	read -r line <&6
	slowfs_reset
	for share in 1 0; do
		line=$(LMDBIO_STORE=auto LMDBIO_MEMORY=32M LMDBIO_SHARE=$share reader --records=550 keep \
			"$scratch/mount/img" 9>&- 6<&-)
		equal "held_in_${memory}_shared_${share}_sees_the_same" "${whole[img]}" "$(echo "$line" | seen)"
		[ $share = 0 ] || memfd=$(field memfd "$line")
	done
	equal "held_in_${memory}_not_shared_has_no_arena" 0 "$(field memfd "$line")"
	if [ $memory = 256M ]; then
		judge "held_in_${memory}_is_read_there" test "$memfd" -ge $(($(file_size img) / 1024))
	else
		equal "held_in_${memory}_has_no_arena" 0 "$memfd"
	fi
	exec 9>&- 6<&-
	wait "$holder"
done
nothing_left "held"

# Of a data set more than twice as large as all memory, the page cache holds as little as an arena does, and it sends
# smaller requests.
# grouped NAME REQUESTS ARGUMENTS...: a reader with so little memory sends at most REQUESTS requests to storage. A
# scan through the page cache sends eight a MiB; a scan through shared memory, beside busy processes, reads some
# chunks twice.
grouped() {
	local name=$1 requests=$2 line

	shift 2
	cold
	line=$(echo "$BASHPID" >"$group/cgroup.procs" && LMDBIO_STORE=auto LMDBIO_VERBOSE=1 reader "$@" \
		"$scratch/mount/img" 2>"$scratch/told") || true
	equal "${name}_sees_the_same" "$(original "$@" "$scratch/backing/img" | seen)" "$(echo "$line" | seen)"
	equal "${name}_has_an_arena" 1 "$(grep -c 'mount/img: shared memory of the node' "$scratch/told")"
	at_most "${name}_requests" "$(slowfs_stat img/data.mdb:requests)" "$requests"
}
if [ "${with_sanitizer:-no}" != no ] || ! group_make 40; then
	echo "-- more than all memory: a sanitizer takes too much, or no control group can be made here"
else
	mib=$(($(file_size img) >> 20))
	grouped "scan_of_more_than_all_memory" $((mib * 2)) scan
	grouped "backward_scan_of_more_than_all_memory" $((mib * 2)) --backward scan
	grouped "lookups_in_more_than_all_memory" 550 --nordahead --records=550 --count=500 get
	# Each of several readers finds what the others have read: four readers that share nothing read everything four
	# times. A reader that gets no processor for a while falls behind the others and reads a part for itself.
	for way in "" --backward; do
		for _ in 1 2 3 4 5; do
			cold
			pids=()
			for reader in 1 2 3 4; do
				# shellcheck disable=SC2086
				(echo "$BASHPID" >"$group/cgroup.procs" && LMDBIO_STORE=auto reader $way scan "$scratch/mount/img") \
					>"$scratch/seen.$reader" &
				pids+=($!)
			done
			wait "${pids[@]}" || true
			[ "$(slowfs_stat img/data.mdb:requests)" -gt $((mib * 5 / 4)) ] || break
		done
		# shellcheck disable=SC2086
		equal "scans${way}_by_four_of_more_than_all_memory_see_the_same" \
			"$(original $way scan "$scratch/backing/img" | seen)" "$(cat "$scratch"/seen.? | seen | sort -u)"
		at_most "scans${way}_by_four_of_more_than_all_memory_requests" "$(slowfs_stat img/data.mdb:requests)" $((mib * 2))
		at_most "scans${way}_by_four_of_more_than_all_memory_mib" $(($(slowfs_stat img/data.mdb:bytes) >> 20)) $((mib * 3 / 2))
	done
	nothing_left "more_than_all_memory"
fi

if ! /usr/bin/python3 -c 'import lmdb' 2>/dev/null; then
	echo "-- several sets, and workers that are gone: no python3-lmdb here"
	slowfs_stop
	finish
fi

# One program opens several sets: a set that it opens when the budget has no room left gets no arena.
cold
LMDBIO_STORE=auto LMDBIO_MEMORY=150M LMDBIO_VERBOSE=1 LD_LIBRARY_PATH=$library /usr/bin/python3 -c '
import lmdb, sys
kept = [lmdb.open(path, readonly=True, lock=False) for path in sys.argv[1:]]
' "$scratch/mount/img" "$scratch/mount/cifar" "$scratch/mount/img" "$scratch/mount/small" 2>"$scratch/told" || true
equal "sets_that_have_room_have_arenas" 3 "$(grep -cE 'mount/(img|small): shared memory of the node' "$scratch/told")"
equal "set_that_has_no_room_any_more_has_none" 1 \
	"$(grep -c 'mount/cifar: page cache, reads by pread (more than the memory budget)' "$scratch/told")"
nothing_left "several_sets"

# What workers that have ended have read is still in shared memory, and later workers read it there.
cold
LMDBIO_STORE=auto LMDBIO_MEMORY=150M LMDBIO_VERBOSE=1 LD_LIBRARY_PATH=$library /usr/bin/python3 -c '
import lmdb, os, sys
def worker(*paths):
    if not os.fork():
        kept = [lmdb.open(path, readonly=True, lock=False) for path in paths]
        with kept[-1].begin() as transaction:
            os._exit(0 if sum(1 for _ in transaction.cursor()) else 1)
    assert os.wait()[1] == 0
worker(sys.argv[1])
worker(sys.argv[2], sys.argv[1])
' "$scratch/mount/img" "$scratch/mount/cifar" 2>"$scratch/told"
equal "kept_set_is_read_there" 2 "$(grep -c 'mount/img: shared memory of the node' "$scratch/told")"
at_most "kept_set_bytes" "$(slowfs_stat img/data.mdb:bytes)" $(($(file_size img) * 102 / 100))
nothing_left "kept"
slowfs_stop
finish
