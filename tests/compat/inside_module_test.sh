#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# With LMDBIO_MPI=1 the library loads the module beside it into the program, if the module is of the library's
# release; an unsuitable module costs one line, and the program reads on. The modules here stand in for the one with
# MPI.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cc=${CC:-gcc}
testdb=$top_builddir/tests/data/lmdbio-testdb
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
cd "$scratch"
"$testdb" --flags=plain db > /dev/null
mkdir lib
cp -L "$dropin" "$core" lib
module=lib/liblmdbio-mpi.so.0
release=$(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"$/\1/p' "$top_builddir/config.h")
cat > reader.c <<'END'
#include <lmdb.h>
#include <stdio.h>
#ifdef RANK
int MPI_Init(void);
int MPI_Init(void) { return 0; }
#endif
int main(void)
{
	MDB_stat stat;
	MDB_env *env;
	if (mdb_env_create(&env) || mdb_env_open(env, "db", MDB_RDONLY, 0) || mdb_env_stat(env, &stat))
		return 1;
	mdb_env_close(env);
	printf("entries %zu\n", stat.ms_entries);
	return 0;
}
END
$cc -o reader reader.c -llmdb
$cc -DRANK -rdynamic -o rank reader.c -llmdb
cat > module.c <<'END'
#include "mpi/mpi_module.h"
#include <stdio.h>
static int inside(bool first)
{
	fprintf(stderr, "inside %d\n", first);
	return CODE;
}
const struct mpi_module NAME = {.version = VERSION, .release = RELEASE, .inside = inside};
END

# made NAME VERSION RELEASE CODE: builds a module whose table has that name.
made() {
	$cc -shared -fPIC -I"$top_srcdir/lib" -I"$top_srcdir/include" -DNAME="$1" -DVERSION="$2" "-DRELEASE=\"$3\"" -DCODE="$4" \
		-o $module module.c
}

# reads WHO COMMAND...: the program reads the same beside the module.
reads() {
	who=$1
	shift
	status "${who}_reads" 0 env LD_LIBRARY_PATH="$scratch/lib" LMDBIO_MPI=1 "$@"
	same "${who}_reads_the_same" expected out
}

# refused WHO WHY: the library refuses the module in one line, and does not call it.
refused() {
	reads "$1" ./reader
	says "${1}_is_refused_in_words" "^lmdbio: the node is not served: no MPI: $2\$"
	judge "${1}_is_refused_once" test "$(grep -c 'not served' err)" -eq 1
	judge "${1}_is_not_called" sh -c '! grep -q ^inside err'
}

./reader > expected
refused missing_module '.*liblmdbio-mpi.so.0: cannot open.*'
made another_name MPI_MODULE_VERSION "$release" 0
refused module_without_its_table 'the module is of another release'
made lmdbio_mpi_module 1 "$release" 0
refused module_with_another_table 'the module is of another release'
made lmdbio_mpi_module MPI_MODULE_VERSION 0.0.1 0
refused module_of_another_release 'the module is of another release'

made lmdbio_mpi_module MPI_MODULE_VERSION "$release" 11
reads failing_module ./reader
says failing_module_is_told_in_words 'no MPI: no thread$'
judge failing_module_is_not_called_again test "$(grep -c '^inside 0$' err)" -eq 1
made lmdbio_mpi_module MPI_MODULE_VERSION "$release" 0
reads right_module ./reader
judge right_module_is_called_to_begin_and_by_both_calls test "$(grep -c '^inside 0$' err)" -eq 3
judge right_module_is_told_nothing_of sh -c '! grep -q "not served" err'

# A program that is linked with MPI: in the process that the launcher has started, the module runs before the program.
printf '%s\n' 'LMDBIO_MPI_PID=$$ exec ./rank' > begun
reads rank sh begun
judge rank_begins_before_its_program test "$(grep '^inside' err | head -n 1)" = 'inside 1'
reads child_of_a_rank env LMDBIO_MPI_PID=1 ./rank
judge child_of_a_rank_does_not_begin_first sh -c 'grep -q "^inside 0" err && ! grep -q "^inside 1" err'
finish
