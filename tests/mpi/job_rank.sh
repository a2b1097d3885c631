#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# What one rank does in a job of the fault tests: rank job_rank does what job_act names; all other ranks read their
# parts.
# shellcheck disable=SC2154 # the words job_* come from the test
asked=0
exec {never}<> <(:) # no process ever writes to it

read_part() {
	"$job_reader" --stride="$PMI_SIZE" --first="$PMI_RANK" "$@" >"$job_scratch/seen.$PMI_RANK.1"
}

# Sets $asked to the bytes that storage has been asked for. It starts no process, because it is called in a loop.
ask() {
	local key value

	while read -r key value; do
		[ "$key" != bytes ] || asked=$value
	done <"$job_mount/.slowfs/stats"
}

# wait_for_bytes BYTES PROCESS: returns when storage has been asked for so many bytes, or the process is gone.
wait_for_bytes() {
	ask
	while [ -e "/proc/$2/exe" ] && [ "$asked" -lt "$1" ]; do
		read -r -t 0.01 -u "$never" || true
		ask
	done
}

# signal_server NAME: sends that signal to the server that this rank's lmdbio-run has started.
signal_server() {
	pkill "-$1" -P "$PPID" -x lmdbio-server
}

if [ "$PMI_RANK" != "$job_rank" ]; then
	read_part scan "$job_set"
	exit
fi
case $job_act in
read) read_part scan "$job_set" ;;
none) ;;
die) # after storage has been asked for so many bytes of the job
	read_part scan "$job_set" &
	wait_for_bytes "$job_bytes" $!
	kill -KILL $! 2>/dev/null
	kill -KILL $$
	;;
close) # opens, reads a little, and closes, again and again, while many bytes are in flight
	for seed in 1 2 3 4 5; do
		"$job_reader" --seed="$seed" --records=400 --count=3 get "$job_set" >/dev/null || exit
	done
	read_part scan "$job_set"
	;;
both) # reads another set than all other ranks
	read_part scan "$job_other"
	;;
version) # the name leads to another file here
	export -f read_part
	# Only this mount must be private: below a changed root the root cannot be made private.
	# shellcheck disable=SC2016
	unshare -m --propagation unchanged bash -c \
		'mount --make-private "$job_mount" && mount --bind "$job_other" "$job_set" && read_part scan "$job_set"'
	;;
stop) # stops the server of this node until the program has read its part
	read_part scan "$job_set" &
	wait_for_bytes "$job_bytes" $!
	signal_server STOP
	wait $!
	rc=$?
	signal_server CONT
	exit $rc
	;;
keep_stopped) # stops the server and never continues it
	read_part scan "$job_set" &
	wait_for_bytes "$job_bytes" $!
	signal_server STOP
	wait $!
	;;
kill) # kills the server of this node
	read_part scan "$job_set" &
	wait_for_bytes "$job_bytes" $!
	signal_server KILL || exit 98
	wait $!
	;;
kill_after) # kills it when its program has ended and the other ranks read
	server=$(pgrep -P "$PPID" -x lmdbio-server) || exit 98
	read_part scan "$job_set"
	(until [ ! -e /proc/$$ ]; do sleep 0.01; done
		kill -KILL "$server") &
	;;
*) exit 99 ;;
esac
