#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what lmdbio-convert makes of data files of LMDB 1.0: data files of LMDB 0.9, containers, and either with its
# pages in key order.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need zstd cmp
python=/usr/bin/python3
[ -x "$python" ] || skip "no $python here"
tools=$top_builddir/tools
convert=$tools/lmdbio-convert
testdb=$top_builddir/tests/data/lmdbio-testdb
reader=$top_srcdir/tests/data/later_read.py
index=$top_builddir/tests/tools/convert_index
[ -x "$convert" ] || skip "no lmdbio-convert in this build"
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
cd "$scratch"

# records FILE: every database of a data file of LMDB 0.9 with its flags, read only by the format's description.
records() {
	"$python" "$top_srcdir/tests/tools/convert_pages.py" records "$1"
}

# dump PATH: the named databases, or the main one if there are none, read by lmdbio.
dump() {
	"$tools/lmdbio-dump" -a "$1" > dumped 2> /dev/null || true
	[ -s dumped ] || "$tools/lmdbio-dump" "$1" > dumped
	grep -v -e '^mapsize=' -e '^db_pagesize=' dumped
}

# count WHAT COMMAND...: counts a failure of the command under the name WHAT.
declare -A failed=()
count() {
	local what=$1

	shift
	"$@" > count.out 2>&1 || {
		failed[$what]=$((${failed[$what]:-0} + 1))
		echo "# number $n: $what: $*"
		head -n 5 count.out
	}
}

# alike WHAT A B: counts a difference between two files under the name WHAT.
alike() {
	count "$1" cmp "$2" "$3"
}

# first_transaction FILE: whether all pages of a compacted copy belong to its one transaction.
cat > pages.py << 'END'
import struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack_from("<I", data, 48)[0]
metas = [struct.unpack_from("<QQ", data, at + 144) for at in (0, size)]
last, txn = max(metas, key=lambda meta: meta[1])
assert len(data) == (last + 1) * size, "%d bytes, not %d pages" % (len(data), last + 1)
at = 2
while at <= last:
    number, of, flags, run = struct.unpack_from("<QQxxHI", data, at * size)
    if number == 0 and of == 0 and flags == 0:  # a free page in front of a border
        at += 1
        continue
    assert number == at and of == 1 <= txn, "page %d is page %d of transaction %d" % (at, number, of)
    at += run if flags & 4 else 1
END

# A program for LMDB 0.9 that reads all records that it can find, or copies.
cat > program.py << 'END'
import hashlib, sys
import lmdb
env = lmdb.open(sys.argv[2], readonly=True, max_dbs=1000)
if sys.argv[1] != "read":
    env.copy(sys.argv[3], compact=sys.argv[1] == "compact")
    sys.exit()
with env.begin(buffers=True) as txn:
    names = [bytes(key) for key in txn.cursor().iternext(values=False)]
plain, databases = [], [None]
for name in names:
    try:
        databases.append(env.open_db(name, create=False) and name)
    except (lmdb.IncompatibleError, lmdb.BadValsizeError, lmdb.NotFoundError):
        plain.append(name)
for name in databases:
    base = env.open_db(name, create=False) if name else None
    with env.begin(db=base, buffers=True) as txn:
        hash, n = hashlib.md5(), 0
        for key, value in txn.cursor():
            if name is None and bytes(key) in databases:
                continue
            hash.update(b"%d %d " % (len(key), len(value)))
            hash.update(key)
            hash.update(value)
            n += 1
        print(name, n, hash.hexdigest())
END
program=
if [ "${with_sanitizer:-no}" = no ] && "$python" -c 'import lmdb' 2> /dev/null; then
	program=program.py
else
	not_run programs_read "no python3-lmdb here, or the build is sanitized"
fi
check=$tools/lmdbio-check
[ -x "$check" ] || check=true
numbers=12
[ -z "${TESTS_LONG:-}" ] || numbers=315
n=0 compared=0
while [ $n -lt $numbers ]; do
	rm -rf db later made back* again* c.zst of09.zst r.zst laid* copy copied packed
	"$testdb" --seed=31 --number=$n db > made
	# In a file of LMDB 1.0 lmdbio-testdb keeps the order of LMDB 0.9, although a name is one byte longer there: with
	# these orders a search by name may miss.
	found_by_name=true
	! head -n 1 made | grep -q 'main [a-z, ]*\(reversekey\|customkeys\)[^;]*; ' || found_by_name=false
	! $found_by_name || compared=$((compared + 1))
	mkdir later
	"$testdb" --later=db/data.mdb later
	data=later/data.mdb
	records db/data.mdb > wanted
	dump later > wanted.later

	count writes "$convert" -q --to=lmdb-0.9 --verify later back
	records back/data.mdb > found
	alike rewritten wanted found
	count sound "$check" -q --no-order back
	count verifies "$convert" -q --to=lmdb-0.9 --verify later back

	count packs "$convert" -q --chunk-size=64k --verify later c.zst
	zstd -dcq c.zst > again.bytes
	alike packed again.bytes $data
	count checks "$check" -q --no-order c.zst
	dump c.zst > found
	alike read wanted.later found
	count unpacks "$convert" -q --to=lmdb --verify c.zst again.mdb
	alike unpacked again.mdb $data
	count rewrites "$convert" -q --to=lmdb-0.9 --verify c.zst back.mdb
	records back.mdb > found
	alike rewritten_from_a_container wanted found
	# Page numbers, and the content of each page, are the same in both formats.
	"$convert" -q --chunk-size=64k db of09.zst
	"$index" of09.zst > index.wanted
	"$index" c.zst > index.found
	alike indexed index.wanted index.found

	count lays "$convert" -q --relayout --verify --chunk-size=64k later r.zst
	count laid_checks "$check" -q --no-order r.zst
	dump r.zst > found
	! $found_by_name || alike laid_read wanted.later found
	count laid_unpacks "$convert" -q --to=lmdb r.zst laid.mdb
	count laid_pages "$python" pages.py laid.mdb
	count compacts "$convert" -q --to=lmdb --relayout --verify later laid
	count compact_pages "$python" pages.py laid/data.mdb
	count compact_checks "$check" -q --no-order laid
	for way in "" -a; do
		count reads "$python" "$reader" $way $data
		cp count.out reader.wanted
		count compact_read "$python" "$reader" $way laid/data.mdb
		cp count.out reader.found
		alike compact_read reader.wanted reader.found
		count laid_records "$python" "$reader" $way laid.mdb
		cp count.out reader.found
		alike laid_records reader.wanted reader.found
	done
	if $found_by_name && [ -n "$program" ] && [ $((n % 3)) -eq 0 ]; then
		mkdir packed copy copied
		cp c.zst packed/data.mdb.zst
		"$python" program.py read db > wanted
		for set in later packed; do
			for store in cache arena; do
				count served env LD_PRELOAD="$dropin" LMDBIO_STORE=$store "$python" program.py read $set
				cp count.out found
				alike "read_in_the_$store" wanted found
			done
		done
		count copies env LD_PRELOAD="$dropin" "$python" program.py compact later copy
		# The meta pages differ: they hold the program's map size.
		metas=$(($(od -An -tu4 -j48 -N4 laid/data.mdb) * 2))
		count compact_copy cmp -i $metas copy/data.mdb laid/data.mdb
		count copies env LD_PRELOAD="$dropin" "$python" program.py compact packed copied
		count compact_copy_of_a_container cmp -i $metas copied/data.mdb laid/data.mdb
		count compact_copy_checks "$check" -q --no-order copy
		rm -rf copied/*
		count copies env LD_PRELOAD="$dropin" "$python" program.py copy packed copied
		alike copy_of_a_container copied/data.mdb $data
	fi
	n=$((n + stride))
done
judge names_are_found_in_most_cases test $((compared * 2 * stride)) -ge $numbers
for what in writes rewritten sound verifies packs packed checks read unpacks unpacked rewrites \
	rewritten_from_a_container indexed lays laid_checks laid_read laid_unpacks laid_pages reads laid_records compacts \
	compact_pages compact_checks compact_read served copies compact_copy compact_copy_of_a_container compact_copy_checks \
	copy_of_a_container read_in_the_cache read_in_the_arena; do
	judge "data_of_lmdb_1_${what}_in_each_case" test "${failed[$what]:-0}" -eq 0
done

# --- checksums ---
if [ -n "$program" ]; then
	"$testdb" --flags=plain,keys300 --later --sums summed > made
	mkdir summed_packed summed_copy summed_copied
	"$convert" -q summed summed_packed
	status compact_copy_of_checksums_is_made 0 env LD_PRELOAD="$dropin" LMDBIO_CHECKSUM=fnv1a \
		"$python" program.py compact summed summed_copy
	status compact_copy_of_a_container_of_checksums_is_made 0 env LD_PRELOAD="$dropin" LMDBIO_CHECKSUM=fnv1a \
		"$python" program.py compact summed_packed summed_copied
	judge compact_copy_of_a_container_keeps_checksums cmp summed_copied/data.mdb summed_copy/data.mdb
	[ "$check" = true ] || status compact_copy_of_a_container_is_verified 0 "$check" --checksum=fnv1a summed_copied
	rm summed_copied/data.mdb
	status compact_copy_of_a_container_needs_a_function_of_the_size 1 env LD_PRELOAD="$dropin" LMDBIO_CHECKSUM=crc32c \
		"$python" program.py compact summed_packed summed_copied
fi

# --- what LMDB 0.9 cannot hold ---
"$python" "$top_srcdir/tests/tools/later_keys.py" .
status longest_key_of_lmdb_0_9_is_taken 0 "$convert" -q --to=lmdb-0.9 --verify fits.mdb fitting.mdb
refused() {
	told "$1_is_refused" 2 "^lmdbio-convert: $2.mdb: $3" "$convert" --to=lmdb-0.9 "$2.mdb" out.mdb
	judge "$1_leaves_no_file" sh -c '! ls -A | grep -e "^out.mdb" -e partial'
}
refused longer_key key 'the main database has a key of 600 bytes, LMDB 0.9 holds at most 511'
refused longer_key_of_a_database named "the database 'long' has a key of 512 bytes, LMDB 0.9 holds at most 511"
refused longer_name name "the database 'nnn.* has a name of 600 bytes, LMDB 0.9 holds at most 511"
refused name_that_is_a_key twin "LMDB 0.9 cannot hold the database 'twin' beside a record of that key"
refused longer_value_of_a_key values "the database 'sorted' has MDB_DUPSORT and a value of 700 bytes, LMDB 0.9 holds at most 511"
refused database_without_a_name nameless 'LMDB 0.9 cannot hold a database without a name'
refused name_that_is_a_key_compared_from_the_end reversed_twin \
	"LMDB 0.9 cannot hold the database 'twin' beside a record of that key"
for case in own_twin own_twin_behind own_twin_beside; do
	refused "name_that_is_a_key_in_an_order_of_a_program_$case" $case \
		"LMDB 0.9 cannot hold the database 'twin' beside a record of that key"
done
for case in key named name twin values nameless reversed_twin; do
	status "container_of_${case}_is_made" 0 "$convert" -q --verify $case.mdb $case.zst
	status "container_of_${case}_is_intact" 0 "$check" -q --no-order $case.zst
done
told wrong_word_is_told 2 'wants container, lmdb or lmdb-0.9' "$convert" --to=lmdb-1.0 fits.mdb out.mdb
told rewriting_and_relayout_exclude_each_other 2 'needs no --relayout' \
	"$convert" --to=lmdb-0.9 --relayout fits.mdb out.mdb

# --- names are compared with their NUL ---
for case in twin border reversed reversed_twin; do
	status "names_of_${case}_are_in_order" 0 "$check" -q $case.mdb
done

# --- names compared from the end, and custom orders of a program ---
for case in reversed own own_reversed; do
	mkdir $case
	status "${case}_main_database_is_rewritten" 0 "$convert" -q --to=lmdb-0.9 --verify $case.mdb $case
	status "${case}_main_database_is_verified" 0 "$convert" -q --to=lmdb-0.9 --verify $case.mdb $case/data.mdb
	records $case/data.mdb | sed -n '/^\[\] flags/,/^\[\] records/s/^\([0-9a-f]*\) .*/\1/p' > $case.keys
done
judge names_compared_from_the_end_are_sorted_anew test "$(tr '\n' ' ' < reversed.keys)" = '6131 6231 6331 6431 7a61 6262 6362 6178 7a7a '
judge order_of_a_program_is_kept test "$(tr '\n' ' ' < own.keys)" = '62 61 '
judge order_of_a_program_is_kept_with_reversekey test "$(tr '\n' ' ' < own_reversed.keys)" = '7a7a 7a61 6131 6262 '
status names_compared_from_the_end_are_in_order 0 "$check" -q reversed
for name in za bb ax; do
	told "database_${name}_is_found_by_its_name" 0 "of $name\$" "$tools/lmdbio-dump" -p -s $name reversed
done
if [ -n "$program" ]; then
	"$python" program.py read reversed > found
	judge original_finds_each_name test "$(cut -d ' ' -f 1,2 found | tr '\n' ' ')" = "None 6 b'za' 1 b'bb' 1 b'ax' 1 "
fi

# --- a target that must not be trusted ---
cat > hurt.py << 'END'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size, = struct.unpack_from("<I", data, 40)
txn, root = max(struct.unpack_from("<Q", data, at + 144) + struct.unpack_from("<Q", data, at + 128) for at in (0, size))
if sys.argv[3] == "entry":
    struct.pack_into("<H", data, root * size + 16, 0xffff)
else:
    del data[2 * size:]
open(sys.argv[2], "wb").write(data)
END
for hurt in entry pages; do
	"$python" hurt.py fitting.mdb hurt.mdb $hurt
	told "target_with_damaged_${hurt}_is_found_out" 1 'lmdbio-convert: hurt.mdb: it is damaged' \
		"$convert" --to=lmdb-0.9 --verify fits.mdb hurt.mdb
done
"$convert" -q fitting.mdb fitting.zst
: > empty
for file in fits.mdb fitting.zst empty; do
	cp $file other.mdb
	told "${file}_is_no_target_of_lmdb_0_9" 2 'lmdbio-convert: other.mdb: it is no data file of LMDB 0.9' \
		"$convert" --to=lmdb-0.9 --verify fits.mdb other.mdb
done

# --- a target that differs is detected ---
cat > change.py << 'END'
import sys
data = open(sys.argv[1], "rb").read()
assert data.count(b"of ") > 1
open(sys.argv[2], "wb").write(data.replace(b"of ", b"OF ", 1))
END
for case in own reversed; do
	"$python" change.py $case.mdb changed.mdb
	told "other_value_beside_${case}_names_is_found_out" 1 "data.mdb: the database .* has other records" \
		"$convert" --to=lmdb-0.9 --verify changed.mdb $case/data.mdb
done
told more_names_are_found_out 1 'data.mdb: the main database has' \
	"$convert" --to=lmdb-0.9 --verify own.mdb own_reversed/data.mdb
"$testdb" --flags=plain,named --later later2 > /dev/null
"$testdb" --flags=plain,named,dupsort --seed=2 other > /dev/null
told other_target_is_found_out 1 'other.data.mdb: the .*database' "$convert" --to=lmdb-0.9 --verify later2 other

# --- a file of LMDB 0.9 needs no rewriting ---
"$convert" -q --to=lmdb-0.9 other same.mdb
judge file_of_lmdb_0_9_is_copied cmp other/data.mdb same.mdb

# --- pages with checksums ---
size=$(od -An -tu4 -j48 -N4 later2/data.mdb)
cp later2/data.mdb sum.mdb
printf '\010\000' | dd of=sum.mdb bs=1 seek=$((size - 2)) conv=notrunc 2> /dev/null
told pages_with_checksums_are_not_laid_anew 2 'sum.mdb: its pages have checksums' "$convert" --relayout sum.mdb out.zst
status pages_with_checksums_are_packed 0 "$convert" -q --verify sum.mdb sum.zst
mkdir packed2
cp sum.zst packed2/data.mdb.zst
told pages_with_checksums_are_not_laid_anew_from_a_container 2 'its pages have checksums' \
	"$convert" --to=lmdb --relayout packed2 out.mdb

# --- the messages that name the format ---
"$convert" -q later2 later2.zst
"$convert" -q other other.zst
if [ -x "$tools/lmdbio-stat" ]; then
	told stat_tells_lmdb_1_0 0 'Data file of: LMDB 1.0' "$tools/lmdbio-stat" --all-info later2.zst
	told stat_tells_lmdb_0_9 0 'Data file of: LMDB 0.9' "$tools/lmdbio-stat" --all-info other.zst
	told check_tells_lmdb_1_0 0 '(LMDB 1.0)' "$tools/lmdbio-check" -v later2.zst
	told check_tells_it_in_json 0 '"lmdb_format": "1.0"' "$tools/lmdbio-check" --json later2.zst
fi
# An older lmdbio knows one of the flags that a reader must know, the first.
flags=$(od -An -tu4 -j20 -N4 later2.zst)
judge older_reader_refuses_the_container test $((flags & 0xfffe)) -ne 0
flags=$(od -An -tu4 -j20 -N4 other.zst)
judge older_reader_takes_a_container_of_lmdb_0_9 test $((flags & 0xfffe)) -eq 0

# --- random reads of containers ---
differential=$top_builddir/tests/differential/differential
if [ -x "$differential" ]; then
	for memory in auto 2M; do
		told "containers_answer_alike_with_$memory" 0 'no difference' env LMDBIO_MEMORY=$memory \
			"$differential" --later --convert="$convert" --seed=7 --operations=60000
	done
fi
finish
