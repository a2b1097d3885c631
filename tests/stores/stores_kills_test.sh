#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Kills and stops one of eight readers of a node at random moments, again and again, and checks what the others see.
# With TESTS_LONG=1 at 10,000 moments, in which no survivor may sleep for more than a second. KILLS_SEED, KILLS_FIRST
# and KILLS_MOMENTS select a part of them.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
stores_alone "$@"
stores_begin
records=1500
make_set img $records 12000
mkdir "$scratch/backing/packed"
"$top_builddir/tools/lmdbio-convert" --quiet "$scratch/backing/img" "$scratch/backing/packed"
moments=${KILLS_MOMENTS:-160} limit=
if [ -n "${TESTS_LONG:-}" ]; then
	moments=${KILLS_MOMENTS:-10000} limit=--limit=1000
fi

# kills NAME SET MEMORY QUARTERS: at that many quarters of the moments.
kills() {
	# shellcheck disable=SC2086
	ran "$1" env LD_LIBRARY_PATH="$library" LMDBIO_STORE=arena LMDBIO_MEMORY="$3" "$build/stores_kills" \
		--seed="${KILLS_SEED:-26}" --first="${KILLS_FIRST:-0}" $limit "$scratch/backing/$2" $records \
		$((moments * $4 / 4))
	nothing_left "$1"
}

kills killed_with_a_small_budget img 6M 2
kills killed_with_memory_for_all img 64M 1
kills killed_in_a_container packed 6M 1
finish
