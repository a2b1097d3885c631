#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks the built libraries and commands against what SECURITY.md says about them.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need readelf

flags=$(sed -n 's/^LMDBIO_CFLAGS = //p' "$top_builddir/Makefile")
libraries=$(find "$top_builddir/compat" -name 'liblmdb*.so*' -type f)
commands=$(find "$top_builddir/tools" -maxdepth 1 -name 'lmdbio-*' -type f ! -name '*.o')

has() {
	readelf -W -d -l -h "$1" | grep -q -- "$2"
}

# An executable stack has E among its flags.
stack_is_data() {
	readelf -W -l "$1" | awk '$1 == "GNU_STACK" { found = 1; if ($0 ~ /RWE/) bad = 1 } END { exit !found || bad }'
}

refers_to() {
	readelf -W -s "$1" | grep -q " $2\(@\|\$\)"
}

judge libraries_are_found test "$(echo "$libraries" | wc -l)" -ge 3
judge commands_are_found test "$(echo "$commands" | wc -l)" -ge 4
for file in $libraries $commands; do
	name=$(basename "$file")
	judge "relocations_of_${name}_are_read_only" has "$file" GNU_RELRO
	judge "symbols_of_${name}_are_bound_at_start" has "$file" BIND_NOW
	judge "stack_of_${name}_holds_data_alone" stack_is_data "$file"
done
for file in $commands; do
	judge "$(basename "$file")_is_position_independent" has "$file" 'Type:.*DYN'
done

# Options that configure has found the compiler to accept; other options are not expected.
case $flags in
*-fstack-protector-strong*) judge stacks_of_the_core_are_guarded refers_to "$core" __stack_chk_fail ;;
esac
case $flags in
*-D_FORTIFY_SOURCE=[23]*) judge calls_of_the_core_know_their_buffers refers_to "$core" __snprintf_chk ;;
esac
case $(${CC:-cc} --version) in
*"Free Software"*|*clang*) judge the_compiler_takes_the_flags test "${flags#*-fstack-protector-strong}" != "$flags" ;;
esac
finish
