#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what a conversion leaves behind when it is killed or interrupted or runs out of space, and how it is resumed.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need zstd cmp
python=/usr/bin/python3
convert=$top_builddir/tools/lmdbio-convert
"$python" -c 'import lmdb' 2> /dev/null || skip "no python3-lmdb here"
ulimit -c 0
cd "$scratch"

"$python" - <<'END'
import lmdb, random
random.seed(6)
env = lmdb.open("source", map_size=1 << 28)
words = [bytes(random.choices(range(97, 123), k=random.randint(2, 9))) for _ in range(3000)]
with env.begin(write=True) as txn:
    for i in range(4000):
        txn.put(b"%08d" % i, b" ".join(random.choices(words, k=random.randint(1, 900))))
END
data=source/data.mdb
size=$(wc -c < $data)

# interrupted SIGNAL PARTIAL BYTES COMMAND...: sends SIGNAL once the partial file has BYTES bytes; leaves the exit
# status in $rc; fails if the command ended before.
interrupted() {
	sent=yes
	rc=$("$python" "$top_srcdir/tests/tools/convert_kill.py" "$@" 2> err) || sent=no
}

left() {
	find "$1" -mindepth 1 | sort > left
}

# --- killed, then resumed ---
# resumes NAME TARGET WHOLE BYTES COMMAND...: interrupts the command several times, then lets it finish.
points="33 66"
if [ -n "${TESTS_LONG:-}" ]; then
	points=$(shuf -i 1-95 -n 25 | sort -n | tr '\n' ' ')
	echo "-- killed at $points per cent"
fi
resumes() {
	name=$1 target=$2 whole=$3 bytes=$4
	shift 4
	partial=$(dirname "$target")/.$(basename "$target").lmdbio-partial
	for point in $points; do
		interrupted SIGKILL "$partial" $((bytes * point / 100)) "$@" --resume
		judge "${name}_killed_at_${point}_per_cent_is_killed" test "$sent:$rc" = yes:-9
		judge "${name}_killed_at_${point}_per_cent_leaves_no_target" test ! -e "$target"
	done
	"$@" --resume --json > json
	judge "${name}_resumed_is_identical" cmp "$target" "$whole"
	judge "${name}_resumed_leaves_no_partial" test ! -e "$partial"
	judge "${name}_resumed_kept_what_was_there" "$python" -c "
import json
s = json.load(open('json'))
assert s['resumed_bytes'] * 4 >= s['data_bytes'], s['resumed_bytes']"
}
mkdir target
slow=(--chunk-size=64k -T2 -q -12)
"$convert" "${slow[@]}" source whole.zst
resumes container target/x.zst whole.zst "$(wc -c < whole.zst)" "$convert" "${slow[@]}" source target/x.zst
judge resumed_container_verifies "$convert" -q --verify source target/x.zst
rm target/x.zst
"$convert" "${slow[@]}" --relayout source relaid.zst
resumes relaid_container target/y.zst relaid.zst "$(wc -c < relaid.zst)" \
	"$convert" "${slow[@]}" --relayout source target/y.zst
rm target/y.zst
"$convert" "${slow[@]}" --train-dictionary=8k source trained.zst
resumes trained_container target/t.zst trained.zst "$(wc -c < trained.zst)" \
	"$convert" "${slow[@]}" --train-dictionary=8k source target/t.zst
rm target/t.zst

mkdir tree
split -a 4 -b 9000 $data tree/
"$convert" "${slow[@]}" tree imported.zst
resumes imported_container target/i.zst imported.zst "$(wc -c < imported.zst)" \
	"$convert" "${slow[@]}" tree target/i.zst
rm target/i.zst

# A partial data.mdb has its full length from the start: checksums tell which of its chunks are complete.
head -c $((size / 2)) $data > target/.data.mdb.lmdbio-partial
"$convert" -q --resume --to=lmdb --json whole.zst target > json
judge half_a_data_file_is_completed cmp target/data.mdb $data
judge half_a_data_file_is_kept "$python" -c "
import json
s = json.load(open('json'))
assert s['data_bytes'] > s['resumed_bytes'] >= s['data_bytes'] // 2 - 65536"
rm target/data.mdb

# A data file, or one that is laid out anew, has no checksums: resuming compares the partial file with the source.
# Other bytes are planted in its middle.
"$convert" -q --relayout --to=lmdb source anew.mdb
for way in "" --relayout; do
	whole=$data
	[ -z "$way" ] || whole=anew.mdb
	head -c $((size * 2 / 5)) $whole > target/.data.mdb.lmdbio-partial
	printf 'other' | dd of=target/.data.mdb.lmdbio-partial bs=1 seek=700000 conv=notrunc status=none
	chmod 600 target/.data.mdb.lmdbio-partial
	# shellcheck disable=SC2086
	"$convert" -q --resume --json $way --to=lmdb source target > json
	judge "part_of_a_data_file${way/--/_}_is_completed_by_comparing" cmp target/data.mdb $whole
	judge "part_of_a_data_file${way/--/_}_is_kept" "$python" -c "
import json
s = json.load(open('json'))
assert s['data_bytes'] > s['resumed_bytes'] >= s['data_bytes'] // 10, s"
	rm target/data.mdb
done

# --- partial files that are not resumed ---
partial=target/.x.zst.lmdbio-partial
begin() {
	interrupted SIGKILL $partial 100000 "$convert" "${slow[@]}" source target/x.zst
	judge "$1_is_begun" test "$sent:$rc:$(test -e $partial && echo there)" = yes:-9:there
}
begin stale_partial_file
"$convert" "${slow[@]}" source target/x.zst
judge stale_partial_file_is_replaced_without_resume cmp target/x.zst whole.zst
rm target/x.zst
begin other_options
"$convert" -T2 -q -1 --resume source target/x.zst 2> err
judge other_options_begin_anew grep -q 'begins anew' err
"$convert" -q -1 source other.zst
judge other_options_are_in_the_result cmp target/x.zst other.zst
rm target/x.zst
begin other_source
cp -r source changed
"$python" -c '
import lmdb
with lmdb.open("changed", map_size=1 << 28).begin(write=True) as txn: txn.put(b"new", b"new")'
"$convert" "${slow[@]}" --resume changed target/x.zst 2> err
judge other_source_begins_anew sh -c 'zstd -dcq target/x.zst | cmp - changed/data.mdb'
rm target/x.zst
# The same keys, sizes and transaction, other values: the header of the partial file is the same for both.
"$python" - <<'END'
import lmdb
twin = lmdb.open("twin", map_size=1 << 28)
with lmdb.open("source", readonly=True, lock=False).begin() as txn, twin.begin(write=True) as to:
    for key, value in txn.cursor():
        to.put(key, value.translate(bytes.maketrans(b"ab", b"ba")))
END
begin data_of_the_same_shape
rc=0
"$convert" "${slow[@]}" --resume twin target/x.zst 2> err || rc=$?
judge data_of_the_same_shape_is_refused test $rc -eq 2 -a ! -e target/x.zst
judge data_of_the_same_shape_is_told grep -q 'begun with other data of the same shape' err
"$convert" "${slow[@]}" twin target/x.zst
judge data_of_the_same_shape_begins_anew_without_resume sh -c 'zstd -dcq target/x.zst | cmp - twin/data.mdb'
rm target/x.zst
echo mine > $partial
chmod 600 $partial
"$convert" "${slow[@]}" --resume source target/x.zst 2> err
judge partial_file_of_rubbish_begins_anew cmp target/x.zst whole.zst
rm target/x.zst
ln -s "$scratch/victim" $partial
rc=0
"$convert" -q source target/x.zst 2> err || rc=$?
judge link_in_place_of_the_partial_file_is_refused test $rc -eq 2 -a ! -e victim
rm $partial
exec 9> $partial
flock 9
rc=0
"$convert" -q --resume source target/x.zst 2> err || rc=$?
judge partial_file_in_use_is_refused test $rc -eq 2
judge partial_file_in_use_is_told grep -q 'another command is writing it: wait until that one ends' err
exec 9>&-
rm $partial

# --- signals that end a process ---
left target
cp left before
interrupted SIGINT $partial 50000 "$convert" "${slow[@]}" source target/x.zst
judge interrupt_is_130 test "$sent:$rc" = yes:130
left target
same interrupt_leaves_nothing before left
interrupted SIGTERM $partial 50000 "$convert" "${slow[@]}" source target/x.zst
judge termination_is_143 test "$sent:$rc" = yes:143
left target
same termination_leaves_nothing before left
for name in HUP USR1 USR2 ALRM VTALRM PROF XCPU; do
	interrupted SIG$name $partial 50000 "$convert" "${slow[@]}" source target/x.zst
	judge "SIG${name}_is_told_by_the_status" test "$sent:$rc" = "yes:$((128 + $(kill -l $name)))"
	left target
	same "SIG${name}_leaves_nothing" before left
done
interrupted SIGQUIT $partial 50000 "$convert" "${slow[@]}" source target/x.zst
judge quit_ends_the_process_by_that_signal test "$sent:$rc" = yes:-3
left target
same quit_leaves_nothing before left
interrupted SIGUSR1 $partial 50000 env --ignore-signal=USR1 "$convert" "${slow[@]}" source target/x.zst
judge signal_that_the_caller_ignores_is_ignored test "$sent:$rc" = yes:0
rm target/x.zst
interrupted SIGINT target/made/.data.mdb.zst.lmdbio-partial 50000 "$convert" "${slow[@]}" source target/made
judge interrupt_with_a_new_directory_is_130 test "$sent:$rc" = yes:130
left target
same interrupt_removes_the_directory_that_it_made before left
interrupted SIGINT $partial 50000 "$convert" "${slow[@]}" --keep-partial source target/x.zst
judge interrupt_keeps_the_partial_file_when_asked test "$sent:$rc:$(test -e $partial && echo there)" = yes:130:there
"$convert" "${slow[@]}" --resume source target/x.zst
judge interrupted_is_resumed cmp target/x.zst whole.zst
rm target/x.zst

# --- no space ---
if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
	# full SIZE COMMAND...: runs the command in a mount namespace where full/ is a file system of that size.
	mkdir -p full
	full() {
		rc=0
		room=$1
		shift
		# shellcheck disable=SC2016
		unshare -m bash -c '
			mount -t tmpfs -o size="$0" none full && { rc=0; "$@" || rc=$?; ls -A full > left; exit $rc; }' \
			"$room" "$@" > out 2> err || rc=$?
	}
	: > nothing
	for form in container:x.zst lmdb:x.mdb; do
		full 1m "$convert" -q --to=${form%:*} source full/${form#*:}
		judge "full_disk_for_${form%:*}_is_2" test $rc -eq 2
		judge "full_disk_for_${form%:*}_is_told_in_a_line" \
			test "$(grep -c 'No space left on device' err):$(wc -l < err)" = 1:1
		same "full_disk_for_${form%:*}_leaves_nothing" nothing left
	done
	full 1m "$convert" -q tree full/x.mdb
	judge full_disk_for_an_import_is_2 test $rc -eq 2
	judge full_disk_for_an_import_is_told grep -q 'No space left on device' err
	same full_disk_for_an_import_leaves_nothing nothing left
	full 1m "$convert" -q --keep-partial source full/x.zst
	judge full_disk_is_2_with_a_partial_file test $rc -eq 2
	echo .x.zst.lmdbio-partial > wanted
	same full_disk_keeps_the_partial_file_when_asked wanted left
else
	not_run full_disk "no mounts here"
fi

# --- while a program writes ---
rc=0
"$python" - "$convert" <<'END' || rc=$?
import lmdb, subprocess, sys, threading, zlib
convert = sys.argv[1]
env = lmdb.open("busy", map_size=1 << 28, sync=False)
def write(n):
    with env.begin(write=True) as txn:
        for i in range(60):
            txn.put(b"%03d" % (i * 7 % 300), b"%d " % n * (i * 40))
        txn.put(b"n", b"%d" % n)
for n in range(300):
    write(n)
stop = threading.Event()
def writer():
    n = 300
    while not stop.is_set():
        try:
            write(n)
            n += 1
        except lmdb.MapFullError:
            stop.wait(0.01) # the converter's reader slot keeps all pages that have been written since
thread = threading.Thread(target=writer)
thread.start()
try:
    for turn in range(6):
        more = ["--relayout"] if turn % 2 else []
        subprocess.run([convert, "-q", "-f", *more, "busy", "busy.zst"], check=True)
        subprocess.run([convert, "-q", "-f", "--to=lmdb", "busy.zst", "copy.mdb"], check=True)
        copy = lmdb.open("copy.mdb", subdir=False, readonly=True, lock=False)
        with copy.begin() as txn:
            last = int(txn.get(b"n"))
            # All that transaction `last` wrote, and nothing of a later one.
            for i in range(60):
                assert txn.get(b"%03d" % (i * 7 % 300)) == b"%d " % last * (i * 40), (turn, i)
            assert sum(1 for _ in txn.cursor()) == txn.stat()["entries"]
        copy.close()
    rm = subprocess.run([convert, "-q", "-f", "--rm", "busy", "busy.zst"], stderr=subprocess.PIPE)
    assert rm.returncode == 2 and b"a program has it open" in rm.stderr, rm
finally:
    stop.set()
    thread.join()
END
judge busy_source_is_copied_as_of_one_transaction test $rc -eq 0
judge busy_source_is_not_removed test -e busy/data.mdb

# --- beside a commit that waits for the disk: its meta page is written, but the lock file does not yet name it to
# readers ---
rc=0
"$python" - "$convert" <<'END' || rc=$?
import json, lmdb, struct, subprocess, sys, time
env = lmdb.open("slow", map_size=1 << 26)
for n in range(20):
    with env.begin(write=True) as txn:
        txn.put(b"n", b"%d" % n)
last = env.info()["last_txnid"]
with open("slow/lock.mdb", "r+b", buffering=0) as lock:
    begin = lock.read(128)
    at, = (at for at in range(0, 128, 8) if struct.unpack_from("Q", begin, at)[0] == last)
    def tell(number):
        lock.seek(at)
        lock.write(struct.pack("Q", number))
    tell(last - 1)
    convert = subprocess.Popen([sys.argv[1], "-q", "--json", "slow", "slow.zst"], stdout=subprocess.PIPE)
    while convert.poll() is None and f"{convert.pid} " not in env.readers():
        time.sleep(0.001)
    tell(last)
    assert json.loads(convert.communicate()[0])["txnid"] == last
    assert convert.returncode == 0
END
judge source_whose_commit_is_not_told_yet_is_copied_behind_it test $rc -eq 0
finish
