#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that records by number are those that a cursor returns, in random databases of every kind and page size, in
# containers of them, and on either store.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
walk=$top_builddir/tests/loader/records_walk
testdb=$top_builddir/tests/data/lmdbio-testdb
convert=$top_builddir/tools/lmdbio-convert
cd "$scratch"

for kind in keys3000,longest page512,keys2000 page16384,keys3000,mixed integerkey8,keys5000 \
	dupsort,keys2000 dupsort,dupfixed,keys2000,page1024 dupsort,integerdup4,keys1000 \
	reversekey,keys500 named,keys2000,mixed named,dupsort,keys2000; do
	"$testdb" --seed=7 --flags=$kind db > made
	for store in cache arena; do
		rc=0
		LMDBIO_STORE=$store "$walk" db > found.$store 2> err || rc=$?
		judge "records_of_${kind}_on_${store}_are_the_cursors" test $rc -eq 0
		test $rc -eq 0 || cat err
	done
	sed -n 's/^\([^ ]*\): \([0-9]*\) entries.*/\1: \2 records/p' made | sort > expected
	sort found.cache | grep -Fx -f expected > both || true
	judge "records_of_${kind}_were_made" test -s expected
	same "records_of_${kind}_are_as_many_as_made" expected both
	"$convert" -q -f db packed
	rc=0
	"$walk" packed > found.packed 2> err || rc=$?
	judge "records_of_${kind}_packed_are_the_cursors" test $rc -eq 0
	test $rc -eq 0 || cat err
	same "records_of_${kind}_packed_are_the_same" found.cache found.packed
	rm -rf db packed
done
finish
