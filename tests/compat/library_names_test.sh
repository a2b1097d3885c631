#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Programs run on lmdbio whichever name their LMDB library has: liblmdb.so.0 (Debian, Ubuntu),
# liblmdb.so (conda, Arch), liblmdb.so.0.0.0 (Fedora, RHEL, Alpine).
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cc=${CC:-gcc}
need "${cc%% *}" make readelf
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
sources=$top_srcdir/tests/compat
cd "$scratch"

cat > user.c <<'END'
/* Writes 300 records with "make", reads them, and says which library it was bound to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <lmdb.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int making = argc > 2, rc;
	unsigned long sum = 0, count = 0;
	MDB_val key, data;
	char text[2000] = "";
	MDB_cursor *cursor;
	Dl_info where;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	if (mdb_env_create(&env) || mdb_env_set_mapsize(env, 16 << 20) ||
	    mdb_env_open(env, argv[1], making ? MDB_NOSUBDIR : MDB_NOSUBDIR | MDB_RDONLY, 0600) ||
	    mdb_txn_begin(env, NULL, making ? 0 : MDB_RDONLY, &txn) || mdb_dbi_open(txn, NULL, 0, &dbi))
		return 1;
	for (int i = 0; making && i < 300; i++) {
		key = (MDB_val){(size_t)snprintf(text, sizeof(text), "%05d", i), text};
		data = (MDB_val){sizeof(text), text};
		if (mdb_put(txn, dbi, &key, &data, 0))
			return 1;
	}
	if (mdb_cursor_open(txn, dbi, &cursor))
		return 1;
	for (; !(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)); count++)
		for (size_t i = 0; i < data.mv_size; i++)
			sum = sum * 31 + ((unsigned char *)data.mv_data)[i];
	mdb_cursor_close(cursor);
	if (rc != MDB_NOTFOUND || (making && mdb_txn_commit(txn)))
		return 1;
	if (!making)
		mdb_txn_abort(txn);
	mdb_env_close(env);
	if (!dladdr((void *)mdb_env_open, &where))
		return 1;
	printf("%lu records, sum %lu\n%s\n", count, sum, where.dli_fname);
	return 0;
}
END
# The built-in original's archive makes an LMDB with visible names, which reports another version.
sed 's/LMDB \(0\.9\.[0-9]*: (\)/lmdb \1/' "$top_builddir/lib/origin/liborigin.a" > bundled.a
$cc -fPIC -fvisibility=hidden -c -o hidden.o "$top_srcdir/tests/data/origin_stderr.c"

tree_make install > install.log 2>&1 || cat install.log
installed_run=$scratch/root$(directory bindir)/lmdbio-run
private=$scratch/root$(directory libdir)/lmdbio

# read_by NAME LIBRARY COMMAND...: the program reads the same, bound to this library; messages are in err.
read_by() {
	who=$1 library=$2
	shift 2
	status "${who}_reads" 0 "$@" "./$program" data
	judge "${who}_reads_the_same" test "$(sed -n 1p out)" = "$records"
	judge "${who}_is_bound_to_lmdbio" test "$(readlink -f "$(sed -n 2p out)")" = "$(readlink -f "$library")"
}

for soname in liblmdb.so liblmdb.so.0 liblmdb.so.0.0.0; do
	label=$(echo $soname | tr . _) program=needs-$soname
	mkdir "$label"
	# shellcheck disable=SC2086
	$cc -fPIC -O2 -I"$top_srcdir/lib" -I"$top_srcdir/tests" -shared -Wl,--exclude-libs,ALL -Wl,-soname,$soname \
		-o "$label/$soname" "$sources/bundled_lmdb.c" "$sources/bundled_names.c" hidden.o bundled.a -pthread
	# shellcheck disable=SC2086
	$cc -o "$program" user.c "$label/$soname" -ldl -Wl,--enable-new-dtags,-rpath,"$scratch/$label"
	readelf -d "$program" > needed
	judge "${label}_is_what_the_program_needs" grep -q "(NEEDED).*\[$soname\]" needed

	rm -f data data-lock
	status "${label}_writes_without_lmdbio" 0 "./$program" data make
	records=$(sed -n 1p out)
	judge "${label}_is_bound_to_its_own_without_lmdbio" test "$(sed -n 2p out)" = "$scratch/$label/$soname"

	read_by "${label}_under_run" "$dropin" "$lmdbio_run" --verbose --
	judge "${label}_is_read_by_lmdbio" grep -q 'data: read by lmdbio' err
	case $soname in
	liblmdb.so.0) # the drop-in takes the place of the library beside, which is not loaded
		judge "${label}_has_the_built_in_original" grep -q 'the original is LMDB .*built in' err ;;
	*) judge "${label}_has_its_own_library_as_original" grep -q \
		"the original is LMDB 0.9.35, .*/$soname" err ;;
	esac
	told "${label}_is_checked" 0 'looks for LMDB by name; LMDB .* opens and writes' \
		"$lmdbio_run" --check -- "./$program" data
	told "${label}_is_checked_by_running" 0 'was bound to lmdbio; LMDB .* opens and writes' \
		"$lmdbio_run" --check=run -- "./$program" data
	# shellcheck disable=SC2046
	read_by "${label}_by_print_env" "$dropin" env $("$lmdbio_run" --verbose --print-env)
	judge "${label}_by_print_env_is_read_by_lmdbio" grep -q 'data: read by lmdbio' err

	# From an installed tree, and with that tree's folder in front of the program's library.
	read_by "${label}_installed" "$private/liblmdb.so.0" "$installed_run" --verbose --
	judge "${label}_installed_is_read_by_lmdbio" grep -q 'data: read by lmdbio' err
	# shellcheck disable=SC2046
	read_by "${label}_installed_by_print_env" "$private/liblmdb.so.0" env $("$installed_run" --print-env)
	read_by "${label}_by_library_path" "$private/liblmdb.so.0" \
		env LD_LIBRARY_PATH="$private" LMDBIO_VERBOSE=1
	judge "${label}_by_library_path_is_read_by_lmdbio" grep -q 'data: read by lmdbio' err
	judge "${label}_by_library_path_has_the_built_in_original" grep -q 'the original is LMDB .*built in' err
	status "${label}_writes_under_run" 0 "$lmdbio_run" -- "./$program" data make
	judge "${label}_writes_the_same" test "$(sed -n 1p out)" = "$records"
done
finish
