#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Runs every block of commands and code in doc/, CONTRIBUTING.md, contrib/ and the manuals, unchanged. Commands for a
# cluster or a batch system run in a local form.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# /usr/bin/python3 has Debian's py-lmdb.
python=/usr/bin/python3
$python -c 'import lmdb' 2> /dev/null || skip "no python3-lmdb here"
need mpiexec jq less make nm objcopy pkg-config
trap 'lmdbio-serve --stop > /dev/null 2>&1 || :; rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1 LMDBIO_NODE="$scratch" TMPDIR="$scratch"
export PAGER=cat DIFF_OPERATIONS=3000 DIFF_SEED=7
cc=${CC:-gcc}
cd "$scratch"

# --- the blocks ---
mkdir blocks bin local lustre archive
pages=$(cd "$top_srcdir" && ls CONTRIBUTING.md doc/*.md doc/decisions/*.md doc/*.[1-9] doc/*.[1-9].in \
	contrib/*/README.md 2> /dev/null)
for page in $pages; do
	$python "$top_srcdir/tests/docs/page_blocks.py" "$top_srcdir/$page" blocks > out || {
		cat out
		judge "${page}_has_a_test_for_each_block" false
	}
done
judge blocks_are_found test "$(find blocks -type f | wc -l)" -gt 12
untested=" $(cd blocks && echo * | sed 's/\.[a-z]*//g') "

# tested BLOCK COMMAND...: the case of that block: the command must end with 0.
tested() {
	untested=${untested/ $1 / }
	local block=$1
	shift
	status "${block}_works" 0 "$@"
}

# --- an installation, the programs that the pages assume, and their data sets ---
tree_make install > install.log 2>&1 || cat install.log
PATH=$scratch/bin:$scratch/root$(directory bindir):$PATH
libraries=$scratch/root$(directory libdir) headers=$scratch/root$(directory includedir)
ln -s $python bin/python3
# A local srun that starts the program and ignores its own options.
cat > bin/srun <<'END'
#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
END
cat > bin/reader <<'END'
#!/usr/bin/python3
# Stands in for a program that reads the whole data set in order.
import lmdb
with lmdb.open("train_lmdb", readonly=True, lock=False) as env, env.begin() as txn:
    assert sum(len(value) for _, value in txn.cursor()) == 300 * 3000
END
chmod +x bin/*
for program in caffe train validate program; do
	ln -s reader "bin/$program"
done
cat > make.py <<'END'
import lmdb, os, struct, sys, tarfile, io
with lmdb.open("train_lmdb", map_size=1 << 26) as env, env.begin(write=True) as txn:
    for i in range(300):
        txn.put(b"%08d" % i, b"%08d" % i * 375)
with lmdb.open("mail_lmdb", map_size=1 << 26, max_dbs=2) as env:
    users = env.open_db(b"users")
    with env.begin(write=True) as txn:
        for i in range(100):
            txn.put(b"user%03d" % i, b"name", db=users)
for shard in range(2):
    with tarfile.open(f"shard-{shard}.tar", "w") as tar:
        for i in range(10):
            for kind, data in (("cls", b"%d" % i), ("txt", b"text %d" % i)):
                member = tarfile.TarInfo(f"{shard}{i:03}.{kind}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
END
cp bin/reader train.py

# places: replaces the manuals' paths by paths in this test's folder.
places() {
	sed -i "s|/local/ssd|$scratch/local/ssd|g; s|/lustre/|$scratch/lustre/|g; s|/archive/|$scratch/archive/|g
		s|/scratch/imagenet|$scratch/lustre/train_lmdb|g" "$@"
}
places blocks/*
mkdir local/ssd

# fresh: changes to a new folder with the data sets that the pages name.
fresh() {
	cd "$scratch" && rm -rf work lustre/* local/ssd/* archive/* && mkdir -p work lustre && cd work &&
		$python ../make.py && cp ../train.py . && cp -r train_lmdb ../lustre/
}

# shell BLOCK [EDIT]: runs a block of commands in a new folder, after editing it with a sed script.
shell() {
	fresh
	sed -E "${2:-}" "../blocks/$1.sh" > commands
	tested "$1" bash -euo pipefail commands
}

shell check_examples
judge check_examples_find_no_damage sh -c '! grep -q "^damaged" out'
shell stat_examples
# One second for each command; the container is made first.
shell bench_examples '1s/^/mv train_lmdb train; lmdbio-convert train packed\n/; s/^lmdbio-bench/& --seconds=1/; /--train/!s/ --seconds/ --pairs=1&/'
judge bench_examples_write_a_page test -s report.html
shell report_examples
judge report_examples_show_the_verdict grep -q 'your bottleneck' out
# lmdbio-top needs a terminal, and a key that ends it.
shell top_examples 's/^lmdbio-top$/echo q | script -qec "TERM=vt100 lmdbio-top" \/dev\/null/'
shell dump_examples
judge dump_examples_write_a_backup grep -q '^database=users' backup.txt
# Each command of that page is for a different data set.
fresh
mkdir images
for name in a b; do
	printf 'P6 2 2 255\n123456789012' > images/$name.ppm
	echo "$name.ppm $((RANDOM % 9))"
done > train.txt
sed -E 's/^(.*--to=lmdb .*)$/rm -r train_lmdb; \1/
	s/^(.*--resume.*)$/cp -r ..\/lustre\/train_lmdb . \&\& rm train.zst; \1/
	s/^(.*--from=webdataset.*)$/rm train.zst; \1/
	s/^(.*--from=caffe.*)$/rm -r train_lmdb; \1/' ../blocks/convert_examples.sh > commands
tested convert_examples bash -euo pipefail commands
judge convert_examples_archive_the_set lmdbio-check -q "$scratch/archive/train.zst"
shell run_examples
judge run_examples_say_that_it_takes_effect grep -q 'takes effect' out
shell run_job 's/-n 64/-n 2/; s/ program arguments/ program/'
# The programs start so fast here that they must wait for the server.
shell serve_example 's/^.*\&$/&\nuntil lmdbio-serve --status > \/dev\/null 2>\&1; do sleep 0.05; done/'
shell stage_examples
# A twenty-fifth of the records: still at least one batch.
shell sim_examples 's/1000000/40000/'
cd "$scratch"

# --- C: each block in a function, with the declarations that its page assumes ---
cat > example.h <<'END'
#include <lmdbio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define FAIL(rc) (fprintf(stderr, "line %d: %s\n", __LINE__, mdb_strerror(rc)), exit(1))
END
cat > loader_example.before <<'END'
static size_t seen;
static void train(const struct lmdbio_sample *samples, size_t count) { seen += samples ? count : 0; }
int main(void)
{
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	uint64_t epoch;
	int rc;
END
cat > loader_example.after <<'END'
	return rc != MDB_NOTFOUND || seen < 90 * 300;
}
END
cat > hints_example.before <<'END'
static size_t seen;
static void use(const MDB_val *value) { seen += value->mv_size; }
int main(void)
{
	enum { batches = 3 };
	MDB_val keys[batches][100], *batch[batches], value;
	static char names[batches][100][9];
	size_t length[batches], i, j;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi = 1;
	if (mdb_env_create(&env) || mdb_env_open(env, "train.lmdb", MDB_RDONLY, 0))
		return 2;
	for (i = 0; i < batches; i++)
		for (j = 0, batch[i] = keys[i], length[i] = 100; j < 100; j++) {
			sprintf(names[i][j], "%08zu", i * 100 + j);
			keys[i][j] = (MDB_val){8, names[i][j]};
		}
END
cat > hints_example.after <<'END'
	mdb_env_close(env);
	return seen != 300 * 3000;
}
END
cat > mpi_stage.before <<'END'
#include <lmdbio_mpi.h>
int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
END
cat > mpi_stage.after <<'END'
	MPI_Finalize();
	return rc;
}
END
cat > mpi_loader.before <<'END'
#include <lmdbio_mpi.h>
int main(int argc, char **argv)
{
	struct lmdbio_loader *loader;
	int level, rc;
END
cat > mpi_loader.after <<'END'
	if (!rc)
		lmdbio_loader_close(loader);
	MPI_Finalize();
	return rc;
}
END
fresh
cp -r train_lmdb train.lmdb
export PKG_CONFIG_PATH="$libraries/pkgconfig"
# flags PACKAGE...: the compiler's flags for this build's tree.
flags() {
	for each in "$@"; do
		case $each in
		lmdbio*) pkg-config --define-variable=libdir="$libraries" \
			--define-variable=includedir="$headers" --cflags --libs "$each" ;;
		*) pkg-config --cflags --libs "$each" ;;
		esac
	done
}
for block in loader_example hints_example mpi_stage mpi_loader; do
	cat ../example.h "../$block.before" "../blocks/$block.c" "../$block.after" > $block.c
	package=lmdbio start=()
	[[ $block != mpi_* ]] || package='lmdbio-mpi lmdbio mpich' start=(mpiexec -n 2)
	# shellcheck disable=SC2046,SC2086
	judge "${block}_compiles" $cc -std=gnu11 -Wall -Werror -o $block $block.c $(flags $package)
	tested $block "${start[@]}" ./$block
done
judge mpi_stage_leaves_a_copy test -n "$(find "$scratch/local/ssd" -name data.mdb)"
unset PKG_CONFIG_PATH

# --- the trainer, with the libraries that this build has ---
fresh
sed -E "s,\.\./contrib,$top_srcdir/contrib,; s,(^| )(contrib/trainer/(fragments_make|softmax)),\1$top_builddir/\2,
	s, 2000 , 60 ,; s,-n 4,-n 2," ../blocks/trainer.sh > commands
tested trainer bash -euo pipefail commands

# --- the commands of a developer ---
fresh
mkdir original
cp "$(${cc##* } -print-file-name=liblmdb.a)" liblmdb.a
sed "s|lib/origin/|$top_srcdir/&|; s|-C build|-s -C $top_builddir|; s|DIR|$PWD/original|g; s|ORIGIN_$PWD/original|ORIGIN_DIR|" \
	../blocks/compare_with.sh > commands
if [ -e "$top_builddir/lib/origin/liborigin.a" ]; then
	tested compare_with bash -euo pipefail commands
else
	untested=${untested/ compare_with / }
	not_run compare_with "this build has no archive of the original"
fi
# `make -n` prints what make would run: this test is among it.
sed "s|^make|make -n -C $top_builddir|" ../blocks/edit.sh > commands
tested edit bash -euo pipefail commands
# Only configure runs: tests/run makes the builds themselves. A configure takes long: all of them run at night,
# otherwise the first one.
printf '#!/bin/sh\nexec "%s/configure" -q "$@"\n' "$top_srcdir" > configure
chmod +x configure
configure_knows
sed 's/^mkdir.*$/(&)/' ../blocks/builds.sh > all
head -n "$([ -n "${TESTS_LONG:-}" ] && echo 9 || echo 1)" all > commands
tested builds bash -euo pipefail commands
cd "$scratch"
judge no_block_is_left_out test -z "${untested// /}"
test -z "${untested// /}" || echo "not run: $untested"

# --- commands inside sentences ---
table=$top_srcdir/tests/docs/page_commands
# shellcheck disable=SC2046 # names, one a line
(cd "$top_srcdir" && $python tests/docs/page_commands.py README.md SECURITY.md $(echo "$pages" | grep md$)) | cut -f2 | sort > stand
grep -v '^#' "$table" | cut -f1 | sort > listed
same each_command_of_a_sentence_is_in_page_commands listed stand
manuals=$scratch/root$(directory mandir) PKG_CONFIG_PATH=$libraries/pkgconfig BUILD=$top_builddir
export top_srcdir top_builddir manuals libraries PKG_CONFIG_PATH BUILD
while IFS=$'\t' read -r -u 9 command how what text; do
	case $how in
	as) judge "as $what: $command" grep -qE "^(run|long)$" <(awk -F '\t' -v it="$what" '$1 == it { print $2 }' "$table") ;;
	by) judge "$what: $command" grep -qF -e "${text:-$command}" "$top_srcdir/$what" ;;
	run | long)
		if [ "$how" = run ] || [ -n "${TESTS_LONG:-}" ]; then
			fresh
			status "$command" 0 bash -euo pipefail -c "$what" 9<&- < /dev/null
		fi ;;
	esac
done 9< <(grep -v '^#' "$table")
cd "$scratch"
rm -rf root work
finish
