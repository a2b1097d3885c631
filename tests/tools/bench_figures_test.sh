#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that bench_figures measures what it claims to measure, and leaves nothing behind.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
slowfs_require
need python3
bench=$top_builddir/bench/bench_figures
cd "$scratch"
mkdir tmp
TMPDIR=$scratch/tmp
export TMPDIR
small="--data=$scratch/data --set=small --scale=0.002 --pairs=1"

# --- what it reports ---
# shellcheck disable=SC2086
status bench_of_reads_in_memory_ends_well 0 "$bench" $small --work=scan,get --count=1000 --json
judge bench_tells_as_json_what_was_read python3 - out <<'END'
import json, sys
scan, get = json.load(open(sys.argv[1]))["cases"]
for case, times in (scan, 1), (get, 0):
    for library in "original", "lmdbio":
        run = case[library]
        assert run["seconds"] > 0 and run["bytes"] == 100 * run["records"], run
        assert run["requests"] == 0, run
    assert case["original"]["sum"] == case["lmdbio"]["sum"], case
for case in scan, get:
    for ratio in case["rate"], case["processor_time"]:
        least, greatest = ratio["pairs"]
        assert 0 < least <= ratio["measured"] <= greatest and ratio["interval"] is None, ratio
assert scan["lmdbio"]["records"] % 20000 == 0 and get["lmdbio"]["records"] == 1000
END
# shellcheck disable=SC2086
status bench_of_cold_reads_ends_well 0 "$bench" $small --work=scan --state=cold --slowfs="$SLOWFS" --json
judge bench_counts_what_storage_was_asked python3 - out <<'END'
import json, sys
case, = json.load(open(sys.argv[1]))["cases"]
size = case["file_size"]
assert size > 2 << 20
for library in "original", "lmdbio":
    assert size * 0.9 < case[library]["asked"] < size * 1.2, case
assert case["lmdbio"]["requests"] < case["original"]["requests"], case
END
status suite_is_told_in_a_table 0 "$bench" --data="$scratch/data" --suite=storms --scale=0.002 --pairs=1 \
	--only='small: sequential scan, cold, slowfs' --slowfs="$SLOWFS"
judge suite_tells_of_each_figure_whether_it_is_met \
	grep -qE '^small: .*requests per MiB of file +<= +1\.10 +[0-9.]+ .*(yes|NO|open)$' out

status suite_is_told_as_json 0 "$bench" --data="$scratch/data" --suite=speed2 --scale=0.002 --pairs=6 \
	--only='small: sequential scan, warm' --json
judge suite_tells_the_interval_of_each_figure_and_what_it_decides python3 - out <<'END'
import json, sys
case, = json.load(open(sys.argv[1]))["cases"]
for figure in case["figures"]:
    low, high = figure["interval"]
    assert low <= figure["measured"] <= high, figure
    met = "yes" if low >= figure["at_least"] else "NO" if high < figure["at_least"] else "open"
    assert figure["met"] == met, figure
END

# --- fio beside it ---
mkdir empty odd
printf '#!/bin/sh\necho "fio: all is well"\necho "3;fio-9;read;0;0;many"\n' > odd/fio
chmod +x odd/fio
direct=yes
dd if="$(ls data/*/data.mdb)" of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null || direct=no
row="--data=$scratch/data --suite=storms --scale=0.002 --pairs=1"
if [ $direct = no ]; then
	not_run suite_without_fio_says_so "no direct reads here"
else
	# shellcheck disable=SC2086
	status suite_without_fio_ends_well 0 env PATH="$scratch/empty" "$bench" $row --only='small: sequential scan, cold'
	judge suite_without_fio_says_so \
		grep -qE "^small: sequential scan, cold +rate / fio's +>= +0\.90 +- +not measured: no fio here$" out
	# shellcheck disable=SC2086
	status suite_with_a_fio_that_tells_no_number_fails 1 env PATH="$scratch/odd:$PATH" "$bench" $row \
		--only='small: sequential scan, cold'
	judge fio_that_tells_no_number_is_complained_of grep -q 'fio cannot read .*/data.mdb' err
fi
if [ $direct = no ] || ! command -v fio >/dev/null; then
	not_run suite_with_fio_tells_the_ratio "no fio, or no direct reads, here"
else
	# shellcheck disable=SC2086
	status suite_with_fio_ends_well 0 "$bench" $row --only='small: sequential scan, cold'
	judge suite_with_fio_tells_the_ratio \
		grep -qE "^small: sequential scan, cold +rate / fio's +>= +0\.90 +[0-9]+\.[0-9]+ .*(yes|NO|open)$" out
	# shellcheck disable=SC2086
	status bench_with_fio_on_a_slow_place_ends_well 0 "$bench" $small --work=scan --state=cold --fio --json \
		--slowfs="$SLOWFS" --bandwidth=10
	judge fio_reads_the_file_at_the_pace_of_its_place python3 - out <<'END'
import json, sys
case, = json.load(open(sys.argv[1]))["cases"]
least = case["file_size"] / (10 << 20)
assert least * 0.9 < case["fio_seconds"] < least * 10, (least, case)
END
fi

# --- what it leaves behind ---
judge bench_leaves_no_mount_and_no_folder test -z "$(ls tmp)"
# The signal comes once its file system is mounted, in the middle of a measurement.
"$bench" --data="$scratch/data" --set=small --scale=0.002 --pairs=99 --work=scan --state=cold \
	--slowfs="$SLOWFS" > killed 2>&1 &
victim=$!
judge bench_that_is_killed_leaves_none_either python3 - "$scratch/tmp/" $victim <<'END'
import os, select, signal, sys, time
where, victim = sys.argv[1], int(sys.argv[2])
until = time.monotonic() + 300

def wait_for(wanted):
    with open("/proc/self/mounts") as mounts:
        poll = select.poll()
        poll.register(mounts, select.POLLPRI | select.POLLERR)
        while any(where in line for line in mounts) != wanted:
            if time.monotonic() > until:
                sys.exit("the mount is %s" % ("gone" if wanted else "there"))
            poll.poll(1000)
            mounts.seek(0)

wait_for(True)
os.kill(victim, signal.SIGKILL)
wait_for(False)
while os.listdir(where) and time.monotonic() < until:
    time.sleep(0.01)
sys.exit(len(os.listdir(where)))
END
wait $victim || true
finish
