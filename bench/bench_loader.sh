#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Measures the batch loader of one node: its rate beside those of sequential reading, of the original and of
# memory, and what staging costs and gains.
#
# bench_loader.sh: runs in the build folder, after `make check` has built the tests' programs. The user must be
# allowed to mount FUSE. RUNS=5; LATENCY=500 us; BANDWIDTH=1500 MiB/s; RECORDS="1500 60000", of img and cifar.
#
# Each figure is the median of the ratios of consecutive runs, with the least and the greatest ratio.
top_srcdir=${top_srcdir:-$(dirname "$0")/..}
top_builddir=${top_builddir:-$PWD}
# shellcheck source-path=SCRIPTDIR source=../tests/stores/stores_lib.sh
. "$(dirname "$0")/../tests/stores/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
runs=${RUNS:-5}
read -r img cifar <<<"${RECORDS:-1500 60000}"
# shellcheck disable=SC2154
loader=$top_builddir/tests/loader/loader_read bench=$top_builddir/bench/bench_figures
make_set img "$img" 196620
make_set cifar "$cifar" 3090
slowfs_start "$scratch/backing" "$scratch/mount" -o "latency=${LATENCY:-500},bandwidth=${BANDWIDTH:-1500}"

# epoch NUMBER SET ARGUMENT...: prints an epoch's seconds for a million samples. Earlier epochs run before it.
epoch() {
	local number=$1 set=$2

	shift 2
	cold
	rm -rf "$scratch/stage"
	mkdir "$scratch/stage"
	"$loader" --epochs=$((number + 1)) "$@" "$set" >"$scratch/out" || exit
	awk -v n="$number" '$1 == "epoch" && $2 == n {
		for (i = 1; i < NF; i++) if ($i == "seconds") print $(i + 1) * 1e6 / $4 }' "$scratch/out"
}

# original_random SET RECORDS: prints the same for the original, which gets a tenth of the records at random.
original_random() {
	local begun ended some=$(($2 / 10))

	cold
	begun=$(date +%s%N)
	original --nordahead --records="$2" --count=$some get "$scratch/mount/$1" >"$scratch/out"
	ended=$(date +%s%N)
	awk -v ns=$((ended - begun)) -v some=$some 'BEGIN { printf "%.4f\n", ns / 1e3 / some }'
}

# policy FIELD ARGUMENT...: runs a policy of the simulator's, and prints a field of its result.
policy() {
	local field=$1

	shift
	cold
	LMDBIO_MEMORY=32M TMPDIR=$scratch "$bench" loader --nodes=1 --batch=32 --memory=0 --buffer=64 --threads=4 \
		"$@" "$scratch/mount/img" | sed "s/.*\"$field\": \([0-9.]*\).*/\1/"
}

# compare FIGURE ASKED ONE OTHER: runs two commands that print seconds; prints the ratios of OTHER's to ONE's.
compare() {
	local run ratios="" one other

	for ((run = 0; run < runs; run++)); do
		one=$($3) other=$($4)
		ratios="$ratios $(echo "$one $other" | awk '{ printf "%.4f", $2 / ($1 > 1e-6 ? $1 : 1e-6) }')"
	done
	echo "$ratios" | tr ' ' '\n' | sed '/^$/d' | sort -g | awk -v figure="$1" -v asked="$2" '
		{ all[NR] = $1 }
		END { printf "%-52s %9s %10.3f  (%.3f to %.3f)\n", figure, asked, all[int((NR + 1) / 2)], all[1], all[NR] }'
}

printf '%-52s %9s %10s\n' "figure" asked measured
big=$(($(file_size img) + $(file_size cifar)))
export LMDBIO_MEMORY=$((big * 2))
for set in img cifar; do
	batch=32
	[ $set = img ] || batch=256
	compare "$set, in memory: rate of epoch 2 over memory's" ">= 0.9" \
		"epoch 1 $scratch/mount/$set --batch=$batch" "epoch 1 $scratch/backing/$set --batch=$batch"
done
# Half of the records stay in memory, and the other half must pass through the rest of memory. Computing takes as long
# as storage at 300 MiB/s would.
export LMDBIO_MEMORY=$(($(file_size img) * 4 / 5))
compare "img, half resident, opportunistic: over memory's" ">= 0.95" \
	"epoch 2 $scratch/mount/img --batch=32 --compute=20000 --order=opportunistic --resident=$((img / 2))" \
	"epoch 2 $scratch/backing/img --batch=32 --compute=20000"

half=$(($(file_size img) / 2))
export LMDBIO_MEMORY=$half
memory=$((half * 3 / 4))
compare "img, twice the memory, shuffled: over sequential" ">= 0.8" \
	"epoch 0 $scratch/mount/img --batch=32 --memory=$memory" \
	"epoch 0 $scratch/mount/img --batch=32 --order=sequential"
half=$(($(file_size cifar) / 2))
export LMDBIO_MEMORY=$half
memory=$((half * 3 / 4))
shuffled="epoch 0 $scratch/mount/cifar --batch=256 --memory=$memory"
compare "cifar, twice the memory, shuffled: over sequential" ">= 0.4" "$shuffled" \
	"epoch 0 $scratch/mount/cifar --batch=256 --order=sequential"
compare "cifar, twice the memory, shuffled: over the original" ">= 10" "$shuffled" \
	"original_random cifar $cifar"

export LMDBIO_MEMORY=32M
# Computing takes as long as storage at 300 MiB/s would. Without computing, staging has nothing to overlap with.
for step in 20000 0; do
	plain="epoch 0 $scratch/mount/img --batch=32 --compute=$step"
	asked="<= 1.05"
	[ $step != 0 ] || asked=-
	compare "img, first epoch staged, $step us a batch: over plain" "$asked" "$plain" \
		"$plain --stage=$scratch/stage"
done
compare "img, 5 epochs staged: rate over reading on demand" ">= 5" \
	"policy seconds --policy=overlap --epochs=5 --compute=100000 --ssd=4096" \
	"policy seconds --policy=naive --epochs=5 --compute=100000"
compare "img, stall per batch, compute 300 MiB/s: naive over" ">= 44" \
	"policy stall_median --policy=lmdbio --epochs=2 --compute=300" \
	"policy stall_median --policy=naive --epochs=2 --compute=300"
slowfs_stop
