#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio-stat writes byte for byte what mdb_stat writes for mdb_stat's letters, and that its further
# figures are right on files whose answer is known.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
testdb=$top_builddir/tests/data/lmdbio-testdb
tool=$top_builddir/tools/lmdbio-stat
need mdb_stat mdb_load mdb_copy
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
[ -x "$tool" ] || skip "no lmdbio-stat in this build (libjansson is missing)"
cd "$scratch"
beside mdb_stat "$tool"

# The original ends with 1 whenever it has shown only readers. Where it fails, lmdbio-stat reports that in its own
# words and ends with 2.
both_prepare() {
	if grep -qx 'exit 1' theirs.err && grep -q '^lmdbio-stat: db: ' ours.err && grep -qx 'exit 2' ours.err; then
		cp theirs.err ours.err
	fi
	case "$*" in
	-r\ * | -rr\ * | -er\ *) sed -i '/^exit/d' theirs.err ours.err ;;
	esac
}

# --- random databases, every option ---
count=21
[ -z "${TESTS_LONG:-}" ] || count=315
n=0
while [ $n -lt $count ]; do
	rm -rf db
	"$testdb" --seed=29 --number=$n db > made
	line=$(head -n 1 made)
	sub=$(sed -n 's/^\([^ (:]*\): [0-9]* entries.*/\1/p' made | head -n 1)
	for options in '' -e -a -f -ff -fff -r -rr -er -aeff; do
		agree ${options:+"$options"} db
	done
	[ -z "$sub" ] || agree -ef -s "$sub" db
	n=$((n + stride))
done
echo "$compared outputs compared"
judge stat_of_random_databases_is_the_originals test $differences -eq 0 -a $compared -ge $((count * 10 / stride))

# --- usage and errors ---
"$testdb" --flags=named,keys50 db2 > /dev/null
told stat_without_arguments_is_wrong_usage 2 'one data set is wanted' "$tool"
told stat_unknown_letter_is_wrong_usage 2 "invalid option -- 'x'" "$tool" -x db2
told stat_two_paths_are_wrong_usage 2 'one data set is wanted' "$tool" db2 db2
told stat_all_and_subdb_are_wrong_usage 2 'exclude' "$tool" -a -s named db2
told stat_missing_subdb_is_named 2 "^lmdbio-stat: db2: no database 'nosuch'" "$tool" -s nosuch db2
told stat_missing_directory_is_named 2 '^lmdbio-stat: nosuch: No such file' "$tool" nosuch
told stat_version_is_ours 0 '^lmdbio-stat (lmdbio) [0-9]' "$tool" -V
both_same stat_file_same -n db2/data.mdb
rm -f db2/data.mdb-lock
rc=0
"$tool" -r db2 > out || rc=$?
judge stat_readers_alone_is_no_failure test $rc -eq 0
mdb_stat -e -ff -s named db2 > expected
"$tool" --env-info --free-list --free-list --subdb=named db2 > found
same stat_long_names expected found

# --- its own figures: a file whose answer is known ---
# Loaded in the order of keys: 3 inline values, 5 of 10000 bytes with three overflow pages each.
{
	printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n'
	value=$(head -c 10000 /dev/zero | tr '\0' x)
	for i in 1 2 3 4 5; do printf ' big%d\n %s\n' $i "$value"; done
	printf ' empty\n \n five\n 12345\n four\n 1234\nDATA=END\n'
} > known.txt
mkdir known
mdb_load -f known.txt known
"$tool" --records --sizes --layout known > out
judge records_are_counted grep -qx '  Records: 8' out
judge bytes_of_keys_are_counted grep -qx '  Bytes of keys: 33' out
judge bytes_of_values_are_counted grep -qx '  Bytes of values: 50009 (48.8 KiB)' out
judge empty_value_has_its_row grep -qx ' *0 to *0 bytes: 1' out
judge values_of_4_to_7_bytes_are_together grep -qx ' *4 to *7 bytes: 2' out
judge large_values_have_their_row grep -qx ' *8192 to *16383 bytes: 5' out
judge overflow_share_is_right grep -q '5 values, 99.98 % of the values. bytes, 93.75 % of the pages' out
# A leaf and 15 pages of values make 15 steps. Each run of overflow pages has 2 steps inside; the steps between the
# runs depend on where the runs were put, so that the dump of page numbers decides.
judge layout_counts_the_steps grep -q ' of 15 steps' out
mkdir compact
mdb_copy -c known compact
"$tool" --layout compact > out
# Compacted: the runs lie one behind the other, and then the leaf: one step leads back.
judge layout_of_a_compacted_copy_is_known grep -q '93.33 % (14 of 15 steps' out
"$testdb" --flags=named,dupsort,keys40,dups500,rounds0 dups > /dev/null
entries=$(mdb_stat -s named dups | sed -n 's/^  Entries: //p')
"$tool" -s named --records dups > out
judge duplicates_are_records_each grep -qx "  Records: $entries" out
judge duplicates_share_their_key grep -qx '  Keys: 40' out

# --- JSON ---
if command -v python3 > /dev/null; then
	cat > fields.py <<'END'
import json, sys
found = json.load(open(sys.argv[1]))
for path in sys.argv[2:]:
	at = found
	for part in path.split("."):
		at = at[int(part)] if part.isdigit() else at[part]
	print(at)
END
	"$tool" --json --all-info -fff known > out.json
	python3 fields.py out.json schema databases.0.entries databases.0.records.value_bytes \
		databases.0.layout.steps databases.0.sizes.overflow_values container \
		environment.page_size > found
	printf '%s\n' lmdbio-stat/1 8 50009 15 5 None 4096 > expected
	same json_has_the_same_numbers expected found
	"$tool" --json -a -r -s '' known > out.json 2> err || true
	judge json_of_nothing_is_nothing test ! -s out.json
	n=0
	bad=0
	while [ $n -lt 12 ]; do
		rm -rf db
		"$testdb" --seed=31 --number=$n db > /dev/null
		rc=0
		"$tool" --json --all-info -fff -rr db > out.json || rc=$?
		test $rc -eq 0 || bad=$((bad + 1))
		python3 fields.py out.json schema > found || bad=$((bad + 1))
		n=$((n + 1))
	done
	judge json_of_random_databases_parses test $bad -eq 0
else
	not_run json_has_the_same_numbers "no python3"
fi

# --- containers and damage ---
rc=0
"$tool" --chunks known > out 2> err || rc=$?
judge chunks_of_a_plain_file_fail test $rc -eq 2
judge chunks_of_a_plain_file_say_so grep -q 'known: --chunks is for containers' err
rc=0
"$tool" --chunks --json known > out 2> err || rc=$?
judge chunks_of_a_plain_file_fail_as_json test $rc -eq 2 -a ! -s out
judge chunks_of_a_plain_file_say_so_as_json grep -q 'known: --chunks is for containers' err
mkfifo pipe
told chunks_of_a_pipe_fail_at_once 2 'pipe: this is a pipe or a device' timeout 20 "$tool" --chunks pipe
mkdir nothing
told chunks_of_an_empty_directory_say_what_it_lacks 2 'nothing: this directory holds no data.mdb' \
	"$tool" --chunks nothing
convert=$top_builddir/tools/lmdbio-convert
if [ -x "$convert" ]; then
	"$testdb" --flags=plain,mixed,keys300 source > /dev/null
	"$convert" -q --chunk-size=64k source/data.mdb container.zst
	"$tool" --chunks container.zst > out
	size=$(wc -c < source/data.mdb)
	judge chunks_have_a_line_each test "$(grep -c '^ *[0-9][0-9]* ' out)" -eq $(((size + 65535) / 65536))
	judge chunks_have_the_data_s_size grep -q "^  Bytes of data: $size" out
	judge chunks_have_the_container_s_size grep -q "^  Bytes of the container: $(wc -c < container.zst)" out
	awk '$1 ~ /^[0-9]+$/ { sum += $4 } END { print sum }' out > found
	echo "$size" > expected
	same chunks_are_the_whole_data expected found
	mdb_stat -f source > expected
	"$tool" -f container.zst > found
	same stat_of_a_container_is_the_same expected found
	mkdir packed && mv container.zst packed/data.mdb.zst
	"$tool" --records --sizes --layout source > expected
	"$tool" --records --sizes --layout packed > found
	entries=$(mdb_stat source | sed -n 's/^  Entries: //p')
	judge values_across_chunks_are_told \
		grep -q "^  Values across a border of chunks: [0-9]* of $entries " found
	sed -i '/across a border of chunks/d' found
	same measures_of_a_container_are_the_same expected found
else
	not_run chunks_have_a_line_each "no lmdbio-convert in this build"
fi
"$testdb" --flags=plain,keys3000 broken > /dev/null
size=$(wc -c < broken/data.mdb)
dd if=/dev/zero of=broken/data.mdb bs=4096 seek=$((size / 4096 / 2)) count=1 conv=notrunc 2>/dev/null
rc=0
"$tool" --records broken > out 2> err || rc=$?
judge measure_of_damage_fails test $rc -eq 1
judge measure_of_damage_says_so grep -q 'broken: it is damaged: lmdbio-check' err
finish
