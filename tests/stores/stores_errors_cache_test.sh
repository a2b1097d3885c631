#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks reads of a file into the page cache, each of which is made to fail.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin

# More at night: a fault at each place costs a process of its own.
img=$((times > 1 ? 40 : 20)) small=620
make_set img $img 196620
make_set small $small 1900
# This set has few pages: leaves, their root, and values of one, two and five pages.
make_set whole 24 1900,3000,5000,20000
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=0,bandwidth=0
export LMDBIO_SHARE=0

for set in "img $img" "small $small"; do
	# shellcheck disable=SC2086
	LMDBIO_MEMORY=1M faults "page_cache_for_want_of_memory" $set env
done
export LMDBIO_STORE=cache
for set in "img $img" "small $small" "whole 24"; do
	[ "$set" != "whole 24" ] || faults_every=2 # each page fails in one of two calls
	# shellcheck disable=SC2086
	faults "page_cache" $set env
	# shellcheck disable=SC2086
	LMDBIO_PREFETCH=0 faults "page_cache_without_prefetch" $set env
done

# A scan of large values ends with the errno, not with a signal.
for how in eio short; do
	for part in 1 2 3 4; do
		at=$(($(file_size img) * part / 5))
		slowfs_control clear
		slowfs_control "fail img/data.mdb@$at-$at:$how"
		for order in "" --backward; do
			slowfs_drop
			rc=0
			LD_LIBRARY_PATH=$library "$build/stores_reader" $order scan "$scratch/mount/img" \
				>"$scratch/log" 2>&1 || rc=$?
			equal "page_cache_${how}_${part}${order}_is_an_errno" "3 error 5 Input/output error" \
				"$rc $(tail -n 1 "$scratch/log")"
		done
	done
done
slowfs_control clear

# One bad page amid chunks that the page cache has: look-ahead takes them for complete, because it samples them. It then
# meets the bad page before the program does.
make_set cached 6000 1900
data="$scratch/mount/cached/data.mdb"
for part in 5 6 7; do
	page=$((part * 256 + 17))
	at=$((page * 4096))
	slowfs_control clear
	slowfs_drop
	slowfs_control "fail cached/data.mdb@$at-$at:eio"
	dd if="$data" of=/dev/null bs=4096 skip=1024 count=$((page - 1024)) 2>/dev/null
	dd if="$data" of=/dev/null bs=4096 skip=$((page + 1)) 2>/dev/null
	rc=0
	LMDBIO_STORE=auto LMDBIO_MEMORY=1M LD_LIBRARY_PATH=$library "$build/stores_reader" scan \
		"$scratch/mount/cached" >"$scratch/log" 2>&1 || rc=$?
	equal "page_cache_bad_page_amid_cached_${part}_is_an_errno" "3 error 5 Input/output error" \
		"$rc $(tail -n 1 "$scratch/log")"
done
slowfs_control clear
nothing_left "faults"
slowfs_stop
finish
