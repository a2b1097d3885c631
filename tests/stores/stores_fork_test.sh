#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Runs readers that fork, under several budgets.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
img=60 cifar=3000
make_set img $img 196620
make_set cifar $cifar 3090
slowfs_start "$scratch/backing" "$scratch/mount"

# forks NAME SET RECORDS
forks() {
	local hash

	hash=$(original scan "$scratch/backing/$2" | cut -d ' ' -f 3)
	cold
	ran "$1" env LD_LIBRARY_PATH="$library" "$build/stores_fork" "$scratch/mount/$2" "$3" "$hash" \
		$((times * 2))
	nothing_left "$1"
}

# A parent that has the data set open keeps what its children have read.
hash=$(original scan "$scratch/backing/img" | cut -d ' ' -f 3)
cold
ran "children_come_and_go" env LD_LIBRARY_PATH="$library" "$build/stores_fork" "$scratch/mount/img" \
	$img "$hash" 1 children_come_and_go
at_most "children_come_and_go_bytes" "$(slowfs_stat img/data.mdb:bytes)" \
	$(($(file_size img) * 102 / 100 + 256 * 1024))

for memory in auto 8M 1M; do
	export LMDBIO_MEMORY=$memory LMDBIO_STORE=arena
	forks "img_with_$memory" img $img
	forks "cifar_with_$memory" cifar $cifar
done
unset LMDBIO_MEMORY LMDBIO_STORE
LMDBIO_SHARE=0 forks "img_not_shared" img $img
LMDBIO_PREFETCH=0 forks "img_without_prefetch" img $img
LMDBIO_STORE=cache forks "img_in_the_page_cache" img $img
slowfs_stop
finish
