#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# lmdbio-bench, installed, measures a user's data set and writes nothing to it.
#
# Structure is judged: rows, bytes, requests, messages and what is left behind; no time.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
need python3 make
/usr/bin/python3 -c 'import lmdb' 2> /dev/null || skip "no python3-lmdb here"
[ -x "$top_builddir/tools/lmdbio-bench" ] || skip "built without jansson"
trap 'slowfs_abandon; rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
scratch_on_storage "nothing is cold here: all is in memory (tmpfs)"
cd "$scratch"
mkdir tmp
export TMPDIR=$scratch/tmp

# --- an installed tree ---
judge install_ends_well tree_make install > install.log 2>&1
installed=$scratch/root$(directory bindir)/lmdbio-bench
library=$scratch/root$(directory libdir)/lmdbio/liblmdb.so.0
judge worker_is_in_libexec test -x "$scratch/root$(directory libexecdir)/lmdbio/bench_worker"

# --- data sets ---
mkdir data
/usr/bin/python3 - data <<'END'
import lmdb, os, sys
os.chdir(sys.argv[1])
with lmdb.open("train", map_size=1 << 26) as env, env.begin(write=True) as txn:
    for i in range(2000):
        txn.put(b"%08d" % i, bytes([i % 251]) * 5000)
with lmdb.open("file.mdb", map_size=1 << 24, subdir=False) as env, env.begin(write=True) as txn:
    for i in range(100):
        txn.put(b"%04d" % i, b"x" * 500)
with lmdb.open("named", map_size=1 << 26, max_dbs=4) as env:
    small, large = env.open_db(b"small"), env.open_db(b"large", dupsort=True)
    with env.begin(write=True) as txn:
        for i in range(300):
            txn.put(b"%04d" % i, b"y" * 400, db=large)
            txn.put(b"%04d" % i, b"z" * 100, db=large)
        txn.put(b"one", b"1", db=small)
with lmdb.open("empty", map_size=1 << 20) as env, env.begin(write=True) as txn:
    pass
END
"$top_builddir/tools/lmdbio-convert" data/train data/packed > /dev/null
# lmdbio-bench may use a reader slot of a lock file that exists; it may neither create nor remove a lock file.
listing() {
	find data -mindepth 1 -printf '%p\n' | sort
	find data -type f ! -name '*lock*' -printf '%p %s %T@\n' -exec cksum {} + | sort
}
rm data/file.mdb-lock
listing > before
quick=(--seconds=1 --pairs=1)

# --- the report: a table, JSON, a page ---
status bench_measures 0 "$installed" "${quick[@]}" --pairs=2 --html=page.html data/train
judge verdict_is_the_first_line grep -q '^lmdbio reads this data set ' <(head -n 1 out)
judge table_has_both_libraries test "$(grep -c '^ *lmdbio .* x (' out)" -eq 12
judge table_has_a_row_of_hints grep -q '^cold, shuffled get, NORDAHEAD, hints, 4 processes *original' out
says plan_is_told 'train: 12 workloads, 2 runs of each on the original and on lmdbio in turn'
judge page_is_one_document /usr/bin/python3 - page.html <<'END'
import html.parser, sys, xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
assert text.startswith("<!DOCTYPE html>")
root = tree.fromstring(text)
names = [element.tag for element in root.iter()]
# A bar of the original and one of lmdbio in each of 12 groups, each on a track of its own; and a table of medians.
assert names.count("svg") == 24 and names.count("rect") == 48, names.count("rect")
assert names.count("tr") == 12 * 3 + 1 + 24, names.count("tr")
verdict, = (element for element in root.iter("p") if element.get("class", "").startswith("verdict"))
assert "".join(verdict.itertext()).startswith("lmdbio reads this data set ")
rates, = (section for section in root.iter("section") if section.get("id") == "rates")
widths = [float(rect.get("width")) for rect in rates.iter("rect") if rect.get("class") != "track"]
assert all(max(pair) == 240 and min(pair) > 0 for pair in zip(widths[::2], widths[1::2])), widths
for forbidden in "script", "img", "link", "iframe":
    assert forbidden not in names
html.parser.HTMLParser().feed(text)
assert "http:" not in text and "https:" not in text
END
# style PAGE: prints its style sheet.
style() {
	sed -n '/<style>/,/<.style>/p' "$1"
}
echo '{"schema": "lmdbio-stats/1", "program": "a", "host": "b", "pid": 1}' > one.json
"$top_builddir/tools/lmdbio-report" one.json -o report.html
style page.html > bench.style
style report.html > report.style
judge page_has_a_style test -s bench.style
same page_has_the_style_of_a_report report.style bench.style
status bench_prints_json 0 "$installed" "${quick[@]}" --json data/train
judge json_has_what_was_measured /usr/bin/python3 - out "$library" "$PWD/data/train" <<'END'
import json, os, sys
result = json.load(open(sys.argv[1]))
assert result["schema"] == "lmdbio-bench/1" and result["same"]
assert os.path.realpath(result["lmdbio"]["library"]) == os.path.realpath(sys.argv[2])
assert not result["original"]["built_in"] and "0.9." in result["original"]["version"]
data = result["lmdbio"]["data"]
assert data["records"] == 2000 and data["file_bytes"] == os.path.getsize(sys.argv[3] + "/data.mdb")
assert len(result["rows"]) == 12
for row in result["rows"]:
    ratio = row["ratio"]
    assert ratio["least"] <= ratio["median"] <= ratio["greatest"], row
    assert ratio["interval"] is None, row
    for library in "original", "lmdbio":
        for run in row[library]["runs"]:
            assert run["records"] > 0 and run["bytes"] == 5000 * run["records"], row
            assert run["missing_keys"] == 0
            if row["state"] == "warm":
                assert run["storage_bytes"] < data["file_bytes"] / 10, row
    if all(row[library]["runs"][0]["stopped"] == 0 for library in ("original", "lmdbio")):
        assert row["original"]["runs"][0]["sum"] == row["lmdbio"]["runs"][0]["sum"], row
assert {row["processes"] for row in result["rows"]} == {1, 4}
assert sum(row["hints"] for row in result["rows"]) == 2
assert result["plan"]["keys"] == 2000
END

status interval_needs_six_pairs 0 "$installed" --seconds=2 --pairs=6 --only='warm, scan, 1 process' --json data/train
judge interval_is_around_the_median /usr/bin/python3 -c '
import json
row, = json.load(open("out"))["rows"]
low, high = row["ratio"]["interval"]
assert row["ratio"]["least"] <= low <= row["ratio"]["median"] <= high <= row["ratio"]["greatest"]'

# --- other data sets ---
status file_is_measured 0 "$installed" "${quick[@]}" --only=scan data/file.mdb
status data_file_of_a_directory_is_measured 0 "$installed" "${quick[@]}" --only='warm, scan' data/train/data.mdb
status largest_database_is_measured 0 "$installed" "${quick[@]}" --only=warm --json data/named
judge largest_database_is_named grep -q '"database": "large"' out
judge duplicates_are_records grep -q '"records": 600,' out
status database_is_chosen 0 "$installed" "${quick[@]}" --only=warm --db=small --json data/named
judge chosen_database_is_named grep -q '"database": "small"' out
status container_is_measured_alone 0 "$installed" "${quick[@]}" --only='1 process' data/packed
judge container_has_its_own_verdict grep -q '^lmdbio reads this container at up to ' out
judge container_names_what_could_be_beside grep -q 'raw=PATH' out
status container_is_measured_beside_its_raw_file 0 "$installed" "${quick[@]}" --only='1 process' --json \
	--raw=data/train data/packed
judge both_read_the_same /usr/bin/python3 -c '
import json
result = json.load(open("out"))
assert result["same"] and result["lmdbio"]["data"]["container"]
assert not result["original"]["data"]["container"]'
/usr/bin/python3 - <<'END'
import lmdb, shutil
shutil.copytree("data/train", "changed")
with lmdb.open("changed", map_size=1 << 26) as env, env.begin(write=True) as txn:
    txn.put(b"%08d" % 7, bytes(5000))
END
told data_that_differs_is_a_finding 1 '^lmdbio and the original have not read the same' "$installed" --seconds=10 \
	--pairs=1 --only='cold, scan, 1 process' --raw=changed data/packed
told raw_of_another_data_set_is_refused 2 'other records' "$installed" --raw=data/file.mdb data/packed
testdb=$top_builddir/tests/data/lmdbio-testdb
if [ -x "$testdb" ]; then
	mkdir data/later
	"$testdb" --later=data/train/data.mdb data/later
	status data_of_lmdb_1_0_is_measured_alone 0 "$installed" "${quick[@]}" --only='1 process' data/later
	judge data_of_lmdb_1_0_has_its_own_verdict grep -q '^lmdbio reads this data file of LMDB 1.0 at up to ' out
	judge data_of_lmdb_1_0_names_what_could_be_beside grep -q 'raw=PATH.*--to=lmdb-0.9' out
	status data_of_lmdb_1_0_is_measured_beside_0_9 0 "$installed" "${quick[@]}" --only='1 process' --json \
		--raw=data/train data/later
	judge both_formats_read_the_same /usr/bin/python3 -c '
import json
result = json.load(open("out"))
assert result["same"] and not result["lmdbio"]["data"]["container"]'
	told raw_of_lmdb_1_0_is_refused 2 "the original cannot read LMDB 1.0's pages" "$installed" \
		--raw=data/later data/later
else
	not_run data_of_lmdb_1_0 "no lmdbio-testdb in this build"
fi
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ] && shm=$(mktemp -d /dev/shm/bench-test.XXXXXX); then
	cp -r data/train "$shm"
	status data_in_memory_is_measured 0 "$installed" "${quick[@]}" "$shm/train"
	judge nothing_in_memory_is_cold grep -q 'No row is cold' out
	told cold_rows_alone_are_refused 2 'lies in memory' "$installed" --only=cold "$shm/train"
	rm -r "$shm"
else
	not_run data_in_memory_is_measured "no tmpfs here"
fi

# --- a writer writes meanwhile ---
/usr/bin/python3 - data/train <<'END' &
import lmdb, os, sys
env = lmdb.open(sys.argv[1], map_size=1 << 26)
open("writing", "w").close()
while os.path.exists("writing"):
    with env.begin(write=True) as txn:
        txn.put(b"99999999", os.urandom(16))
END
writer=$!
while [ ! -e writing ]; do kill -0 $writer || break; done
status bench_works_beside_a_writer 0 "$installed" "${quick[@]}" --only='shuffled get, 1 process' data/train
judge writer_is_told_of grep -q 'has written to data/train meanwhile' out
rm writing
wait $writer
/usr/bin/python3 - data/train <<'END'
import lmdb, sys
with lmdb.open(sys.argv[1], map_size=1 << 26) as env, env.begin(write=True) as txn:
    txn.delete(b"99999999")
END
listing > before

# --- the original is not installed ---
loaded=$(ldd "$scratch/root$(directory libexecdir)/lmdbio/bench_worker" | awk '/liblmdb/ { print $3 }')
if ! grep -q "^ORIGIN_ARCHIVE_TRUE=''" "$top_builddir/config.log"; then
	not_run original_that_lmdbio_holds_is_measured "this build holds none"
elif ! unshare -m true 2> /dev/null; then
	not_run original_that_lmdbio_holds_is_measured "no mount namespaces here"
else
	# shellcheck disable=SC2016
	status original_that_lmdbio_holds_is_measured 0 unshare -m sh -c \
		'mount --bind /dev/null "$0" && exec "$@"' "$(realpath "$loaded")" \
		"$installed" "${quick[@]}" --only='warm, scan' data/train
	judge original_that_lmdbio_holds_is_named grep -q 'There is no liblmdb.so.0 of the system here' out
fi

# --- another user ---
if [ "$(id -u)" -eq 0 ] && chmod 755 "$scratch" && chmod -R a+rX root data &&
	setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$installed" -a -r data/train/data.mdb; then
	status other_user_measures 0 setpriv --reuid 65534 --regid 65534 --clear-groups \
		env -u TMPDIR "$installed" "${quick[@]}" --only='1 process' data/train
	judge lock_file_of_another_user_is_left_alone grep -q 'the lock file is left alone' out
	judge cold_runs_that_cannot_be_checked_are_told_of grep -q 'could not be checked' out
	chmod 600 data/file.mdb
	told file_of_another_user_is_refused 2 'file.mdb: .*your user may not do that' setpriv --reuid 65534 \
		--regid 65534 --clear-groups "$installed" data/file.mdb
	chmod 644 data/file.mdb
	told caches_are_not_dropped_by_another_user 0 'drop-caches has no effect' setpriv --reuid 65534 --regid 65534 \
		--clear-groups "$installed" "${quick[@]}" --only='cold, scan, 1 process' --drop-caches data/train
else
	not_run other_user_measures "not root, or the tree is out of another user's reach"
fi

# --- a program has the data set mapped ---
mkfifo held
/usr/bin/python3 - data/train/data.mdb <<'END' &
import mmap, sys
with open(sys.argv[1], "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
sum(data[at] for at in range(0, len(data), 4096))
open("mapped", "w").close()
open("held").read()
END
holder=$!
while [ ! -e mapped ]; do kill -0 $holder || break; done
status bench_measures_a_mapped_file 0 "$installed" "${quick[@]}" --only='cold, scan, 1 process' data/train
judge runs_that_are_not_cold_are_told_of grep -q 'Cold runs are not cold: .*End the program that has it mapped' out
: > held
wait $holder

# --- the caches of the whole machine ---
if [ "$(id -u)" -eq 0 ] && command -v fincore > /dev/null && [ -w /proc/sys/vm/drop_caches ]; then
	cp data/train/data.mdb other_cached
	sync other_cached
	cat other_cached > /dev/null
	judge other_file_is_cached test "$(fincore -bno RES other_cached)" -gt 0
	status caches_are_dropped_by_root 0 "$installed" "${quick[@]}" --only='cold, scan, 1 process' --drop-caches data/train
	judge dropped_caches_are_those_of_all_files test "$(fincore -bno RES other_cached)" -eq 0
	judge dropping_has_an_effect sh -c '! grep -q "no effect" out'
else
	not_run caches_are_dropped_by_root "not root, or the kernel's settings are read-only"
fi

# --- errors: the file and what to do ---
echo 'no database' > data/text
/usr/bin/python3 - <<'END'
page = bytearray(open("data/train/data.mdb", "rb").read(8192))
for at in 16 + 4, 4096 + 16 + 4:
    page[at] = 2
open("data/newer", "wb").write(page)
END
told text_is_no_data_set 2 'data/text: .*LMDB' "$installed" data/text
told missing_data_set_is_named 2 'data/none: No such file' "$installed" data/none
told empty_data_set_is_named 2 'data/empty: it has no records' "$installed" data/empty
told missing_database_is_named 2 "no database 'none'" "$installed" --db=none data/named
told other_version_is_refused 2 'data/newer: ' "$installed" data/newer
cp -r data/train damaged
/usr/bin/python3 - <<'END'
with open("damaged/data.mdb", "r+b") as file:
    for page in range(100, 2000):
        file.seek(page * 4096)
        file.write(b"\xff" * 16)
END
told damaged_data_set_names_what_to_do 2 'damaged: .*lmdbio-check says' "$installed" "${quick[@]}" --only=', 1 process' \
	damaged
told bad_number_is_refused 2 "pairs wants a number from 1 to 99, not '0'" "$installed" --pairs=0 data/train
told bad_size_is_refused 2 "bytes wants a size" "$installed" --bytes=many data/train
told bad_list_is_refused 2 "processes wants a number from 1 to 64, not '0'" "$installed" --processes=1,0 data/train
told row_that_is_none_is_refused 2 "no row has 'sideways'" "$installed" --only=sideways data/train
told page_that_cannot_be_written_is_named 2 'none/page.html: No such file' "$installed" --seconds=300 \
	--html=none/page.html data/train
judge page_that_cannot_be_written_is_told_of_before_measuring test ! -s out -a "$(wc -l < err)" -eq 1
if [ -c /dev/full ]; then
	told page_on_a_full_disk_is_named 2 'full: No space left' "$installed" "${quick[@]}" --only='warm, scan, 1' \
		--html=/dev/full data/train
	judge what_was_measured_is_told_all_the_same grep -q '^warm, scan, 1 process' out
fi
mkfifo page.pipe
cat page.pipe > piped.html &
reading=$!
status page_goes_into_a_pipe 0 "$installed" "${quick[@]}" --only='warm, scan, 1' --html=page.pipe data/train
judge pipe_stays_one test -p page.pipe
wait $reading
judge pipe_has_the_page grep -q '</html>' piped.html
mv data/file.mdb 'data/<b>&"file.mdb'
status odd_name_is_measured 0 "$installed" "${quick[@]}" --only='warm, scan, 1' --html=odd.html 'data/<b>&"file.mdb'
judge odd_name_is_text /usr/bin/python3 -c '
import xml.etree.ElementTree as tree
assert "<b>&\"file.mdb" in "".join(tree.parse("odd.html").getroot().itertext())'
mv 'data/<b>&"file.mdb' data/file.mdb
told missing_library_is_named 2 'none.so: No such file' "$installed" --library=none.so data/train
told library_that_is_none_is_named 2 'data/text: this is no library: --library names another' "$installed" \
	--library=data/text data/train
told no_data_set_is_wrong_usage 2 'one data set is wanted' "$installed"
rm data/text data/newer

# --- what storage is asked for, as slowfs counts it ---
if [ -c /dev/fuse ] && [ -x "$SLOWFS" ] && slowfs_start data slow -o latency=0,bandwidth=0; then
	slowfs_drop
	slowfs_reset
	status bench_measures_a_slow_place 0 "$installed" --seconds=60 --pairs=1 --only='cold, scan, 1 process' --json \
		slow/train
	slowfs_stat bytes > asked
	slowfs_stat requests > counted
	slowfs_stop
	judge bytes_asked_are_those_of_storage /usr/bin/python3 - <<'END'
import json
result = json.load(open("out"))
row, = result["rows"]
# The writer beside lmdbio-bench may have made the file larger than its tree.
size, tree = (result["lmdbio"]["data"][name] for name in ("file_bytes", "tree_bytes"))
runs = [row[library]["runs"][0] for library in ("original", "lmdbio")]
for run in runs:
    assert run["stopped"] == 0 and run["records"] == 2000, run
    assert tree * 0.9 < run["storage_bytes"] < size * 1.2, (run, tree, size)
asked = int(open("asked").read())
told = sum(run["storage_bytes"] for run in runs) + result["machine"]["direct_bytes"]
# The other bytes are those that lmdbio-bench reads to look at the data set.
assert told * 0.9 < asked < told + 1.2 * size, (asked, told, size, runs, result["machine"])
assert int(open("counted").read()) > 0
END
else
	not_run bytes_asked_are_those_of_storage "no slowfs here"
fi

# --- what is left behind ---
listing > after
same nothing_is_written_to_the_data_sets before after
judge no_file_is_left test -z "$(ls tmp)"
"$installed" --seconds=300 data/train > killed 2>&1 &
victim=$!
judge bench_that_is_killed_leaves_no_reader /usr/bin/python3 - $victim <<'END'
import os, select, signal, sys

def readers(parent):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open("/proc/%s/stat" % pid).read()
        except OSError:
            continue
        name, rest = stat[stat.index("(") + 1:].rsplit(")", 1)
        if name == "bench_worker" and int(rest.split()[1]) == parent:
            found.append(int(pid))
    return found

victim = int(sys.argv[1])
held = []
while not held:
    os.kill(victim, 0)
    for pid in readers(victim):
        try:
            held.append(os.pidfd_open(pid))
        except OSError:
            pass
os.kill(victim, signal.SIGKILL)
for fd in held:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(300000), "a reader lives on"
END
wait $victim || true
terminated bench_that_is_ended_says_so workloads "$installed" --seconds=300 data/train
rm -rf root
finish
