#!/bin/bash
# What only this file knows: under which budgets readers fork.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
make_set img 120 196620
make_set cifar 6000 3090
slowfs_start "$scratch/backing" "$scratch/mount"

# forks NAME SET RECORDS
forks() {
	local hash

	hash=$(original scan "$scratch/backing/$2" | cut -d ' ' -f 3)
	cold
	ran "$1" env LD_LIBRARY_PATH="$library" "$build/stores_fork" "$scratch/mount/$2" "$3" "$hash" \
		$((times * 4))
	nothing_left "$1"
}

for memory in auto 8M 1M; do
	export LMDBIO_MEMORY=$memory
	forks "img_with_$memory" img 120
	forks "cifar_with_$memory" cifar 6000
done
unset LMDBIO_MEMORY
LMDBIO_SHARE=0 forks "img_not_shared" img 120
LMDBIO_PREFETCH=0 forks "img_without_prefetch" img 120
LMDBIO_STORE=cache forks "img_in_the_page_cache" img 120
slowfs_stop
finish
