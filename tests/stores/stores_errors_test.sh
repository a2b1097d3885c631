#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Makes reads of a file into the arena fail, under each back end.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin

# More at night: a fault at each place costs a process of its own.
img=$((times > 1 ? 40 : 20)) small=620
make_set img $img 196620
make_set small $small 1900
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=0,bandwidth=0
# Each fault happens in a child process, which must not find what earlier children have read.
export LMDBIO_SHARE=0

for set in "img $img" "small $small"; do
	# shellcheck disable=SC2086
	faults "direct" $set env
	# shellcheck disable=SC2086
	faults "direct_by_threads" $set "$build/stores_confine" --no-ring
	# shellcheck disable=SC2086
	LMDBIO_STORE=arena LMDBIO_IO=pread faults "pread" $set env
	# shellcheck disable=SC2086
	LMDBIO_PREFETCH=0 faults "without_prefetch" $set env
	# With so little memory chunks are loaded again all the time.
	faults_every=9
	# shellcheck disable=SC2086
	LMDBIO_STORE=arena LMDBIO_MEMORY=1M faults "budget_of_1_mib" $set env
	faults_every=3
done
nothing_left "faults"
slowfs_stop
finish
