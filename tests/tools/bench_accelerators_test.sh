#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# lmdbio-bench --train reports its counts for each number of accelerators, and leaves nothing behind.
#
# Counts and arithmetic are judged; the number of accelerators that are fed is not.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need python3
/usr/bin/python3 -c 'import lmdb' 2> /dev/null || skip "no python3-lmdb here"
bench=$top_builddir/tools/lmdbio-bench
[ -x "$bench" ] || skip "built without jansson"
scratch_on_storage "no storage here: all is in memory (tmpfs)"
cd "$scratch"
mkdir data tmp
export TMPDIR=$scratch/tmp
/usr/bin/python3 - <<'END'
import lmdb
with lmdb.open("data/train", map_size=1 << 26) as env, env.begin(write=True) as txn:
    for i in range(600):
        txn.put(b"%08d" % i, bytes([i % 251]) * 20000)
END
"$top_builddir/tools/lmdbio-convert" -q data/train data/packed
rm data/train/lock.mdb
quick=(--train=cosmoflow --library="$dropin" --seconds=1 --batch=60 --readers=3 --compute=15)

cat > check.py <<'END'
import json, sys
result, titles = json.load(open("out")), sys.argv[1].split("|")
assert result["schema"] == "lmdbio-bench-train/1" and result["model"] == "cosmoflow"
assert (result["batch"], result["readers"], result["compute_seconds"]) == (60, 3, 0.015)
assert result["utilisation_wanted"] == 0.7 and result["records"] == 600
assert [way["title"] for way in result["ways"]] == titles
for way in result["ways"]:
    runs = {run["accelerators"]: run for run in way["runs"]}
    assert len(runs) == len(way["runs"]) > 0, way
    for n, run in runs.items():
        used = run["steps"] * 0.015 / (run["seconds"] * n) if run["steps"] else 0
        assert abs(run["utilisation"] - used) < 1e-6 and used <= 1, run
        assert run["steps"] % n == 0 or run["given_up"], run
        # Behind each reader's first step, and each reader may be a batch ahead.
        least, most = (run["steps"] + 3 * n) * 60, (run["steps"] + 6 * n) * 60
        assert run["steps"] >= 6 * n or run["given_up"], run
        assert least <= run["records"] <= most or run["given_up"], run
        assert run["bytes"] == 20000 * run["records"], run
    fed = way["fed"]
    assert fed == 0 or runs[fed]["utilisation"] >= 0.7, way
    assert way["most_tried"] or runs[fed + 1]["utilisation"] < 0.7, way
assert result["memory_bytes"] == 64 << 20 or any("no control group" in note for note in result["notes"])
assert any("times the memory" in note for note in result["notes"])
END
all='original|original, NORDAHEAD|lmdbio|lmdbio, NORDAHEAD|lmdbio, NORDAHEAD, hints'
status accelerators_are_counted 0 "$bench" "${quick[@]}" --json data/train
judge counts_agree /usr/bin/python3 check.py "$all"
status container_is_read_by_lmdbio_alone 0 "$bench" "${quick[@]}" --json data/packed
judge counts_of_a_container_agree /usr/bin/python3 check.py 'lmdbio|lmdbio, NORDAHEAD|lmdbio, NORDAHEAD, hints'
status table_is_printed 0 "$bench" "${quick[@]}" --accelerator=a100 --only=hints data/train
judge verdict_is_the_first_line grep -q '^lmdbio with hints [0-9]* .*of cosmoflow at 70 % utilisation$' <(head -n 1 out)
judge table_has_the_way grep -q '^lmdbio, NORDAHEAD, hints  ' out
judge no_lock_file_is_made test ! -e data/train/lock.mdb

told unknown_model_is_refused 2 "train wants unet3d, resnet50 or cosmoflow, not 'gpt'" "$bench" --train=gpt data/train
told batch_without_model_is_refused 2 'batch has no effect without --train' "$bench" --batch=3 data/train
told pairs_with_model_are_refused 2 'pairs has no effect with --train' "$bench" --train=unet3d --pairs=2 data/train
told bad_time_is_refused 2 "compute wants milliseconds" "$bench" --train=unet3d --compute=long data/train
told batch_larger_than_data_is_named 2 'data/train: it has 600 records: a batch wants 601' "$bench" --train=unet3d \
	--library="$dropin" --batch=601 data/train
told way_that_is_none_is_refused 2 "no way of reading is called 'sideways'" "$bench" "${quick[@]}" --only=sideways \
	data/train

# --- an accelerator that dies does not make the others wait for it ---
"$bench" "${quick[@]}" --seconds=10 data/train > killed 2>&1 &
victim=$! groups=lmdbio-bench-$!
rc=0
/usr/bin/python3 - $victim <<'END' || rc=$?
import os, signal, sys

def workers(parent):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name, rest = open("/proc/%s/stat" % pid).read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        state, above = rest.split()[:2]
        if name == "bench_worker" and int(above) == parent and state != "Z":
            yield int(pid)

victim, killed = int(sys.argv[1]), False
while not killed:
    try:
        if open("/proc/%d/stat" % victim).read().rsplit(")", 1)[1].split()[0] == "Z":
            sys.exit(77)
    except OSError:
        sys.exit(77)
    found = list(workers(victim))
    if len(found) > 1:
        try:
            os.kill(found[-1], signal.SIGKILL)
            killed = True
        except ProcessLookupError:
            pass # it has ended meanwhile
END
status=0
wait $victim || status=$?
if [ $rc = 77 ]; then
	not_run accelerator_that_dies_ends_the_run "one accelerator was not fed on this machine now"
else
	judge accelerator_that_dies_ends_the_run test $status -eq 2
	judge accelerator_that_dies_is_told_of grep -q 'a worker died by signal 9\|a reader has failed' killed
fi
terminated bench_that_is_ended_says_so accelerators "$bench" "${quick[@]}" --seconds=300 data/train
judge no_group_is_left test -z "$(find /sys/fs/cgroup -name "$groups" -o -name "lmdbio-bench-$terminated" 2> /dev/null)"
judge no_file_is_left test -z "$(ls tmp)"
finish
