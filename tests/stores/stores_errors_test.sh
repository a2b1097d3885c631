#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Says under which back ends reads of a file into the arena are made to
# fail.
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

for set in "img $img" "small $small"; do
	# shellcheck disable=SC2086
	faults "direct" $set env
	# shellcheck disable=SC2086
	faults "direct_by_threads" $set "$build/stores_confine" --no-ring
	# shellcheck disable=SC2086
	LMDBIO_STORE=arena LMDBIO_IO=pread faults "pread" $set env
	# shellcheck disable=SC2086
	LMDBIO_PREFETCH=0 faults "without_prefetch" $set env
	# Chunks are loaded again all the time.
	faults_every=9
	# shellcheck disable=SC2086
	LMDBIO_STORE=arena LMDBIO_MEMORY=1M faults "budget_of_1_mib" $set env
	faults_every=3
done
nothing_left "faults"
slowfs_stop
finish
