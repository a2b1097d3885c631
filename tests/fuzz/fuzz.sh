#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Shows how a fuzz target is built with clang's libFuzzer and fed a corpus.
# usage: fuzz.sh BUILD tree|later|settings|container_index|container_chunk [SECONDS [libFuzzer's options]]
#
# BUILD is a build tree after `make check`: its config.h and archive are used, and the fuzzer, its
# corpus and what it finds are kept in BUILD/tests/fuzz/libfuzzer/. The corpus begins with the
# target's own examples.
set -eu
[ $# -ge 2 ] || { sed -n 3p "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) target=$2 seconds=${3:-60}
shift 2
[ $# -eq 0 ] || shift
top=$(cd "$(dirname "$0")/../.." && pwd)
clang=${CLANG:-clang}
command -v "$clang" > /dev/null || { echo "fuzz.sh: no $clang" >&2; exit 77; }

# The code under test is compiled here, so that the fuzzer sees its branches; the archive has the
# rest.
flags=
case $target in
later)
	flags=-DCURSOR_INSTANCE=1_0
	sources="tests/fuzz/fuzz_later.c tests/fuzz/fuzz_walk.c tests/fuzz/fuzz_images.c
		tests/unit/page_builder.c tests/data/later_make.c lib/format/meta.c lib/cursor/compare.c
		lib/cursor/cursor_get.c lib/cursor/cursor_move.c lib/cursor/cursor_seek.c
		lib/cursor/descend.c lib/cursor/duplicates.c"
	;;
tree)
	sources="tests/fuzz/fuzz_tree.c tests/fuzz/fuzz_walk.c tests/fuzz/fuzz_images.c
		tests/unit/page_builder.c lib/format/meta.c lib/cursor/compare.c
		lib/cursor/cursor_get.c lib/cursor/cursor_move.c lib/cursor/cursor_seek.c
		lib/cursor/descend.c lib/cursor/duplicates.c"
	;;
settings)
	sources=tests/fuzz/fuzz_settings.c
	;;
container_index)
	sources="tests/fuzz/fuzz_container_index.c tests/container/container_walk.c
		tests/container/container_image.c lib/container/container_*.c"
	;;
container_chunk)
	sources="tests/fuzz/fuzz_container_chunk.c tests/container/container_image.c
		lib/container/container_*.c tools/convert/container_*.c"
	;;
*)
	echo "fuzz.sh: no target $target" >&2
	exit 2
	;;
esac

place=$build/tests/fuzz/libfuzzer
mkdir -p "$place/corpus-$target"
(
	cd "$top"
	# shellcheck disable=SC2046,SC2086 # lists of files and libraries
	"$clang" $flags -std=gnu11 -O1 -g -D_GNU_SOURCE -fno-strict-aliasing \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-include lib/core_names.h -Ilib -Iinclude -I"$build" -Itests/unit -Itests/fuzz -Itests/data -Itests/container -Itools/convert \
		-o "$place/$target" $sources "$build/lib/.libs/liblmdbio-core.a" \
		$(sed -n 's/^LIB\(URING\|ZSTD\)_LIBS = //p' "$build/Makefile") -lpthread
)
"$build/tests/fuzz/fuzz_$target" --write "$place/corpus-$target"
cd "$place"
exec "./$target" -max_total_time="$seconds" -timeout=5 -max_len=300000 "$@" "corpus-$target"
