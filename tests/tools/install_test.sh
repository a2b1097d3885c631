#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that what `make install` installs is enough to build and to run programs, wherever it is put, and that `make
# uninstall` removes all of it.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
cc=${CC:-gcc}
need "${cc%% *}" make pkg-config readelf
# This test's make must not share the job slots of `make check`.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
cd "$scratch"

# made TARGET: runs make in the build tree, for an installation tree of our own.
# shellcheck disable=SC2317
made() {
	tree_make "$1" > "$1.log" 2>&1
}

# left: all files, and the directories below the prefix that have our name.
left() {
	find root ! -type d
	find "root$(directory prefix)" -mindepth 1 -type d -name '*lmdbio*'
}

judge install_ends_well made install
test -d root || cat install.log
bin=$scratch/root$(directory bindir) lib=$scratch/root$(directory libdir)
headers=$scratch/root$(directory includedir) manual=$scratch/root$(directory mandir)
private=$lib/lmdbio

# --- what is installed ---
judge soname_leads_to_the_library test "$(readlink "$private/liblmdb.so.0")" = liblmdb.so.0.0.0
judge library_for_linkers_is_the_same test "$(readlink -f "$private/liblmdb.so")" = \
	"$(readlink -f "$private/liblmdb.so.0")"
readelf -d "$private/liblmdb.so.0" > dynamic
judge library_has_the_originals_soname grep -q '(SONAME).*\[liblmdb\.so\.0\]' dynamic
judge later_soname_leads_to_its_library test "$(readlink "$private/liblmdb.so.1")" = liblmdb.so.1.0.0
readelf -d "$private/liblmdb.so.1" > dynamic
judge later_library_has_the_soname_of_lmdb_1_0 grep -q '(SONAME).*\[liblmdb\.so\.1\]' dynamic
judge core_is_beside_the_library test "$(find "$private" -name 'liblmdbio-core*' | sed 's|.*/||')" = "${core##*/}"
# Linkers and the loader must not find it unasked.
judge library_is_in_no_common_directory test -z "$(find root -name 'liblmdb.*' ! -path '*/lmdbio/*')"
judge no_description_for_libtool_is_left test -z "$(find root -name '*.la')"
for page in "$top_srcdir"/doc/*.[37] "$top_builddir"/doc/*.1; do
	name=${page##*/}
	judge "manual_has_$name" cmp -s "$page" "$manual/man${name##*.}/$name"
done
for name in bash zsh fish; do
	case $name in
	bash) there=$scratch/root$(directory datadir)/bash-completion/completions ;;
	zsh) there=$scratch/root$(directory datadir)/zsh/site-functions ;;
	fish) there=$scratch/root$(directory datadir)/fish/vendor_completions.d ;;
	esac
	status "${name}_has_the_completions" 0 diff -r "$there" "$top_builddir/tools/$name"
done
programs=0
for program in "$bin"/*; do
	"$program" --version > version 2>&1 || true
	judge "${program##*/}_tells_its_version" grep -q "^${program##*/} (lmdbio) [0-9]" version
	programs=$((programs + 1))
done
judge programs_are_as_many_as_were_built test "$programs" -eq \
	"$(find "$top_builddir/tools" -maxdepth 1 -type f -name 'lmdbio-*' -perm -100 | wc -l)"

# --- programs that are built against it ---
cat > user.c <<'END'
#define _GNU_SOURCE
#ifdef OURS
#include <lmdbio.h>
#endif
#include <dlfcn.h>
#include <lmdb.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	unsigned long sum = 0;
	Dl_info where;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	int make = argc > 2, rc = mdb_env_create(&env);
	if (rc || mdb_env_set_mapsize(env, 64 << 20) || mdb_env_open(env, argv[1], make ? 0 : MDB_RDONLY, 0600) ||
	    mdb_txn_begin(env, NULL, make ? 0 : MDB_RDONLY, &txn) || mdb_dbi_open(txn, NULL, 0, &dbi))
		return 1;
	for (unsigned i = 0; make && i < 500 && !rc; i++) {
		char name[16], bytes[5000];
		memset(bytes, (int)(i % 251), sizeof(bytes));
		key.mv_size = (size_t)snprintf(name, sizeof(name), "%08u", i);
		key.mv_data = name;
		data.mv_size = sizeof(bytes);
		data.mv_data = bytes;
		rc = mdb_put(txn, dbi, &key, &data, 0);
	}
	if (make)
		return rc || mdb_txn_commit(txn) || (mdb_env_close(env), 0);
	if (mdb_cursor_open(txn, dbi, &cursor))
		return 1;
	while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)))
		for (size_t i = 0; i < data.mv_size; i++)
			sum = sum * 31 + ((unsigned char *)data.mv_data)[i];
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	mdb_env_close(env);
	if (rc != MDB_NOTFOUND || !dladdr((void *)mdb_env_open, &where))
		return 1;
	printf("%lu\n%s\n", sum, where.dli_fname);
#ifdef OURS
	struct lmdbio_stats stats = {.size = sizeof(stats)};
	rc = lmdbio_stats(&stats);
	printf("%s %d\n", lmdbio_version(), rc == 0 && stats.served_bytes == 500 * 5000);
	return rc;
#else
	return 0;
#endif
}
END

# package DIRECTORY ARGUMENT...: runs pkg-config on a tree that a user has moved.
package() {
	PKG_CONFIG_PATH=$1
	export PKG_CONFIG_PATH
	shift
	pkg-config --define-variable=libdir="$lib" --define-variable=includedir="$headers" "$@"
	unset PKG_CONFIG_PATH
}

# bound NAME PROGRAM-COMMAND...: the program reads the same data, by the library in our tree.
bound() {
	who=$1
	shift
	status "${who}_runs" 0 "$@"
	judge "${who}_reads_the_same" test "$(sed -n 1p out)" = "$sum"
	judge "${who}_is_bound_to_what_was_installed" test \
		"$(readlink -f "$(sed -n 2p out)")" = "$(readlink -f "$private/liblmdb.so.0")"
}

mkdir data
$cc -o ordinary user.c -llmdb -ldl
./ordinary data make
sum=$(./ordinary data | sed -n 1p)
judge ordinary_program_reads_something test "${sum:-0}" != 0
judge description_names_the_release test "$(package "$lib/pkgconfig" --modversion lmdbio)" = \
	"$("$bin/lmdbio-run" --version | sed 's/.* //')"
judge description_names_the_directories test "$(PKG_CONFIG_PATH=$lib/pkgconfig \
	pkg-config --variable=libdir lmdbio)" = "$(directory libdir)"
# shellcheck disable=SC2046,SC2086
judge program_that_includes_our_header_builds $cc -DOURS -o ours user.c \
	$(package "$lib/pkgconfig" --cflags --libs lmdbio) -ldl
bound ours ./ours data
judge ours_has_its_release_and_its_counters test "$(sed -n 3p out)" = \
	"$(package "$lib/pkgconfig" --modversion lmdbio) 1"
# An unchanged program asks pkg-config for lmdb, and gets our description of it.
# shellcheck disable=SC2046,SC2086
judge program_that_asks_for_lmdb_builds $cc -o relinked user.c \
	$(package "$private/pkgconfig" --cflags --libs lmdb) -ldl
bound relinked ./relinked data
judge description_of_lmdb_names_its_release test "$(PKG_CONFIG_PATH=$private/pkgconfig \
	pkg-config --modversion lmdb)" = "$(echo '#include <lmdb.h>
MDB_VERSION_MAJOR MDB_VERSION_MINOR MDB_VERSION_PATCH' | cpp -P | tail -n 1 | tr ' ' .)"
mkdir cmake
cat > cmake/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.18)
project(user C)
find_package(lmdbio 0.2 REQUIRED)
add_executable(cmade ../user.c)
target_compile_definitions(cmade PRIVATE OURS)
target_link_libraries(cmade lmdbio::lmdbio ${CMAKE_DL_LIBS})
END
judge program_of_cmake_is_configured cmake -S cmake -B cmade \
	-DCMAKE_PREFIX_PATH="$scratch/root$(directory prefix)" > cmake.log 2>&1
judge program_of_cmake_builds cmake --build cmade > cmake.log 2>&1
test -x cmade/cmade || cat cmake.log
bound cmade cmade/cmade data
sed 's/lmdbio 0.2/lmdbio 9/' cmake/CMakeLists.txt > later && mv later cmake/CMakeLists.txt
told later_version_is_not_found 1 'version' cmake -S cmake -B later -DCMAKE_PREFIX_PATH="$scratch/root$(directory prefix)"
if [ -e "$lib/pkgconfig/lmdbio-mpi.pc" ]; then
	cat > job.c <<'END'
#include <lmdbio_mpi.h>
int main(int argc, char **argv)
{
	return argc > 1 ? lmdbio_mpi_stage(MPI_COMM_WORLD, argv[1], 0) : 0;
}
END
	# shellcheck disable=SC2046,SC2086
	judge program_of_mpi_builds $cc -o job job.c \
		$(package "$lib/pkgconfig" --cflags --libs lmdbio-mpi) $(pkg-config --cflags --libs mpich)
	status program_of_mpi_runs 0 ./job
	ldd ./job > needed || true
	judge program_of_mpi_finds_its_library grep -qF "$private/liblmdbio-mpi.so.0" needed
else
	not_run program_of_mpi_builds "built without MPI"
fi

# --- programs that do not know lmdbio ---
bound run "$bin/lmdbio-run" -- ./ordinary data
judge run_without_it_is_the_original test "$(./ordinary data | sed -n 2p)" != "$(sed -n 2p out)"
told run_checks_a_program 0 'takes effect' "$bin/lmdbio-run" --check -- ./ordinary data
# A tree that is moved as a whole keeps working.
mv root moved
status moved_run_runs 0 "moved${bin#"$scratch/root"}/lmdbio-run" -- ./ordinary data
judge moved_run_finds_its_library test "$(readlink -f "$(sed -n 2p out)")" = \
	"$(readlink -f "moved${private#"$scratch/root"}/liblmdb.so.0")"
mv moved root

# --- the Python package: it finds the library and the commands beside it, wherever the tree lies ---
modules=$scratch/root$(directory pythondir)
judge python_package_is_installed test -e "$modules/lmdbio/py.typed"
case $(directory prefix) in
/usr/local) judge python_package_is_where_python_looks /usr/bin/python3 -c \
	'import site, sys; sys.exit(sys.argv[1] not in site.getsitepackages())' "$(directory pythondir)" ;;
*) not_run python_package_is_where_python_looks "another prefix than /usr/local" ;;
esac
judge install_says_where_the_python_package_is grep -q \
	"^The Python package lmdbio is in $(directory pythondir), where .*: .*PYTHON" install.log
status python_package_is_imported 0 env "PYTHONPATH=$modules" /usr/bin/python3 -c \
	'import lmdbio; print(lmdbio.library()._name)'
judge python_package_finds_its_library test "$(readlink -f "$(cat out)")" = \
	"$(readlink -f "$private/liblmdb.so.0")"
echo 'print("a script runs")' > script.py
status python_package_starts_a_script 0 env "PYTHONPATH=$modules" /usr/bin/python3 -m lmdbio run script.py
judge python_package_runs_the_script grep -qx 'a script runs' out
find "$modules" -name __pycache__ -exec rm -r {} +

# --- what configure says that a build lacks without an optional library ---
for part in jansson:JANSSON MPICH:MPI ncurses:NCURSES; do
	awk -v begin="if HAVE_${part#*:}" '$0 == begin { inside = 1 } /^endif/ { inside = 0 } inside && /^bin_PROGRAMS/' \
		"$top_srcdir/tools/Makemodule.am" "$top_srcdir/lab/Makemodule.am" | grep -o 'lmdbio-[a-z]*$' | sort > lacked
	grep -o "${part%:*} is missing: .* not built" "$top_srcdir/configure.ac" | grep -o '\<lmdbio-[a-z]*' | sort > told
	same "commands_that_a_build_without_${part%:*}_lacks_are_told" lacked told
done

# --- uninstalling ---
judge uninstall_ends_well made uninstall
left > leftovers
judge uninstall_leaves_nothing test ! -s leftovers
cat leftovers
finish
