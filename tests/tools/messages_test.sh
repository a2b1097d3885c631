#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks the messages of all commands about bad input: each names the file or the option, says what to do, and comes
# with the exit status of its kind; none is LMDB's own text for a code.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
tools=$top_builddir/tools
testdb=$top_builddir/tests/data/lmdbio-testdb
need python3 mkfifo
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
cd "$scratch"
python3 "$top_srcdir/tests/tools/formats_make.py" .
"$testdb" --flags=plain,keys3000 sound > /dev/null
"$tools/lmdbio-convert" -q sound/data.mdb sound.zst
mkdir hollow staged piped trunk
mkfifo pipe piped/data.mdb
mkdir -p folder/data.mdb
ln -s loop loop
head -c 5000 sound.zst > cut.zst
head -c 100 sound/data.mdb > trunk/data.mdb
: > said

# is_there COMMAND: whether this build has the command.
is_there() {
	[ -x "$tools/$1" ]
}

# hear COMMAND...: leaves the exit status and the output in heard, as one line.
hear() {
	rc=0
	timeout -k 5 300 "$@" > out 2> err < /dev/null || rc=$?
	cat out err >> said
	echo "$rc $(cat out err | tr '\n' ' ')" > heard
}

# heard NAME PATTERN: one case: the status and the text match.
heard() {
	judge "$1" grep -q -e "$2" heard
	grep -q -e "$2" heard || cat heard
}

# --- a data set that is invalid, for each command that reads one ---
# FILE|STATUS of lmdbio-check|of lmdbio-stat, -dump and -convert|of the others|MESSAGE
cat > inputs <<'INPUTS'
nosuch|2|2|2|nosuch: .*No such file or directory: check the path
nosuch/deeper|2|2|2|nosuch/deeper: .*No such file or directory: check the path
sound/data.mdb/deeper|2|2|2|sound/data.mdb/deeper.*: .*Not a directory: check the path
hollow|2|2|2|hollow: .*this directory holds no data.mdb and no data.mdb.zst: name one that does
pipe|2|2|2|pipe: .*this is a pipe or a device, and no data file: name a file, or its directory
piped|2|2|2|piped/data.mdb: .*this is a pipe or a device, and no data file: name a file, or its directory
/dev/null|2|2|2|/dev/null: .*this is a pipe or a device, and no data file: name a file, or its directory
text.mdb|2|2|2|text.mdb: .*this is no LMDB data file, or nothing is left of its first two pages: check the path
zstd.mdb|2|2|2|zstd.mdb: .*this is compressed by zstd, but no container of lmdbio-convert: decompress it with zstd -d
cut.zst|1|1|2|cut.zst: .*damaged
trunk|1|2|2|trunk.*: .*damaged
sound/data.mdb/|2|2|2|sound/data.mdb/: .*Not a directory: check the path
bits32.mdb|2|2|2|bits32.mdb: .*this is a data file of a 32-bit program: dump it there with mdb_dump, load it here
loop|2|2|2|loop: .*Too many levels of symbolic links: check the path
folder|2|2|2|folder/data.mdb: this is a directory, and no data file: name the directory of one
empty.mdb|2|2|2|empty.mdb: .*this file is empty, no LMDB data file: copy it again
INPUTS
while IFS='|' read -r file in_check in_readers in_others pattern; do
	input=$(echo "$file" | tr -c 'a-z0-9\n' _)
	for command in check stat dump convert stage serve bench; do
		is_there lmdbio-$command || continue
		expected=$in_readers
		case $command in
		check) expected=$in_check ;;
		stage | serve | bench) expected=$in_others ;;
		esac
		set -- "$file"
		case $command in
		convert) set -- -q "$file" made ;;
		stage) set -- --to=staged "$file" ;;
		esac
		hear "$tools/lmdbio-$command" "$@"
		heard "${input}_in_$command" "^$expected .*$pattern"
		[ $command = check ] || judge "${input}_names_lmdbio_$command" grep -q "^lmdbio-$command: " err
		judge "${input}_leaves_nothing_in_$command" test ! -e made
	done
done < inputs

# --- an invalid lock file ---
for kind in directory pipe dangling loop through; do
	mkdir locked
	cp sound/data.mdb locked
	case $kind in
	directory) mkdir locked/lock.mdb
		why='Is a directory' ;;
	pipe) mkfifo locked/lock.mdb
		why='Illegal seek' ;;
	dangling) ln -s nosuch/file locked/lock.mdb
		why='No such file or directory' ;;
	loop) ln -s lock.mdb locked/lock.mdb
		why='Too many levels of symbolic links' ;;
	through) ln -s data.mdb/file locked/lock.mdb
		why='Not a directory' ;;
	esac
	for command in stat dump convert; do
		is_there lmdbio-$command || continue
		set -- locked
		[ $command != convert ] || set -- -q locked made
		hear "$tools/lmdbio-$command" "$@"
		heard "lock_file_that_is_a_${kind}_in_$command" \
			"^2 lmdbio-$command: locked/lock.mdb: the lock file cannot be used ($why): if no program writes"
	done
	rm -r locked
done

# --- a path of more than a thousand bytes ---
long=sound$(printf '/%0250d' 1 2 3 4 5)
for command in stat dump convert; do
	is_there lmdbio-$command || continue
	set -- "$long"
	[ $command != convert ] || set -- -q "$long" made
	hear "$tools/lmdbio-$command" "$@"
	heard "long_path_in_$command" "^2 lmdbio-$command: $long: No such file or directory: check the path"
done

# --- the report page would overwrite the data set ---
if is_there lmdbio-bench; then
	cp -r sound measured
	hear "$tools/lmdbio-bench" --html=measured/data.mdb measured
	heard page_of_bench_over_the_data_set "^2 lmdbio-bench: measured/data.mdb: it is the data set that is read: name another"
	judge page_of_bench_over_the_data_set_keeps_it cmp measured/data.mdb sound/data.mdb
fi

# --- a file that the user may not read ---
if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
	# Another user may not be allowed into the build tree of root.
	chmod 711 "$scratch"
	mkdir closed theirs
	cp sound/data.mdb closed/
	chmod 755 closed
	chmod 600 closed/data.mdb
	chown 65534 theirs
	for command in check stat dump; do
		is_there lmdbio-$command || continue
		cp "$tools/lmdbio-$command" "$core" theirs/
		hear setpriv --reuid=65534 --clear-groups env LD_LIBRARY_PATH=theirs "theirs/lmdbio-$command" closed
		heard "unreadable_in_$command" \
			'^2 .*closed/data.mdb: Permission denied: your user may not do that: ask the file.s owner'
	done
	# Nor may the user look up names in that directory.
	chmod 700 closed
	for command in check stat dump; do
		is_there lmdbio-$command || continue
		hear setpriv --reuid=65534 --clear-groups env LD_LIBRARY_PATH=theirs "theirs/lmdbio-$command" closed/data.mdb
		heard "file_in_a_closed_directory_in_$command" \
			'^2 .*closed/data.mdb: \(unchecked: \)\?Permission denied: your user may not do that: ask the file.s owner'
	done
else
	not_run unreadable "no second user"
fi

# --- a value that an option does not accept, by each command's own table ---
for tool in "$tools"/lmdbio-*; do
	if [ ! -f "$tool" ] || [ ! -x "$tool" ]; then
		continue
	fi
	command=${tool##*/}
	"$tool" --table-of-options > table
	awk -F'\t' '$1 == "option" && $3 != "" && $4 != "" { print $3, $4 }' table > taking
	checked=0
	while read -r long argument; do
		case $argument in
		SIZE | RATE | \[SIZE\]) bad=12Q wants='a size\|auto, a size' ;;
		N | US | PART | \[N\] | \[SECONDS\]) bad=-7 wants='a number' ;;
		*[A-Z]*) continue ;;
		*) bad=nonsense wants='.*' ;;
		esac
		checked=$((checked + 1))
		operand=sound
		[ "$command" != lmdbio-run ] || operand=true
		hear "$tool" "--$long=$bad" $operand
		heard "${command}_${long}_refuses_$bad" "^2 $command: .*$long.*'$bad'"
		judge "${command}_${long}_says_what_it_wants" grep -q "wants \($wants\)\|takes nothing or =" err
		judge "${command}_${long}_leads_to_help" grep -q "^Try '$command --help' for more information" err
	done < taking
	echo "-- $command: $checked options with a bad value, of $(wc -l < taking) that take one"
done
judge variable_with_a_bad_value_only_warns sh -c \
	"LMDBIO_IO=nonsense '$tools/lmdbio-stat' sound > out 2> err && grep -q 'LMDBIO_IO=nonsense: wants auto, pread or direct, the default is used' err"
for size in 1M 1m 1MiB 1024k 1024KiB 1048576; do
	hear "$tools/lmdbio-convert" -q -f "--chunk-size=$size" sound made.zst
	[ -e one.zst ] || cp made.zst one.zst
	judge "size_${size}_is_the_same" cmp made.zst one.zst
done
hear "$tools/lmdbio-convert" -q -f --chunk-size=1MB sound made.zst
heard size_in_steps_of_1000_is_another "^2 .*power of two .*'1MB'"

# --- other input files of the commands ---
# A leaf page ends with the value of its first record; a file that is laid out anew has no free list.
"$tools/lmdbio-convert" -q --relayout --to=lmdb sound changed
cp changed/data.mdb unchanged.mdb
python3 - <<'END'
data = bytearray(open("changed/data.mdb", "rb").read())
for page in range(8192, len(data), 4096):
    if data[page + 10] & 2:
        data[page + 4095] ^= 0xff
open("changed/data.mdb", "wb").write(data)
END
judge values_are_changed sh -c '! cmp -s unchanged.mdb changed/data.mdb'
mkdir tree
echo text > tree/file
ln -s "$(command -v env)" program
printf 'file 1\nfile 2\n' > twice
truncate -s 524289 vast
"$testdb" --flags=plain,keys10 slight > /dev/null
mkdir tree.mdb
mkdir 'a place'
cp "$dropin" 'a place/liblmdb.so.0'
ln -s 'a place/liblmdb.so.0' PLACE
"$testdb" --flags=plain other_set > /dev/null
"$testdb" --flags=plain,keys30000 plenty > /dev/null
echo 'print()' > train.py
ln -s "$(ldd "$tools/lmdbio-convert" | awk '/libzstd/ { print $3 }')" other
ln -s "$(ldd "$tools/quickstart_reader" | awk '/liblmdb/ { print $3 }')" original
# NAME|STATUS|MESSAGE|COMMAND LINE
cat > lines <<'LINES'
staging_to_a_missing_directory|2|^lmdbio-stage: missing: No such file or directory (rank 0): make the directory on each node, or name another with --to|lmdbio-stage --to=missing sound
staging_parts_to_a_missing_directory|2|^lmdbio-stage: missing: No such file .*make the directory|lmdbio-stage --tier=ssd --to=missing sound
staging_to_a_file|2|^lmdbio-stage: text.mdb: Not a directory .*name another with --to|lmdbio-stage --to=text.mdb sound
staging_to_nowhere|2|^lmdbio-stage: --to wants a directory|lmdbio-stage --to= sound
staging_without_a_target|2|one of --to=DIR, --hold, --tier and --measure is wanted|lmdbio-stage sound
holding_without_effect|0|^lmdbio-stage: sound: what is held in memory has no effect: programs read this data set through the page cache (.*); with LMDBIO_STORE=arena|lmdbio-stage --hold sound -- true
holding_a_small_file_without_effect|0|has no effect: .*(it is smaller than 1 MiB)|env LMDBIO_STORE=auto lmdbio-stage --hold sound -- true
missing_program_of_a_staging|127|^lmdbio-stage: nosuch: No such file or directory: check its name|lmdbio-stage --hold sound -- nosuch
program_of_a_staging_that_is_a_script_here|127|^lmdbio-stage: train.py: No such file or directory: it is here, and not in PATH: start it as .*(python3 SCRIPT)|lmdbio-stage --hold sound -- train.py
holding_too_much|2|^lmdbio-stage: plenty: Cannot allocate memory (rank 0): it does not fit into its node's memory or --memory|lmdbio-stage --hold --memory=1M plenty -- true
missing_program|127|^lmdbio-run: nosuch: No such file or directory: check its name|lmdbio-run nosuch
program_that_is_a_script_here|127|^lmdbio-run: train.py: No such file or directory: it is here, and not in PATH: start it as .*(python3 SCRIPT)|lmdbio-run train.py
check_of_a_missing_program|1|^nosuch: does not take effect: No such file or directory: check its name|lmdbio-run --check nosuch
program_that_is_none|126|^lmdbio-run: ./text.mdb: Permission denied: is it executable|lmdbio-run ./text.mdb
no_program|2|^lmdbio-run: no PROGRAM is given|lmdbio-run
missing_library|2|^lmdbio-run: nosuch.so: No such file or directory: --library names another|lmdbio-run --library=nosuch.so true
lmdb_1_that_is_text|2|^lmdbio-run: text.mdb: this is no library: --lmdb1 names another|lmdbio-run --lmdb1=text.mdb true
lmdb_1_that_is_a_program|2|^lmdbio-run: /bin/sh: this is a program, no library: --lmdb1 names another|lmdbio-run --lmdb1=/bin/sh --print-env
library_that_is_text|2|^lmdbio-run: text.mdb: this is no library: --library names another|lmdbio-run --library=text.mdb true
library_that_is_empty|2|^lmdbio-run: empty.mdb: this is no library: --library|lmdbio-run --library=empty.mdb true
library_that_is_a_directory|2|^lmdbio-run: tree: this is no library: --library|lmdbio-run --library=tree true
library_that_is_a_pipe|2|^lmdbio-run: pipe: this is no library: --library|lmdbio-run --library=pipe true
library_that_is_a_program|2|^lmdbio-run: .*: this is a program, no library: --library|lmdbio-run --library=program true
library_of_another_name|2|^lmdbio-run: .*: this is another library than lmdbio's liblmdb.so.0: --library|lmdbio-run --library=other true
library_that_is_the_original|2|^lmdbio-run: .*: this is the original LMDB, and not lmdbio: --library|lmdbio-run --library=original true
missing_staged_directory|2|^lmdbio-run: --staged wants a directory that is there, not 'nosuch'|lmdbio-run --staged=nosuch true
missing_staged_directory_of_a_server|2|^lmdbio-serve: --staged wants a directory that is there, not 'nosuch'|lmdbio-serve --staged=nosuch
no_server_to_ask|1|^lmdbio-serve: no server of yours on this node.*; mpiexec lmdbio-serve starts one|lmdbio-serve --node=no-such-server --status
no_server_to_stop|1|^lmdbio-serve: no server of yours on this node.*; mpiexec lmdbio-serve starts one|lmdbio-serve --node=no-such-server --stop
missing_database|2|^lmdbio-stat: sound: no database 'other': lmdbio-dump -l lists them|lmdbio-stat -s other sound
record_in_place_of_a_database|2|^lmdbio-stat: sound: '000000' is a record, no database: lmdbio-dump -l lists them|lmdbio-stat -s 000000 sound
dump_of_a_record_as_a_database|2|^lmdbio-dump: sound: '000000' is a record, no database: lmdbio-dump -l lists them|lmdbio-dump -s 000000 sound
bench_of_a_record_as_a_database|2|^lmdbio-bench: sound: '000000' is a record, no database: lmdbio-dump -l lists them|lmdbio-bench --db=000000 sound
chunks_of_a_data_file|2|^lmdbio-stat: sound: --chunks is for containers, which lmdbio-convert makes|lmdbio-stat --chunks sound
output_in_a_missing_directory|2|^lmdbio-dump: nosuch/file: No such file or directory: make its directory, or name another file|lmdbio-dump -f nosuch/file sound
page_without_a_name|2|^lmdbio-bench: : No such file or directory: name a file|lmdbio-bench --html= sound
page_in_place_of_a_directory|2|^lmdbio-bench: tree: Is a directory: name a file in it|lmdbio-bench --html=tree sound
directory_as_a_file|2|^sound: unchecked: Is a directory: name a file|lmdbio-check -n sound
missing_dictionary|2|^lmdbio-convert: nosuch: No such file or directory: check the path|lmdbio-convert -q -D nosuch sound made
dictionary_that_is_empty|2|^lmdbio-convert: empty.mdb: a dictionary has 8 bytes to 512 KiB|lmdbio-convert -q -D empty.mdb sound made
dictionary_that_is_too_large|2|^lmdbio-convert: vast: a dictionary has 8 bytes to 512 KiB|lmdbio-convert -q -D vast sound made
dictionary_of_hardly_any_data|2|^lmdbio-convert: .*: no dictionary can be trained on this data: convert it without --train-dictionary|lmdbio-convert -q --train-dictionary slight made
directory_of_no_file|2|^lmdbio-convert: hollow: .*; --from=tree imports it as it is|lmdbio-convert -q hollow made
labels_with_a_file_twice|2|^lmdbio-convert: twice: 'file' has two labels: keep one of them|lmdbio-convert -q --labels=twice tree made
directory_in_place_of_the_target|2|^lmdbio-convert: tree.mdb: it exists and is no regular file: name another target|lmdbio-convert -q -f --no-subdir sound/data.mdb tree.mdb
missing_labels|2|^lmdbio-convert: nosuch: No such file or directory: check the path|lmdbio-convert -q --labels=nosuch tree made
missing_root|2|^lmdbio-convert: nosuch: No such file or directory: check the path|lmdbio-convert -q --root=nosuch --from=caffe tree/file made
missing_list|2|^lmdbio-convert: nosuch: No such file or directory: check the path|lmdbio-convert -q @nosuch made
list_that_is_none|2|^lmdbio-convert: tree/file: line 1: a path and a whole number are wanted|lmdbio-convert -q --from=caffe tree/file made
target_that_is_there|2|^lmdbio-convert: sound.zst: it exists; -f overwrites it|lmdbio-convert -q sound sound.zst
no_target|2|^lmdbio-convert: no TARGET is given|lmdbio-convert sound
library_at_a_path_with_a_space|2|^lmdbio-run: .*/a place/liblmdb.so.0: LD_PRELOAD cannot hold a path with a space, .*: move the library|lmdbio-run --library=PLACE true
bench_beside_another_container|2|^lmdbio-bench: sound.zst: the original cannot read a container: --raw takes a data set of LMDB 0.9|lmdbio-bench --seconds=1 --raw=sound.zst sound.zst
bench_of_a_container_of_another_source|2|^lmdbio-bench: .*: it has other records than .*: --raw takes the same data|lmdbio-bench --seconds=1 --raw=other_set sound.zst
top_without_a_terminal|2|^lmdbio-top: standard input and output are no terminal; --batch prints plain text|lmdbio-top
missing_preset|2|^lmdbio-sim: there is no preset 'nosuch': --list tells them|lmdbio-sim --preset=nosuch
intact_data_file|0|^sound: structure intact; LMDB has no checksums$|lmdbio-check sound
data_file_of_changed_values|0|^changed: structure intact; LMDB has no checksums$|lmdbio-check changed
intact_container|0|^sound.zst: intact: every byte is verified by its checksum$|lmdbio-check sound.zst
LINES
while IFS='|' read -r name_of expected pattern line; do
	# shellcheck disable=SC2086
	set -- $line
	[ "$1" = env ] || is_there "$1" || continue
	hear env "PATH=$tools:$PATH" "$@"
	judge "${name_of}_ends_with_$expected" test $rc -eq "$expected"
	judge "${name_of}_is_said" grep -qhe "$pattern" out err
	grep -qhe "$pattern" out err || cat heard
done < lines

# --- a target without room ---
if is_there lmdbio-stage && [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
	mkdir full
	# shellcheck disable=SC2016
	hear unshare -m sh -c 'mount -t tmpfs -o size=32k none full && exec "$@"' - "$tools/lmdbio-stage" --to=full sound
	heard staging_to_a_full_directory \
		'^2 lmdbio-stage: full: No space left on device (rank 0): make room in that directory, or name another with --to'
else
	not_run staging_to_a_full_directory "no mount namespaces"
fi

if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
	mkdir -p full fixed
	# shellcheck disable=SC2016
	hear unshare -m sh -c 'mount -t tmpfs -o size=32k none full && exec "$@"' - "$tools/lmdbio-convert" -q sound full/made.zst
	heard converting_to_a_full_directory \
		'^2 lmdbio-convert: full/made.zst: No space left on device: make room, or name another place'
	# shellcheck disable=SC2016
	hear unshare -m sh -c 'mount -t tmpfs -o ro none fixed && exec "$@"' - "$tools/lmdbio-convert" -q sound fixed/made.zst
	heard converting_to_what_is_read_only \
		'^2 lmdbio-convert: fixed/made.zst: Read-only file system: name another place'
	# shellcheck disable=SC2016
	hear unshare -m sh -c 'mount -t tmpfs -o ro none fixed && exec "$@"' - "$tools/lmdbio-dump" -f fixed/made sound
	heard dumping_to_what_is_read_only \
		'^2 lmdbio-dump: fixed/made: Read-only file system: name another place'
fi
limited='ulimit -f or the file system allows no file of this length'
# shellcheck disable=SC2016
hear sh -c 'ulimit -f 16 && exec "$@"' - "$tools/lmdbio-convert" -q --to=lmdb sound limited.mdb
heard converting_beyond_the_limit_of_files "^2 lmdbio-convert: limited.mdb: File too large: $limited"
# shellcheck disable=SC2016
hear sh -c 'ulimit -f 16 && exec "$@"' - "$tools/lmdbio-dump" -f limited.dump sound
heard dumping_beyond_the_limit_of_files "^2 lmdbio-dump: limited.dump: File too large: $limited"
if is_there lmdbio-stage; then
	# MPI's own files need 4 MiB each.
	truncate -s 64M long.mdb
	dd if=sound/data.mdb of=long.mdb conv=notrunc 2> /dev/null
	# shellcheck disable=SC2016
	hear sh -c 'ulimit -f 32768 && exec "$@"' - "$tools/lmdbio-stage" --to=staged long.mdb
	heard staging_beyond_the_limit_of_files "^2 lmdbio-stage: staged: File too large (rank 0): $limited, or name another with --to"
fi
# shellcheck disable=SC2016
hear sh -c 'ulimit -n 8 && exec "$@"' - "$tools/lmdbio-convert" -q sound made.few.zst
heard converting_with_too_few_descriptors '^2 lmdbio-convert: .*Too many open files: ulimit -n allows too few'

# --- operands and options that exclude each other ---
# MESSAGE|COMMAND LINE
cat > excluding <<'EXCLUDING'
--check and --print-env exclude each other|lmdbio-run --check --print-env
--mpi starts a server beside the program, which --print-env cannot: .*--mpi=inside|lmdbio-run --mpi --print-env
--print-env runs nothing: leave 'true' out|lmdbio-run --print-env true
--memory wants a value|lmdbio-run --memory= true
--node wants a value|lmdbio-serve --node= --status
no SOURCE is given|lmdbio-convert
no SOURCE is given|lmdbio-convert @/dev/null made
a target is a file, not standard output: name one (./- if it is called so)|lmdbio-convert sound -
a target is a file, not standard output|lmdbio-convert -o - sound
a source has a name: that of standard input is /dev/stdin, of a file that is called - it is ./-|lmdbio-convert - made
a source has a name|lmdbio-convert --from=tar - made
level 22 needs --ultra|lmdbio-convert -22 sound made
--threads wants a number from 0 to 200, not '-1'|lmdbio-convert -T -1 sound made
--max-value wants a size such as 4096, .*, not '-64k'|lmdbio-convert --max-v -64k sound made
-D and --train-dictionary exclude each other|lmdbio-convert -D text.mdb --train-dictionary sound made
only tar archives may be several sources|lmdbio-convert sound tree made
--labels is for directory trees and tar archives|lmdbio-convert --labels=text.mdb sound made
--caffe is for directory trees, tar archives and image lists|lmdbio-convert --caffe sound made
--root is for image lists|lmdbio-convert --root=tree sound made
--rm removes LMDB files and containers alone|lmdbio-convert --rm tree made
--chunk-size wants a power of two from 64k to 64M, not '3000'|lmdbio-convert --chunk-size=3000 sound made
--train-dictionary wants 1K to 512K, not '1G'|lmdbio-convert --train-dictionary=1G sound made
--train-dictionary wants 1K to 512K, not '513K'|lmdbio-convert --train-dictionary=513K sound made
--max-value wants a size up to 2G, not '3G'|lmdbio-convert --max-value=3G sound made
one path is wanted|lmdbio-check
one path is wanted|lmdbio-check sound tree
--all and --list exclude --subdb|lmdbio-dump -a -s name sound
one data set is wanted|lmdbio-dump
--all and --subdb exclude each other|lmdbio-stat -a -s name sound
one data set is wanted|lmdbio-stat
--status and --stop exclude each other|lmdbio-serve --status --stop
--status and --stop take no paths|lmdbio-serve --stop sound
no data set is given|lmdbio-stage --hold
--reader wants posix, mpiio or collective, not 'other'|lmdbio-stage --reader=other --hold sound
--tier wants ssd or memory, not 'other'|lmdbio-stage --tier=other sound
--tier is instead of --hold, --shared and --measure|lmdbio-stage --tier=ssd --hold sound
--tier=ssd wants --to=DIR|lmdbio-stage --tier=ssd sound
--tier=ssd is read by posix alone|lmdbio-stage --tier=ssd --to=staged --reader=mpiio sound
parts are read by the servers of a job: lmdbio-run --mpi --staged=staged -- true|lmdbio-stage --tier=ssd --to=staged sound -- true
with --tier=memory the nodes' servers read: --to, .* say nothing|lmdbio-stage --tier=memory --to=staged sound
--buffer wants 64k to 1G|lmdbio-stage --to=staged --buffer=1K sound
--shared is about --to=DIR|lmdbio-stage --shared --hold sound
--measure leaves nothing for a program|lmdbio-stage --measure sound -- true
a collective reader cannot be staggered|lmdbio-stage --to=staged --reader=collective --stagger=2 sound
--processes takes at most [0-9]* numbers|lmdbio-bench --processes=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 sound
--bytes wants more than nothing|lmdbio-bench --bytes=0 sound
--delay wants seconds from 0.1 to [0-9]*, not '0'|lmdbio-top --delay=0
--sort wants storage, .*, not 'other'|lmdbio-top --sort=other
no operand is wanted, such as 'sound'|lmdbio-top sound
--looks wants --batch|lmdbio-top --looks=1
no FILE is given; give files that|lmdbio-report
EXCLUDING
row=0
while IFS='|' read -r pattern line; do
	row=$((row + 1))
	# shellcheck disable=SC2086
	set -- $line
	is_there "$1" || continue
	hear env "PATH=$tools:$PATH" "$@"
	judge "row_${row}_of_excluding_ends_with_2" test $rc -eq 2
	judge "row_${row}_of_excluding_is_said" grep -q -e "^$1: $pattern" err
	grep -q -e "^$1: $pattern" err || cat heard
	judge "row_${row}_of_excluding_leads_to_help" grep -q "^Try '$1 --help' for more information" err
done < excluding
judge nothing_was_made test ! -e made

# --- processes of a launcher that MPI does not know as one job ---
# NAME|PATTERN, or empty if nothing is printed|VARIABLES
if is_there lmdbio-serve; then
	cat > launched <<'LAUNCHED'
tasks_without_a_pmi|Slurm has started 4 tasks (--mpi=none), which MPICH cannot make one job: each works for itself; start them with srun --mpi=pmi2$|SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0
tasks_with_another_pmi|Slurm has started 4 tasks (--mpi=pmix), which .*; start them with srun --mpi=pmi2$|SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_MPI_TYPE=pmix
processes_of_open_mpi|Open MPI has started 2 processes, which MPICH cannot make one job: each works for itself; start them with MPICH's mpiexec$|OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0
processes_of_open_mpi_below_slurm|Open MPI has started 4 processes|OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1
second_task||SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1
task_alone||SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0
batch_script||SLURM_NTASKS=4 SLURM_PROCID=0
process_below_lmdbio_run||SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 PMI_RANK=0 PMI_SIZE=4
LAUNCHED
	# served COMMAND...: starts a server, and stops it as soon as it answers.
	served() {
		timeout -k 5 300 "$@" &
		server=$!
		until LMDBIO_NODE=$scratch "$tools/lmdbio-serve" --stop > stopped 2>&1; do
			kill -0 $server 2> stopped || break
			sleep 0.05
		done
		wait $server
	}
	rc=0
	served env LMDBIO_NODE="$scratch" LMDBIO_STORE=auto "$tools/lmdbio-serve" sound > out 2> err < /dev/null || rc=$?
	judge server_without_effect_ends_well test $rc -eq 0
	judge server_without_effect_is_told grep -q '^lmdbio-serve: sound: what the server keeps has no effect: .*(it is smaller than 1 MiB); with LMDBIO_STORE=arena they read what the server keeps$' err
	while IFS='|' read -r name_of pattern variables; do
		for command in run stage convert serve; do
			case $command in
			run) set -- lmdbio-run --mpi true ;;
			stage) set -- lmdbio-stage --measure sound ;;
			convert) set -- lmdbio-convert -qf sound launched.zst ;;
			serve) set -- lmdbio-serve sound ;;
			esac
			# `true` is not linked with the sanitizer.
			# shellcheck disable=SC2086
			set -- env LMDBIO_NODE="$scratch" "PATH=$tools:$PATH" $variables \
				ASAN_OPTIONS="verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}" "$@"
			if [ $command = serve ]; then
				rc=0
				served "$@" > out 2> err < /dev/null || rc=$?
				cat out err >> said
			else
				hear "$@"
			fi
			judge "${name_of}_end_well_in_$command" test $rc -eq 0
			if [ -n "$pattern" ]; then
				judge "${name_of}_are_told_in_$command" grep -q "^lmdbio-$command: $pattern" err
			else
				judge "${name_of}_is_not_told_in_$command" sh -c '! grep "works for itself" err'
			fi
		done
	done < launched

	# --- a module with MPI that does not belong to the command ---
	mkdir -p moved/tools moved/compat/.libs
	cp "$dropin" "$core" moved/compat/.libs/
	for command in run serve stage; do
		cp "$tools/lmdbio-$command" moved/tools/
	done
	for kind in text zstd; do
		case $kind in
		text) file=text.mdb wants='no MPI: .*liblmdbio-mpi.so.0: ' ;;
		zstd) file=other wants='.*/liblmdbio-mpi.so.0 is of another release of lmdbio' ;;
		esac
		cp "$file" moved/compat/.libs/liblmdbio-mpi.so.0
		hear env LD_LIBRARY_PATH=moved/compat/.libs moved/tools/lmdbio-serve sound
		heard "module_of_${kind}_in_serve" "^2 lmdbio-serve: $wants"
		hear env LD_LIBRARY_PATH=moved/compat/.libs moved/tools/lmdbio-stage --measure sound
		heard "module_of_${kind}_in_stage" "^2 lmdbio-stage: $wants"
		hear env LD_LIBRARY_PATH=moved/compat/.libs moved/tools/lmdbio-run --mpi=inside true
		heard "module_of_${kind}_in_run" "^2 lmdbio-run: $wants"
	done
fi

# --- an answer that cannot be printed ---
if [ -c /dev/full ]; then
	while read -r option program; do
		rc=0
		"$tools/lmdbio-run" "$option" ${program:+"$program"} > /dev/full 2> err || rc=$?
		judge "run${option}_on_a_full_disk_ends_with_2" test $rc -eq 2
		judge "run${option}_on_a_full_disk_is_said" grep -q '^lmdbio-run: standard output: No space left.*: make room' err
	done <<'OPTIONS'
--print-env
--check true
OPTIONS
fi

# --- standard files that the caller has closed: the data set must not get their numbers either ---
for command in check stat dump bench; do
	is_there lmdbio-$command || continue
	if [ $command = bench ] && [ "${with_sanitizer:-no}" != no ]; then
		not_run closed_output_of_bench "its readers do not load a sanitized library"
		continue
	fi
	set -- "$tools/lmdbio-$command" sound
	[ $command != bench ] || set -- "$tools/lmdbio-$command" --seconds=1 --pairs=1 --only='warm, scan, 1 process' sound
	rc=0
	"$@" < /dev/null 2> err >&- || rc=$?
	judge "closed_output_of_${command}_ends_with_2" test $rc -eq 2
	judge "closed_output_of_${command}_is_said" grep -q "^lmdbio-$command: standard output: Bad file descriptor" err
	rc=0
	"$@" <&- >&- 2>&- || rc=$?
	judge "closed_files_of_${command}_end_it_with_2" test $rc -eq 2
	judge "closed_files_of_${command}_leave_the_data_set" sh -c '! grep -q "structure\|standard output" sound/*'
done

# --- a value that a line of a batch script cannot hold ---
rc=0
"$tools/lmdbio-run" --print-env '--stats=two words' > out 2> err || rc=$?
judge blank_in_print_env_ends_with_2 test $rc -eq 2 -a ! -s out
judge blank_in_print_env_names_the_option grep -q \
	'^lmdbio-run: --stats=two words: a line of a batch script cannot hold a value with blanks: give one without' err

for word in "a;b" 'a$b' 'a*' "a'b" 'a"b' 'a\b' '~a' 'a&b'; do
	rc=0
	"$tools/lmdbio-run" --print-env "--node=$word" > out 2> err || rc=$?
	judge "word_${word}_in_print_env_ends_with_2" test $rc -eq 2 -a ! -s out
	judge "word_${word}_in_print_env_is_said" grep -qF "lmdbio-run: --node=$word: a line of a batch script cannot hold" err
done

# --- texts that no message has ---
for text in 'mdb_env_open failed' 'Located page was wrong type' 'MDB_[A-Z_]*: ' 'Invalid argument' 'error [0-9]'; do
	judge "no_message_has_$(echo "$text" | tr -c 'A-Za-z\n' _)" test "$(grep -c -e "$text" said)" -eq 0
done
judge messages_were_read test "$(wc -l < said)" -gt 150
finish
