#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio-dump writes byte for byte what mdb_dump writes, for every kind of database and every option, and
# that it reports damage about which mdb_dump is silent.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
testdb=$top_builddir/tests/data/lmdbio-testdb
tool=$top_builddir/tools/lmdbio-dump
need mdb_dump mdb_load
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
cd "$scratch"
beside mdb_dump "$tool"

# Where mdb_dump fails, lmdbio-dump reports it in its own words and ends with 2.
both_prepare() {
	if grep -qx 'exit 1' theirs.err && grep -q '^lmdbio-dump: db: ' ours.err && grep -qx 'exit 2' ours.err; then
		cp theirs.err ours.err
	fi
}

# --- random databases, every option ---
count=21
[ -z "${TESTS_LONG:-}" ] || count=315
n=0
while [ $n -lt $count ]; do
	rm -rf db
	"$testdb" --seed=23 --number=$n db > made
	line=$(head -n 1 made)
	sub=$(sed -n 's/^\([^ (:]*\): [0-9]* entries.*/\1/p' made | head -n 1)
	for options in '' -p -a -ap -l -la; do
		agree ${options:+"$options"} db
	done
	[ -z "$sub" ] || agree -s "$sub" db
	[ -z "$sub" ] || agree -p -s "$sub" db
	agree -n db/data.mdb
	rm -f db/data.mdb-lock
	n=$((n + stride))
done
echo "$compared outputs compared"
judge dump_of_random_databases_is_the_originals test $differences -eq 0 -a $compared -ge $((count * 7 / stride))

# --- usage and errors ---
"$testdb" --flags=named,keys50 db2 > /dev/null
told dump_without_arguments_is_wrong_usage 2 'one data set is wanted' "$tool"
told dump_unknown_letter_is_wrong_usage 2 "invalid option -- 'x'" "$tool" -x db2
told dump_missing_argument_is_wrong_usage 2 'requires an argument' "$tool" -s
told dump_two_paths_are_wrong_usage 2 'one data set is wanted' "$tool" db2 db2
told dump_all_and_subdb_are_wrong_usage 2 'exclude' "$tool" -a -s named db2
told dump_subdb_and_list_are_wrong_usage 2 'exclude' "$tool" -s named -l db2
told dump_missing_subdb_is_named 2 "^lmdbio-dump: db2: no database 'nosuch': lmdbio-dump -l lists them" "$tool" -s nosuch db2
told dump_missing_directory_is_named 2 '^lmdbio-dump: nosuch: No such file' "$tool" nosuch
told dump_version_is_ours 0 '^lmdbio-dump (lmdbio) [0-9]' "$tool" -V
told dump_output_not_writable_is_named 2 '^lmdbio-dump: /no/such/file: No such file' "$tool" -f /no/such/file db2
"$testdb" --flags=plain,keys5 plain > /dev/null
both_same dump_all_of_plain_values_same -a plain
mkdir none && printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\nDATA=END\n' | mdb_load none
told dump_all_of_nothing_says_what_to_do 2 '^lmdbio-dump: none: it has no named databases: without -a' "$tool" -a none
mdb_dump -f theirs.file -a db2
"$tool" -f ours.file -a db2
same dump_into_a_file_same theirs.file ours.file
# --- into a file: complete, or absent ---
echo before > kept
chmod 640 kept
told dump_of_nothing_leaves_the_file 2 'nosuch' "$tool" -f kept nosuch
judge dump_of_nothing_keeps_what_was_there test "$(cat kept)" = before
"$tool" -f kept -a db2
same dump_over_a_file_same theirs.file kept
cp -r db2 read
ln read/data.mdb read/second
ln -s data.mdb read/link
for output in data.mdb second link; do
	told "dump_over_the_data_set_by_${output}_is_refused" 2 'it is the data set that is read: name another file' \
		"$tool" -f "read/$output" read
	judge "dump_over_the_data_set_by_${output}_keeps_it" cmp read/data.mdb db2/data.mdb
done
cp read/data.mdb single.mdb
"$tool" read > /dev/null
"$tool" -n single.mdb > /dev/null
for output in read/lock.mdb single.mdb-lock; do
	told "dump_over_${output}_is_refused" 2 'it is the lock file of the data set that is read: name another file' \
		"$tool" -f "$output" "${output%[/-]lock*}"
	judge "dump_over_${output}_keeps_it" test "$(wc -c < "$output")" -eq 8192
done
judge dump_over_a_file_keeps_its_mode test "$(stat -c %a kept)" = 640
judge dump_into_a_file_leaves_nothing_beside_it test -z "$(find . -name '.*lmdbio-partial')"
# Without a standard stream: the output file must not become one.
"$tool" -f kept -a db2 <&- >&- 2>&-
same dump_into_a_file_without_streams_is_the_same theirs.file kept
rc=0
"$tool" -f kept db2 >&- 2> err || rc=$?
judge dump_into_a_file_with_closed_output_ends_well test $rc -eq 0
judge dump_into_a_file_with_closed_output_leaves_nothing_beside_it test ! -e .kept.lmdbio-partial
status dump_into_a_closed_output_fails 2 sh -c 'exec "$@" >&-' - "$tool" db2
says dump_into_a_closed_output_is_told 'standard output: Bad file descriptor'
# Another command is writing the partial file and holds its lock; and a command that was killed.
echo theirs > .ours.file.lmdbio-partial
exec 9< .ours.file.lmdbio-partial
flock 9
told dump_into_a_file_that_another_command_writes_is_refused 2 '^lmdbio-dump: ours.file: another command is writing it' \
	"$tool" -f ours.file db2
judge dump_into_a_file_that_another_command_writes_leaves_it test "$(cat .ours.file.lmdbio-partial)" = theirs
exec 9<&-
"$tool" -f ours.file -a db2
same dump_into_a_file_after_a_killed_one_is_right theirs.file ours.file
judge dump_into_a_file_after_a_killed_one_leaves_nothing_beside_it test ! -e .ours.file.lmdbio-partial
told dump_into_a_full_device_names_it 2 '^lmdbio-dump: /dev/full: No space left' "$tool" -f /dev/full -a db2
"$tool" -a -f /dev/stdout db2 > through
same dump_into_a_device_same theirs.file through
"$tool" -a -f /dev/stdout db2 | cat > piped
same dump_into_a_pipe_by_its_name_same theirs.file piped
ln -s later dangling
"$tool" -f dangling -a db2
judge dump_into_a_link_to_nothing_keeps_it test -L dangling
same dump_into_a_link_to_nothing_makes_its_target theirs.file later
ln -s kept link
"$tool" -f link -a db2
judge dump_into_a_link_follows_it test -L link
"$testdb" --flags=plain,mixed,keys300 plenty > /dev/null
if [ "$(id -u)" -eq 0 ] && mkdir full && mount -t tmpfs -o size=16k none full 2> /dev/null; then
	told dump_to_a_full_disk_names_the_file 2 '^lmdbio-dump: full/out: No space left' "$tool" -f full/out plenty
	left=$(find full -type f)
	umount full
	judge dump_to_a_full_disk_leaves_nothing test -z "$left"
else
	not_run dump_to_a_full_disk_names_the_file "no mount here"
fi

# --- long names ---
mdb_dump -ap db2 > expected
"$tool" --all --print db2 > found
same dump_long_all_print expected found
mdb_dump -l db2 > expected
"$tool" --list db2 > found
same dump_long_list expected found
mdb_dump -s named db2 > expected
"$tool" --subdb=named --output=found db2
same dump_long_subdb_output expected found
"$tool" --no-subdir -s named db2/data.mdb > found
same dump_long_no_subdir expected found
"$tool" -s named db2/data.mdb > found
same dump_of_the_file_itself_needs_no_option expected found
mv db2/data.mdb db2.mdb
"$tool" --no-lock -s named db2.mdb > found
same dump_of_a_file_elsewhere expected found
judge dump_no_lock_makes_no_lock_file test ! -e db2.mdb-lock

# --- there and back ---
mkdir back theirs
"$testdb" --flags=named,dupsort,keys30,dups200 dups > /dev/null
"$tool" -a dups > dumped
mdb_load -f dumped back 2> /dev/null # mdb_load does not know two words of mdb_dump's header
mdb_dump -a back > again
# Since 0.9.28 mdb_load forgets the flags of a dump's first database, also of a dump by mdb_dump.
mdb_dump -a dups | mdb_load theirs 2> /dev/null
mdb_dump -a theirs > expected
same dump_loaded_again_is_what_mdb_dumps_is expected again

# --- containers ---
convert=$top_builddir/tools/lmdbio-convert
if [ -x "$convert" ]; then
	mkdir packed
	"$convert" -q dups/data.mdb packed/data.mdb.zst
	"$tool" -a packed > found
	same dump_of_a_container_is_the_same dumped found
else
	not_run dump_of_a_container_is_the_same "no lmdbio-convert in this build"
fi

# --- what can still be read of a damaged file ---
"$testdb" --flags=named,mixed,dupsort,keys300,dups900 wrecked > /dev/null
"$tool" -a wrecked > whole
"$tool" --salvage -a wrecked > found
same salvage_of_a_sound_file_is_the_whole whole found
"$tool" --salvage wrecked > found
"$tool" wrecked > expected
same salvage_of_a_sound_main_database_is_the_whole expected found
"$tool" --salvage -l wrecked > found
"$tool" -l wrecked > expected
same salvage_lists_the_databases expected found
told salvage_of_a_missing_database_is_named 2 'there is no database nosuch' "$tool" --salvage -s nosuch wrecked
# Damages every page's own number, which the original never checks.
size=$(wc -c < wrecked/data.mdb)
at=2
while [ $at -lt $((size / 4096)) ]; do
	printf '\377' | dd of=wrecked/data.mdb bs=1 seek=$((at * 4096 + 7)) conv=notrunc 2> /dev/null
	at=$((at + 1))
done
mdb_dump -a wrecked > expected
told page_of_another_number_is_damage 1 'damaged: lmdbio-check says where' "$tool" -a wrecked
rc=0
"$tool" --salvage -f found -a wrecked 2> err || rc=$?
same salvage_reads_what_the_original_reads expected found
judge salvage_of_damage_ends_with_1 test $rc -eq 1
judge salvage_tells_of_the_pages grep -q 'calls itself page' err
judge salvage_bounds_what_it_tells test "$(wc -l < err)" -le 101
[ ! -x "$top_builddir/tools/lmdbio-check" ] ||
	told check_names_a_page_of_another_number 1 'calls itself page .*lmdbio-dump --salvage reads it' \
		"$top_builddir/tools/lmdbio-check" wrecked

# --- damage that mdb_dump does not notice ---
"$testdb" --flags=plain,keys3000 broken > /dev/null
"$tool" broken > whole
# The second leaf in key order: the second child of the root, or further down below branch pages.
"$top_builddir/tools/lmdbio-dump" broken | head -n 2000 > /dev/null || true
size=$(wc -c < broken/data.mdb)
dd if=/dev/zero of=broken/data.mdb bs=4096 seek=$((size / 4096 / 2)) count=1 conv=notrunc 2>/dev/null
rc=0
"$tool" broken > found 2> err || rc=$?
judge dump_of_damage_fails test $rc -eq 1
judge dump_of_damage_says_so grep -q '^lmdbio-dump: broken: it is damaged: lmdbio-check' err
judge dump_of_damage_has_no_end_mark sh -c '! grep -q DATA=END found'
told dump_of_damage_into_a_file_fails 1 'damaged' "$tool" -f half broken
judge dump_of_damage_leaves_no_file test ! -e half
rc=0
"$tool" --salvage broken > found 2> err || rc=$?
judge salvage_leaves_out_what_is_lost test $rc -eq 1
judge salvage_goes_on_behind_damage test "$(wc -l < found)" -gt $(($(wc -l < whole) * 9 / 10))
judge salvage_invents_nothing sh -c 'sort whole > a && sort found > b && test -z "$(comm -13 a b)"'
rc=0
"$tool" db > /dev/full 2> err || rc=$?
judge dump_to_a_full_output_fails test $rc -eq 2
judge dump_to_a_full_output_says_so grep -q 'No space left' err
LMDBIO_DISABLE=1 "$tool" plain > found
mdb_dump plain > expected
same dump_disabled_reads_all_the_same expected found

# --- the reader goes away ---
"$testdb" --flags=huge,keys12 large > /dev/null
rc=0
{ "$tool" large || echo $? > code; } | head -c 1 > /dev/null
judge dump_into_a_closed_pipe_ends test "$(cat code)" -eq 141
if command -v python3 > /dev/null; then
	# The pipe is full, or will be, when the signal comes: its reader reads nothing before the signal.
	cat > interrupt.py <<'END'
import signal, subprocess, sys
dump = subprocess.Popen([sys.argv[1], "large"], stdout=subprocess.PIPE,
                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
begin = dump.stdout.read(4096)
dump.send_signal(signal.SIGINT)
rest = dump.stdout.read()
print(dump.wait(), begin.startswith(b"VERSION=3"), b"DATA=END" in rest)
END
	python3 interrupt.py "$tool" > found
	echo "130 True False" > expected
	same dump_interrupted_says_so_and_has_no_end_mark expected found
else
	not_run dump_interrupted_says_so_and_has_no_end_mark "no python3"
fi
finish
