#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Programs load lmdbio in every way in which a library can be loaded: preloaded, found in a directory, linked, opened
# at run time; from an installation, a moved one, or a link to it; beside the system's LMDB and beside names of their
# own.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cc=${CC:-gcc}
need "${cc%% *}" make readelf nm
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
cd "$scratch"

# A reader prints the sum of what it has read, and the library that it is bound to.
cat > reader.h <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <lmdb.h>
#include <stdio.h>
#include <string.h>
static int reader_run(const char *path, void *(*find)(const char *))
{
	int (*create)(MDB_env **) = find("mdb_env_create");
	int (*open)(MDB_env *, const char *, unsigned, mdb_mode_t) = find("mdb_env_open");
	int (*begin)(MDB_env *, MDB_txn *, unsigned, MDB_txn **) = find("mdb_txn_begin");
	int (*dbi_open)(MDB_txn *, const char *, unsigned, MDB_dbi *) = find("mdb_dbi_open");
	int (*cursor_open)(MDB_txn *, MDB_dbi, MDB_cursor **) = find("mdb_cursor_open");
	int (*get)(MDB_cursor *, MDB_val *, MDB_val *, MDB_cursor_op) = find("mdb_cursor_get");
	void (*cursor_close)(MDB_cursor *) = find("mdb_cursor_close");
	void (*abort)(MDB_txn *) = find("mdb_txn_abort");
	void (*close)(MDB_env *) = find("mdb_env_close");
	unsigned long sum = 0;
	MDB_cursor *cursor;
	MDB_val key, data;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	Dl_info where;
	int rc;
	if (create(&env) || open(env, path, MDB_RDONLY | MDB_NOSUBDIR, 0) || begin(env, NULL, MDB_RDONLY, &txn) ||
	    dbi_open(txn, NULL, 0, &dbi) || cursor_open(txn, dbi, &cursor))
		return 1;
	while (!(rc = get(cursor, &key, &data, MDB_NEXT)))
		for (size_t i = 0; i < data.mv_size; i++)
			sum = sum * 31 + ((unsigned char *)data.mv_data)[i];
	cursor_close(cursor);
	abort(txn);
	close(env);
	if (rc != MDB_NOTFOUND)
		return 1;
	printf("%lu\n%s\n", sum, dladdr((void *)create, &where) ? where.dli_fname : "");
	return 0;
}
END
cat > linked.c <<'END'
#include "reader.h"
static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}
int main(int argc, char **argv)
{
	return !mdb_strerror(argc) || reader_run(argv[1], find);
}
END
# Names of lmdbio's own functions, defined in the program and in a library that the program's library needs: lmdbio
# must not be bound to these, nor they to lmdbio's.
for name in io_open_file log_line settings_get arena_open cursor_get env_open txn_begin tree_get compare stats_own; do
	echo "int $name(void); int $name(void) { return 7; }"
done > own.c
sed -n 's/.*; int \([a-z_]*\)(void) .*/extern int \1(void);/p' own.c > below.c
{
	echo 'int below(void);' && echo 'int below(void) { return 0'
	sed -n 's/.*; int \([a-z_]*\)(void) .*/+ \1() - 7/p' own.c
	echo '; }'
} >> below.c
echo 'int below(void); int middle(void); int middle(void) { return below(); }' > middle.c
cat > named.c <<'END'
#include "reader.h"
int middle(void);
static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}
int main(int argc, char **argv)
{
	return !mdb_strerror(argc) || middle() || reader_run(argv[1], find);
}
END
# opens N LIBRARY... DATA: opens each library N times separately, reads by it, and finds nothing of it left
# afterwards.
cat > opens.c <<'END'
#include "reader.h"
#include <stdlib.h>
static void *library;
static void *find(const char *name)
{
	return dlsym(library, name);
}
static int left(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int count = 0;
	while (maps && fgets(line, sizeof(line), maps))
		count += strstr(line, name) != NULL;
	if (maps)
		fclose(maps);
	return count;
}
int main(int argc, char **argv)
{
	for (int times = atoi(argv[1]); times > 0; times--)
		for (int i = 2; i < argc - 1; i++) {
			library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
			if (!library)
				return fprintf(stderr, "%s\n", dlerror()), 1;
			if (reader_run(argv[argc - 1], find))
				return 2;
			if (argc == 4)
				dlclose(library);
		}
	return argc == 4 && left("/liblmdb") ? 3 : 0;
}
END
cat > make.py <<'END'
import lmdb, sys
with lmdb.open(sys.argv[1], subdir=False, map_size=1 << 24) as env, env.begin(write=True) as txn:
    for i in range(500):
        txn.put(b"%05d" % i, bytes([i % 251]) * 2000)
END
/usr/bin/python3 -c 'import lmdb' 2> /dev/null || skip "no python3-lmdb here"
/usr/bin/python3 make.py data
$cc -o linked linked.c -llmdb -ldl
$cc -o opens opens.c -ldl
# With these names in the program itself, and in a library two levels below it, which is searched after the libraries
# that preloaded ones need.
$cc -o named_program named.c own.c middle.c below.c -llmdb -ldl
$cc -shared -fPIC -o libbelow.so own.c below.c
$cc -shared -fPIC -o libmiddle.so middle.c -L. -lbelow
$cc -o named_library named.c -L. -lmiddle -Wl,-rpath-link,. -llmdb -ldl
named="LD_LIBRARY_PATH=$scratch"
./linked data > expected
sum=$(sed -n 1p expected)
system=$(sed -n 2p expected)
judge original_reads_something test "${sum:-0}" != 0

tree_make install > install.log 2>&1 || cat install.log
private=$scratch/root$(directory libdir)/lmdbio
bin=$scratch/root$(directory bindir)

# bound NAME LIBRARY COMMAND...: the program reads the same, bound to this library.
bound() {
	who=$1 library=$2
	shift 2
	status "${who}_reads" 0 "$@"
	judge "${who}_reads_the_same" test "$(sed -n 1p out)" = "$sum"
	judge "${who}_is_bound_to_lmdbio" test "$(readlink -f "$(sed -n 2p out)")" = "$(readlink -f "$library")"
}

# ways PLACE LIBRARY: every way to load that library.
ways() {
	place=$1 library=$2
	bound "preloaded_from_$place" "$library" env LD_PRELOAD="$library" ./linked data
	bound "found_in_$place" "$library" env LD_LIBRARY_PATH="$(dirname "$library")" ./linked data
	$cc -o relinked linked.c "$library" -ldl -Wl,-rpath,"$(dirname "$library")"
	bound "linked_with_$place" "$library" ./relinked data
	bound "names_of_the_program_with_$place" "$library" env LD_PRELOAD="$library" ./named_program data
	bound "names_of_a_library_with_$place" "$library" env "$named" LD_PRELOAD="$library" ./named_library data
	bound "opened_from_$place" "$library" ./opens 3 "$library" data
	# The original has been opened before, as by an interpreter's module; and the reverse order.
	status "opened_after_the_original_from_${place}_reads" 0 ./opens 1 "$system" "$library" data
	judge "opened_after_the_original_from_${place}_reads_the_same" test "$(sed -n 1p out):$(sed -n 3p out)" = "$sum:$sum"
	judge "opened_after_the_original_from_${place}_leaves_it_alone" test \
		"$(readlink -f "$(sed -n 2p out)")" = "$(readlink -f "$system")"
	judge "opened_after_the_original_from_${place}_is_bound_to_lmdbio" test \
		"$(readlink -f "$(sed -n 4p out)")" = "$(readlink -f "$library")"
	status "original_opened_after_that_from_$place" 0 ./opens 1 "$library" "$system" data
	judge "original_opened_after_that_from_${place}_reads_the_same" test "$(sed -n 1p out):$(sed -n 3p out)" = "$sum:$sum"
	bound "python_opens_it_from_$place" "$library" /usr/bin/python3 - "$library" "$PWD/opens" <<-'END'
		import ctypes, subprocess, sys
		library = ctypes.CDLL(sys.argv[1])
		assert library.mdb_version(None, None, None)
		sys.stdout.write(subprocess.check_output([sys.argv[2], "1", sys.argv[1], "data"], text=True))
	END
}
ways build_tree "$dropin"
ways installation "$private/liblmdb.so.0"

# A preload is named relative to the current directory, which a program may leave.
ln -s "$private" here
bound preloaded_by_a_relative_name "$private/liblmdb.so.0" env LD_PRELOAD=./here/liblmdb.so.0 ./linked data
bound found_in_a_linked_directory "$private/liblmdb.so.0" env LD_LIBRARY_PATH=here ./linked data
rm here

# One core serves all that is loaded: the module with MPI, and a second copy of the library.
if [ -e "$private/liblmdbio-mpi.so.0" ]; then
	mkdir copies
	cp "$private/liblmdb.so.0" "$private"/liblmdbio-core-*.so copies
	status module_and_copies_are_loaded 0 /usr/bin/python3 - "$private/liblmdb.so.0" "$private/liblmdbio-mpi.so.0" \
		copies/liblmdb.so.0 <<-'END'
			import ctypes, sys
			for library in sys.argv[1:]:
			    assert ctypes.CDLL(library)
			maps = {line.split()[-1] for line in open("/proc/self/maps") if "lmdb" in line}
			print(sum("liblmdbio-core" in file for file in maps), len(maps))
		END
	judge module_and_copies_have_one_core test "$(cat out)" = "1 4"
fi

# static-pie: a program without a dynamic loader of its own opens the library, where libc lets it open a library with
# thread-local variables (2.36 does not).
cat > threads.c <<'END'
int thread_value(void);
static _Thread_local int value = 6;
int thread_value(void) { return ++value; }
END
cat > static_probe.c <<'END'
#include <dlfcn.h>
int main(int argc, char **argv)
{
	void *library = dlopen(argv[argc - 1], RTLD_NOW);
	int (*value)(void) = library ? (int (*)(void))dlsym(library, "thread_value") : 0;
	return !value || value() != 7;
}
END
$cc -shared -fPIC -o threads.so threads.c
if $cc -static-pie -fPIE -o probe static_probe.c -ldl 2> /dev/null && sh -c './probe ./threads.so' 2> /dev/null &&
	$cc -static-pie -fPIE -o static opens.c -ldl 2> /dev/null; then
	bound static_pie_opens_it "$private/liblmdb.so.0" ./static 1 "$private/liblmdb.so.0" data
else
	not_run static_pie_opens_it "a static program cannot open a library with thread-local variables here"
fi

# The commands load their own libraries, even if LD_LIBRARY_PATH names a directory with the original's.
mkdir originals
ln -s "$(readlink -f "$system")" originals/liblmdb.so.0
for tool in "$bin"/lmdbio-*; do
	status "${tool##*/}_runs_beside_the_original" 0 env LD_LIBRARY_PATH="$scratch/originals" \
		LD_PRELOAD="$system" "$tool" --version
done
bound run_beside_the_original "$private/liblmdb.so.0" env LD_LIBRARY_PATH="$scratch/originals" \
	"$bin/lmdbio-run" -- ./linked data

# A tree that is moved as a whole keeps working.
mv root moved
moved=moved${private#"$scratch/root"}
bound moved_library_preloaded "$moved/liblmdb.so.0" env LD_PRELOAD="$PWD/$moved/liblmdb.so.0" ./linked data
for tool in "moved${bin#"$scratch/root"}"/lmdbio-*; do
	status "moved_${tool##*/}_runs" 0 "$tool" --version
done
mv moved root
finish
