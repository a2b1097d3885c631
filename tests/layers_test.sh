#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks which layer includes which, which files include <mpi.h>, and that file names are unique.
#
# A folder of lib/ is a layer; an include never points up or sideways unless this table says so.
# shellcheck disable=SC2013,SC2044 # names of this project have no blanks
set -eu
cd "${top_srcdir:-$(dirname "$0")/..}"

allowed() {
	case $1 in
	util) echo "util" ;;
	format) echo "format util" ;;
	io) echo "io util" ;;
	arena) echo "arena io util" ;;
	node) echo "node arena io util" ;;
	window) echo "window node arena format io util" ;;
	cursor) echo "cursor window format util io" ;;
	index) echo "index cursor window container format util io" ;;
	ahead) echo "ahead window node arena format io util" ;;
	prefetch) echo "prefetch ahead cursor window node arena format util io" ;;
	origin) echo "origin" ;;
	container) echo "container io format util" ;;
	env) echo "env prefetch ahead index cursor window node arena container format origin io util" ;;
	loader) echo "loader env prefetch ahead index cursor window node arena container format origin io util" ;;
	mpi) echo "mpi loader env prefetch ahead index cursor window node arena container format origin io util" ;;
	*) echo "" ;;
	esac
}

failures=0
complain() {
	echo "$1"
	failures=$((failures + 1))
}

for folder in lib/*/; do
	[ ! -L "${folder%/}" ] || continue # a link into this folder, to the libraries of a build
	layer=$(basename "$folder")
	may=$(allowed "$layer")
	[ -n "$may" ] || complain "lib/$layer: a layer that this table does not know"
	for included in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([a-z_]*\)\/.*/\1/p' \
		"$folder"*.[ch] | sort -u); do
		case " $may " in
		*" $included "*) ;;
		*) complain "lib/$layer includes $included/: $(grep -l "include \"$included/" "$folder"*.[ch] |
			tr '\n' ' ')" ;;
		esac
	done
done

# A store has functions for all that other layers need of it; its fields and its lock are private.
namers=$(grep -nE '\b(store|runs)(->|\.)[a-z_]+' -r --include='*.[ch]' \
	lib/cursor lib/index lib/ahead lib/prefetch lib/env lib/loader compat tools | grep -v ':#include' || true)
[ -z "$namers" ] || complain "fields of a store are named outside lib/window: $namers"

# The lab uses the library, and nothing that a user runs uses the lab.
for header in $(find lab -name '*.h' | sed 's|.*/||'); do
	users=$(grep -rl --include='*.[ch]' "include \"\(lab/\)\{0,1\}$header\"" lib include compat tools || true)
	[ -z "$users" ] || complain "the lab's $header is included by: $users"
done

for file in $(grep -rl --include='*.[ch]' 'include *<mpi.h>' lib include compat tools lab || true); do
	case $file in
	lib/mpi/* | include/lmdbio_mpi.h) ;;
	*) complain "$file includes <mpi.h>" ;;
	esac
done

# Files are found by their names: no two sources share one.
twice=$(find lib include compat tools lab tests bench -name '*.[ch]' -o -name '*.sh' -o -name '*.py' |
	sed 's|.*/||' | sort | uniq -d)
[ -z "$twice" ] || complain "file names used twice: $twice"

# After its licence each source opens with a sentence that names its subject.
for file in $(find lib compat tools tests bench include -name '*.[ch]' -not -path "include/*"); do
	sed -n 2p "$file" | grep -q '^/\* [A-Z][^ ]* ' || complain "$file: no opening sentence"
done

[ "$failures" -eq 0 ] || { echo "$failures complaints"; exit 1; }
