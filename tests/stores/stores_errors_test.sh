#!/bin/bash
# What only this file knows: under which back ends every read of a file is made to fail.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin

# More by night: a fault at each place costs a process of its own.
img=$((times > 1 ? 40 : 20)) small=620
make_set img $img 196620
make_set small $small 1900
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=0,bandwidth=0
# Each fault is a child's, which must not find what the ones before it have read.
export LMDBIO_SHARE=0

# faults NAME SET RECORDS COMMAND...: the command runs what follows it with something forbidden.
faults() {
	local name=$1 set=$2 records=$3 rc=0 hash

	shift 3
	hash=$(original scan "$scratch/backing/$set" | cut -d ' ' -f 3)
	SECONDS=0
	LD_LIBRARY_PATH=$library "$@" "$build/stores_errors" "$scratch/mount" "$set" \
		"$scratch/backing/$set" "$records" "$hash" >"$scratch/log" 2>&1 || rc=$?
	cases=$((cases + 1))
	if [ "$rc" = 0 ]; then
		echo "ok ${name}_$set: $(tail -n 1 "$scratch/log") in $SECONDS s"
	else
		echo "NOT OK ${name}_$set: exit $rc, $(tail -n 1 "$scratch/log")"
		head -n 20 "$scratch/log"
		failures=$((failures + 1))
	fi
}

for set in "img $img" "small $small"; do
	# shellcheck disable=SC2086
	faults "direct" $set env
	# shellcheck disable=SC2086
	faults "direct_by_threads" $set "$build/stores_confine" --no-ring
	# shellcheck disable=SC2086
	LMDBIO_STORE=arena LMDBIO_IO=pread faults "pread" $set env
	# shellcheck disable=SC2086
	LMDBIO_PREFETCH=0 faults "without_prefetch" $set env
	# shellcheck disable=SC2086
	LMDBIO_STORE=arena LMDBIO_MEMORY=1M faults "budget_of_1_mib" $set env
done

# Through the page cache it is the kernel that reads; but a large value is waited for in the call.
export LMDBIO_STORE=cache
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
unset LMDBIO_STORE
nothing_left "faults"
slowfs_stop
finish
