#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio-serve keeps data sets for programs that come and go, reports what it has, ends when it is told
# to, and may be killed or stopped at any time.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
serve=$top_builddir/tools/lmdbio-serve
node=$LMDBIO_NODE nodes=2
make_set img 300 196620
slowfs_start "$scratch/backing" "$scratch/mount"
set_path=$scratch/mount/img
whole=$(original scan "$scratch/backing/img" | seen)

# serve_start RANKS [PATH...]: in the background, each rank a node; returns when all servers accept connections.
serve_start() {
	local ranks=$1 rank

	nodes=$1
	shift
	LMDBIO_NODE=$node mpi_job "$ranks" "$ranks" "$serve" "$@" >"$scratch/serve.log" 2>&1 &
	served=$!
	for ((rank = 0; rank < ranks; rank++)); do
		until at "$rank" "$serve" --status >"$scratch/status.$rank" 2>/dev/null; do
			kill -0 "$served" || { cat "$scratch/serve.log"; exit 1; }
			sleep 0.05
		done
	done
}

# at RANK COMMAND...: runs the command with the name of that rank's node.
at() {
	local name=$node#$1

	# A single node has the plain name.
	[ "$nodes" -gt 1 ] || name=$node
	shift
	LMDBIO_NODE=$name "$@"
}

# The process id of a server, by its place among the launcher's children.
server_of() {
	pgrep -f "^$serve|/lt-lmdbio-serve" | while read -r pid; do
		if [ "$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^PMI_RANK=//p')" = "$1" ] &&
			grep -qz "^job_scratch=$scratch" "/proc/$pid/environ"; then
			echo "$pid"
		fi
	done
}

rc=0
at 0 "$serve" --status >"$scratch/out" 2>&1 || rc=$?
equal "status_without_a_server_is_1" 1 "$rc"
rc=0
at 0 "$serve" --stop >"$scratch/out" 2>&1 || rc=$?
equal "stop_without_a_server_is_1" 1 "$rc"

cat >"$scratch/taker.py" <<'END'
import socket, sys
name = 0xcbf29ce484222325
for byte in sys.argv[1].encode():
    name = (name ^ byte) * 0x100000001b3 % (1 << 64)
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taken:
    taken.bind("\0lmdbio-server.0.%016x" % name)
    if sys.argv[2] != "bind":
        taken.listen()
    print("taken", flush=True)
    for _ in range(2 if sys.argv[2] == "hang up" else 0):
        with taken.accept()[0] as asked:
            asked.recv(4096)
    sys.stdin.read()
END
mkfifo "$scratch/taker"
/usr/bin/python3 "$scratch/taker.py" "$node" "hang up" <"$scratch/taker" >"$scratch/taken" &
taker=$!
exec 5>"$scratch/taker"
until grep -q taken "$scratch/taken"; do
	kill -0 "$taker" || exit 1
	sleep 0.05
done
for word in status stop; do
	rc=0
	LMDBIO_NODE=$node "$serve" --$word >"$scratch/out" 2>&1 || rc=$?
	equal "server_that_hangs_up_at_${word}_is_1" 1 "$rc"
	case $word in
	status) said="this node's server does not answer: --stop ends it" ;;
	stop) said="this node's server does not end: kill its process" ;;
	esac
	equal "server_that_hangs_up_at_${word}_is_told" "lmdbio-serve: $said" "$(cat "$scratch/out")"
done
exec 5>&-
wait "$taker"

# The servers' names have no permissions: another user may take one.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 711 "$scratch"
	for how in listen bind; do
		mkfifo "$scratch/taker.$how"
		setpriv --reuid=65534 --clear-groups /usr/bin/python3 "$scratch/taker.py" "$node" "$how" \
			<"$scratch/taker.$how" >"$scratch/taken.$how" &
		taker=$!
		exec 5>"$scratch/taker.$how"
		until grep -q taken "$scratch/taken.$how"; do
			kill -0 "$taker" || exit 1
			sleep 0.05
		done
		rc=0
		LMDBIO_NODE=$node "$serve" >"$scratch/out.$how" 2>&1 || rc=$?
		equal "server_whose_name_is_taken_by_${how}_is_refused" 2 "$rc"
		exec 5>&-
		wait "$taker"
	done
	judge "user_that_has_taken_the_name_is_told" grep -q \
		"user 65534 (process [0-9]*) has taken the name of this node's server: --node=NAME" "$scratch/out.listen"
	judge "name_that_is_only_bound_is_told" grep -q "another program has taken the name" "$scratch/out.bind"
fi

# A set that is named twice is kept once; a set that finds no memory is named in a message.
serve_start 1 "$set_path" "$set_path/data.mdb"
equal "set_that_is_named_twice_is_kept_once" 1 "$(at 0 "$serve" --status | grep -c data.mdb)"
at 0 "$serve" --stop
wait "$served"
equal "set_that_is_named_twice_is_served" 0 "$(grep -c 'not served' "$scratch/serve.log")"
# The status is one message: rows that do not fit into it are counted.
make_set small 3 10
long=$scratch/long
for ((i = 0; i < 14; i++)); do
	long=$long/$(printf '%0230d' "$i")
done
mkdir -p "$long"
for ((i = 10; i < 40; i++)); do
	cp "$scratch/backing/small/data.mdb" "$long/$i.mdb"
done
serve_start 1 "$long"/*.mdb
for ((i = 0; i < 600; i++)); do
	at 0 "$serve" --status >"$scratch/out"
	! tail -n 1 "$scratch/out" | grep -q '^\.\.\. and' || break
	sleep 0.05
done
at 0 "$serve" --stop
wait "$served"
rows=$(grep -c '^0/1 .*/[1-3][0-9].mdb$' "$scratch/out")
equal "status_has_whole_rows_and_the_number_of_the_others" "... and $((30 - rows)) more" "$(tail -n 1 "$scratch/out")"
serve_start 1 --memory=1M "$set_path"
at 0 "$serve" --stop
wait "$served"
judge "set_without_memory_is_said" grep -q "$set_path: not served: this node's memory budget" "$scratch/serve.log"

cold
rc=0
at 0 "$serve" "$set_path" "$scratch/no-such-set" >"$scratch/out" 2>&1 || rc=$?
equal "missing_set_is_refused" 2 "$rc"
judge "missing_set_is_said" grep -q "^lmdbio-serve: $scratch/no-such-set: No such file" "$scratch/out"
rc=0
at 0 "$serve" --memory=lots "$set_path" >"$scratch/out" 2>&1 || rc=$?
equal "setting_that_makes_no_sense_is_refused" 2 "$rc"
judge "setting_that_makes_no_sense_is_said" grep -q -e "--memory wants auto, a size" "$scratch/out"
serve_start 2 "$set_path"
size=$(file_size img)
until [ "$(slowfs_stat img/data.mdb:bytes)" -ge "$size" ]; do
	sleep 0.05
done
for rank in 0 1 0 1; do
	equal "program_on_${rank}_sees_the_same" "$whole" "$(at "$rank" reader scan "$set_path" | seen)"
done
at_most "four_programs_bytes" "$(slowfs_stat img/data.mdb:bytes)" $((size * 103 / 100))
at 1 "$serve" --status >"$scratch/out"
if [ -x "$top_builddir/tools/lmdbio-top" ]; then
	at 1 "$top_builddir/tools/lmdbio-top" --batch --looks=1 >"$scratch/top"
	judge "top_shows_the_server" grep -q "^ *$(server_of 1) lmdbio-serve  *server " "$scratch/top"
fi
judge "status_names_the_set" grep -q "^1/2 .*  $set_path/data.mdb\$" "$scratch/out"
judge "status_is_a_table" grep -q "^NODE  *HELD .*  DATA SET\$" "$scratch/out"
rc=0
LMDBIO_NODE=$node#0 "$serve" >"$scratch/out" 2>&1 || rc=$?
equal "second_server_is_refused" 2 "$rc"
judge "second_server_is_told_why" grep -q "this node has a server already (process [0-9]*): --status shows it" "$scratch/out"
rc=0
at 1 "$serve" --stop || rc=$?
equal "stop_is_answered" 0 "$rc"
rc=0
wait "$served" || rc=$?
equal "stopped_servers_end_well" 0 "$rc"
job_left "stopped_servers"

# beside RANKS: a job with servers of its own, on nodes that have some already: the job reads what these keep, and
# they go on.
beside() {
	local name=job_of_$1_beside_the_servers rc=0 try bytes after

	cold
	serve_start 2 "$set_path"
	until [ "$(slowfs_stat img/data.mdb:bytes)" -ge "$size" ]; do
		sleep 0.05
	done
	for try in $job_tries; do
		cold
		rm -f "$scratch"/seen.*
		slowfs_reset
		LMDBIO_NODE=$node epochs=1 job_set=$set_path job_run "$1" 2 sh -c "$job_part"
		bytes=$(slowfs_stat img/data.mdb:bytes)
		# And a program that comes afterwards.
		after=$(at 1 reader scan "$set_path" | seen)
		[ "$(slowfs_stat img/data.mdb:bytes)" -gt $((size * 3 / 100)) ] || break
		echo "-- $bytes bytes at try $try"
	done
	equal "${name}_ends_well" 0 "$job_status"
	[ "$job_status" = 0 ] || cat "$scratch/job.log"
	equal "${name}_sees_the_same" "$whole" "$(job_seen 1)"
	at_most "${name}_bytes" "$bytes" $((size * 3 / 100))
	equal "program_after_a_${name}_sees_the_same" "$whole" "$after"
	at_most "program_after_a_${name}_bytes" "$(slowfs_stat img/data.mdb:bytes)" $((size * 3 / 100))
	at 0 "$serve" --stop
	wait "$served" || rc=$?
	equal "servers_after_a_${name}_end_well" 0 "$rc"
	rm -f "$scratch"/seen.*
	job_left "$name"
}

beside 2
beside 4

# A signal ends the server as well.
serve_start 1
kill -TERM "$(server_of 0)"
rc=0
wait "$served" || rc=$?
equal "terminated_server_ends_well" 0 "$rc"
judge "server_without_a_path_says_what_it_serves" grep -qx \
	"lmdbio-serve: no PATH is given: it serves what your programs read .* until lmdbio-serve --stop ends it" \
	"$scratch/serve.log"

# program_disturbed SIGNAL PERCENT NODES RANKS: ranks on the first node read their parts. When storage has been asked
# for PERCENT of the set, it answers no more, and SIGNAL is sent to the node's server. When a server is killed, its
# launcher ends the other servers.
program_disturbed() {
	local name=$4_programs_$1_at_$2_of_$3_nodes program pid rc=0 before=$((size * $2 / 100))

	serve_start "$3"
	pid=$(server_of 0)
	cold
	slowfs_control "gate $((before / 1048576 + 1))"
	rm -f "$scratch"/seen.*
	LD_LIBRARY_PATH=$library epochs=1 job_set=$set_path \
		at 0 mpi_job "$4" 1 sh -c "$job_part" >"$scratch/job.log" 2>&1 &
	program=$!
	until [ "$(slowfs_stat img/data.mdb:bytes)" -gt "$before" ] || ! kill -0 "$program" 2>/dev/null; do
		sleep 0.01
	done
	# At 0 per cent the program may not have come to the server yet.
	if [ "$2" != 0 ]; then
		at 0 "$serve" --status >"$scratch/out" || true
		judge "${name}_is_served_till_then" grep -q "^[0-9]/[0-9] .*  $set_path/data.mdb\$" "$scratch/out"
	fi
	kill -s "$1" "$pid"
	judge "${name}_is_not_through_by_then" kill -0 "$program"
	slowfs_control "gate open"
	wait "$program" || rc=$?
	equal "${name}_goes_on" 0 "$rc"
	[ "$rc" = 0 ] || cat "$scratch/job.log"
	equal "${name}_sees_the_same" "$whole" "$(job_seen 1)"
	kill -KILL "$pid" 2>/dev/null || true
	wait "$served" 2>/dev/null || true
	job_killed=1 job_left "$name"
}

unset LMDBIO_PATIENCE # some are waited for in vain
for ranks in 2 4; do
	program_disturbed STOP 25 1 "$ranks"
	for nodes_killed in 1 2; do
		for percent in 0 30 60; do
			program_disturbed KILL "$percent" "$nodes_killed" "$ranks"
		done
	done
done
slowfs_stop
finish
