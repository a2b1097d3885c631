#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that every command, and LMDBIO_VERBOSE, says the same about a file that lmdbio does not read: what it is and
# what to do; and about a data set that cannot be opened: which file is to blame.
# shellcheck disable=SC2086 # $user: words of a command
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
tools=$top_builddir/tools
testdb=$top_builddir/tests/data/lmdbio-testdb
reader=$top_builddir/tests/data/db_read
need python3
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
cd "$scratch"
python3 "$top_srcdir/tests/tools/formats_make.py" .

# everywhere NAME FILE PATTERN: the commands that read a data set end with 2 and print PATTERN about FILE.
everywhere() {
	what=$1 file=$2 line="$2: $3" unchecked="$2: unchecked: $3"
	told "${what}_in_stat" 2 "^lmdbio-stat: $line" "$tools/lmdbio-stat" "$file"
	told "${what}_in_dump" 2 "^lmdbio-dump: $line" "$tools/lmdbio-dump" "$file"
	told "${what}_in_convert" 2 "^lmdbio-convert: $line" "$tools/lmdbio-convert" -q "$file" made.d
	told "${what}_in_check" 2 "^$unchecked" "$tools/lmdbio-check" "$file"
	if [ -x "$tools/lmdbio-serve" ]; then # a build with MPI
		mkdir -p staged
		told "${what}_in_stage" 2 "^lmdbio-stage: $line" \
			"$tools/lmdbio-stage" --to="$scratch/staged" "$file"
	fi
	rm -f ./*-lock
	banner "${what}_in_the_banner" "$line" --no-subdir "$file"
}

# banner NAME PATTERN ARGUMENT...: what lmdbio prints in an unmodified program that cannot open its data.
banner() {
	name=$1 reason=$2
	shift 2
	if [ "${with_sanitizer:-no}" = no ]; then
		told "$name" 3 "^lmdbio: cannot open $reason" $user env LMDBIO_VERBOSE=1 \
			LD_PRELOAD="$dropin" "$reader" "$@"
	fi
}
user=
for size in '' -512 -65536; do
	told "file_of_lmdb_1${size}_is_read" 0 'Entries: 0' "$tools/lmdbio-stat" "lmdb1$size.mdb"
	told "file_of_lmdb_1${size}_is_checked" 0 'structure intact' "$tools/lmdbio-check" "lmdb1$size.mdb"
done
told damaged_file_of_lmdb_1_is_one 2 'lmdb1-second.mdb: it is damaged: lmdbio-check says where' \
	"$tools/lmdbio-stat" lmdb1-second.mdb
everywhere file_of_version_2 version2.mdb "this is a data file of version 2 of LMDB's format, here they are 1 and 3: dump it"
everywhere file_of_a_later_version_2 version2-later.mdb "this is a data file of version 2 of LMDB's format, here they are 1"
everywhere file_of_32_bits bits32.mdb 'this is a data file of a 32-bit program: dump it there with mdb_dump'
everywhere file_of_32_bits_with_small_pages bits32-512.mdb 'this is a data file of a 32-bit program'
everywhere file_of_the_other_byte_order byteorder.mdb 'this is a data file of a machine with the other byte order'
everywhere text text.mdb 'this is no LMDB data file'
everywhere short_file short.mdb 'this is no LMDB data file'
everywhere zeros zeros.mdb 'this is no LMDB data file'
everywhere plain_zstd_file zstd.mdb 'this is compressed by zstd, but no container of lmdbio-convert: decompress it'
judge refused_files_leave_nothing test ! -e made.d
everywhere empty_file empty.mdb 'this file is empty, no LMDB data file: copy it again'

# --- data sets that are missing or incomplete ---
"$testdb" --flags=plain,keys300 sound > /dev/null
told missing_path_is_named 2 '^lmdbio-stat: nosuch: No such file' "$tools/lmdbio-stat" nosuch
mkdir hollow
told directory_without_data_is_named 2 '^lmdbio-dump: hollow: this directory holds no data.mdb' "$tools/lmdbio-dump" hollow
banner directory_without_data_is_named_in_the_banner 'hollow: this directory holds no data.mdb' hollow
banner file_as_a_directory_is_named_in_the_banner 'sound/data.mdb: this is a file, and a directory was asked for' sound/data.mdb
banner directory_as_a_file_is_named_in_the_banner 'sound: this is a directory, and a file was asked for' --no-subdir sound
told missing_database_is_named 2 "^lmdbio-stat: sound: no database 'other'" "$tools/lmdbio-stat" -s other sound
"$tools/lmdbio-convert" -q sound/data.mdb sound.zst
head -c 5000 sound.zst > cut.zst
for tool in stat dump; do
	told "container_cut_off_in_$tool" 1 "^lmdbio-$tool: cut.zst: the container is damaged or cut off: lmdbio-check" \
		"$tools/lmdbio-$tool" cut.zst
done
told container_cut_off_in_convert 1 '^lmdbio-convert: cut.zst: the container is damaged or cut off: lmdbio-check' \
	"$tools/lmdbio-convert" -q cut.zst made.d
cat > writer.py << 'END'
import ctypes, sys
lmdb, env = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
lmdb.mdb_env_create(ctypes.byref(env))
sys.exit(3 if lmdb.mdb_env_open(env, sys.argv[2].encode(), 0x4000, 0o644) else 0)
END

# write_banner NAME PATTERN FILE: what lmdbio prints in a program that opens FILE for writing.
write_banner() {
	if [ "${with_sanitizer:-no}" = no ]; then
		told "$1" 3 "^lmdbio: cannot open $2" $user env LMDBIO_VERBOSE=1 \
			/usr/bin/python3 writer.py "$dropin" "$3"
	fi
}
write_banner file_of_lmdb_1_to_write_is_named \
	'lmdb1.mdb: this is a data file of LMDB 1.0, which lmdbio only reads: open it with MDB_RDONLY' lmdb1.mdb
write_banner container_to_write_is_named 'sound.zst: a container cannot be written to: open it with MDB_RDONLY' sound.zst
cp -r sound broken
printf '\0\0\0\0' | dd of=broken/data.mdb bs=1 seek=16 conv=notrunc 2> /dev/null
told damaged_meta_page_in_stat 2 'broken/data.mdb: it is damaged: lmdbio-check says where' "$tools/lmdbio-stat" broken
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
	chmod 711 "$scratch"
	chmod 755 sound
	chmod 644 sound/data.mdb
	rm -f sound/lock.mdb
	user="setpriv --reuid=65534 --clear-groups"
	# Another user may not be allowed into the build tree of root.
	cp "$dropin" "$core" .
	cp "$reader" reader
	dropin=$scratch/liblmdb.so.0 reader=$scratch/reader
	banner lock_file_that_cannot_be_made_is_named 'sound/lock.mdb: the lock file cannot be used.*MDB_NOLOCK' sound
	chmod 644 writer.py
	chmod 777 sound
	write_banner data_that_cannot_be_written_is_named \
		'sound/data.mdb: it cannot be written to (Permission denied): open it with MDB_RDONLY' sound/data.mdb
	user=
else
	not_run lock_file_that_cannot_be_made_is_named "no second user"
fi
rc=0
LD_PRELOAD=$dropin "$top_builddir/tests/data/db_read" nosuch > out 2>&1 || rc=$?
judge nothing_is_said_unasked sh -c '! grep -q lmdbio: out'
finish
