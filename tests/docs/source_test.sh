#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Runs README's commands from a fresh checkout to an installation, unchanged: its first command, and the one that ends
# with make install.
#
# One of the long tests: it builds twice.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need autoreconf make git
unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS LDFLAGS BUILD FOLDER
cd "$scratch"
mkdir blocks checkout
/usr/bin/python3 "$top_srcdir/tests/docs/page_blocks.py" "$top_srcdir/README.md" blocks > out
(cd "$top_srcdir" && git -c safe.directory='*' ls-files -z | xargs -0 cp --parents -t "$scratch/checkout")

sed -i '/^tests\/run/d' blocks/source.sh # it would run this test
status source_works 0 sh -euc 'cd checkout && . ../blocks/source.sh'
judge quickstart_shows_a_table grep -q 'lmdbio' out
rm -rf checkout/build checkout/configure
# make takes DESTDIR from the environment.
status install_works 0 env DESTDIR="$scratch/root" sh -euc 'cd checkout && . ../blocks/install.sh'
run=$(find root -name lmdbio-run -perm -100)
told installed_lmdbio_run_works 0 '^lmdbio-run (lmdbio) [0-9]' "$run" --version
if /usr/bin/python3 -c 'import lmdb' 2> err; then
	told installed_lmdbio_run_takes_effect 0 'takes effect' "$run" --check=run -- /usr/bin/python3 -c 'import lmdb'
fi
finish
