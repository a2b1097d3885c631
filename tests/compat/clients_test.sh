#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that unmodified programs of Debian read the same through lmdbio.
#
# Each runs on the original, on lmdbio, and on lmdbio with everything forwarded; the outputs must be the same, the
# banner must show that lmdbio was loaded, and the data files must not change.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
here=$top_srcdir/tests/compat
python=/usr/bin/python3
"$python" -c 'import lmdb' 2>/dev/null || skip "no python3-lmdb here"
cd "$scratch"
export PYTHONDONTWRITEBYTECODE=1

"$python" "$here/python_make.py" db
sha256sum db/plain.mdb db/named/data.mdb > sums
stat -c '%n %Y %y %s' db/plain.mdb db/named/data.mdb > stamps

# client NAME COMMAND...: the command may write into ./room, which is empty at each start.
client() {
	name=$1
	shift
	for how in original lmdbio forwarded; do
		mkdir room
		rc=0
		case $how in
		original) "$@" > out.$how 2> err.$how || rc=$? ;;
		lmdbio) "$lmdbio_run" --verbose -- "$@" > out.$how 2> err.$how || rc=$? ;;
		forwarded) "$lmdbio_run" --verbose --disable -- "$@" > out.$how 2> err.$how || rc=$? ;;
		esac
		echo "exit $rc" >> out.$how
		rm -rf room
	done
	judge "${name}_alone_works" grep -qx 'exit 0' out.original
	judge "${name}_alone_sees_something" test "$(wc -l < out.original)" -gt 4
	same "${name}_on_lmdbio_sees_the_same" out.original out.lmdbio
	same "${name}_forwarded_sees_the_same" out.original out.forwarded
	judge "${name}_alone_says_nothing_of_lmdbio" sh -c '! grep -q lmdbio err.original'
	judge "${name}_on_lmdbio_has_one_banner" test "$(grep -c '^lmdbio: [0-9].*original' err.lmdbio)" -eq 1
	judge "${name}_is_read_by_lmdbio" grep -q 'db/plain.mdb: read by lmdbio' err.lmdbio
	judge "${name}_disabled_is_not_read_by_lmdbio" sh -c '! grep -q "read by lmdbio" err.forwarded'
}

# linked WHAT FILE: checks that the dynamic loader brings the original in: otherwise the comparison proves nothing.
linked() {
	judge "$1_is_linked_dynamically" sh -c "ldd '$2' | grep -q 'liblmdb\.so\.0 =>'"
}

module=$("$python" -c 'import lmdb.cpython; print(lmdb.cpython.__file__)' 2>/dev/null || true)
test -z "$module" || linked python_lmdb "$module"
client python_lmdb "$python" "$here/python_read.py" db room

if perl -MLMDB_File -e 1 2>/dev/null; then
	linked perl_lmdb_file "$(perl -MLMDB_File -e 'print map { "$_/auto/LMDB_File/LMDB_File.so" }
		grep { -e "$_/auto/LMDB_File/LMDB_File.so" } @INC')"
	client perl_lmdb_file perl "$here/perl_read.pl" db
else
	not_run perl_lmdb_file "no liblmdb-file-perl"
fi

if php -r 'exit(in_array("lmdb", dba_handlers()) ? 0 : 1);' 2>/dev/null; then
	linked php_dba "$(php -r 'echo ini_get("extension_dir");')/dba.so"
	client php_dba php "$here/php_read.php" db
else
	not_run php_dba "no php-dba"
fi

# An invalid setting costs one line of output, and the program goes on.
read_some() {
	"$lmdbio_run" -- "$python" -c 'import lmdb
env = lmdb.open("db/plain.mdb", readonly=True, subdir=False)
print(len(env.begin().get(b"00000001_n1")), env.stat()["entries"])'
}
read_some > out.plain 2> err
judge silent_unless_asked test ! -s err
LMDBIO_VERBOSE=banana read_some > out 2> err
same bad_value_then_the_default out.plain out
judge bad_value_is_one_line test "$(grep -c '^lmdbio: LMDBIO_VERBOSE=banana' err)" -eq 1 -a "$(wc -l < err)" -eq 1
LMDBIO_NO_SUCH_THING=1 read_some > out 2> err
same unknown_variable_then_no_change out.plain out
judge unknown_variable_is_one_line test "$(grep -c '^lmdbio: LMDBIO_NO_SUCH_THING' err)" -eq 1 -a "$(wc -l < err)" -eq 1

sha256sum db/plain.mdb db/named/data.mdb > sums.after
stat -c '%n %Y %y %s' db/plain.mdb db/named/data.mdb > stamps.after
same reading_leaves_the_bytes_alone sums sums.after
same reading_leaves_the_times_alone stamps stamps.after

"$lmdbio_run" --verbose -- "$python" "$here/python_make.py" written 2> err
judge writing_is_forwarded_and_says_so grep -q 'written/plain.mdb: forwarded, it is opened for writing' err
(cd db && sha256sum plain.mdb named/data.mdb) > sums.original
(cd written && sha256sum plain.mdb named/data.mdb) > sums.lmdbio
same writing_through_lmdbio_makes_the_same_bytes sums.original sums.lmdbio
finish
