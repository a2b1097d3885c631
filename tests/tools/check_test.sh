#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio-check finds sound files intact, whatever has written them, and reports each kind of damage at its
# place, and that it never ends with anything but its three answers.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
testdb=$top_builddir/tests/data/lmdbio-testdb
tool=$top_builddir/tools/lmdbio-check
need mdb_load mdb_copy od
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
[ -x "$tool" ] || skip "no lmdbio-check in this build (libjansson is missing)"
cd "$scratch"

# verdict NAME CODE TEXT ARGUMENT...
verdict() {
	name=$1 code=$2 text=$3
	shift 3
	told "$name" "$code" "$text" "$tool" "$@"
}

# --- sound files ---
count=21
files=30
[ $stride = 1 ] || files=6
if [ -n "${TESTS_LONG:-}" ]; then
	count=630
	files=3000
fi
n=0 wrong=0
while [ $n -lt $count ]; do
	rm -rf db
	"$testdb" --seed=37 --number=$n db > made
	order=
	if grep -q custom made; then order=--no-order; fi
	rc=0
	"$tool" $order db > out 2>&1 || rc=$?
	if [ $rc -ne 0 ] || [ "$(cat out)" != "db: structure intact; LMDB has no checksums" ]; then
		echo "exit $rc: $(head -n 1 made)"
		head -n 5 out
		wrong=$((wrong + 1))
	fi
	n=$((n + stride))
done
judge check_of_random_databases_finds_nothing test $wrong -eq 0
mkdir copied
mdb_copy -c db copied
verdict check_of_a_compacted_copy_finds_nothing 0 'copied: structure intact; LMDB has no checksums' ${order:+"$order"} copied
"$testdb" --flags=plain,customkeys,keys400 custom > /dev/null
verdict check_of_an_order_of_its_own_is_damage 1 'does not come after' custom
judge check_of_an_order_of_its_own_says_what_to_do grep -q 'with --no-order' out
verdict check_without_order_is_intact 0 'custom: structure intact; LMDB has no checksums' --no-order custom

# States that LMDB itself leaves: aborted and nested transactions, readers that keep pages, killed writers.
if /usr/bin/python3 -c 'import lmdb' 2>/dev/null; then
	cat > writer.py <<'END'
import lmdb, os, random, struct, sys
seed, directory, transactions = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
r = random.Random(seed)
env = lmdb.open(directory, map_size=1 << 28, max_dbs=5, sync=False, writemap=bool(seed % 2))
dbs = [env.open_db(b"a"), env.open_db(b"dup", dupsort=True), env.open_db(b"int", integerkey=True),
       env.open_db(b"fix", dupsort=True, dupfixed=True, integerdup=True)]
def change(txn):
    for _ in range(r.randrange(1, 40)):
        i = r.randrange(4)
        key = struct.pack("<Q", r.randrange(300)) if i == 2 else b"k%d" % r.randrange(300)
        if r.random() < 0.6:
            for _ in range(r.choice([1, 1, 40]) if i % 2 else 1):
                value = (struct.pack("<Q", r.randrange(2000)) if i == 3 else
                         os.urandom(r.randrange(1, 90)) if i == 1 else bytes(r.choice([9, 800, 3000, 30000])))
                txn.put(key, value, db=dbs[i])
        elif r.random() < 0.97:
            txn.delete(key, db=dbs[i])
        else:
            txn.drop(dbs[i], delete=False)
held = None
n = 0
while transactions == 0 or n < transactions:
    txn = env.begin(write=True)
    change(txn)
    if seed % 2 == 0 and r.random() < 0.3:
        child = env.begin(write=True, parent=txn)
        change(child)
        child.commit() if r.random() < 0.5 else child.abort()
    txn.abort() if r.random() < 0.3 else txn.commit()
    if r.random() < 0.1 and held is None:
        held = env.begin()
    elif r.random() < 0.2 and held is not None:
        held.abort()
        held = None
    n += 1
    if n == 100:
        print("ready", flush=True)
END
	n=0 wrong=0
	while [ $n -lt $((6 / stride)) ]; do
		rm -rf written
		/usr/bin/python3 writer.py $n written 250 > /dev/null
		"$tool" written > out 2>&1 || true
		[ "$(cat out)" = "written: structure intact; LMDB has no checksums" ] || { wrong=$((wrong + 1)) && head -n 3 out; }
		n=$((n + 1))
	done
	judge check_after_aborted_transactions_finds_no_lost_page test $wrong -eq 0
	n=0 wrong=0
	while [ $n -lt 2 ]; do
		rm -rf written
		mkfifo ready
		/usr/bin/python3 writer.py $n written 0 > ready &
		writer=$!
		read -r word < ready
		rm ready
		looks=0
		while [ $looks -lt 30 ]; do
			"$tool" written > out 2>&1 || true
			[ "$(cat out)" = "written: structure intact; LMDB has no checksums" ] || { wrong=$((wrong + 1)) && head -n 3 out; }
			looks=$((looks + 1))
		done
		kill -9 $writer
		wait $writer 2> /dev/null || true
		"$tool" written > out 2>&1 || true
		[ "$(cat out)" = "written: structure intact; LMDB has no checksums" ] || { wrong=$((wrong + 1)) && head -n 3 out; }
		n=$((n + 1))
	done
	judge check_beside_a_writer_and_after_its_death_finds_nothing test "$word$wrong" = ready0
else
	not_run check_after_aborted_transactions_finds_no_lost_page "no python3-lmdb"
fi

# --- damage by hand: one leaf below the root, at known offsets ---
{
	printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n'
	value=$(head -c 5000 /dev/zero | tr '\0' x)
	printf ' a\n %s\n b\n short\n c\n %s\n d\n other\nDATA=END\n' "$value" "$value"
} > sound.txt
mkdir sound
mdb_load -f sound.txt sound
verdict sound_file_is_intact 0 'sound: structure intact; LMDB has no checksums' sound

# get SIZE OFFSET: reads a number of the sound file.
get() {
	od -An -v -t "u$1" -j "$2" -N "$1" sound/data.mdb | tr -d ' '
}
# put OFFSET BYTE...: writes octal bytes into damaged/data.mdb.
put() {
	at=$1
	shift
	printf '%b' "$(printf '\\0%s' "$@")" | dd of=damaged/data.mdb bs=1 seek="$at" conv=notrunc 2>/dev/null
}
fresh() {
	rm -rf damaged
	mkdir damaged
	cp sound/data.mdb damaged/
}
page=4096
meta=$page # one transaction was written, so its meta page is page 1
judge sound_file_is_of_one_transaction test "$(get 8 $((meta + 144)))" = 1
root=$(get 8 $((meta + 128)))
leaf=$((root * page))
entry_a=$((leaf + $(get 2 $((leaf + 16)))))
entry_c=$((leaf + $(get 2 $((leaf + 20)))))
run_a=$(get 8 $((entry_a + 9)))
run_c=$(get 8 $((entry_c + 9)))

fresh && put $leaf 7
verdict wrong_page_number_is_found 1 "^damage: page $root, byte $leaf: main database: calls itself" damaged
fresh && put $((leaf + 10)) 4
verdict wrong_page_flags_are_found 1 "page $root, byte $leaf: .*flags 0x4" damaged
fresh && put $((leaf + 12)) 0 0
verdict wrong_bounds_are_found 1 "page $root, byte $leaf: .* bounds 0" damaged
fresh && put $((leaf + 17)) 377
verdict entry_outside_is_found 1 "page $root, byte $((leaf + 16)): .*entry 0 leaves the page" damaged
fresh && put $((leaf + 16)) "$(printf '%o' $(($(get 1 $((leaf + 18))))))" \
	"$(printf '%o' $(($(get 1 $((leaf + 19))))))"
verdict entry_twice_is_found 1 "page $root, byte .*lies over another" damaged
fresh && put $((entry_a + 8)) 172
verdict wrong_order_is_found 1 "page $root, byte .*key 1 does not come after key 0" damaged
fresh && put $((entry_a + 4)) 5
verdict wrong_entry_flags_are_found 1 "page $root, byte $entry_a: .*flags 0x5" damaged
fresh && put $((entry_a + 9)) "$(printf '%o' "$run_c")"
verdict run_shared_by_two_values_is_found 1 "page $root, byte $entry_c: .*page $run_c, which is in use" damaged
fresh && put $((entry_a + 9)) 0 0 1
verdict run_outside_is_found 1 "page $root, byte $entry_a: .*leads to page 65536" damaged
fresh && put $((run_a * page + 12)) 1
verdict short_run_is_found 1 "page $run_a, byte $((run_a * page)): .*needs 2" damaged
fresh && put $((run_a * page + 10)) 2
verdict run_of_another_kind_is_found 1 "page $run_a, byte .*is no overflow page" damaged
fresh && put $((entry_c + 2)) 1
verdict value_longer_than_its_run_is_found 1 "page $run_c, byte .*needs" damaged
fresh && put $((meta + 120)) 5
verdict wrong_entry_count_is_found 1 "page 1, byte $((meta + 88)): main database: the record says 5 entries, found are 4" damaged
fresh && put $((meta + 94)) 2
verdict wrong_depth_is_found 1 "byte $((meta + 88)): .*2 levels, found are 1" damaged
fresh && put $((meta + 104)) 2
verdict wrong_leaf_count_is_found 1 "byte $((meta + 88)): .*2 leaf pages, found are 1" damaged
fresh && put $((meta + 112)) 7
verdict wrong_overflow_count_is_found 1 "byte $((meta + 88)): .*7 overflow pages, found are 4" damaged
fresh && put $((meta + 128)) 1
verdict root_in_a_meta_page_is_found 1 'the root of the main database is page 1' damaged
fresh && put $((meta + 16)) 0
verdict wrong_magic_is_found 1 "page 1, byte $((meta + 16)): meta page 1: .*magic" damaged
fresh && put 16 0
verdict wrong_magic_in_the_first_page_is_found 1 'page 0, byte 16: meta page 0: .*magic' damaged
fresh && put $((meta + 20)) 7
verdict wrong_version_is_found 1 "byte $((meta + 20)): meta page 1: .*version 7" damaged
fresh && put 41 40
verdict different_page_sizes_are_found 1 'meta page 0: has the page size 8192, the other one 4096' damaged
fresh && put $((meta + 144)) 2
verdict transaction_in_the_wrong_page_is_found 1 "byte $((meta + 144)): .*writes the other one" damaged
fresh && put $((meta + 144)) 5
verdict transactions_apart_are_a_warning 0 'warning: .*do not follow each other' damaged
fresh && put $((leaf + 14)) 376 17
verdict entry_below_the_bounds_is_found 1 "page $root, byte .*entry 1 stands where no entry can be" damaged
fresh && put $((meta + 92)) 1
verdict wrong_database_flags_are_found 1 "byte $((meta + 88)): main database: the record has flags 0x1" damaged
fresh && put $((meta + 88)) 5
verdict size_of_items_that_there_are_none_of_is_a_warning 0 'warning: .*main database: the record has items of 5 bytes' damaged
fresh && put $((meta + 44)) 0
verdict wrong_free_list_flags_are_found 1 "page 1, byte $((meta + 44)): meta page 1: the free list has flags 0" damaged
fresh && put $((meta + 136)) 377 377 377 377 377 377 377
verdict wrong_last_page_is_found 1 "byte $((meta + 136)): .*the last page is" damaged
fresh && truncate -s $((run_c * page + 10)) damaged/data.mdb
verdict file_cut_off_is_found 1 'behind the end of the file' damaged
fresh && truncate -s 5000 damaged/data.mdb
verdict file_cut_off_in_the_metas_is_found 1 'is cut off' damaged
fresh && truncate -s 100 damaged/data.mdb
verdict file_cut_off_in_the_first_meta_is_found 1 'ends after 100 bytes' damaged
fresh && : > damaged/data.mdb
verdict empty_file_is_no_data_file 2 'unchecked: this file is empty' damaged

# A page at the end of the file that no tree and no free list has.
last=$(get 8 $((meta + 136)))
fresh && put $((meta + 136)) "$(printf '%o' $((last + 1)))"
truncate -s $(((last + 2) * page)) damaged/data.mdb
verdict lost_page_is_a_warning 0 "^warning: page $((last + 1)), byte .*neither in use nor free" damaged
judge lost_page_leaves_the_file_intact grep -qx 'damaged: structure intact, 1 warning; LMDB has no checksums' out

# The free list: a transaction puts the pages into it that it replaces.
printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n b\n changed\nDATA=END\n' > second.txt
mdb_load -f second.txt sound
meta=0
judge free_list_has_a_page test "$(get 8 $((meta + 80)))" -lt 100
free=$(($(get 8 $((meta + 80))) * page))
entry=$((free + $(get 2 $((free + 16)))))
judge free_list_has_one_transaction test "$(get 8 $((meta + 72)))" -eq 1
freed=$(get 8 $((entry + 16)))
judge free_list_has_pages test "$freed" -ge 1
fresh
verdict changed_file_is_intact 0 'damaged: structure intact; LMDB has no checksums' damaged
root=$(get 8 $((meta + 128)))
fresh && put $((entry + 24)) "$(printf '%o' "$root")"
verdict page_in_use_and_free_is_found 1 "page $root, byte $((root * page)): main database: is in use and in the free list" damaged
fresh && put $((entry + 24)) 1
verdict meta_page_in_the_free_list_is_found 1 "free list: page 1 is free" damaged
fresh && put $((entry + 8)) 11
verdict transaction_of_the_future_is_found 1 "free list: transaction 9, but the newest is 2" damaged
fresh && put $((entry + 16)) 377
verdict free_list_longer_than_its_record_is_found 1 "free list: 255 page numbers in" damaged

# A transaction that frees several pages, those of a long value.
cp -r sound flat
printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n c\n short\nDATA=END\n' > third.txt
mdb_load -f third.txt sound
free=$(($(get 8 $((page + 80))) * page))
entry=$((free + $(get 2 $((free + 16 + 2 * ($(get 2 $((free + 12))) / 2 - 9))))))
judge free_list_has_several_pages test "$(get 8 $((entry + 16)))" -ge 2
fresh && put $((entry + 32)) "$(printf '%o' "$(get 1 $((entry + 24)))")"
verdict page_that_is_free_twice_is_found 1 'free list: page [0-9]* is free twice' damaged
judge page_numbers_that_do_not_fall_are_found grep -q 'free list: page [0-9]* does not come below page' out
rm -rf sound && mv flat sound

# Two levels: each key of a leaf page lies between two keys of the branch page.
{
	printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n'
	for number in $(seq 100 189); do # fewer than mdb_load writes in one transaction
		printf ' key%s\n %080d\n' "$number" 0
	done
	echo DATA=END
} > tall.txt
mkdir tall
mdb_load -f tall.txt tall
mv sound flat && mv tall sound
root=$(get 8 $((page + 128)))
judge tall_file_has_two_levels test "$(get 2 $((page + 94)))" -eq 2
# entry PAGE NUMBER: the offset of that entry in the file.
entry() {
	echo $(($1 * page + $(get 2 $(($1 * page + 16 + 2 * $2)))))
}
first=$(get 2 "$(entry "$root" 0)")
second=$(get 2 "$(entry "$root" 1)")
last=$(($(get 2 $((first * page + 12))) / 2 - 9))
fresh && put $(($(entry "$second" 0) + 8)) 1
verdict key_below_its_branch_page_is_found 1 "page $second, byte .*key 0 is below what its branch page says" damaged
fresh && put $(($(entry "$first" "$last") + 8)) 377
verdict key_above_its_branch_page_is_found 1 "page $first, byte .*key $last is above what its branch page says" damaged
rm -rf sound && mv flat sound
root=$(get 8 $((meta + 128)))

# --- other answers ---
verdict missing_path_cannot_be_checked 2 'nosuch: unchecked: No such file' nosuch
verdict no_path_is_wrong_usage 2 'one path' --quiet
verdict unknown_option_is_wrong_usage 2 'unrecognized option' --nonsense sound
verdict odd_number_is_wrong_usage 2 'wants a number' --max-findings=many sound
fresh && put $((root * page + 13)) 1
rc=0
"$tool" --quiet damaged > out 2>&1 || rc=$?
judge quiet_says_nothing test $rc -eq 1 -a ! -s out
"$tool" custom > out || true
all=$(grep -c '^damage' out)
verdict findings_are_bounded 1 'and .* more$' --max-findings=3 custom
judge findings_are_told_up_to_the_number test "$(grep -c '^damage' out)" -eq 3
judge findings_have_a_default_bound test "$all" -eq 100
verdict verbose_has_the_databases 0 '^main database: 4 entries; 1 levels' -v sound
judge verbose_has_the_pages grep -q '^transaction 2: .* 0 lost' out
verdict file_itself_can_be_named 0 'sound/data.mdb: structure intact; LMDB has no checksums' sound/data.mdb
judge file_itself_takes_its_directory_s_lock test ! -e sound/data.mdb-lock
mkdir quiet && cp sound/data.mdb quiet/
verdict no_lock_is_intact 0 'quiet: structure intact; LMDB has no checksums' --no-lock quiet
judge no_lock_leaves_nothing test "$(ls quiet)" = data.mdb
rc=0
"$tool" sound > /dev/full 2> err || rc=$?
judge full_disk_is_no_answer test $rc -eq 2
if command -v python3 > /dev/null; then
	"$tool" --json custom > out.json || true
	python3 - > found <<'END'
import json
found = json.load(open("out.json"))
print(found["schema"], found["status"], len(found["findings"]), found["damages"] > 100,
      found["databases"][0]["name"], found["findings"][0]["severity"], sorted(found["findings"][0]))
END
	echo "lmdbio-check/1 damaged 100 True None damage ['byte', 'page', 'severity', 'what', 'where']" > expected
	same json_has_the_findings expected found
	fresh && put $((meta + 151)) 200 # the highest byte of the transaction's number
	"$tool" --json damaged > out.json || true
	python3 -c 'import json; print(json.load(open("out.json"))["transaction"] == 2.0**63)' > found || true
	"$top_builddir/tools/lmdbio-stat" --json -e damaged > out.json || true
	python3 -c 'import json; print(json.load(open("out.json"))["environment"]["last_transaction"] == 2.0**63)' \
		>> found || true
	printf '%s\n' True True > expected
	same json_has_numbers_of_two_to_the_63_as_they_are expected found
	odd=$(printf 'odd\377')
	mkdir -p "$odd/data.mdb"
	"$tool" --json "$odd" > out.json || true
	python3 -c 'import json; print(json.load(open("out.json"))["unchecked"])' > found || true
	printf '%s\n' 'odd\xff/data.mdb: this is a directory, and no data file: name the directory of one' > expected
	same json_has_a_reason_with_an_odd_name expected found
	if /usr/bin/python3 -c 'import lmdb' 2>/dev/null && [ -x "$top_builddir/tools/lmdbio-stat" ]; then
		/usr/bin/python3 - "$tool" "$top_builddir/tools/lmdbio-stat" > found <<'END'
import json, lmdb, subprocess, sys
env = lmdb.open("names", max_dbs=9)
for name in "ä".encode(), b"x\xff\n", b'"\\', b"main database":
    env.open_db(name)
for tool, *options in sys.argv[1:2], [sys.argv[2], "-a"]:
    read = subprocess.run([tool, "--json", *options, "names"], stdout=subprocess.PIPE, check=True)
    print(*sorted(ascii(d["name"]) for d in json.loads(read.stdout)["databases"]))
env = lmdb.open("long", max_dbs=2)
for end in b"1", b"2":
    env.open_db(b"\xff" * 300 + end)
for tool, *options in sys.argv[1:2], [sys.argv[2], "-a"]:
    read = subprocess.run([tool, "--json", *options, "long"], stdout=subprocess.PIPE, check=True)
    print(*(len(d["name"]) for d in json.loads(read.stdout)["databases"] if d["name"]))
END
		line=$(printf '%s ' "'\"\\\\'" "'\\xe4'" "'main database'" "'x\\\\xff\\\\x0a'" None)
		printf '%s\n' "${line% }" "${line% }" "1201 1201" "1201 1201" > expected
		same json_names_databases_as_stat_does expected found
	fi
	# A file of 64 GiB, all holes: two bits for each page are 4 MiB.
	"$testdb" --flags=plain,keys10 vast > /dev/null
	pages=16777216
	last=$((pages - 1))
	printf '\377\377\377\000\000\000\000\000' > number
	for at in 136 $((page + 136)); do
		dd if=number of=vast/data.mdb bs=1 seek=$at conv=notrunc 2>/dev/null
	done
	truncate -s $((pages * page)) vast/data.mdb
	if [ "${with_sanitizer:-no}" = no ]; then
		python3 - "$tool" > found <<'END'
import resource, subprocess, sys
done = subprocess.run([sys.argv[1], "vast"], capture_output=True, text=True)
print(done.returncode, "neither in use nor free" in done.stdout,
      resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 32 << 10)
END
		echo "0 True True" > expected
		same check_of_64_gib_takes_little_memory expected found
	fi
else
	not_run json_has_the_findings "no python3"
fi

# --- containers ---
convert=$top_builddir/tools/lmdbio-convert
stat=$top_builddir/tools/lmdbio-stat
if [ -x "$convert" ]; then
	"$testdb" --flags=plain,mixed,keys300,rounds1 source > /dev/null
	"$convert" -q --chunk-size=64k source/data.mdb container.zst
	verdict sound_container_is_intact 0 'container.zst: intact: every byte is verified by its checksum' container.zst
	"$convert" -q --relayout source/data.mdb relaid.zst
	verdict relaid_container_is_intact 0 'relaid.zst: intact: every byte is verified by its checksum' relaid.zst
	"$stat" --chunks container.zst > chunks
	judge container_has_chunks test "$(grep -c '^ *[0-9][0-9]* ' chunks)" -ge 10
	# The fourth chunk: its offset and length.
	at=$(awk '$1 == 3 { print $2 }' chunks)
	length=$(awk '$1 == 3 { print $3 }' chunks)
	cp container.zst damaged.zst
	printf 'damage' | dd of=damaged.zst bs=1 seek=$((at + length / 2)) conv=notrunc 2>/dev/null
	verdict damaged_chunk_is_found 1 "^damage: byte $at: container: chunk 3 ($length bytes) is damaged" damaged.zst
	judge damaged_chunk_is_found_by_its_pages grep -q 'pages 48 to 63' out
	judge damaged_chunk_is_one_finding grep -q 'damaged, 1 finding of damage, not all of it' out
	size=$(wc -c < container.zst)
	end=$(awk '$1 ~ /^[0-9]+$/ { end = $2 + $3 } END { print end }' chunks)
	judge index_comes_behind_the_chunks test "$end" -lt $((size - 300))
	cp container.zst damaged.zst
	printf 'damage' | dd of=damaged.zst bs=1 seek=$((end + 100)) conv=notrunc 2>/dev/null
	verdict damaged_index_is_found 1 'container: the index is damaged' damaged.zst
	head -c $((size - 10)) container.zst > damaged.zst
	verdict container_cut_off_is_found 1 'container: its header or its end is damaged or cut off' damaged.zst
	n=0 missed=0
	while [ $n -lt 100 ]; do
		cp container.zst damaged.zst
		at=$((size * n / 100 + n))
		byte=$(od -An -t u1 -j $at -N 1 container.zst | tr -d ' ')
		printf '%b' "$(printf '\\0%o' $((byte ^ (1 << n % 8))))" |
			dd of=damaged.zst bs=1 seek=$at conv=notrunc 2>/dev/null
		rc=0
		"$tool" --quiet damaged.zst || rc=$?
		test $rc -eq 1 || missed=$((missed + 1))
		n=$((n + stride))
	done
	judge every_bit_flipped_in_a_container_is_found test $missed -eq 0
	mkdir inside && cp container.zst inside/data.mdb.zst
	verdict container_in_a_directory_is_found 0 'inside: intact: every byte is verified by its checksum' inside
	judge container_takes_no_lock_file test "$(ls inside)" = data.mdb.zst
else
	not_run sound_container_is_intact "no lmdbio-convert in this build"
fi

# --- random damage, compared with the errors that readers return ---
damage=$top_builddir/tests/tools/check_damage
if [ -x "$damage" ]; then
	mkdir random
	rc=0
	"$damage" "$top_builddir/tools" "$top_builddir/tests/data/db_read" \
		"$top_builddir/compat/.libs" random $files || rc=$?
	judge check_finds_what_readers_stumble_over test $rc -eq 0
else
	not_run check_finds_what_readers_stumble_over "no check_damage in this build"
fi
finish
