#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Measures what a job of several nodes asks of storage and how long it waits: with the original in every rank, with
# lmdbio in every node alone, and with the ways in which nodes read together.
#
# bench_mpi.sh [RANKSxNODES]...: (1x1 2x2 4x4 8x4). Every rank reads each RANKS-th record of the set.
# All nodes are on this machine; each has its own mount of slowfs, and with it its own page cache and its part of the
# bandwidth. SETS="img cifar"; SCALE=1 (sets of 98 and 84 MB); PAIRS=3, the runs of each way; LATENCY=500 us;
# BANDWIDTH=1500 MiB/s for all nodes together. WAYS names some of the ways; one more way runs only if it is
# named: nordahead, the original with MDB_NORDAHEAD, which takes long.
# FORMAT=0.9 or 1.0: the same content in the format of that LMDB, in pages twice as large; the original reads only 0.9.
#
# Columns, which are medians: megabytes and requests that reached storage; seconds of the epoch, from the moment when
# all ranks have opened the set to the last record of the last rank, and of the staging before it; seconds of
# the job: the epoch, and the start and end of mpiexec, MPI and the programs (those of the staging,
# too); imbalance, the slowest rank's seconds over the average, in the staging if there is one, else in
# the epoch; processor seconds of the job and its staging, with their start but without storage's, for each GB of the
# set. RAW=FILE keeps the figures of each run.
#
# The processors of one machine do the work of all nodes and of the storage, which bounds the epoch of a job
# that waits little. SLOWER=k shows the times for k times the processors: storage has k times the
# latency and a k-th of the bandwidth, and the seconds of the epoch are divided by k.
# shellcheck disable=SC2034
top_srcdir=${top_srcdir:-$(dirname "$0")/..}
# shellcheck source-path=SCRIPTDIR source=../tests/stores/stores_lib.sh
. "$(dirname "$0")/../tests/stores/stores_lib.sh"
# shellcheck source-path=SCRIPTDIR source=bench_lib.sh
. "$(dirname "$0")/bench_lib.sh"
# shellcheck source-path=SCRIPTDIR source=bench_mounts.sh
. "$(dirname "$0")/bench_mounts.sh"
slowfs_require
unshare -m true 2>/dev/null || { echo "skipped: no mount namespaces for this user" && exit 77; }
stores_begin
pairs=${PAIRS:-3} scale=${SCALE:-1}
latency=${LATENCY:-500} bandwidth=${BANDWIDTH:-1500} slower=${SLOWER:-1}
read -r -a sets <<<"${SETS:-img cifar}"
ways_all="original lmdbio cooperative posix mpiio collective two-phase stagger-1 stagger-auto memory"
read -r -a ways <<<"${WAYS:-$ways_all}"
stage=$top_builddir/tools/lmdbio-stage
run=$top_builddir/tools/lmdbio-run
trap 'mounts_stop; stores_clean' EXIT

# job COMMAND...: runs a job of $ranks ranks on $nodes nodes.
job() {
	MPIR_CVAR_NUM_CLIQUES=$nodes MPIR_CVAR_CLIQUES_BY_BLOCK=1 timeout -k 5 600 \
		mpiexec -n "$ranks" "$@" </dev/null
}

# node COMMAND...: runs a rank's command on its node's mount, which has the same name on all nodes.
cat >"$scratch/node" <<'END'
#!/bin/bash
exec unshare -m bash -c 'mount --bind "$MOUNT$1" "$MOUNT" && shift && exec "$@"' - \
	$((PMI_RANK * NODES / PMI_SIZE)) "$@"
END
# The commands of one rank, which reads its records.
cat >"$scratch/rank" <<'END'
#!/bin/bash
node=$((PMI_RANK * NODES / PMI_SIZE))
[ -z "$ALONE" ] || export LMDBIO_NODE="$LMDBIO_NODE.$node"
[ -z "$STAGED" ] || export LMDBIO_STAGED="$STAGED$node"
exec "$READER" --stride="$PMI_SIZE" --first="$PMI_RANK" --no-lock --together="$PMI_SIZE:$TOGETHER" \
	$READER_OPTION scan "$MOUNT/$SET"
END
chmod +x "$scratch/node" "$scratch/rank"
mkdir "$scratch/mount"
export TOGETHER=$scratch/opened NODES READER=$build/stores_reader MOUNT=$scratch/mount SET ALONE STAGED READER_OPTION

# staging OPTION...: stages the set to a directory of each node; sets $before to the seconds that this takes.
staging() {
	local node

	rm -rf "$scratch"/to*
	for ((node = 0; node < nodes; node++)); do
		mkdir "$scratch/to$node"
	done
	job "$scratch/node" "$stage" --json --to="$scratch/to%n" "$@" "$MOUNT/$set" >"$scratch/staged"
	before=$(awk -F '[:,]' '/wall_ns/ { printf "%.3f", $2 / 1e9 }' "$scratch/staged")
	STAGED=$scratch/to
}


# way_prepare WAY: does what the way needs before the programs start, and sets $launch to the command before them.
way_prepare() {
	ALONE='' STAGED='' READER_OPTION='' before=0
	: >"$scratch/staged"
	launch=("$scratch/node" env "LD_LIBRARY_PATH=$library")
	case $1 in
	original) launch=("$scratch/node") ;;
	nordahead) launch=("$scratch/node") READER_OPTION=--nordahead ;;
	lmdbio) ALONE=1 ;;
	cooperative) launch=("$scratch/node" "$run" --mpi --) ;;
	posix | mpiio | collective) staging --reader="$1" ;;
	two-phase) staging --reader=collective --hints='romio_cb_read=enable,cb_config_list=*:*' ;;
	stagger-1) staging --stagger=1 --buffer=4M ;;
	stagger-auto) staging --stagger=auto --buffer=4M ;;
	memory) launch=("$scratch/node" "$stage" --json --hold "$MOUNT/$set" -- env "LD_LIBRARY_PATH=$library") ;;
	*) echo "no such way: $1" >&2 && exit 1 ;;
	esac
}

# spent: prints the processor seconds of all processes that have ended below this shell.
spent() {
	awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($14 + $15) / hz }' "/proc/$$/stat"
}

# measure: runs $way once, and prints a line "BYTES REQUESTS EPOCH JOB IMBALANCE PROCESSOR".
measure() {
	local began cpu_before

	each_cold
	truncate -s 0 "$TOGETHER"
	truncate -s 4 "$TOGETHER"
	cpu_before=$(spent)
	began=$(date +%s.%N)
	way_prepare "$way"
	job "${launch[@]}" "$scratch/rank" >"$scratch/lines" 2>"$scratch/told" ||
		{ cat "$scratch/told" >&2 && exit 1; }
	awk -v before="$before" -v began="$began" -v ended="$(date +%s.%N)" -v slower="$slower" \
		-v bytes="$(counted bytes)" -v requests="$(counted requests)" -v size="$(file_size "$set")" \
		-v before_cpu="$cpu_before" -v cpu="$(spent)" '
		function number() { gsub(/[^0-9]/, ""); return $0 }
		/"wall_ns"/ { if (FILENAME ~ /lines$/) before += number() / 1e9 }
		/"slowest_ns"/ { slowest = number() }
		/"average_ns"/ { average = number() }
		/ seconds / {
			for (i = 1; i < NF; i++) {
				if ($i == "from") from = $(i + 1)
				if ($i == "to") to = $(i + 1)
			}
			if (!n++ || from < first) first = from
			if (to > last) last = to
			sum += to - from
			if (to - from > most) most = to - from
		}
		END {
			spread = average ? slowest / average : sum ? most * n / sum : 1
			printf "%d %d %.4f %.4f %.3f %.3f\n", bytes, requests, (before + last - first) / slower,
				ended - began, spread, (cpu - before_cpu) * 1e9 / size
		}' "$scratch/staged" "$scratch/lines"
}

# row FILE: prints the medians of FILE's columns.
row() {
	local column

	printf '%-6s %dx%d  %-12s' "$set" "$ranks" "$nodes" "$way"
	for column in 1 2 3 4 5 6; do
		median "$column" <"$1"
	done | awk '
		NR == 1 { printf " %9.1f", $1 / 1e6 }
		NR == 2 { printf " %9d", $1 }
		NR > 2 { printf " %9.2f", $1 }
		END { print "" }'
}

[ $# -gt 0 ] || set -- 1x1 2x2 4x4 8x4
make_set img $((500 * scale)) 196620
make_set cifar $((25000 * scale)) 3090
set_format "${FORMAT:-}" "$scratch/backing/img"
set_format "${FORMAT:-}" "$scratch/backing/cifar"
for set in "${sets[@]}"; do
	echo "$set: $(($(file_size "$set") / 1000000)) MB"
done
printf '%-6s %s  %-12s %9s %9s %9s %9s %9s %9s\n' set RxN way MB requests epoch job imbalance "cpu s/GB"
for shape in "$@"; do
	ranks=${shape%x*} nodes=${shape#*x} NODES=$nodes
	mounts_start "$nodes" $((latency * slower)) $((bandwidth / slower))
	for set in "${sets[@]}"; do
		SET=$set
		ways_measure
	done
done
mounts_stop
