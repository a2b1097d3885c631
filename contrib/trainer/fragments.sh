#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Chooses the files of this machine that the example trainer learns to tell apart.
#
#	fragments.sh FRAGMENTS_MAKE MOST TRAIN TEST
#
# Makes two LMDB environments, TRAIN and TEST, of up to MOST fragments of 4096 bytes of each class:
#	0 headers in C    1 machine code    2 Python    3 compressed    4 translations    5 Perl
# A class without files on this machine stays empty. The same files give the same data sets.
set -eu
LC_ALL=C
export LC_ALL

# files CLASS PATTERN FOLDER...: prints a line for each file of more than 7 KiB, in order of names.
files() {
	class=$1 pattern=$2
	shift 2
	find "$@" -type f -size +7k -name "$pattern" 2> /dev/null | sort | sed "s/^/$class /" || true
}

{
	files 0 '*.h' /usr/include /usr/lib/gcc
	files 1 '*.so*' /usr/lib
	files 2 '*.py' /usr/lib/python3* /usr/share
	files 3 '*.gz' /usr/share
	files 4 '*.mo' /usr/share/locale
	files 5 '*.p[lm]' /usr/share/perl /usr/lib /usr/share/automake-1.16
} | "$1" "$2" "$3" "$4"
