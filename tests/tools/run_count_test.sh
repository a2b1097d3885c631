#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio-run reports the sum of what its program and all the program's children have counted.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
python=/usr/bin/python3
"$python" -c 'import lmdb' 2>/dev/null || skip "no python3-lmdb here"
reader=$(cd "$(dirname "$0")" && pwd)/run_count_reader.py
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
unset PMI_RANK PMIX_RANK OMPI_COMM_WORLD_RANK SLURM_PROCID RANK LMDBIO_STATS_AT
cd "$scratch"
once=2000000 # bytes that one process reads

# tables: the descriptors of counter tables that this user's processes have
tables() {
	find /proc/[0-9]*/fd -lname '/memfd:lmdbio-stats*' 2>/dev/null | sort
}

# number NAME FILE
number() {
	sed -n "s/.*\"$1\": \([0-9]*\)[,}].*/\1/p" "$2"
}

# counted NAME PROCESSES STATUS HOW: the sum is of so many processes, each of which has read all of the data set.
counted() {
	rc=0
	"$lmdbio_run" --stats=json -- "$python" "$reader" "$4" db > out 2> err || rc=$?
	judge "$1_ends_as_the_program" test $rc -eq "$3"
	judge "$1_is_one_report" test "$(grep -c '"schema": "lmdbio-stats/1"' err)" -eq 1
	judge "$1_has_the_processes" test "$(number processes err)" = "$2"
	judge "$1_has_the_bytes" test "$(number served_bytes err)" = $(($2 * once))
	judge "$1_knows_none_alive" test "$(number living err)" = 0
}

"$python" "$reader" make db
counted one_process 1 0 read
counted child_that_ends_by_exit 1 0 exit
counted child_that_is_killed 1 0 kill
counted child_that_becomes_a_program 1 0 exec
counted program_of_the_program 1 0 program
counted workers_that_are_forked 3 0 read+fork
counted workers_that_are_spawned 2 0 spawn
counted children_of_all_kinds 9 0 read+exit+kill+exec+nothing+program+fork+spawn
counted program_that_closes_descriptors 2 0 closed
counted program_that_is_killed 2 137 exit+die

# --- the form of the report, and its place ---
"$lmdbio_run" --stats=1 -- "$python" "$reader" read+kill db > out 2> err
judge text_begins_with_the_verdict sh -c \
	'head -n 1 err | grep -q "^lmdbio: I/O is \(not \)\{0,1\}your bottleneck: waited [0-9.]* of [0-9.]* s ([0-9]* %)$"'
judge text_names_the_processes sh -c 'sed -n 2p err | grep -q "of python3 and its children on .*: 2 processes$"'
LMDBIO_STATS=1 "$lmdbio_run" -- "$python" "$reader" read db > out 2> err
judge variable_is_as_the_option grep -q 'and its children' err
PMI_RANK=3 LMDBIO_STATS='of-%r-%p.json' "$lmdbio_run" -- "$python" "$reader" read+fork db > out 2> err
judge file_is_one test "$(find . -name 'of-3-*.json' | wc -l)" -eq 1
judge file_has_the_rank test "$(number rank of-3-*.json)" = 3
judge file_has_the_program_s_number test -e "of-3-$(number pid of-3-*.json).json"
judge file_has_the_processes test "$(number processes of-3-*.json)" = 3
"$lmdbio_run" --stats=json -- "$python" "$reader" nothing db > out 2> err
judge nothing_counted_is_silent test ! -s err
rc=0
"$lmdbio_run" --stats=json -- "$python" "$reader" fail db > out 2> err || rc=$?
judge status_is_the_program_s test $rc -eq 7
rc=0
"$lmdbio_run" --stats=json -- ./nowhere > out 2> err || rc=$?
judge program_that_is_not_found_127 test $rc -eq 127
# One lmdbio-run inside another: only the outer one reports.
"$lmdbio_run" --stats=json -- sh -c '"$@" && "$@"' sh "$lmdbio_run" -- "$python" "$reader" read db > out 2> err
judge one_run_in_another_is_one_report test "$(grep -c schema err)" -eq 1
judge one_run_in_another_has_the_processes test "$(number processes err)" = 2
# Without lmdbio-run each process reports its own counters, as far as it can.
LD_PRELOAD=$dropin LMDBIO_STATS=json "$python" "$reader" read+exit+program db > out 2> err
judge without_lmdbio_run_each_tells_its_own test "$(grep -c '"processes": 1,' err)" -eq 2
# LMDBIO_STATS_AT names a table that does not exist: the process reports for itself.
LD_PRELOAD=$dropin LMDBIO_STATS=json LMDBIO_STATS_AT=$$/0/1 "$python" "$reader" read db > out 2> err
judge lost_table_is_told_by_the_process_itself test "$(number served_bytes err)" = $once

# --- what the kernel reads ahead by itself ---
# cold FILE: removes the file from the page cache; returns false if this file system does not allow that
cold() {
	"$python" -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.fsync(fd)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
before = [line for line in open("/proc/self/io") if line.startswith("read_bytes")]
os.pread(fd, 1 << 20, 4 << 20)
after = [line for line in open("/proc/self/io") if line.startswith("read_bytes")]
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
sys.exit(before == after)' "$1" 2>/dev/null
}
"$python" "$reader" large large
size=$(stat -c %s large/data.mdb)
# about NAME: one case: the bytes from storage are the file's size, to within a tenth
about() {
	found=$(number storage_bytes err)
	judge "$1" test "${found:-0}" -ge $((size * 9 / 10)) -a "${found:-0}" -le $((size * 11 / 10))
	test "${found:-0}" -ge $((size * 9 / 10)) -a "${found:-0}" -le $((size * 11 / 10)) || cat err
}
if cold large/data.mdb; then
	"$lmdbio_run" --stats=json -- "$python" "$reader" scan large > out 2> err
	about cold_local_scan_is_asked_of_storage
	cold large/data.mdb
	LD_PRELOAD=$dropin LMDBIO_STATS=json "$python" "$reader" scan large > out 2> err
	about cold_local_scan_without_lmdbio_run_is_asked_of_storage
	cold large/data.mdb
	"$lmdbio_run" --stats=json -- "$python" "$reader" scan+fork-scan large > out 2> err
	about second_process_that_finds_it_cached_asks_nothing
	"$lmdbio_run" --stats=json -- "$python" "$reader" scan large > out 2> err
	judge cached_local_scan_asks_little test "$(number storage_bytes err)" -lt $((size / 10))
	judge cached_local_scan_is_no_bottleneck grep -q '"verdict": "I/O is not your bottleneck: ' err
else
	not_run cold_local_scan_is_asked_of_storage "no disk is below $scratch"
fi

# --- signals, and what is left ---
mkfifo ready
"$lmdbio_run" --stats=json -- "$python" "$reader" term db > ready 2> err &
run=$!
read -r _ < ready
kill -TERM $run
rc=0
wait $run || rc=$?
judge signal_is_the_program_s test $rc -eq 143
judge signal_leaves_a_report test "$(number processes err)" = 1
"$lmdbio_run" --stats=json -- "$python" "$reader" term db > ready 2> err &
run=$!
read -r program < ready
judge table_is_there_while_they_live \
	test -n "$(find "/proc/$run/fd" -lname '/memfd:lmdbio-stats*')" -a -n "$(find "/proc/$program/fd" -lname '/memfd:lmdbio-stats*')"
kill -KILL $run
wait $run 2>/dev/null || true
while [ -e "/proc/$program" ]; do # until init has reaped it
	case $(cut -d' ' -f3 "/proc/$program/stat" 2>/dev/null) in Z | X | '') break ;; esac
done
judge program_is_killed_with_lmdbio_run test ! -e "/proc/$program/fd/0"
tables > after
judge nothing_is_left_of_this_test sh -c "! grep -q '/proc/$run/\|/proc/$program/' after"
finish
