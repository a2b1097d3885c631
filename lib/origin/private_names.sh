#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Makes every public name of the original's archive private.
# usage: private_names.sh NM OBJCOPY liblmdb.a OUT.a
#
# Each defined global gets the prefix lmdbio_orig_; `stderr`, the one reference to data of libc
# that position-independent code may not make this way, is turned to a hidden variable of ours.
# --prefix-symbols would not do: it renames the references to libc too.
set -eu
nm=$1 objcopy=$2 archive=$3 out=$4
map=$out.names
"$nm" --defined-only -g "$archive" |
	awk 'NF == 3 && $3 !~ /^_GLOBAL_OFFSET_TABLE_$/ { print $3, "lmdbio_orig_" $3 }' | sort -u > "$map"
test -s "$map"
# These calls of libc go through us (origin_loan.c says why).
for name in stderr open pread fstatfs mmap munmap pthread_mutex_destroy; do
	echo "$name lmdbio_orig_$name" >> "$map"
done
"$objcopy" --redefine-syms="$map" "$archive" "$out"
rm -f "$map"
