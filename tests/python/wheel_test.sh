#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Tests that pip makes a wheel of the sdist, and that the wheel alone suffices to read through lmdbio.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
python=/usr/bin/python3
"$python" -c 'import setuptools, pip, wheel, lmdb' 2> /dev/null ||
	skip "no python3-pip, python3-setuptools, python3-wheel or python3-lmdb here"
[ ! -e "$top_srcdir/.git" ] || command -v git > /dev/null || skip "no git here, which tells what an sdist of a checkout has"
unset PYTHONPATH MAKEFLAGS MFLAGS
export PYTHONDONTWRITEBYTECODE=1 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export CFLAGS=-O0 # the wheel's content is tested, not its speed
cd "$scratch"
configure_knows

# pip calls the backend in the source's folder; the calls here are the same.
(cd "$top_srcdir" && "$python" -B -c 'import sys
sys.path.insert(0, "python")
import build_backend
print(build_backend.build_sdist(sys.argv[1]))' "$scratch") > out 2> err
judge sdist_is_made test -s "$(cat out)"
cat err
sdist=$(cat out)
tar -xf "$sdist"
if [ -n "${TESTS_LONG:-}" ]; then
	status pip_makes_a_wheel_of_the_sdist 0 "$python" -m pip wheel --no-build-isolation --no-deps -q -w wheels "$sdist"
	wheel=$(ls wheels)
	judge wheel_serves_every_python3 expr "$wheel" : 'lmdbio-[0-9.]*-py3-none-linux_.*\.whl'
	if [ -e "$top_srcdir/.git" ]; then
		git -c safe.directory='*' clone -q "$top_srcdir" checkout
		status pip_makes_a_wheel_of_a_checkout 0 "$python" -m pip wheel --no-build-isolation --no-deps -q -w again ./checkout
		judge checkout_gives_the_same_kind_of_wheel test -s "again/$wheel"
	fi
fi

# README's command, in a virtual environment; pip would download its own environment for the build.
site_make "$python"
mkdir blocks
"$python" "$top_srcdir/tests/docs/page_blocks.py" "$top_srcdir/README.md" blocks > out
PATH=$scratch/site/bin:$PATH
export PATH
status pip_installs_from_a_folder_of_the_source 0 env PIP_NO_BUILD_ISOLATION=0 PIP_QUIET=1 \
	sh -euc 'cd "$1" && . "$2"' - "${sdist%.tar.gz}" "$scratch/blocks/pip.sh" # README.md's blocks/pip.sh
modules=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
judge wheel_is_for_every_python3 grep -q '^Tag: py3-none-linux_' "$modules"/lmdbio-[0-9]*.dist-info/WHEEL
(cd / && python3 -c 'import lmdbio; print(lmdbio.library()._name)') > out
judge wheel_brings_its_library test "$(dirname "$(cat out)")" = "$modules/lmdbio/native/lib/lmdbio"
status wheel_takes_effect_on_py_lmdb 0 python3 -m lmdbio check
status wheel_has_lmdbio_run 0 site/bin/lmdbio-run --verbose -- python3 -c \
	'import lmdb; lmdb.open("db", map_size=1 << 20).close(); lmdb.open("db", readonly=True).close()'
judge wheel_reads_through_lmdbio grep -q 'db: read by lmdbio' err
for program in "$top_builddir"/tools/lmdbio-*; do
	[ -f "$program" ] || continue
	name=${program##*/}
	told "wheel_has_$name" 0 "^$name (lmdbio) [0-9]" "site/bin/$name" --version
done
status wheel_s_commands_work 0 site/bin/lmdbio-check -q db
finish
