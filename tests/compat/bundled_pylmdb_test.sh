#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# py-lmdb as PyPI's and conda-forge's wheels ship it, with its own LMDB inside, runs on lmdbio.
#
# py-lmdb's source is Debian's, of each release that the mirror has; PYLMDB_SOURCES names folders with further ones.
# Each is built as the wheels are (default visibility, calls through the PLT), bound to itself as Debian's Python
# links extensions, and with LMDB's version set to 1.0.1.
# shellcheck disable=SC2086 # $way, $python: words of a command
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source=../tools/mirror.sh
. "$top_srcdir/tests/tools/mirror.sh"
need apt-get gcc patch tar
python=/usr/bin/python3
$python -c 'import setuptools, sysconfig, os
os.stat(sysconfig.get_path("include") + "/Python.h")' 2> /dev/null ||
	skip "no python3-setuptools or python3-dev here"
unset MAKEFLAGS MFLAGS CFLAGS LDFLAGS LMDB_FORCE_SYSTEM LMDB_FORCE_CFFI LMDB_PURE
export CFLAGS=-O0 # its speed does not matter
export top_srcdir PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore TMPDIR="$scratch" LMDBIO_NODE="$scratch"
compat=$top_srcdir/tests/compat
releases="bookworm trixie sid"
cd "$scratch"

# fetched RELEASE: the source of that release, unpacked in sources/VERSION; false if the mirror lacks it.
fetched() {
	mkdir -p "fetch/$1"
	(cd "fetch/$1" && own_apt source --download-only --tar-only "py-lmdb/$1") > "fetch/$1.log" 2>&1 ||
		return 1
	for tar in "fetch/$1"/*.orig.tar.*; do
		mkdir -p sources/new && tar -xf "$tar" -C sources/new --strip-components=1 &&
			rm -rf "sources/$(version_of sources/new)" &&
			mv sources/new "sources/$(version_of sources/new)"
	done
}

# version_of SOURCE: the version that py-lmdb's source declares.
version_of() {
	sed -n "s/^__version__ = '\(.*\)'/\1/p" "$1/lmdb/__init__.py"
}

# Python 3.13 has no PyObject_AsReadBuffer, which py-lmdb 1.4 calls; Debian 13 builds it with a patch.
headers=$($python -c 'import sysconfig; print(sysconfig.get_path("include"))')

# built SOURCE FOLDER FLAG...: py-lmdb's extension, linked with these flags, in a copy of its source.
built() {
	cp -r "$1" "$2" && rm -rf "$2/build" "$2"/lmdb/*.so
	grep -rqw PyObject_AsReadBuffer "$headers" || ! grep -qw PyObject_AsReadBuffer "$2/lmdb/cpython.c" ||
		sed -i "s|^#include \"Python.h\"|&\n#include \"$compat/pylmdb_buffer.h\"|" "$2/lmdb/cpython.c"
	(cd "$2" && shift 2 && LDSHARED="gcc -shared -pthread $*" $python setup.py -q build_ext --inplace) \
		> build.log 2>&1 || {
		tail -n 20 build.log
		return 1
	}
}

# verdict NAME EXPECTED-CODE PATTERN PYTHONPATH: what --check=run says about `import lmdb` from that path.
verdict() {
	told "check_of_$1_ends_with_$2_and_says_why" "$2" "$3" \
		env PYTHONPATH="$4" "$lmdbio_run" --check=run -- $python -c 'import lmdb'
}

# reads NAME WAY: writes to files what the clients' test program and the program with hints read.
reads() {
	local way=$2
	rm -rf copies
	mkdir copies
	PYTHONPATH="$wheel" $way $python "$compat/python_read.py" data copies > "$1.read" 2> "$1.err" &&
		PYTHONPATH="$top_srcdir/python:$wheel" $way $python "$compat/hints_read.py" "$how" hinted \
			> "$1.hints" 2>> "$1.err"
}

# remedy_works SOURCE VERSION: runs the command that --check=run has just recommended, where a module is installed
# that lmdbio does not reach. pip finds the source in a folder instead of at PyPI.
remedy_works() {
	local remedy
	remedy=$(sed -n 's/.*(\(LMDB_FORCE_SYSTEM=1 pip install [^)]*\)).*/\1/p' out)
	judge "${label}_has_the_remedy_of_README" grep -qF "\`$remedy\`" "$top_srcdir/README.md"
	rm -rf site links
	mkdir links
	tar -czf "links/lmdb-$2.tar.gz" --exclude=./build --exclude='./lmdb/*.so' --transform="s,^\.,lmdb-$2," -C "$1" .
	site_make $python
	(
		export PATH="$scratch/site/bin:$PATH" PIP_NO_INDEX=1 PIP_FIND_LINKS="$scratch/links" PIP_NO_BUILD_ISOLATION=0 PIP_QUIET=1
		LDSHARED="gcc -shared -pthread -Wl,-Bsymbolic-functions" pip install --ignore-installed --no-cache-dir --no-deps lmdb
		"$lmdbio_run" --check=run -- python3 -c 'import lmdb' > before || true
		bash -euc "$remedy"
		"$lmdbio_run" --check=run -- python3 -c 'import lmdb' > after
	) > remedy.log 2>&1 || tail -n 20 remedy.log
	judge "${label}_is_not_reached_before_the_remedy" grep -q 'site/.*exports an LMDB of its own' before
	judge "${label}_is_reached_after_the_remedy" grep -q 'takes effect: .*/site/.* was bound to lmdbio; LMDB .* inside lmdbio' after
}

# wheel_works VERSION SOURCE: all cases of one version of py-lmdb.
wheel_works() {
	local label=py_lmdb_${1//./_} rc how suite way
	wheel=$scratch/wheel-$1
	judge "${label}_builds_as_the_wheels_do" built "$2" "$wheel"
	lmdb=$(PYTHONPATH=$wheel $python -c 'import lmdb; print("%d.%d.%d" % lmdb.version())')
	echo "-- py-lmdb $1: LMDB $lmdb inside"
	judge "${label}_carries_its_own_patched_lmdb" sh -c \
		"nm -D --defined-only '$wheel'/lmdb/cpython*.so | grep -q ' T mdb_env_copy3$'"

	# The data is written and read without lmdbio, then with it: by the module's own LMDB, and by lmdbio.
	rm -rf data hinted
	PYTHONPATH=$wheel $python "$compat/python_make.py" data
	PYTHONPATH=$wheel $python "$compat/hints_read.py" make hinted
	how=plain
	judge "${label}_reads" reads plain ''
	rm -rf data hinted
	PYTHONPATH=$wheel "$lmdbio_run" --verbose -- $python "$compat/python_make.py" data 2> made.err
	PYTHONPATH=$wheel "$lmdbio_run" -- $python "$compat/hints_read.py" make hinted
	judge "${label}_is_its_own_original" grep -q \
		"the original is LMDB $lmdb, $wheel/lmdb/cpython.*so$" made.err
	judge "${label}_has_no_other_original" test "$(grep -c 'the original is' made.err)" -eq 1
	judge "${label}_writes_by_its_own_lmdb" grep -q 'plain.mdb: forwarded, it is opened for writing' made.err
	how=hints
	judge "${label}_reads_on_lmdbio" reads ours "$lmdbio_run --verbose --store=arena --"
	judge "${label}_is_read_by_lmdbio" grep -q 'plain.mdb: read by lmdbio' ours.err
	judge "${label}_has_its_own_original_for_reading_too" grep -q \
		"the original is LMDB $lmdb, $wheel/lmdb/cpython.*so$" ours.err
	same "${label}_reads_the_same" plain.read ours.read
	same "${label}_reads_the_same_with_hints" plain.hints ours.hints
	judge "${label}_has_usable_hints" grep -qx 'why not: None' ours.err
	judge "${label}_has_hints_that_read_ahead" grep -qx 'ahead: [1-9][0-9]*' ours.err

	# The module's own test suite. A test may fail here for reasons of its own; then it fails in both runs.
	for suite in plain ours; do
		rc=0
		way=(timeout 300)
		[ $suite = plain ] || way+=("$lmdbio_run" --)
		(cd "$wheel" && PYTHONPATH=. "${way[@]}" $python "$compat/pylmdb_suite.py" "$scratch/$suite.suite") \
			> $suite.log 2>&1 || rc=$?
		judge "${label}_has_a_suite_that_ends_${suite}" test $rc -eq 0
	done
	same "${label}_has_the_same_pass_list" plain.suite ours.suite
	cmp -s plain.suite ours.suite || grep -a -A 12 Traceback ours.log
	judge "${label}_passes_hundreds" test "$(grep -c ' passed$' ours.suite)" -gt 150
	echo "-- $(sed 's/.* //' ours.suite | sort | uniq -c | tr '\n' ' ')"

	# What --check=run says about each form.
	verdict "$label" 0 "cpython.*so was bound to lmdbio; its own LMDB $lmdb opens and writes its data$" "$wheel"
	judge "${label}_is_bound_to_itself" built "$2" bound -Wl,-Bsymbolic-functions
	verdict "${label}_bound_to_itself" 1 \
		"cpython.*so exports an LMDB of its own ($lmdb) .*LMDB_FORCE_SYSTEM=1 pip install .*--no-binary lmdb lmdb" bound
	remedy_works bound "$1"
	told "${label}_bound_to_itself_has_no_hints" 0 'an LMDB of its own, which lmdbio does not reach' \
		env PYTHONPATH="$top_srcdir/python:bound" "$lmdbio_run" -- $python -c \
		'import lmdb, lmdbio; print(lmdbio.Hints(lmdb.open("hinted", readonly=True)).why_not)'
	cp -r "$2" renamed
	sed -i -E 's/^(#define MDB_VERSION_(MAJOR|PATCH)\s).*/\11/; s/^(#define MDB_VERSION_MINOR\s).*/\10/' \
		renamed/lib/lmdb.h
	judge "${label}_is_built_as_1_0_1" built renamed later
	verdict "${label}_with_LMDB_1_0" 1 \
		'cpython.*so carries LMDB 1.0.1, which lmdbio leaves to itself: start the program without lmdbio; .* LMDB 1.0, and refuses those of LMDB 0.9' later
	(cd later && PYTHONPATH=. "$lmdbio_run" --verbose -- $python -c \
		'import lmdb; lmdb.open("set").close(); lmdb.open("set", readonly=True).close()') > out 2> err
	judge "${label}_with_LMDB_1_0_is_left_to_itself" grep -q 'is left to itself.*lmdb/cpython' err
	judge "${label}_with_LMDB_1_0_is_not_read_by_lmdbio" sh -c '! grep -q "read by lmdbio" err'
	rm -rf bound later renamed "$wheel"
}

if $python -c 'import lmdb' 2> /dev/null; then
	verdict debian 0 'cpython.*so was bound to lmdbio; LMDB 0\.9\.[0-9]* inside lmdbio opens and writes' ''
else
	not_run check_of_debian "no python3-lmdb here"
fi
# shellcheck disable=SC2086
mirror_open deb-src $releases
mkdir sources
for release in $releases; do
	fetched "$release" || not_run "py_lmdb_of_$release" \
		"the mirror has no source of $release's py-lmdb: $(grep -m 1 '^E:' "fetch/$release.log")"
done
for source in ${PYLMDB_SOURCES:-}; do
	cp -r "$source" "sources/$(version_of "$source")"
done
[ -n "$(ls sources)" ] || skip "the mirror has no source of py-lmdb"
for version in $(find sources -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -V); do
	wheel_works "$version" "$scratch/sources/$version"
done
finish
