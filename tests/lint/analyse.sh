#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Looks for defects without running anything: gcc -fanalyzer -Wconversion, clang-tidy, cppcheck and shellcheck.
#
# usage: analyse.sh BUILD
# Analyses each source of a configured build tree's library, drop-in and commands as it is compiled there.
# A finding is "PATH CHECK COUNT": tests/lint/accepted lists those that are no defects, each with its reason.
# Ends with 1 for a finding that is not listed, or a listed one that does not occur any more; with 2 without the four
# programs.
set -eu
export LC_ALL=C
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in gcc clang-tidy cppcheck shellcheck; do
	command -v "$program" > /dev/null || { echo "analyse.sh: $program is not installed"; exit 2; }
done

# Checks that are off as a whole:
# easily-swappable-parameters, narrowing-conversions: -Wconversion finds what the compiler cannot prove;
# assignment-in-if-condition, suspicious-string-compare: the style of this code;
# sizeof-expression: arrays of pointers are meant; reserved-identifier, dcl37: _GNU_SOURCE and the like;
# err33: printf to a report or a terminal, whose failure needs no message;
# err34: texts of the kernel and of a launcher, where a missing number means none;
# implicit-widening: of constants that gcc multiplies; branch-clone: cases with different reasons;
# not-null-terminated-result: bytes that are no strings.
tidy="-*,bugprone-*,cert-*,-bugprone-easily-swappable-parameters,-bugprone-narrowing-conversions"
tidy+=",-bugprone-assignment-in-if-condition,-bugprone-suspicious-string-compare,-bugprone-sizeof-expression"
tidy+=",-bugprone-reserved-identifier,-cert-dcl37-c,-cert-dcl51-cpp,-cert-err33-c,-cert-err34-c"
tidy+=",-bugprone-implicit-widening-of-multiplication-result,-bugprone-branch-clone"
tidy+=",-bugprone-not-null-terminated-result"

# compiled: prints "SOURCE FLAGS..." for each source that `make all` would compile.
compiled() {
	make -C "$build" -n -B -o Makefile -o "$top/Makefile.in" -o "$top/configure" -o "$top/aclocal.m4" \
		-o config.status -o config.h -o stamp-h1 -o "$top/config.h.in" all 2> "$work/make" |
		sed -n 's/.* \(-DHAVE_CONFIG_H .*\) -MT .* -c -o .*`\([^ ]*\.c\)\( .*\)\{0,1\}$/\2 \1/p' |
		sed 's/ -Werror / /' | sort -u -k1,1
}

# one SOURCE FLAGS...: prints the findings of gcc, with and without ThreadSanitizer, and of clang-tidy.
one() {
	local source=$1 flags
	shift
	eval "flags=($*)"
	(cd "$build" && gcc "${flags[@]}" -Wconversion -fanalyzer -c -o /dev/null "$top/$source") 2>&1
	(cd "$build" && gcc "${flags[@]}" -fsanitize=thread -O1 -c -o /dev/null "$top/$source") 2>&1
	(cd "$build" && clang-tidy --quiet -checks="$tidy" "$top/$source" -- "${flags[@]}") 2> /dev/null
}
export -f one
export top build tidy

# findings: turns lines "path:line:column: warning: text [check]" into "path check count".
findings() {
	sed -nE "s#^(\.\./|$top/)*([^:]+):[0-9]+:[0-9]+: (warning|error|note|portability|performance|style): .*\[([^]]+)\]\$#\2 \4#p; \
		s#^cc1: warning: .*\[([^]]+)\]\$#cc1 \1#p" | sort | uniq -c | awk '{ print $2, $3, $1 }'
}

compiled > "$work/compiled"
[ -s "$work/compiled" ] || { cat "$work/make"; echo "analyse.sh: $build compiles nothing"; exit 2; }
cd "$top"
{
	xargs -P "$(nproc)" -d '\n' -I{} bash -c 'one $1' one {} < "$work/compiled" > "$work/compilers" || true
	sort -u "$work/compilers"
	cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,portability,performance --inline-suppr \
		--template='{file}:{line}:{column}: {severity}: {message} [{id}]' -D_GNU_SOURCE -DHAVE_CONFIG_H \
		-I"$build" -Ilib -Iinclude -Itools lib compat tools 2>&1
	# SC2317: functions that the harness calls by name. SC2016: text for another shell.
	git ls-files | xargs grep -lE '^#!/bin/(ba)?sh' | xargs shellcheck -x -f gcc -e SC2317,SC2016 || true
} | findings > "$work/found"
awk '!/^#/ && NF { print $1, $2, $3 }' tests/lint/accepted | sort > "$work/accepted"
echo "$(wc -l < "$work/compiled") sources, $(wc -l < "$work/found") findings," \
	"$(wc -l < "$work/accepted") with a reason in tests/lint/accepted"
sort "$work/found" | diff "$work/accepted" - | sed -n 's/^>/found:/p; s/^</no more:/p' > "$work/news"
cat "$work/news"
[ ! -s "$work/news" ]
