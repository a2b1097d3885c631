# SPDX-License-Identifier: OLDAP-2.8
# Functions for tests that make hosts of network namespaces, and run jobs over them. Sourced.
# shellcheck shell=bash disable=SC2119,SC2120,SC2154
#
# A host is a process that sleeps in namespaces of its own: network, host name, IPC, and mounts with a /dev/shm and an
# /etc/hosts of its own. A veth pair connects it to a bridge in the network namespace of one more such process, the
# switch. None of it has a name outside these namespaces: it all goes when these processes end, and they end with the
# test. Host N is called node<N> and has the address 10.211.0.<N + 1>.

# shellcheck source-path=SCRIPTDIR source=../mpi/loader_job_lib.sh
. "${BASH_SOURCE[0]%/*}/../mpi/loader_job_lib.sh"

# cluster_begin: as job_begin, or skips the test.
cluster_begin() {
	need ip nsenter setpriv unshare
	[ "$(id -u)" -eq 0 ] || skip "only root makes network namespaces"
	unshare -n -u -i -m --propagation slave true 2>/dev/null || skip "no namespaces of network and mounts here"
	job_begin
	trap 'cluster_stop; job_clean' EXIT
	# Processes on the hosts must be able to read the data, whatever user they run as.
	chmod 755 "$scratch" "$scratch/backing"
}

# cluster_process NAME UNSHARE-OPTION...: starts a host or the switch; its process id is in $scratch/cluster/NAME.
cluster_process() {
	local name=$1 mine

	shift
	mine=$(readlink /proc/self/ns/net)
	setpriv --pdeathsig KILL unshare "$@" sleep infinity </dev/null >/dev/null 2>&1 &
	echo $! >"$scratch/cluster/$name"
	until [ "$(cat "/proc/$!/comm")" = sleep ] && [ "$(readlink "/proc/$!/ns/net")" != "$mine" ]; do
		kill -0 $! || skip "no namespaces of network and mounts here"
		sleep 0.01
	done
}

# cluster_start HOSTS
cluster_start() {
	local host

	cluster_hosts=$1
	mkdir "$scratch/cluster"
	echo "127.0.0.1 localhost" >"$scratch/cluster/hosts"
	: >"$scratch/cluster/daemons"
	cluster_process switch -n
	cluster_in switch sh -ec 'ip link add bridge type bridge; ip link set bridge up'
	for ((host = 0; host < cluster_hosts; host++)); do
		echo "10.211.0.$((host + 1)) node$host" >>"$scratch/cluster/hosts"
		cluster_host "$host"
	done
	# The launcher's command to reach a host, called as rsh and ssh are.
	cat >"$scratch/cluster/rsh" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
to=\$(cat "$scratch/cluster/\$1") || exit 255
shift
exec nsenter -t "\$to" -n -u -i -m --wdns=/ sh -c "\$*"
END
	chmod +x "$scratch/cluster/rsh"
}

# The test's own directory may lie below /dev/shm: all hosts see it. /sys/class shows the network namespace that has
# mounted it.
cluster_host() {
	local name=node$1

	cluster_process "$name" -n -u -i -m --propagation slave
	cluster_in switch ip link add "port$1" type veth peer name eth0 netns "$(cat "$scratch/cluster/$name")"
	cluster_in switch sh -ec "ip link set port$1 master bridge; ip link set port$1 up"
	# shellcheck disable=SC2016
	cluster_in "$name" sh -ec '
		hostname "$1"
		ip link set lo up
		ip addr add "10.211.0.$2/24" dev eth0
		ip link set eth0 up
		exec 3<"$3" 4</sys/fs/cgroup
		mount -t tmpfs -o mode=1777 none /dev/shm
		mkdir -p "$3"
		[ "$(stat -c %i "$3")" = "$(stat -Lc %i /proc/self/fd/3)" ] || mount -c --rbind /proc/self/fd/3 "$3"
		mount -t sysfs none /sys
		mount -c --rbind /proc/self/fd/4 /sys/fs/cgroup
		mount --bind "$3/cluster/hosts" /etc/hosts
		' - "$name" $(($1 + 1)) "$scratch"
}

# cluster_in NAME COMMAND...: runs the command on that host, or on the switch.
cluster_in() {
	local kinds="-n -u -i -m"

	[ "$1" != switch ] || kinds=-n
	# shellcheck disable=SC2086
	nsenter -t "$(cat "$scratch/cluster/$1")" $kinds --wdns="$PWD" -- "${@:2}"
}

# mpi_job RANKS HOSTS COMMAND...: ranks in blocks, started on host 0. It replaces mpi_job of tests/mpi/mpi_lib.sh, so
# that all functions that run jobs by it run them over hosts. A job that takes longer than MPI_SECONDS (300) hangs: it
# is told to end, status 124, or killed, 137. With cluster_finalize=1 a program that ends MPI itself does so as
# finalize_over_tcp.c says.
cluster_finalize=
mpi_job() {
	local ranks=$1 hosts=$2 each list="" host preload=$top_builddir/tests/mpi/.libs/polite_wait.so

	shift 2
	each=$((ranks / hosts))
	for ((host = 0; host < hosts; host++)); do
		list=$list${list:+,}node$host:$each
	done
	[ -z "$cluster_finalize" ] || preload=$preload:$top_builddir/tests/cluster/.libs/finalize_over_tcp.so
	for each in ${preload//:/ }; do
		[ -e "$each" ] || { echo "$each is not built: make check TESTS=" >&2; return 2; }
	done
	cluster_in node0 env LD_PRELOAD="$preload${LD_PRELOAD:+:$LD_PRELOAD}" \
		ASAN_OPTIONS="verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}" \
		LSAN_OPTIONS="suppressions=$top_srcdir/tests/mpi/lsan.suppressions:print_suppressions=0:symbolize=0${MPI_LEAKS:-}" \
		timeout -k 5 "${MPI_SECONDS:-300}" mpiexec -launcher rsh -launcher-exec "$scratch/cluster/rsh" \
		-hosts "$list" -n "$ranks" "$@"
}

# cluster_cut HOST up|down: sets the host's link, at the switch, as if its cable were pulled.
cluster_cut() {
	cluster_in switch ip link set "port$1" "$2"
}

# cluster_bytes HOST: the bytes that the host has received over its network since it was made.
cluster_bytes() {
	cluster_in "node$1" cat /sys/class/net/eth0/statistics/rx_bytes
}

# cluster_processes [HOST]: the ids of the processes on that host, or on all hosts.
cluster_processes() {
	local at own hosts="" name of

	for at in "$scratch"/cluster/node${1:-[0-9]*}; do
		own=$(cat "$at")
		[ -e "/proc/$own/ns/net" ] || continue
		hosts="$hosts $own $(readlink "/proc/$own/ns/net")"
	done
	# One `find` looks at all processes: a command for each would take longer than the processes live.
	{ find /proc/[0-9]*/ns/net -maxdepth 0 -printf '%p %l\n' 2>/dev/null || true; } |
		while IFS='/ ' read -r _ _ of _ _ name; do
			case "$hosts " in
			*" $of "*) ;;
			*" $name "*) echo "$of" ;;
			esac
		done
}

# cluster_left WHEN: no process on a host but those that cluster/daemons names, no file of lmdbio's or MPI's in its
# shared memory, and no name of a server.
cluster_left() {
	local at own left=""

	for at in "$scratch"/cluster/node*; do
		own=$(cat "$at")
		left=$left$(find "/proc/$own/root/dev/shm" -mindepth 1 -maxdepth 1 ! -path "/proc/$own/root$scratch" |
			sed "s|.*/|${at##*/} |")$(grep -i lmdbio "/proc/$own/net/unix" || true)
	done
	for own in $(cluster_processes); do
		! grep -qxF "$(cat "/proc/$own/comm" 2>/dev/null)" "$scratch/cluster/daemons" || continue
		left="$left $(tr '\0' ' ' <"/proc/$own/cmdline" || true)"
	done
	equal "$1_leaves_nothing_on_a_host" none "${left:-none}"
}

# cluster_stop: ends the processes on the hosts, and the hosts.
cluster_stop() {
	local pid at

	[ -d "$scratch/cluster" ] || return 0
	for pid in $(cluster_processes); do
		kill -KILL "$pid" 2>/dev/null || true
	done
	for at in "$scratch"/cluster/node* "$scratch/cluster/switch"; do
		pid=$(cat "$at")
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$scratch/cluster"
}
