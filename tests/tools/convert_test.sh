#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what lmdbio-convert must keep of a data set, and what it must refuse.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need zstd mdb_dump mdb_stat cmp
python=/usr/bin/python3
[ -x "$python" ] || skip "no $python here"
convert=$top_builddir/tools/lmdbio-convert
testdb=$top_builddir/tests/data/lmdbio-testdb
index=$top_builddir/tests/tools/convert_index
# A build without libjansson does not have these commands.
check=$top_builddir/tools/lmdbio-check stat=$top_builddir/tools/lmdbio-stat
[ -x "$check" ] || check=true stat=true
for program in "$testdb" "$index"; do
	[ -x "$program" ] || skip "no $program here"
done
cd "$scratch"

# empty NAME DIRECTORY [BUT]: the directory holds nothing, except BUT.
empty() {
	ls -A "$2" > left
	printf '%s' "${3:+$3
}" > wanted
	same "$1" wanted left
}

# dump FILE: dumps all databases, those without a name too.
dump() {
	mdb_dump -n "$1" 2> /dev/null || echo "mdb_dump: $?"
	mdb_dump -a -n "$1" 2> /dev/null || echo "mdb_dump -a: $?"
}

pages() {
	"$python" "$top_srcdir/tests/tools/convert_pages.py" "$@"
}

# --- round trips over random databases ---
for number in $(seq 0 "$stride" $((${TESTS_LONG:+60} + 6))); do
	data=$scratch/db$number/data.mdb c=$scratch/container.zst back=$scratch/back.mdb
	"$testdb" --seed=11 --number="$number" "db$number" > /dev/null
	"$convert" -q --chunk-size=64k "db$number" "$c"
	judge "container_of_database_${number}_is_the_file_for_zstd" sh -c "zstd -dcq $c | cmp - $data"
	"$convert" -q --to=lmdb "$c" "$back"
	judge "database_${number}_comes_back_byte_for_byte" cmp "$back" "$data"
	dump "$data" > dump.wanted
	dump "$back" > dump.found
	same "database_${number}_dumps_the_same" dump.wanted dump.found
	status "existing_container_of_database_${number}_is_verified" 0 "$convert" --verify "db$number" "$c"
	"$index" "$c" > index.found
	pages index "$data" > index.wanted
	same "record_index_of_database_${number}_is_right" index.wanted index.found
	rm "$c" "$back"

	"$convert" -q --relayout --verify --chunk-size=64k "db$number" "$c"
	judge "relaid_database_${number}_is_sound" "$check" -q --no-order "$c"
	"$convert" -q "db$number" "$back.zst"
	status "relaid_database_${number}_is_verified_against_a_file" 0 "$convert" -q --verify "$back.zst" "$c"
	rm "$back.zst"
	"$stat" --all-info "$c" > stat.found
	judge "relaid_database_${number}_has_no_value_across" sh -c \
		"! grep 'across a border' stat.found | grep -v ': 0 of '"
	"$convert" -q "$c" "$back"
	pages records "$data" > records.wanted
	pages records "$back" > records.found
	same "relaid_database_${number}_has_the_same_records" records.wanted records.found
	"$index" "$c" > index.found
	pages index "$back" > index.wanted
	same "record_index_of_relaid_database_${number}_is_right" index.wanted index.found
	judge "relaid_database_${number}_has_its_leaves_in_order" sh -c \
		"grep '^\[] [0-9]' index.found | cut -d' ' -f2 | sort -n -C"
	"$convert" -q --to=lmdb --relayout "db$number" compact
	pages records compact/data.mdb > records.found
	same "compacted_database_${number}_has_the_same_records" records.wanted records.found
	rm -rf "db$number" "$c" "$back" compact
done

# --- a data set that is large enough for many chunks ---
"$python" - <<'END'
import lmdb, random
random.seed(5)
env = lmdb.open("large", map_size=1 << 28)
words = [bytes(random.choices(range(97, 123), k=random.randint(2, 9))) for _ in range(2000)]
with env.begin(write=True) as txn:
    for i in range(6000):
        value = b" ".join(random.choices(words, k=random.randint(1, 900)))
        txn.put(b"%08d" % i, value)
END
data=large/data.mdb
"$convert" -q large level3.zst
for threads in 1 2 3 4; do
	"$convert" -q -T"$threads" --chunk-size=128K large "threads$threads.zst"
	judge "container_by_${threads}_threads_is_that_of_one" cmp threads1.zst "threads$threads.zst"
done
status verify_right_container_is_silent_on_damage 0 "$convert" --verify large threads2.zst
"$convert" -q --fast=3 large level.zst
"$convert" -q -6 -T2 level.zst relevel.zst
"$convert" -q -T1 -6 large level6.zst
judge relevelled_container_decompresses_to_the_file sh -c "zstd -dcq relevel.zst | cmp - $data"
judge relevelled_container_is_that_of_the_level cmp level6.zst relevel.zst
judge higher_level_is_smaller test "$(wc -c < level6.zst)" -lt "$(wc -c < level.zst)"
"$testdb" --seed=11 --number=2 few > /dev/null # a small set is enough for level 20
"$convert" -q --ultra -f20T2 --long=24 --chunk-size=4M few ultra.zst
judge combined_letters_are_read sh -c "zstd -dcq ultra.zst | cmp - few/data.mdb"
"$convert" -q -6 -o -3 large
judge word_behind_o_is_no_level cmp -- -3/data.mdb.zst level6.zst
status level_20_without_ultra_is_refused 2 "$convert" -20 large no.zst
says level_20_without_ultra_says_so ultra
"$convert" -q --relayout large relaid.zst
for size in 64k 1M 4M; do
	status "relaid_container_laid_anew_in_chunks_of_${size}_verifies" 0 \
		"$convert" -q -f --relayout --verify --chunk-size=$size relaid.zst anew.zst
	status "relaid_container_in_chunks_of_${size}_verifies" 0 \
		"$convert" -q -f --verify --chunk-size=$size relaid.zst anew.zst
done
status trained_dictionary_verifies 0 "$convert" -q --chunk-size=64k --train-dictionary=20k --verify large trained.zst
"$convert" -q --to=lmdb trained.zst trained.mdb
judge trained_dictionary_comes_back cmp trained.mdb $data
head -c 30000 $data > dictionary
status dictionary_of_a_file_verifies 0 "$convert" -q -D dictionary --verify large dictionary.zst
"$convert" -q -o "out of it.zst" -- large
judge target_after_o_is_the_same cmp "out of it.zst" level3.zst
cp -r large ./-dash
status double_dash_ends_options 0 "$convert" -q -- -dash dash.zst
judge double_dash_takes_the_name cmp dash.zst level3.zst
cp $data plain.mdb
status file_without_subdir_is_a_source 0 "$convert" -q --no-subdir plain.mdb plain.zst
judge file_without_subdir_is_the_same sh -c "zstd -dcq plain.zst | cmp - $data"
"$convert" -q $data direct.zst
judge data_mdb_by_its_name_uses_the_lock_file_beside_it test ! -e $data-lock
mkdir into
"$convert" -q large into
judge directory_gets_data_mdb_zst cmp into/data.mdb.zst level3.zst
status container_is_not_its_own_target_unasked 2 "$convert" -q into into
"$convert" -q --to=lmdb into into
judge container_in_a_directory_is_found cmp into/data.mdb $data

# --- attributes ---
cp -r large attributes
chmod 640 attributes/data.mdb
touch -d '2020-02-02 02:02:02' attributes/data.mdb
"$convert" -q attributes attributes.zst
judge mode_is_kept test "$(stat -c %a attributes.zst)" = 640
judge time_is_kept test "$(stat -c %Y attributes.zst)" = "$(stat -c %Y attributes/data.mdb)"

# --- its output ---
"$convert" --json -q large json.zst > json
judge json_is_parsed "$python" -c '
import json
s = json.load(open("json"))
assert s["schema"] == "lmdbio-convert/1" and s["written"] is True and s["exit_status"] == 0
assert s["records"] == 6000 and s["data_bytes"] > s["file_bytes"] > 0 and s["chunks"] > 1'
"$convert" --json -v --to=lmdb --relayout large pages > json 2> err
judge records_that_are_not_counted_are_null "$python" -c '
import json
s = json.load(open("json"))
assert s["records"] is None and s["target_form"] == "lmdb" and s["written"] is True'
judge records_that_are_not_counted_are_not_told sh -c '! grep " records" err'
"$convert" --json -q --verify large json.zst > json
judge verifying_alone_takes_time "$python" -c '
import json
s = json.load(open("json"))
assert s["records"] is None and s["verified"] is True and s["seconds"] > 0'
rm -r pages
for odd in 'odd "\\\n\377' 'n\303\266 \342\202\254 \360\237\231\202' \
	'\340\200\200' '\355\240\200' '\360\200\200\200' '\364\220\200\200'; do
	# shellcheck disable=SC2059
	name=$(printf "$odd")
	cp -r few "$name"
	"$convert" --json -q -f "$name" odd.zst > json
	judge "json_of_the_odd_name_of_bytes_${odd//[^0-9]/}_is_parsed" "$python" - "$name" <<'END'
import json, os, sys
name = os.fsencode(sys.argv[1])
assert json.loads(open("json", "rb").read())["source"] == name.decode(errors="replace"), name
END
done
status quiet_is_quiet 0 "$convert" -q large quiet.zst
judge quiet_says_nothing test ! -s err -a ! -s out
status usual_summary_is_on_standard_error 0 "$convert" large usual.zst
judge standard_output_stays_empty test ! -s out
says usual_summary_names_the_target usual.zst

# --- memory ---
if [ "${with_sanitizer:-no}" = no ]; then
	# rss COMMAND...: prints the most memory that the command had, in KiB.
	rss() {
		"$python" -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$@"
	}
	truncate -s 40M long.mdb
	truncate -s 400M longer.mdb
	for file in long.mdb longer.mdb; do
		dd if=large/data.mdb of=$file bs=1M conv=notrunc 2> /dev/null
	done
	judge container_of_ten_times_the_data_takes_the_same_memory test \
		"$(rss "$convert" -q -T2 -n longer.mdb longer.zst)" -lt $(($(rss "$convert" -q -T2 -n long.mdb long.zst) + 4096))
	judge data_file_of_ten_times_the_data_takes_the_same_memory test \
		"$(rss "$convert" -q -T2 --to=lmdb longer.zst longer.back.mdb)" -lt $(($(rss "$convert" -q -T2 --to=lmdb long.zst long.back.mdb) + 4096))
	rm -f long*
else
	not_run memory "a sanitizer takes it"
fi

# --- what it refuses ---
cp level3.zst there.zst
for arguments in 'large there.zst' 'level.zst there.zst'; do
	# shellcheck disable=SC2086
	status "existing_target_of_${arguments% *}_is_refused" 2 "$convert" $arguments
	says "existing_target_of_${arguments% *}_is_named" 'there.zst.*exists'
	judge "existing_target_of_${arguments% *}_stays" cmp there.zst level3.zst
done
status existing_target_is_overwritten_by_force 0 "$convert" -q -f -1 large there.zst
judge existing_target_is_another sh -c '! cmp -s there.zst level3.zst'
status missing_source_is_refused 2 "$convert" nowhere nowhere.zst
says missing_source_is_named 'nowhere: No such file'
mkdir -p shards.tar.d
cp level3.zst shards.tar.d/images.tar.zst
cp level3.zst shards.tar.d
for name in level3.zst images.tar.zst; do
	"$convert" -q "shards.tar.d/$name" shards.tar.d/back.mdb
	judge "container_named_shards.tar.d/${name}_is_no_archive" cmp shards.tar.d/back.mdb $data
	rm -f shards.tar.d/back.mdb
done
# A container that stands in the data file's place, as programs read it.
mkdir placed
cp level3.zst placed/data.mdb
status container_called_data.mdb_is_converted 0 "$convert" -q --to=lmdb placed placed.mdb
judge container_called_data.mdb_comes_back cmp placed.mdb $data
status container_called_data.mdb_is_relevelled 0 "$convert" -q -6 placed placed.zst
judge container_called_data.mdb_is_that_of_the_level cmp placed.zst level6.zst
mkdir packed
cp level3.zst packed/data.mdb.zst
while read -r form what source; do
	told "${source}_taken_for_${form}_is_refused" 2 "^lmdbio-convert: $source: this is $what: leave --from=$form out" \
		"$convert" -q --from="$form" "$source" none.d
done <<'END'
lmdb a.container placed
lmdb a.container packed
lmdb a.container level3.zst
container no.container large
container no.container large/data.mdb
END
cp $data packed
status container_beside_a_data_file_is_asked_for 0 "$convert" -q --from=container -6 packed chosen.zst
judge container_beside_a_data_file_is_the_container cmp chosen.zst level6.zst
cp few/data.mdb packed
pages records $data > records.wanted
for target in laid.zst laid.mdb; do
	"$convert" -q --from=container --relayout --verify packed $target
	[ $target = laid.mdb ] || "$convert" -q laid.zst laid.mdb
	pages records laid.mdb > records.found
	same "container_beside_another_data_file_is_laid_anew_into_$target" records.wanted records.found
	rm laid.*
done
echo text > shards.tar.d/list
told text_below_a_directory_that_is_named_like_an_archive_is_none 2 'list: this is no LMDB data file.*--from names it' \
	"$convert" shards.tar.d/list x.zst
status no_source_is_usage 2 "$convert"
status no_target_is_usage 2 "$convert" large
status unknown_option_is_usage 2 "$convert" --nonsense large x.zst
status bad_chunk_size_is_usage 2 "$convert" --chunk-size=100k large x.zst
status bad_form_is_usage 2 "$convert" --to=paper large x.zst
status two_sources_are_usage 2 "$convert" large large x.zst
status rm_of_a_tree_is_usage 2 "$convert" --rm --from=tree large x.mdb
status missing_directory_is_refused 2 "$convert" large no/where/x.zst
says missing_directory_is_named 'no/where: No such file'
echo text > text
status text_is_no_source 2 "$convert" text x.zst
head -c 5000 /dev/zero > zero.mdb
status zeroes_are_no_lmdb_file 2 "$convert" --from=lmdb --no-subdir zero.mdb x.zst
mkdir into/named.zst
status directory_in_the_place_of_the_target_is_refused 2 "$convert" -f -n large/data.mdb into/named.zst
says directory_in_the_place_is_told 'no regular file'
if [ "$(id -u)" -eq 0 ]; then
	chmod 755 "$scratch"
	cp $data unreadable.mdb
	chmod 600 unreadable.mdb
	mkdir -m 777 open
	# The user may make no lock file for this data set.
	mkdir unlocked
	cp $data unlocked
	chmod -R go+rX unlocked
	if setpriv --reuid=65534 --regid=65534 --clear-groups true 2> /dev/null; then
		# Another user may not be allowed into the build tree of root.
		mkdir theirs
		cp "$convert" "$core" theirs
		theirs="setpriv --reuid=65534 --regid=65534 --clear-groups
			env LD_LIBRARY_PATH=$scratch/theirs $scratch/theirs/lmdbio-convert"
		# shellcheck disable=SC2086
		status unreadable_source_is_refused 2 $theirs -n unreadable.mdb open/x.zst
		says unreadable_source_says_why 'Permission denied'
		empty unreadable_source_leaves_nothing open
		# shellcheck disable=SC2086
		status source_without_a_lock_file_is_read 0 $theirs -q unlocked open/x.zst
		judge source_without_a_lock_file_is_the_same cmp open/x.zst level3.zst
		cp level3.zst stuck.zst
		chmod 644 stuck.zst
		# shellcheck disable=SC2086
		status rm_in_a_directory_of_another_user_is_2 2 $theirs -q --rm stuck.zst open/stuck.mdb
		says rm_in_a_directory_of_another_user_says_what_is_done 'stuck.zst: it cannot be removed (Permission denied): the target is whole'
		judge rm_in_a_directory_of_another_user_has_the_target cmp open/stuck.mdb $data
	fi
	if unshare -m true 2> /dev/null; then
		mkdir ro
		status read_only_target_is_refused 2 unshare -m sh -c "
			mount -t tmpfs -o ro none ro && exec '$convert' large ro/x.zst"
		says read_only_target_says_why 'Read-only file system'
		status rm_on_a_read_only_file_system_is_2 2 unshare -m sh -c "
			mount --bind large ro && mount -o remount,ro,bind ro && exec '$convert' -q --rm ro kept.zst"
		says rm_on_a_read_only_file_system_says_what_is_done 'ro/data.mdb: it cannot be removed (Read-only file system): the target'
		judge rm_on_a_read_only_file_system_has_the_target cmp kept.zst level3.zst
	else
		not_run read_only_target_is_refused "no mounts here"
	fi
else
	mkdir -m 555 ro
	status read_only_target_is_refused 2 "$convert" large ro/x.zst
	empty read_only_target_holds_nothing ro
fi

# --- damage ---
cp level3.zst damaged.zst
printf 'XXXXXXXX' | dd of=damaged.zst bs=1 seek=70000 conv=notrunc 2> /dev/null
status verify_of_damage_is_1 1 "$convert" --verify large damaged.zst
says verify_of_damage_names_the_place 'damaged.*at byte'
mkdir target
status damaged_container_to_lmdb_is_1 1 "$convert" -q damaged.zst target/x.mdb
empty damaged_container_leaves_nothing target
status damaged_container_to_container_is_1 1 "$convert" -q damaged.zst target/x.zst
empty damaged_container_leaves_nothing_again target
head -c 200000 level3.zst > short.zst
status truncated_container_is_1 1 "$convert" -q short.zst target/x.mdb
empty truncated_container_leaves_nothing target
cp $data changed.mdb
printf 'XXXXXXXX' | dd of=changed.mdb bs=1 seek=3000000 conv=notrunc 2> /dev/null
status verify_of_another_source_is_1 1 "$convert" -n --verify changed.mdb level3.zst
says verify_of_another_source_names_the_place 'differs .*at byte 3000000 '
# Both meta pages lead to a page with other content.
"$python" - <<'END'
import struct
b = bytearray(open("large/data.mdb", "rb").read())
for meta in (0, 4096):
    b[meta + 128:meta + 136] = struct.pack("<Q", 2)
open("treeless.mdb", "wb").write(b)
END
status damaged_tree_is_1 1 "$convert" -n treeless.mdb treeless.zst
says damaged_tree_is_told 'no record index'
judge damaged_tree_keeps_its_bytes sh -c 'zstd -dcq treeless.zst | cmp - treeless.mdb'
status relayout_of_a_damaged_tree_fails 1 "$convert" -n --relayout treeless.mdb target/x.zst
empty relayout_of_a_damaged_tree_leaves_nothing target

# --- removing the source ---
cp -r large gone
status rm_converts 0 "$convert" -q --rm gone gone.zst
judge rm_removes_the_data_file test ! -e gone/data.mdb
judge rm_leaves_the_target sh -c "zstd -dcq gone.zst | cmp - $data"
cp -r large stays
"$convert" -q few few.zst
status rm_after_failure_is_2 2 "$convert" -q --rm stays gone.zst
judge rm_after_failure_keeps_the_source cmp stays/data.mdb $data
status rm_by_another_target_is_1 1 "$convert" -q --verify --rm stays few.zst
judge rm_by_another_target_keeps_the_source cmp stays/data.mdb $data
status rm_by_a_target_that_is_only_verified_is_done 0 "$convert" -q --verify --rm stays gone.zst
judge rm_by_a_target_that_is_only_verified_removes_both_files test -z "$(ls stays)"
ln gone.zst again.zst
status rm_by_the_source_itself_is_done 0 "$convert" -q --verify --rm gone.zst again.zst
judge rm_by_the_source_itself_keeps_it test -s gone.zst -a -s again.zst
cp damaged.zst stays.zst
status rm_of_a_damaged_container_is_1 1 "$convert" -q --rm stays.zst target/x.mdb
judge rm_of_a_damaged_container_keeps_it cmp stays.zst damaged.zst

# opened HOW COMMAND...: runs the command while another program has held/ (a copy of "large") or held.mdb open.
cat > opened.py <<'END'
import lmdb, subprocess, sys
how, *command = sys.argv[1:]
if how == "its_name":
    env = lmdb.open("held.mdb", subdir=False)
elif how == "the_name_of_its_file":
    env = lmdb.open("held/data.mdb", subdir=False)
else:
    env = lmdb.open("held", readonly=how == "a_reader")
sys.exit(subprocess.run(command).returncode)
END
opened() {
	rm -rf held held.mdb held.mdb-lock
	cp -r large held
	cp "$data" held.mdb
	"$python" opened.py "$@"
}
while read -r how source; do
	told "rm_of_${source}_opened_by_${how}_is_refused" 2 \
		"held.*: a program has it open: end the program, or convert without --rm" \
		opened "$how" "$convert" -q --rm "$source" target/held.zst
	judge "rm_of_${source}_opened_by_${how}_keeps_it" test -e held/data.mdb -a -e held.mdb
	empty "rm_of_${source}_opened_by_${how}_converts_nothing" target
done <<'END'
a_writer held
a_reader held
a_writer held/data.mdb
the_name_of_its_file held/data.mdb
the_name_of_its_file held
its_name held.mdb
END
# Another data file in the directory does not belong to the environment.
status rm_of_a_file_beside_an_open_environment_is_done 0 opened a_writer "$convert" -q --rm held.mdb target/held.zst
judge rm_of_a_file_beside_an_open_environment_removes_it test ! -e held.mdb
rm -f target/held.zst
# The converter is stopped once it has the source open.
cat > opens.py <<'END'
import lmdb, os, signal, subprocess, sys, time
how, *command = sys.argv[1:]
convert = subprocess.Popen(command)
partial = "/.".join(os.path.split(command[-1])) + ".lmdbio-partial"
while not os.path.exists(partial) and convert.poll() is None:
    time.sleep(0.001)
convert.send_signal(signal.SIGSTOP)
env = lmdb.open("held", map_size=1 << 30, lock=how == "locked")
if how == "unlocked":
    with env.begin(write=True) as txn:
        txn.put(b"late", b"")
if convert.poll() is not None:
    sys.exit("it has ended too early")
convert.send_signal(signal.SIGCONT)
sys.exit(convert.wait())
END
while read -r how says; do
	rm -rf held target/held.zst
	cp -r large held
	told "rm_of_an_environment_opened_meanwhile_${how}_is_refused" 2 "held/data.mdb: $says" \
		"$python" opens.py "$how" "$convert" -q --rm -T1 -19 held target/held.zst
	judge "rm_of_an_environment_opened_meanwhile_${how}_keeps_it" test -e held/data.mdb
done <<'END'
locked a program has it open
unlocked it was written to meanwhile, and is not removed
END
judge rm_of_an_environment_opened_meanwhile_has_converted_it test -s target/held.zst
rm -f target/held.zst
status rm_of_an_environment_that_was_open_is_done 0 "$convert" -q --rm held target/held.zst
judge rm_of_an_environment_that_was_open_removes_both_files test -z "$(ls held)"
rm -f target/held.zst

# --- a program that writes to the source ---
# The converter is stopped once it has a snapshot. Then each page of the snapshot is freed, and reused unless the reader
# slot is in the lock file of the program.
cat > rewrites.py <<'END'
import lmdb, os, signal, subprocess, sys, time
path, *command = sys.argv[1:]
env = lmdb.open(path, subdir=os.path.isdir(path), map_size=1 << 29)
convert = subprocess.Popen(command)
while not os.path.exists("target/.held.zst.lmdbio-partial") and convert.poll() is None:
    time.sleep(0.001)
convert.send_signal(signal.SIGSTOP)
os.waitid(os.P_PID, convert.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
with env.begin() as txn:
    keys = [key for key, _ in txn.cursor()]
for i in range(4):
    with env.begin(write=True) as txn:
        for key in keys:
            txn.put(key, b"late" * 500)
convert.send_signal(signal.SIGCONT)
sys.exit(convert.wait())
END
pages records $data > records.wanted
while read -r written read; do
	rm -rf held target/held.zst held.back.mdb
	mkdir held
	cp $data held
	touch held/data.mdb-lock # an earlier program has named the file
	# shellcheck disable=SC2086
	status "source_written_as_${written}_and_read_as_${read##* }_is_converted" 0 \
		"$python" rewrites.py $written "$convert" -q -T1 -12 $read target/held.zst
	"$convert" -q target/held.zst held.back.mdb || :
	pages records held.back.mdb > records.found || :
	same "source_written_as_${written}_and_read_as_${read##* }_is_the_snapshot" records.wanted records.found
done <<'END'
held held
held held/data.mdb
held/data.mdb -n held/data.mdb
held/data.mdb held/data.mdb
END
while read -r written read name; do
	rm -rf held target/held.zst
	mkdir held
	cp $data held
	# shellcheck disable=SC2086
	told "source_written_as_${written}_and_read_by_another_name_is_refused" 2 \
		"held/data.mdb: it was written to while it was read, and a program names it by its $name.*: convert it by that" \
		"$python" rewrites.py $written "$convert" -q -T1 -12 ${read/,/ } target/held.zst
	empty "source_written_as_${written}_and_read_by_another_name_leaves_nothing" target
done <<'END'
held -n,held/data.mdb directory
held/data.mdb held file
END
rm -f held/*

# --rm removes names, and a link's name is not the data's.
cp level3.zst linked.zst
ln -s linked.zst link.zst
mkdir links
ln -s ../$data links/data.mdb
told rm_of_a_link_is_refused 2 'link.zst: it is a symbolic link, which --rm does not follow' \
	"$convert" -q --rm --to=lmdb link.zst target/x.mdb
told rm_of_a_directory_with_a_link_is_refused 2 'links/data.mdb: it is a symbolic link' \
	"$convert" -q --rm links target/x.zst
empty rm_of_a_link_converts_nothing target
judge rm_of_a_link_keeps_all test -L link.zst -a -L links/data.mdb -a -e linked.zst -a -e $data
cp $data held
ln -s held linked
status rm_by_a_link_to_a_directory_is_done 0 "$convert" -q --rm linked target/x.zst
judge rm_by_a_link_to_a_directory_removes_the_file test ! -e held/data.mdb
rm -f target/x.zst

# --- something else stands under the partial file's name ---
mkdir foreign
for kind in directory link dangling pipe socket; do
	partial=foreign/.x.zst.lmdbio-partial
	case $kind in
	directory) mkdir $partial ;;
	link) ln -s ../level3.zst $partial ;;
	dangling) ln -s nowhere $partial ;;
	pipe) mkfifo $partial ;;
	socket) "$python" -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' $partial ;;
	esac
	for option in --keep-partial --resume; do
		told "${kind}_in_the_place_of_the_partial_file_is_named_with_$option" 2 \
			"$partial: it is there and not a partial file of yours: remove it" \
			"$convert" -q $option large foreign/x.zst
	done
	rm -r $partial
done
empty foreign_entries_leave_no_target foreign

# --- in place ---
cp level3.zst inplace.zst
status container_in_place_is_relevelled 0 "$convert" -q -f --rm -6 inplace.zst inplace.zst
judge container_in_place_is_not_removed cmp inplace.zst level6.zst
cp -r large used
"$python" - "$convert" <<'END' > code
import lmdb, subprocess, sys
env = lmdb.open("used", readonly=True)
for target in ["--to=lmdb", "used"], ["--to=container", "used/data.mdb"]:
    print(subprocess.run([sys.argv[1], "-q", "-f", "level3.zst", *target]).returncode)
END
judge environment_in_use_is_not_replaced test "$(tr '\n' ' ' < code)" = '2 2 '
cp $data held
told environment_opened_meanwhile_is_not_replaced 2 \
	'held/data.mdb: a program has it open: end the program, or name another target; with --keep-partial' \
	"$python" opens.py locked "$convert" -q -f -T1 -12 --to=container large held/data.mdb
judge environment_opened_meanwhile_stays cmp held/data.mdb $data
judge environment_opened_meanwhile_has_no_partial_file test ! -e held/.data.mdb.lmdbio-partial
told environment_opened_meanwhile_leaves_the_work_if_wanted 2 'name another target; --resume then goes on' \
	"$python" opens.py locked "$convert" -q -f -T1 --keep-partial --to=container large held/data.mdb
told work_that_was_left_becomes_the_target 0 ' were there already' \
	"$convert" -v -f -T1 --resume --to=container large held/data.mdb
judge target_of_work_that_was_left_is_the_same cmp held/data.mdb level3.zst
cp $data held
status environment_becomes_a_container_in_place 0 "$convert" -q -f --to=container held held/data.mdb
judge environment_that_became_a_container_is_the_same cmp held/data.mdb level3.zst
judge environment_out_of_use_is_replaced "$convert" -q -f --to=lmdb level3.zst used
status environment_is_compacted_in_place 0 "$convert" -q -f --to=lmdb --relayout used used
pages records $data > records.wanted
pages records used/data.mdb > records.found
same environment_compacted_in_place_has_its_records records.wanted records.found

# --- holes ---
"$python" - <<'END'
import lmdb
env = lmdb.open("sparse", map_size=1 << 27, writemap=True)
with env.begin(write=True) as txn:
    for i in range(100):
        txn.put(b"%d" % i, b"x" * 5000)
END
"$convert" -q sparse sparse.zst
"$convert" -q --to=lmdb sparse.zst sparse.back
judge file_with_holes_comes_back cmp sparse.back/data.mdb sparse/data.mdb
judge holes_come_back test "$(stat -c %b sparse.back/data.mdb)" -lt 20000

finish
