#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that every value of a relaid container costs one chunk and the index, and what the free pages cost that this
# takes.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
convert=$top_builddir/tools/lmdbio-convert
stat=$top_builddir/tools/lmdbio-stat
records=40
[ "$times" = 1 ] || records=300

# Half of each value of the second set compresses to nothing.
for set in "noise 0" "half 50"; do
	name=${set% *}
	make_set "plain-$name" $records 196620 "${set#* }"
	mkdir "$scratch/backing/$name" "$scratch/backing/back-$name"
	"$convert" -q --relayout "$scratch/backing/plain-$name" "$scratch/backing/$name"
	"$convert" -q --to=lmdb "$scratch/backing/$name" "$scratch/backing/back-$name"
	# The same set laid out without regard to chunk borders, by way of a data file.
	"$convert" -q --to=lmdb --relayout "$scratch/backing/plain-$name" "$scratch/tight.mdb"
	"$convert" -q "$scratch/tight.mdb" "$scratch/tight.zst"
	tight=$(stat -c %s "$scratch/tight.zst")
	data=$(stat -c %s "$scratch/tight.mdb")
	at_most "${name}_container_bytes" "$(stat -c %s "$scratch/backing/$name/data.mdb.zst")" \
		$((tight + tight / 200))
	# A chunk of 256 pages has room for 5 values of 49 pages.
	at_most "${name}_data_bytes" "$(stat -c %s "$scratch/backing/back-$name/data.mdb")" \
		$((data + data * 6 / 100))
	judge "${name}_tight_container_has_values_across" sh -c \
		"'$stat' --layout '$scratch/tight.zst' | grep -q 'across a border of chunks: [1-9]'"
	judge "${name}_relaid_container_has_none_across" sh -c \
		"'$stat' --layout '$scratch/backing/$name' | grep -q 'across a border of chunks: 0 of $records'"
	rm "$scratch/tight.mdb" "$scratch/tight.zst"
done

slowfs_start "$scratch/backing" "$scratch/mount"
for name in noise half; do
	size=$(stat -c %s "$scratch/backing/$name/data.mdb.zst")
	# shellcheck disable=SC2046
	set -- $("$stat" --chunks "$scratch/backing/$name" | awk '
		$1 ~ /^[0-9]+$/ && NF == 6 { if ($3 > most) most = $3; end = $2 + $3 }
		END { print most, end }')
	# The header and the tail are read in blocks, once for their content and once for the file's identity, and the
	# tail's first block may hold the end of a chunk.
	limit=$(($1 + size - $2 + 6 * 4096 + 65536))
	worst=0 wrong=0 chunks=0
	for ((record = 0; record < records; record++)); do
		cold
		rm -f "$scratch/stats"
		found=$(LMDBIO_STATS=$scratch/stats reader --record=$record get "$scratch/mount/$name" | seen)
		chunks=$((chunks + $(sed -n 's/.*"container_chunks": \([0-9]*\)[,}].*/\1/p' "$scratch/stats")))
		[ "$found" = "$(original --record=$record get "$scratch/backing/back-$name" | seen)" ] ||
			wrong=$((wrong + 1))
		bytes=$(slowfs_stat "$name/data.mdb.zst:bytes")
		[ "$bytes" -le "$worst" ] || worst=$bytes
	done
	equal "every_${name}_value_got_is_the_originals" 0 $wrong
	at_most "every_${name}_value_got_bytes" "$worst" $limit
	at_most "chunks_decompressed_for_all_${name}_values" $chunks $records
done
slowfs_stop

# The original finds the free pages, and its second transaction writes into them, as always.
back=$scratch/backing/back-half
value=$(head -c 12000 /dev/zero | tr '\0' x)
# load FROM END: records of three pages.
load() {
	printf 'VERSION=3\nformat=print\ntype=btree\nHEADER=END\n'
	for ((i = $1; i < $2; i++)); do printf ' new%d\n %s\n' "$i" "$value"; done
	echo DATA=END
}
# pages OPTION WORDS: a number that mdb_stat has.
pages() {
	mdb_stat "$1" "$back" | awk -v words="$2" 'index($0, words) { print $NF }'
}
judge "free_pages_are_in_the_free_list" test "$(pages -f 'Free pages')" -ge $records
load 10 11 | mdb_load "$back"
last=$(pages -e 'pages used')
load 11 31 | mdb_load "$back"
at_most "pages_after_twenty_records_of_three" "$(pages -e 'pages used')" $((last + 6))
judge "written_to_is_sound" "$top_builddir/tools/lmdbio-check" "$back"
finish
