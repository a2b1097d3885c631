#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Runs every command and snippet of README.md unchanged, on an installation of this build.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
/usr/bin/python3 -c 'import importlib.util, lmdb, numpy; importlib.util.find_spec("torch").loader' 2> /dev/null ||
	skip "no python3-lmdb, python3-torch or python3-numpy here"
need mpiexec
trap 'lmdbio-serve --stop > /dev/null 2>&1 || :; rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1 LMDBIO_NODE="$scratch"
cd "$scratch"

mkdir blocks work bin ssd
status every_block_has_a_test 0 /usr/bin/python3 "$top_srcdir/tests/docs/page_blocks.py" \
	"$top_srcdir/README.md" blocks
blocks=$(ls blocks)
untested=" $(tr '\n' ' ' < out) "

# ran BLOCK COMMAND...: the case of that block: the command must end with 0.
ran() {
	untested=${untested/ $1 / }
	local block=$1
	shift
	status "${block}_works" 0 "$@"
}

# by BLOCK TEST: the case of a block that another test runs, on an installation that it makes.
by() {
	untested=${untested/ $1 / }
	judge "${1}_is_run_by_$2" grep -q "README.md.*blocks/$1.sh" "$top_srcdir/$2"
}

# --- the first command and the installation: this build stands for their results ---
by deb tests/tools/packages_test.sh
by pip tests/python/wheel_test.sh
# A small data set is enough, and the tree is built already. The second command would run this test.
judge second_command_is_what_README_names grep -q '^tests/run ' blocks/source.sh
sed '/^tests\/run/d; s/quickstart */& 8 /' blocks/source.sh > source.sh
ran source env BUILD="$top_builddir" FOLDER="$scratch/quick" sh -euc 'cd "$1" && . "$2"' - "$top_srcdir" "$scratch/source.sh"
judge quickstart_compares_both_libraries grep -q 'lmdbio' out
rm -rf quick
judge install_ends_with_make_install grep -q '&& \.\./configure && make && make install$' blocks/install.sh
ran install tree_make install
python_modules=$scratch/root$(directory pythondir)
export PYTHONPATH=$python_modules
PATH="$scratch/bin:$scratch/root$(directory bindir):$PATH"
# README says python3: the one with Debian's packages is meant. srun only starts the program.
ln -s /usr/bin/python3 bin/python3
printf '#!/bin/sh\nexec "$@"\n' > bin/srun
chmod +x bin/srun

# --- Python ---
cd work
cp ../blocks/dataset.python train.py
python3 -c 'import lmdb
with lmdb.open("train", map_size=1 << 26) as env, env.begin(write=True) as txn:
    for i in range(1000):
        txn.put(b"%08d" % i, b"%08d" % i * 500)'
ran dataset lmdbio-run -- python3 train.py
for block in loader records; do
	cp "../blocks/$block.python" "$block.py"
	ran "$block" lmdbio-run -- python3 "$block.py"
done

# --- shell ---
# shape: a verdict with its numbers replaced, because they differ from run to run.
shape() {
	sed 's/[0-9][0-9.]*/N/g; s/ is not / is /'
}
untested=${untested/ said / }
for block in thirty check convert; do
	ran "$block" bash -euo pipefail "../blocks/$block.sh"
	case $block in
	thirty)
		grep '^lmdbio: I/O' err | shape > verdict
		shape < ../blocks/said.text > shown
		same verdict_is_what_README_shows shown verdict
		judge stats_become_a_page grep -q '</html>' report.html
		;;
	check)
		judge check_says_that_it_takes_effect grep -qi 'lmdbio' out
		judge verbose_names_the_data_set grep -q 'train: read by lmdbio' err
		;;
	convert) judge converted_back_is_the_same cmp train/data.mdb back/data.mdb ;;
	esac
done
# --seconds=2 in place of a minute, which suits a user.
sed 's/^lmdbio-bench /&--seconds=2 /' ../blocks/bench.sh > bench.sh
ran bench bash -euo pipefail bench.sh
judge bench_tells_how_much_faster grep -q '^lmdbio reads this data set ' out
printf '#!/bin/sh\nexec %s plain "$1"\n' "$top_builddir/tests/mpi/inside_reader" > program
chmod +x program
sed "s|/local/ssd|$scratch/ssd|" ../blocks/cluster.sh > cluster.sh
printf 'lmdbio-serve --stop\nwait\n' >> cluster.sh
ran cluster bash -euo pipefail cluster.sh

# --- C ---
{ cat ../blocks/hints.c; echo 'int main(void) { return read_batch(0, 0, 0, 0, 0) == 0; }'; } > hints.c
PKG_CONFIG_PATH="$scratch/root$(directory libdir)/pkgconfig"
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
ran hints cc -std=gnu11 -Wall -Werror -o hints hints.c $(pkg-config \
	--define-variable=libdir="$scratch/root$(directory libdir)" \
	--define-variable=includedir="$scratch/root$(directory includedir)" --cflags --libs lmdbio)
status hints_program_runs 0 ./hints
judge no_block_is_left_out test -z "${untested// /}"
test -z "${untested// /}" || echo "not run: $untested of $blocks"
rm -rf "$scratch/root"
finish
