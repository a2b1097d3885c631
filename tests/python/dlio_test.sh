#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# The readers of contrib/dlio give DLIO the bytes that py-lmdb reads, from data sets and containers, and one of them
# announces each batch before it reads it.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
python=/usr/bin/python3
"$python" -c 'import lmdb' 2> /dev/null || skip "no python3-lmdb here"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/python:$top_srcdir/contrib/dlio" LMDBIO_NODE="$scratch"
export LIBLMDBIO="$dropin"
check=$top_srcdir/tests/python/dlio_check.py
cd "$scratch"

mkdir backing
"$python" "$check" make backing
for name in one two; do
	"$top_builddir/tools/lmdbio-convert" -q "backing/$name.lmdb" "backing/$name.packed"
done
for how in index iterate; do
	for suffix in lmdb packed; do
		for class in LmdbioReader LmdbioAheadReader; do
			status "${suffix}_by_${how}_and_${class}_is_right" 0 "$python" "$check" read $class $how $suffix backing \
				backing/*.lmdb
			judge "${suffix}_by_${how}_and_${class}_reads_each_sample" grep -q '^right: 96 samples' out
		done
	done
	status "lmdb_by_pylmdb_and_${how}_is_right" 0 "$python" "$check" read PyLmdbReader $how lmdb backing backing/*.lmdb
	judge "lmdb_by_pylmdb_and_${how}_reads_each_sample" grep -q '^right: 96 samples' out
done
for how in index iterate; do
	for class in LmdbioAheadReader PyLmdbReader; do
		mkdir "many_$how$class"
		status "many_files_by_${how}_and_${class}_are_right" 0 "$python" "$check" many $class $how "many_$how$class"
		judge "many_files_by_${how}_and_${class}_are_read" grep -q '^right: 160 samples' out
	done
done
judge no_lock_file_is_made test ! -e backing/one.packed-lock
finish
