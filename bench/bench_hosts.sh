#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Measures jobs over hosts with a network between them: the job's use of storage and of the network, the time of an
# epoch, and what a host with a slow or cut network costs the other hosts.
#
# bench_hosts.sh [RANKSxHOSTS]...: (2x2 4x4 8x8), as root. Hosts are network namespaces of this machine, joined
# by a bridge (tests/cluster/cluster_lib.sh); MPICH uses TCP. Each host has its own mount of slowfs, with its own
# page cache and its part of the bandwidth. Every rank reads each RANKS-th record of the set.
# SETS="img cifar"; SCALE=1 (sets of 98 and 84 MB); PAIRS=3, the runs of each way; LATENCY=2000 us; BANDWIDTH=1500
# MiB/s for all hosts together; SLOW=100mbit, the last host's rate in the way "slow". CUT=30: in the way "cut" the
# last host's network goes down when the first host has read that per cent of its part, and comes back when all
# ranks have read their records.
#
# WAYS: original; alone, lmdbio on each host without MPI; job, `lmdbio-run --mpi`; slow; cut; tcp, plain sockets that
# move the bytes of a job without storage and lmdbio; loader, the batch loader's first epoch in random
# order; loader-alone, loader-slow, loader-cut. RAW=FILE keeps the figures of each run.
#
# The processors of one machine do the work of all hosts, of the network and of storage. SLOWER=k shows the times
# for k times the processors: storage has k times the latency and a k-th of the bandwidth, and the
# seconds of the epoch are divided by k.
#
# Columns, which are medians: megabytes and requests that reached storage; megabytes that all hosts received from the
# network; seconds of the epoch, which begins when all ranks have opened the set; seconds until the last rank ends that
# is not on the last host; imbalance, the slowest rank's seconds over the mean; processor seconds of the job with its
# start and end, and of storage.
# start and end, and of storage.
# shellcheck disable=SC2034,SC2154
top_srcdir=${top_srcdir:-$(dirname "$0")/..}
# shellcheck source-path=SCRIPTDIR source=../tests/cluster/cluster_lib.sh
. "$top_srcdir/tests/cluster/cluster_lib.sh"
# shellcheck source-path=SCRIPTDIR source=bench_mounts.sh
. "$(dirname "$0")/bench_mounts.sh"
cluster_begin
need tc
unset LMDBIO_IO
pairs=${PAIRS:-3} scale=${SCALE:-1} latency=${LATENCY:-2000} bandwidth=${BANDWIDTH:-1500}
slow=${SLOW:-100mbit} cut=${CUT:-30} slower=${SLOWER:-1}
read -r -a sets <<<"${SETS:-img cifar}"
read -r -a ways <<<"${WAYS:-original alone job tcp}"
declare -A batch=([img]=16 [cifar]=256)
trap 'cluster_stop; mounts_stop; job_clean' EXIT

# hosts_start HOSTS: starts hosts that each see their own mount by the same name.
hosts_start() {
	local host

	cluster_stop
	mounts_start "$1" $((latency * slower)) $((bandwidth / slower))
	cluster_start "$1"
	for ((host = 0; host < $1; host++)); do
		cluster_in "node$host" mount --bind "$scratch/mount$host" "$scratch/mount"
	done
}

network_bytes() {
	local host sum=0

	for ((host = 0; host < hosts; host++)); do
		sum=$((sum + $(cluster_bytes "$host")))
	done
	echo $sum
}

# storage_ticks: prints the clock ticks that the storage's daemons have used.
storage_ticks() {
	local mount

	for mount in "${mounts[@]}"; do
		cat "/proc/$(cat "$mount.lock")/stat"
	done | awk '{ sub(/.*\) /, ""); sum += $12 + $13 } END { print sum }'
}

# shape_slowly yes|no: slows the last host's network in both directions, or ends that.
shape_slowly() {
	local last=$((hosts - 1)) rule

	read -r -a rule <<<"root tbf rate $slow burst 64kb latency 100ms"
	if [ "$1" = yes ]; then
		cluster_in switch tc qdisc add dev "port$last" "${rule[@]}"
		cluster_in "node$last" tc qdisc add dev eth0 "${rule[@]}"
	else
		cluster_in switch tc qdisc del dev "port$last" root
		cluster_in "node$last" tc qdisc del dev eth0 root
	fi
}

# The commands of one rank. Its output goes to a file: the launcher's connection may be cut.
cat >"$scratch/rank" <<'END'
#!/bin/sh
"$READER" --stride="$PMI_SIZE" --first="$PMI_RANK" --no-lock --together="$PMI_SIZE:$TOGETHER" \
	scan "$MOUNT/$SET" >"$SEEN/new.$PMI_RANK"
code=$?
mv "$SEEN/new.$PMI_RANK" "$SEEN/rank.$PMI_RANK"
exit $code
END
# Moves the same bytes over sockets: each rank has a part of the set, and receives all other parts.
cat >"$scratch/tcp" <<'END'
#!/usr/bin/python3
import os, socket, threading, time
rank, ranks, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"]), int(os.environ["SIZE"])
piece, part = bytearray(1 << 20), size // ranks
door = socket.create_server(("", 7411))
def connect(other):
    while True:
        try:
            return socket.create_connection((f"10.211.0.{other + 1}", 7411))
        except OSError:
            time.sleep(0.01)
to = [connect(other) for other in range(ranks) if other != rank]
come = [door.accept()[0] for _ in to]
for peer in to:
    peer.sendall(b"x")
for peer in come:
    peer.recv(1)
def send(peer):
    left = part
    while left:
        left -= peer.send(memoryview(piece)[:min(left, 1 << 20)])
def take(peer):
    left, memory = part, bytearray(1 << 20)
    while left:
        left -= peer.recv_into(memory, min(left, 1 << 20))
began = time.monotonic()
threads = [threading.Thread(target=send, args=(peer,)) for peer in to]
threads += [threading.Thread(target=take, args=(peer,)) for peer in come]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open(f"{os.environ['SEEN']}/rank.{rank}", "w") as line:
    print(f"tcp seconds 0 from {began} to {time.monotonic()}", file=line)
END
chmod +x "$scratch/rank" "$scratch/tcp"
mkdir "$scratch/mount" "$scratch/lines"
export TOGETHER=$scratch/opened READER=$build/stores_reader MOUNT=$scratch/mount SEEN=$scratch/lines SET SIZE

# job_start COMMAND...: runs a job, and writes its processor seconds to $scratch/spent.
job_start() {
	TIMEFORMAT="processor %U %S"
	{ time mpi_job "$ranks" "$hosts" "$@" </dev/null >"$scratch/told" 2>&1; } 2>"$scratch/spent"
}

all_have_read() {
	[ "$(grep -ls -e ' seconds ' -e '^# epoch 0 ' "$SEEN"/rank.* | wc -l)" -eq "$ranks" ]
}

# cut_job COMMAND...: runs a job, cuts the last host's network, and restores it when all ranks have read.
cut_job() {
	local job size

	# The bytes that the first host has read of its part say when to cut.
	size=$(file_size "$set")
	job_start "$@" &
	job=$!
	SLOWFS_MOUNT=${mounts[0]}
	until [ "$(slowfs_stat "$set/data.mdb:bytes")" -gt $((size * cut / 100 / hosts)) ]; do
		kill -0 "$job" || return 1
	done
	cluster_cut $((hosts - 1)) down
	until all_have_read; do
		kill -0 "$job" || break
		sleep 0.05
	done
	cluster_cut $((hosts - 1)) up
	wait "$job"
}

# job_slowly COMMAND...: runs a job while the last host's network is slow.
job_slowly() {
	local rc=0

	shape_slowly yes
	job_start "$@" || rc=$?
	shape_slowly no
	return $rc
}

job_by_way() {
	local together=("$lmdbio_run" --mpi -- "$scratch/rank")
	local loader=("$program" --quiet --apart --epochs=1 --batch="${batch[$set]}" "$MOUNT/$set")

	cluster_finalize=
	case $1 in
	loader*) export LOADER_SAYS=$SEEN/rank cluster_finalize=1 ;;
	esac
	case $1 in
	loader) job_start "${loader[@]}" ;;
	loader-alone) job_start "$program" --single "${loader[@]:1}" ;;
	loader-slow) job_slowly "${loader[@]}" ;;
	loader-cut) cut_job "${loader[@]}" ;;
	original) job_start "$scratch/rank" ;;
	alone) job_start env "LD_LIBRARY_PATH=$library" "$scratch/rank" ;;
	job) job_start "${together[@]}" ;;
	slow) job_slowly "${together[@]}" ;;
	cut) cut_job "${together[@]}" ;;
	tcp) job_start "$scratch/tcp" ;;
	*) echo "no such way: $1" >&2 && exit 1 ;;
	esac
}

# measure: runs $way once; prints "BYTES REQUESTS NETWORK EPOCH OTHERS IMBALANCE PROCESSOR STORAGE".
measure() {
	local moved ticks

	each_cold
	rm -f "$SEEN"/*
	truncate -s 0 "$TOGETHER"
	truncate -s 4 "$TOGETHER"
	moved=$(network_bytes)
	ticks=$(storage_ticks)
	job_by_way "$way" || { cat "$scratch/told" >&2 && exit 1; }
	[ -z "${VERBOSE:-}" ] || cat "$scratch/told" >&2
	moved=$(($(network_bytes) - moved))
	ticks=$(($(storage_ticks) - ticks))
	awk -v bytes="$(counted bytes)" -v requests="$(counted requests)" -v moved="$moved" -v ticks="$ticks" \
		 -v each="$(getconf CLK_TCK)" -v slower="$slower" -v last="$(((hosts - 1) * (ranks / hosts)))" '
		/^processor / { spent = $2 + $3 }
		/^# epoch 0 / {
			for (i = 1; i < NF; i++)
				if ($i == "ms") $0 = " seconds 0 from 0 to " $(i + 1) / 1000 " s"
		}
		/ seconds / {
			for (i = 1; i < NF; i++) {
				if ($i == "from") from = $(i + 1)
				if ($i == "to") to = $(i + 1)
			}
			rank = FILENAME
			sub(/.*\./, "", rank)
			if (!n++ || from < first) first = from
			if (to > over) over = to
			if (rank + 0 < last && to > other) other = to
			sum += to - from
			if (to - from > most) most = to - from
		}
		END {
			printf "%.0f %.0f %.0f %.4f %.4f %.3f %.2f %.2f\n", bytes, requests, moved, (over - first) / slower, (other - first) / slower,
				most * n / sum, spent, ticks / each
		}' "$SEEN"/rank.* "$scratch/spent"
}

# row FILE: prints the medians of FILE's columns.
row() {
	local column

	printf '%-6s %-5s %-12s' "$set" "$shape" "$way"
	for column in 1 2 3 4 5 6 7 8; do
		awk -v c=$column '{ print $c }' "$1" | sort -n |
			awk -v c=$column '{ v[NR] = $1 }
				END {
					m = v[int((NR + 1) / 2)]
					if (c == 1 || c == 3) printf " %9.1f", m / 1e6
					if (c == 2) printf " %9.0f", m
					if (c > 3) printf " %9.2f", m
				}'
	done
	echo
}

[ $# -gt 0 ] || set -- 2x2 4x4 8x8
for set in "${sets[@]}"; do
	case $set in
	img) make_set img $((500 * scale)) 196620 ;;
	cifar) make_set cifar $((25000 * scale)) 3090 ;;
	esac
	echo "$set: $(($(file_size "$set") / 1000000)) MB"
done
printf '%-6s %-5s %-12s %9s %9s %9s %9s %9s %9s %9s %9s\n' set RxN way MB requests network epoch others \
	imbalance processor storage
for shape in "$@"; do
	ranks=${shape%x*} hosts=${shape#*x}
	hosts_start "$hosts"
	for set in "${sets[@]}"; do
		SET=$set SIZE=$(file_size "$set")
		ways_measure
	done
done
cluster_stop
mounts_stop
