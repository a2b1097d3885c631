#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Builds a fuzz target with clang's libFuzzer and both sanitizers, and feeds it a corpus.
# usage: fuzz.sh BUILD tests/fuzz/fuzz_NAME [SECONDS [libFuzzer's options]]
#
# BUILD is a build tree in which `make check` has built the target. In BUILD/tests/fuzz/libfuzzer/ a second
# tree is configured, once for all targets, so that the fuzzer sees the branches of the whole library. The corpora and
# the inputs that fail are kept beside that tree. A corpus begins with the target's own examples.
set -eu
[ $# -ge 2 ] || { sed -n 4p "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) target=$2 seconds=${3:-60} name=${2##*/fuzz_}
shift 2
[ $# -eq 0 ] || shift
top=$(cd "$(dirname "$0")/../.." && pwd)
clang=${CLANG:-clang}
command -v "$clang" > /dev/null || { echo "fuzz.sh: no $clang" >&2; exit 77; }

place=$build/tests/fuzz/libfuzzer
mkdir -p "$place/build" "$place/corpus-$name" "$place/found"
cd "$place/build"
[ -e config.status ] ||
	"$top/configure" -q CC="$clang" --with-sanitizer=address,undefined CFLAGS="-O2 -g -fsanitize=fuzzer-no-link \
-fsanitize-ignorelist=$top/tests/fuzz/fuzz_ignored -fsanitize-coverage-ignorelist=$top/tests/fuzz/fuzz_ignored"
${MAKE:-make} Makefile > make.out
${MAKE:-make} "$target" LDFLAGS=-fsanitize=fuzzer > make.out
"$build/$target" --write "$place/corpus-$name"
exec "./$target" -max_total_time="$seconds" -timeout=5 -max_len="$("$build/$target" --most)" \
	-artifact_prefix="$place/found/$name-" "$@" "$place/corpus-$name"
