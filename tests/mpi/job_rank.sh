#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Says what one rank of a job of the fault tests does: job_act names it, with the
# rank that it is for; all others read their part.
# shellcheck disable=SC2154 # the words job_* come from the test
asked=0
exec {never}<> <(:) # nothing is ever read from it

read_part() {
	"$job_reader" --stride="$PMI_SIZE" --first="$PMI_RANK" "$@" >"$job_scratch/seen.$PMI_RANK.1"
}

# What storage has been asked for, in bytes, in $asked. No process of its own: it is called in a loop.
ask() {
	local key value

	while read -r key value; do
		[ "$key" != bytes ] || asked=$value
	done <"$job_mount/.slowfs/stats"
}

# Returns when storage has been asked for so many bytes, or the process is gone.
wait_for_bytes() {
	ask
	while [ -e "/proc/$2/exe" ] && [ "$asked" -lt "$1" ]; do
		read -r -t 0.01 -u "$never" || true
		ask
	done
}

# signal_server NAME: to the server that this rank's lmdbio-run has started.
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
die) # after so many bytes of the job
	read_part scan "$job_set" &
	wait_for_bytes "$job_bytes" $!
	kill -KILL $! 2>/dev/null
	kill -KILL $$
	;;
close) # opens, reads a little, and closes, again and again, while much is on its way
	for seed in 1 2 3 4 5; do
		"$job_reader" --seed="$seed" --records=400 --count=3 get "$job_set" >/dev/null || exit
	done
	read_part scan "$job_set"
	;;
both) # another set than all others
	read_part scan "$job_other"
	;;
version) # the same name is another file here
	export -f read_part
	# Nothing but this mount need be its own: below a changed root the root cannot be.
	# shellcheck disable=SC2016
	unshare -m --propagation unchanged bash -c \
		'mount --make-private "$job_mount" && mount --bind "$job_other" "$job_set" && read_part scan "$job_set"'
	;;
stop) # the server of this node, until the program has read its part
	read_part scan "$job_set" &
	wait_for_bytes "$job_bytes" $!
	signal_server STOP
	wait $!
	rc=$?
	signal_server CONT
	exit $rc
	;;
keep_stopped) # it is not let go on any more
	read_part scan "$job_set" &
	wait_for_bytes "$job_bytes" $!
	signal_server STOP
	wait $!
	;;
kill) # the server of this node
	read_part scan "$job_set" &
	wait_for_bytes "$job_bytes" $!
	signal_server KILL || exit 98
	wait $!
	;;
kill_after) # the program is over, and the others read
	server=$(pgrep -P "$PPID" -x lmdbio-server) || exit 98
	read_part scan "$job_set"
	(until [ ! -e /proc/$$ ]; do sleep 0.01; done
		kill -KILL "$server") &
	;;
*) exit 99 ;;
esac
