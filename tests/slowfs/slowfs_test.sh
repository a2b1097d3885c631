#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that slowfs counts, delays, fails and passes through requests as it claims.
set -eu
top_srcdir=${top_srcdir:-.}
# shellcheck source=tests/slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
slowfs_require

python=${PYTHON:-python3}
mib=1048576
dir=$(mktemp -d "${TMPDIR:-/tmp}/slowfs-test.XXXXXX")
trap 'slowfs_abandon; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
backing=$dir/backing
mount=$dir/mount
mkdir "$backing"
head -c $((64 * mib)) /dev/urandom >"$backing/data.mdb"
head -c 8192 /dev/zero >"$backing/lock.mdb"

fail()
{
	echo "failed: $*"
	exit 1
}

# equal WHAT EXPECTED FOUND
equal()
{
	[ "$2" = "$3" ] || fail "$1: expected $2, found $3"
}

# within WHAT LOWEST HIGHEST FOUND; also for fractions
within()
{
	awk -v low="$2" -v high="$3" -v found="$4" 'BEGIN { exit !(found >= low && found <= high) }' ||
		fail "$1: expected $2 to $3, found $4"
}

probe()
{
	"$python" "$top_srcdir/tests/slowfs/slowfs_probe.py" "$@"
}

cold()
{
	slowfs_drop
	slowfs_reset
}

help_names_every_option()
{
	"$SLOWFS" --help >"$dir/help"
	for word in latency= bandwidth= fail= nocache stats= lock= transient drop max_threads; do
		grep -q -e "$word" "$dir/help" || fail "--help does not tell of $word"
	done
	if "$SLOWFS" -o fail=12:nothing "$backing" "$mount" 2>/dev/null; then
		fail "a fault that makes no sense is taken"
	fi
}

direct_reads_are_counted_each()
{
	cold
	dd if="$mount/data.mdb" of=/dev/null bs=1M iflag=direct status=none
	equal "direct requests" 64 "$(slowfs_stat requests)"
	equal "direct requests of data.mdb" 64 "$(slowfs_stat data.mdb:requests)"
	equal "direct bytes" $((64 * mib)) "$(slowfs_stat data.mdb:bytes)"
	equal "direct histogram" 64 "$(slowfs_stat hist_1048576)"
	equal "in flight with one reader" 1 "$(slowfs_stat inflight_max)"
	dd if="$mount/data.mdb" of=/dev/null bs=4k count=10 iflag=direct status=none
	equal "small direct reads" 10 "$(slowfs_stat data.mdb:hist_4096)"
}

# The kernel may drop clean pages at any time (DAMON on some systems), so that counts of buffered reads have some
# tolerance.
buffered_reads_come_in_128_kib()
{
	cold
	dd if="$mount/data.mdb" of=/dev/null bs=1M status=none
	within "buffered requests" 512 700 "$(slowfs_stat data.mdb:requests)"
	within "buffered histogram" 450 520 "$(slowfs_stat data.mdb:hist_131072)"
	within "buffered bytes" $((64 * mib)) $((70 * mib)) "$(slowfs_stat data.mdb:bytes)"
	slowfs_reset
	cat "$mount/data.mdb" >/dev/null
	within "a warm read's bytes" 0 $((16 * mib)) "$(slowfs_stat bytes)"
}

caches_when_dropped_are_cold()
{
	if [ -w /proc/sys/vm/drop_caches ] && echo 3 2>/dev/null >/proc/sys/vm/drop_caches; then
		slowfs_reset
		cat "$mount/data.mdb" >/dev/null
		within "bytes after drop_caches" $((64 * mib)) $((70 * mib)) \
			"$(slowfs_stat data.mdb:bytes)"
	fi
	cold
	probe map "$mount/data.mdb" 0 $((4 * mib)) >/dev/null
	within "bytes through a cold mapping" $((4 * mib)) $((8 * mib)) "$(slowfs_stat bytes)"
}

log_when_on_tells_each_read()
{
	cold
	slowfs_control "log on"
	probe read "$mount/data.mdb" 8192 4096 direct >/dev/null
	slowfs_control "log off"
	probe read "$mount/data.mdb" 0 4096 direct >/dev/null
	equal "log" "8192 4096 4096 0 data.mdb" "$(cut -d' ' -f2- "$mount/.slowfs/log")"
}

clock_moves_times_of_change_alone()
{
	before=$(stat -c '%Z %Y %s' "$mount/data.mdb")
	slowfs_control "clock -7200"
	equal "times with the clock set back" "$((${before%% *} - 7200)) ${before#* }" \
		"$(stat -c '%Z %Y %s' "$mount/data.mdb")"
	slowfs_control "clock 0"
	equal "times with the clock as it was" "$before" "$(stat -c '%Z %Y %s' "$mount/data.mdb")"
	if slowfs_control "clock back" 2>/dev/null; then
		fail "a clock that makes no sense is taken"
	fi
}

# The model gives each request a time to wait, and no request waits for less; how much longer the machine makes it
# wait is not judged. parts_wait MOST-IN-FLIGHT LEAST MOST SUM-LEAST SUM-MOST ARGUMENT...: the microseconds that the
# model gives to the longest of the probe's requests and to all of them.
parts_wait()
{
	expected_inflight=$1 least=$2 most=$3 sum_least=$4 sum_most=$5
	shift 5
	slowfs_reset
	took=$(probe parts "$mount/data.mdb" "$@")
	within "most in flight of $*" 1 "$expected_inflight" "$(slowfs_stat inflight_max)"
	within "the longest delay of $*" "$least" "$most" "$(slowfs_stat delay_max_us)"
	within "all delays of $*" "$sum_least" "$sum_most" "$(slowfs_stat delay_us)"
}

latency_delays_each_and_overlaps()
{
	slowfs_control "bandwidth 0"
	slowfs_control "latency 0"
	parts_wait 1 0 0 0 0 50 4096 1
	slowfs_control "latency 5000"
	parts_wait 1 5000 5000 250000 250000 50 4096 1
	within "us of 50 reads of 5000 us, one by one" 250000 1e12 "$took"
	# All at once: each request has the whole latency, and none waits for the others.
	slowfs_control "latency 100000"
	slowfs_control "hold 16"
	parts_wait 16 100000 100000 1600000 1600000 16 4096 16
	equal "most in flight" 16 "$(slowfs_stat inflight_max)"
	within "us of 16 reads of 100000 us, all at once" 100000 1e12 "$took"
}

# One request of 1 MiB takes the link for 25 ms, and waits for those before it.
bandwidth_is_shared()
{
	slowfs_control "latency 0"
	slowfs_control "bandwidth 40"
	parts_wait 1 25000 25000 500000 500000 20 $mib 1
	within "us of 20 MiB at 40 MiB/s, one by one" 500000 1e12 "$took"
	slowfs_control "hold 10"
	parts_wait 10 25000 250000 500000 5000000 20 $mib 10
	within "us of 20 MiB at 40 MiB/s, ten at once" 500000 1e12 "$took"
	slowfs_control "bandwidth 0"
	parts_wait 1 0 0 0 0 20 $mib 1
}

gate_lets_so_much_pass()
{
	whole=$(probe read "$backing/data.mdb" 0 $((4 * mib)))
	cold
	slowfs_reset
	slowfs_control "gate 1"
	probe read "$mount/data.mdb" 0 $((4 * mib)) direct >"$dir/out" &
	reader=$!
	until [ "$(slowfs_stat bytes)" -ge $mib ]; do
		sleep 0.01
	done
	kill -0 $reader || fail "a read of 4 MiB has passed a gate of one"
	equal "bytes that pass the gate" $mib "$(slowfs_stat bytes)"
	slowfs_control "gate open"
	wait $reader
	equal "what waited at the gate" "$whole" "$(cat "$dir/out")"
}

eio_meets_its_reads_and_counts_down()
{
	whole=$(probe read "$backing/data.mdb" $mib $mib)
	begin=$(probe read "$backing/data.mdb" $mib 4096)
	cold
	slowfs_control "fail data.mdb@$((mib + 4096)):eio:2"
	equal "a read before the fault" "$begin" "$(probe read "$mount/data.mdb" $mib 4096 direct)"
	equal "first eio" EIO "$(probe read "$mount/data.mdb" $mib $mib direct)"
	equal "second eio" EIO "$(probe read "$mount/data.mdb" $((mib + 4096)) 4096 direct)"
	equal "after the last eio" "$whole" "$(probe read "$mount/data.mdb" $mib $mib direct)"
	equal "failed" 2 "$(slowfs_stat data.mdb:failed)"
	slowfs_control "fail other@$mib:eio"
	equal "another file's fault" "$whole" "$(probe read "$mount/data.mdb" $mib $mib direct)"
	slowfs_control "fail $((mib + 4096)):eio"
	equal "buffered eio" EIO "$(probe read "$mount/data.mdb" $((mib + 4096)) 4096)"
	equal "buffered eio, again" EIO "$(probe read "$mount/data.mdb" $((mib + 4096)) 4096)"
	slowfs_control clear
	equal "after clear" "$whole" "$(probe read "$mount/data.mdb" $mib $mib)"
	if slowfs_control "fail 1-0:eio" 2>/dev/null; then
		fail "a fault that makes no sense is taken"
	fi
}

short_ends_reads_before_it_and_nothing_else()
{
	cold
	slowfs_control "fail $((mib + 5000))-$((mib + 8000)):short"
	for how in direct direct "" ""; do
		equal "a read across ($how)" "$begin" \
			"$(probe read "$mount/data.mdb" $mib $mib $how)"
		equal "a read inside ($how)" EIO \
			"$(probe read "$mount/data.mdb" $((mib + 4096)) 4096 $how)"
		equal "a read behind ($how)" "$(probe read "$backing/data.mdb" $((mib + 8192)) 4096)" \
			"$(probe read "$mount/data.mdb" $((mib + 8192)) 4096 $how)"
	done
	equal "shortened" 2 "$(slowfs_stat shortened)"
	equal "the file's size" $((64 * mib)) "$(stat -c %s "$mount/data.mdb")"
	slowfs_control clear
	slowfs_control "fail $((mib + 4096)):short:1"
	equal "short once, mended by the kernel" "$whole" \
		"$(probe read "$mount/data.mdb" $mib $mib direct)"
	equal "shortened" 3 "$(slowfs_stat shortened)"
	cmp "$backing/data.mdb" "$mount/data.mdb"
}

reset_leaves_nothing()
{
	probe read "$mount/data.mdb" 0 4096 direct >/dev/null
	slowfs_reset
	equal "keys that are not 0 after a reset" "" "$(awk '$NF != 0' "$mount/.slowfs/stats")"
}

mappings_show_and_store()
{
	equal "a mapping's bytes" "$(probe read "$backing/data.mdb" 12345 100000)" \
		"$(probe map "$mount/data.mdb" 12345 100000)"
	probe mapwrite "$mount/lock.mdb" 5000 "kept" >/dev/null
	sync "$mount/lock.mdb"
	equal "bytes stored by a mapping" kept \
		"$(dd if="$backing/lock.mdb" bs=1 skip=5000 count=4 status=none)"
}

locks_exclude_other_processes()
{
	mkfifo "$dir/to" "$dir/from"
	for flavour in posix ofd flock; do
		equal "$flavour before" free "$(probe lock "$mount/lock.mdb" $flavour)"
		probe hold "$mount/lock.mdb" $flavour <"$dir/to" >"$dir/from" &
		exec 3>"$dir/to" 4<"$dir/from"
		read -r said <&4
		equal "the holder" holding "$said"
		equal "$flavour held" held "$(probe lock "$mount/lock.mdb" $flavour)"
		exec 3>&-
		wait $!
		exec 4<&-
		equal "$flavour after" free "$(probe lock "$mount/lock.mdb" $flavour)"
	done
}

names_pass_through()
{
	mkdir "$mount/sub"
	echo text >"$mount/sub/a"
	mv "$mount/sub/a" "$mount/sub/b"
	ln -s b "$mount/sub/link"
	ln "$mount/sub/b" "$mount/sub/hard"
	truncate -s 2 "$mount/sub/b"
	echo more >>"$mount/sub/b"
	chmod 640 "$mount/sub/b"
	touch -d @1000000000 "$mount/sub/b"
	equal "contents" temore "$(cat "$backing/sub/link")"
	equal "attributes" "640 1000000000 2" "$(stat -c '%a %Y %h' "$backing/sub/b")"
	slowfs_drop
	slowfs_reset
	cat "$mount/sub/b" >/dev/null
	equal "a renamed file's counter" 1 "$(slowfs_stat sub/b:requests)"
	diff -r "$backing" "$mount"
	rm -r "$mount/sub"
	[ ! -e "$backing/sub" ] || fail "removing does not pass through"
}

stop_leaves_nothing()
{
	slowfs_stop
	if mountpoint -q "$mount"; then
		fail "still mounted"
	fi
	grep -q '^requests ' "$dir/stats" || fail "no counters written at the end"
	slowfs_start "$backing" "$mount" -o nocache,latency=0,fail=0:eio:1
	equal "a planted fault" EIO "$(probe read "$mount/data.mdb" 0 4096 direct)"
	cat "$mount/data.mdb" >/dev/null
	slowfs_reset
	cat "$mount/data.mdb" >/dev/null
	within "bytes of a second open under nocache" $((64 * mib)) $((70 * mib)) \
		"$(slowfs_stat bytes)"
	slowfs_stop
	slowfs_start "$backing" "$mount" -o transient
	slowfs_stop
	[ ! -e "$mount" ] || fail "a transient mount leaves its folder"
}

# Another program's mount namespace has a copy of the mount.
stop_ends_what_is_mounted_elsewhere()
{
	unshare -m true 2>/dev/null || return 0
	mkfifo "$dir/ready"
	slowfs_start "$backing" "$mount"
	# shellcheck disable=SC2016
	unshare -m --propagation private sh -c 'echo >"$0"; exec sleep 1000' "$dir/ready" &
	elsewhere=$!
	read -r _ <"$dir/ready"
	slowfs_stop || stopped=no
	kill "$elsewhere"
	wait "$elsewhere" 2>/dev/null || true
	[ -z "${stopped:-}" ] || fail "the daemon stays while another namespace has the mount"
}

help_names_every_option
slowfs_start "$backing" "$mount" -o "latency=500,bandwidth=1500,stats=$dir/stats"
for check in direct_reads_are_counted_each buffered_reads_come_in_128_kib \
	caches_when_dropped_are_cold log_when_on_tells_each_read clock_moves_times_of_change_alone \
	latency_delays_each_and_overlaps bandwidth_is_shared gate_lets_so_much_pass \
	eio_meets_its_reads_and_counts_down \
	short_ends_reads_before_it_and_nothing_else reset_leaves_nothing \
	mappings_show_and_store locks_exclude_other_processes names_pass_through; do
	echo "$check"
	$check
done
stop_leaves_nothing
stop_ends_what_is_mounted_elsewhere
echo "passed"
