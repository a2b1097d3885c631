#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that each command finds in a data file of LMDB 1.0 what it finds in one of LMDB 0.9 with the same content,
# and what an independent reader finds that knows only the format's description.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
testdb=$top_builddir/tests/data/lmdbio-testdb
tools=$top_builddir/tools
reader=$top_srcdir/tests/data/later_read.py
need python3
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
cd "$scratch"

# records COMMAND...: the lines of a dump that hold keys and values.
records() {
	"$@" | grep '^ '
}

# --- random databases of every kind ---
count=21
[ -z "${TESTS_LONG:-}" ] || count=315
n=0 unlike=0 alone=0 damaged=0 counts=0
while [ $n -lt $count ]; do
	rm -rf db later
	"$testdb" --seed=29 --number=$n db > made
	# Names are keys of the main database, and one byte longer in LMDB 1.0: these orders sort them differently.
	if head -n 1 made | grep -q 'main [a-z, ]*\(reversekey\|customkeys\)'; then
		n=$((n + stride))
		continue
	fi
	"$testdb" --seed=29 --number=$n --later later > /dev/null
	compared=$((compared + 1))
	names=$("$tools/lmdbio-dump" -l db 2> /dev/null | wc -l)
	all=
	[ "$names" -eq 0 ] || all=-a
	# shellcheck disable=SC2086
	for command in "db $all" "later $all"; do
		set -- $command
		records "$tools/lmdbio-dump" ${2:+"$2"} "$1" > "$1.records" || true
	done
	cmp -s db.records later.records || { unlike=$((unlike + 1)); echo "# number $n: other records"; }
	python3 "$reader" ${all:+"$all"} later/data.mdb > alone.records
	cmp -s alone.records later.records || { alone=$((alone + 1)); echo "# number $n: the reader finds others"; }
	# Custom orders of a program cannot be checked.
	"$tools/lmdbio-check" --no-order -q later > check.out 2>&1 || { damaged=$((damaged + 1)); cat check.out; }
	for set in db later; do
		"$tools/lmdbio-stat" -a $set | grep -v 'Page size' > $set.stat 2>&1 || true
	done
	cmp -s db.stat later.stat || { counts=$((counts + 1)); diff db.stat later.stat | head -5; }
	n=$((n + stride))
done
judge most_databases_are_compared test $((compared * 2 * stride)) -ge $count
judge records_are_those_of_the_other_format test $unlike -eq 0
judge records_are_those_of_an_independent_reader test $alone -eq 0
judge files_are_intact test $damaged -eq 0
judge counts_are_those_of_the_other_format test $counts -eq 0

# --- damage is found, and reported with its place ---
"$testdb" --flags=plain,keys300 --later sound > /dev/null
told sound_file_is_intact 0 'structure intact' "$tools/lmdbio-check" sound
size=$(python3 -c "print(__import__('struct').unpack_from('<I', open('sound/data.mdb', 'rb').read(), 48)[0])")
root=$(python3 -c "
import struct
data = open('sound/data.mdb', 'rb').read()
metas = [(struct.unpack_from('<Q', data, at + 152)[0], at) for at in (0, $size)]
print(struct.unpack_from('<Q', data, max(metas)[1] + 136)[0])")

# damage OFFSET BYTES [SET]: a copy of the sound file, or of SET, with other bytes at that offset.
damage() {
	rm -rf broken
	cp -r "${3:-sound}" broken
	printf '%b' "$2" | dd of=broken/data.mdb bs=1 seek="$1" conv=notrunc 2> /dev/null
}
damage $((root * size + 18)) '\100'
told page_flags_are_found 1 'has flags 0x40' "$tools/lmdbio-check" broken
damage $((root * size + 20)) '\377\377'
told page_bounds_are_found 1 'is empty or has bounds' "$tools/lmdbio-check" broken
damage 28 '\004'
told meta_version_is_found 1 'meta page 0.*has the format version 4' "$tools/lmdbio-check" broken
# LMDB 1.0's mdb_env_rollback() leaves the last transaction's meta page without trees.
cp -r sound undone
older=$(python3 -c "
import struct
with open('undone/data.mdb', 'r+b') as data:
    def number(at, *value):
        data.seek(at)
        return data.write(struct.pack('<Q', *value)) if value else struct.unpack('<Q', data.read(8))[0]
    older = number(152) > number($size + 152)
    for at, value in (88, 0), (136, 0), (144, 2**64 - 1), (152, older):
        number(older * $size + at, value)
print(int(older))")
told transaction_taken_back_is_no_damage 0 'structure intact' "$tools/lmdbio-check" undone
judge transaction_taken_back_needs_no_warning sh -c '! grep -q -e warning -e damage out'
damage $((older * size + 153)) '\377' undone
told newest_meta_page_without_trees_is_found 1 "meta page $older: the last page is" "$tools/lmdbio-check" broken
damage $((root * size)) '\377'
told page_number_ends_a_dump 1 'damaged' "$tools/lmdbio-dump" broken
told page_number_is_salvaged 1 'calls itself page' "$tools/lmdbio-dump" --salvage broken
judge salvage_finds_every_record test "$(grep -c '^ ' out)" -eq "$(records "$tools/lmdbio-dump" sound | wc -l)"

# --- checksums ---
"$testdb" --flags=plain,keys300 --later --sums summed > /dev/null
told checksums_need_a_name 0 'structure intact; its checksums are not verified without --checksum' "$tools/lmdbio-check" summed
told checksums_are_verified 0 'summed: intact: every page in use is verified' "$tools/lmdbio-check" --checksum=fnv1a summed
told checksums_of_another_function_differ 1 'does not have the checksum of its bytes' "$tools/lmdbio-check" --checksum=xxh3 summed
told checksums_of_another_size_are_refused 2 'unchecked: .*no checksums of the size' "$tools/lmdbio-check" --checksum=crc32c summed
told checksums_that_are_not_there_are_named 2 'unchecked: its pages have no checksums' "$tools/lmdbio-check" --checksum=fnv1a sound
told checksums_of_no_name_are_wrong_usage 2 'wants crc32c, fnv1a' "$tools/lmdbio-check" --checksum=md5 summed
records "$tools/lmdbio-dump" sound > sound.records
records env LMDBIO_CHECKSUM=fnv1a "$tools/lmdbio-dump" summed > summed.records
judge verified_records_are_the_same cmp -s sound.records summed.records
# A byte that belongs to no entry: the first one of the free space.
lower=$(python3 -c "print(__import__('struct').unpack_from('<H', open('summed/data.mdb', 'rb').read(), $((root * size + 20)))[0])")
damage $((root * size + 24 + lower)) '\377' summed
told changed_byte_is_not_seen_unasked 0 'structure intact' "$tools/lmdbio-check" broken
told changed_byte_is_found 1 "page $root.*does not have the checksum" "$tools/lmdbio-check" --checksum=fnv1a broken
told changed_byte_ends_a_dump 1 'a page does not have its checksum' env LMDBIO_CHECKSUM=fnv1a "$tools/lmdbio-dump" broken
says changed_byte_in_a_dump_hints_at_salvage '--salvage dumps what can be read'
told program_for_lmdb_0_9_is_told_in_words 3 'error -30778 MDB_BAD_CHECKSUM: a page does not have its checksum' \
	env LMDBIO_CHECKSUM=fnv1a LD_LIBRARY_PATH="$top_builddir/compat/.libs" "$top_builddir/tests/data/db_read" broken
told changed_byte_is_salvaged 1 'does not have the checksum' env LMDBIO_CHECKSUM=fnv1a "$tools/lmdbio-dump" --salvage broken

# --- files that are refused ---
rm -rf broken
cp -r sound broken
for at in 53 $((size + 53)); do
	printf '\040' | dd of=broken/data.mdb bs=1 seek=$at conv=notrunc 2> /dev/null
done
told encrypted_pages_are_named_in_dump 2 'its pages are encrypted' "$tools/lmdbio-dump" broken
told encrypted_pages_cannot_be_checked 2 'unchecked: .*its pages are encrypted' "$tools/lmdbio-check" broken
finish
