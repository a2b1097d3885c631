#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# The batch loader runs in a process with a limited address space, from too little to enough: it reads every record,
# or says what it lacked. It never waits for memory that no batch will give back.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
read=$top_builddir/tests/loader/loader_read
make=$top_builddir/tests/stores/stores_make
cd "$scratch"

mkdir set
"$make" set 2000 10000 0 > /dev/null

# limited KILOBYTES: reads an epoch of 2,000 shuffled records of 10 KB, with 8 MiB for batches.
limited() {
	rc=0
	(
		ulimit -v "$1"
		exec timeout 300 "$read" --epochs=1 --batch=32 --memory=8388608 set
	) > lines 2> err || rc=$?
}

for store in arena cache; do
	export LMDBIO_STORE=$store
	limited unlimited
	expected=$(awk '/^epoch/ { print $4, $6, $8 }' lines)
	judge "${store}_without_a_limit_reads_all" test "${expected%% *}" = 2000
	bad=0
	said=0
	for ((limit = 40000; limit < 440000; limit += 20000)); do
		limited $limit
		found=$(awk '/^epoch/ { print $4, $6, $8 }' lines)
		if [ $rc = 0 ] && [ "$found" = "$expected" ]; then
			continue
		elif [ $rc = 1 ] && grep -Eq 'Cannot allocate memory|Resource temporarily unavailable' err; then
			said=$((said + 1))
		else
			echo "ulimit -v $limit: status $rc, $found"
			cat err
			bad=$((bad + 1))
		fi
	done
	judge "${store}_with_a_limit_reads_all_or_says_why_not" test $bad -eq 0
	judge "${store}_with_too_little_says_so" test $said -gt 0
	judge "${store}_with_enough_reads_all" test "$found" = "$expected"
done
finish
