#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks what lmdbio-check reports for each kind of damage to a container: bytes that no longer match their checksum,
# and false fields whose checksums match.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
testdb=$top_builddir/tests/data/lmdbio-testdb
lies=$top_builddir/tests/tools/check_lies
tool=$top_builddir/tools/lmdbio-check
[ -x "$tool" ] || skip "no lmdbio-check in this build (libjansson is missing)"
cd "$scratch"
"$testdb" --flags=plain,mixed,keys300,rounds1 source > /dev/null

# verdict NAME CODE TEXT FILE
verdict() {
	told "$1" "$2" "$3" "$tool" "$4"
}

# lie KIND CODE TEXT
lie() {
	"$lies" source/data.mdb "$1.zst" "$1"
	verdict "container_with_a_lie_about_${1}_is_judged" "$2" "$3" "$1.zst"
}
lie none 0 'none.zst: intact'
size=$(wc -c < none.zst)
lie copy 1 '^damage: byte 256: container: the index has a copy of page 4 that is not like it'
judge lying_copy_is_one_finding grep -q 'damaged, 1 finding of damage' out
lie meta 1 '^damage: byte 256: container: the index has a copy of page [01] that is not like it'
lie chunk 1 '^damage: byte [0-9]*: container: chunk 1 ([0-9]* bytes) is damaged: pages 16 to 31'
lie content 1 "^damage: byte $((size - 256)): container: the index is damaged"
lie order 1 '^damage: byte [0-9]*: container: the index is damaged'
lie records 1 '^damage: .*the record index'
judge lying_record_index_names_page_and_byte grep -q '^damage: page [0-9]*, byte [0-9]*: ' out
lie source 1 '^damage: byte 0: container: the data is not from the file that it is said to be from'
lie version 2 'unchecked: this is a container of a newer lmdbio'

# hurt NAME BYTE CODE TEXT: flips one bit of that byte of the sound container.
hurt() {
	cp none.zst hurt.zst
	byte=$(od -An -t u1 -j "$2" -N 1 none.zst | tr -d ' ')
	printf '%b' "$(printf '\\0%o' $((byte ^ 16)))" | dd of=hurt.zst bs=1 seek="$2" conv=notrunc 2> /dev/null
	verdict "$1_hurt_is_named" "$3" "$4" hurt.zst
}
if [ -x "$top_builddir/tools/lmdbio-stat" ]; then
	# shellcheck disable=SC2046
	set -- $("$top_builddir/tools/lmdbio-stat" --chunks none.zst |
		awk '$1 ~ /^[0-9]+$/ && NF == 6 { if ($1 == 2) at = $2; end = $2 + $3 } END { print at, end }')
	hurt chunk $(($1 + 1000)) 1 "^damage: byte $1: container: chunk 2 ([0-9]* bytes) is damaged: pages 32 to 47"
	hurt group_of_copies $(($2 + 1000)) 1 "^damage: byte $2: container: the index is damaged"
	hurt page_of_chunks $((size - 256 - 4096 - 1000)) 1 "^damage: byte $((size - 256 - 8192)): container: the index is damaged"
	hurt page_of_copies $((size - 256 - 1000)) 1 "^damage: byte $((size - 256 - 4096)): container: the index is damaged"
fi
hurt magic 9 1 'begins as a container of lmdbio-convert does, but is damaged or none'
hurt header 40 1 '^damage: byte 0: container: its header or its end is damaged or cut off'
hurt footer $((size - 100)) 1 '^damage: byte 0: container: its header or its end is damaged or cut off'
for left in 100 300 70000 $((size - 1)); do
	head -c "$left" none.zst > cut.zst
	verdict "container_cut_to_${left}_is_damaged" 1 'damage' cut.zst
done
cat none.zst none.zst > twice.zst
verdict container_with_more_behind_is_damaged 1 'damage' twice.zst
verdict container_that_is_missing_is_unchecked 2 'unchecked: No such file' nosuch.zst
mkdir nothing
verdict directory_without_data_is_unchecked 2 'unchecked: ' nothing

# The same reports as JSON.
if command -v python3 > /dev/null; then
	"$tool" --json copy.zst > out || true
	python3 -c 'import json, sys
found = json.load(open("out"))
first = found["findings"][0]
print(found["status"], found["damages"], first["byte"], "page 4" in first["what"], first.get("page", "missing"))' > found
	echo 'damaged 1 256 True None' > expected
	same lying_copy_is_in_the_json expected found
else
	not_run lying_copy_is_in_the_json "no python3"
fi
finish
