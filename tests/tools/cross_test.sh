#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# A build for another machine runs no program that it has built: manuals and completion come from a release archive,
# or through RUN_BUILT.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need make autoconf
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
[ ! -e "$top_srcdir/config.status" ] || skip "the source folder is a build of its own"
here=$("$top_srcdir/build-aux/config.guess") || skip "this machine has no name"
cd "$scratch"

# --- a release archive's folder ---
flock "$top_builddir/compat" make -C "$top_builddir" -s --no-print-directory distdir distdir="$scratch/release" \
	> distdir.log 2>&1 || cat distdir.log
judge archive_has_a_manual grep -q '^\.SH OPTIONS' release/doc/lmdbio-run.1
for file in bash/lmdbio-run zsh/_lmdbio-run fish/lmdbio-run.fish; do
	judge "archive_has_${file%%/*}_completion" test -s "release/tools/$file"
done

# configured NAME SOURCE ARGUMENT...: configures for another machine, in the folder NAME.
# shellcheck disable=SC2317
configured() {
	mkdir "$1"
	# The cached results serve any arguments, except those that record the arguments.
	[ ! -e cache ] || sed -i '/^ac_cv_env_/d' cache
	(cd "$1" && shift && source=$1 && shift &&
		"$source/configure" -q --cache-file=../cache --build="$here" --host="${here%%-*}-other-linux-gnu" \
			CC="${CC:-gcc}" NM_TOOL="$(command -v nm)" OBJCOPY="$(command -v objcopy)" "$@") > configure.log 2>&1 ||
		{ cat configure.log; return 1; }
}
# would FOLDER TARGET: what make would run for a target.
# shellcheck disable=SC2317
would() {
	make -C "$1" -n --no-print-directory -o Makefile "$2" > out 2>&1
}

# --- configured from the archive ---
judge archive_is_configured configured shipped "$scratch/release"
judge archive_needs_no_warning sh -c '! grep -q RUN_BUILT configure.log'
mkdir root
status manuals_of_the_archive_are_installed 0 make -C shipped -s --no-print-directory install-man install-nodist_bashDATA \
	install-nodist_zshDATA install-nodist_fishDATA DESTDIR="$scratch/root" prefix=/usr
judge nothing_was_compiled_for_them test ! -e shipped/tools/lmdbio-run
judge manual_is_that_of_the_archive cmp release/doc/lmdbio-run.1 root/usr/share/man/man1/lmdbio-run.1
judge completion_is_that_of_the_archive cmp release/tools/bash/lmdbio-run \
	root/usr/share/bash-completion/completions/lmdbio-run

# --- the archive lacks a manual page ---
rm release/doc/lmdbio-run.1
judge source_is_configured configured bare "$scratch/release"
judge what_is_left_out_is_said grep -q 'manuals and completion of the commands are left out: set RUN_BUILT' configure.log
judge no_manual_can_be_made sh -c '! make -C bare -n --no-print-directory -o Makefile doc/lmdbio-run.1 > out 2>&1'
status rest_is_installed 0 make -C bare -s --no-print-directory install-man DESTDIR="$scratch/rest" prefix=/usr
judge rest_has_no_manual_of_a_command test ! -e rest/usr/share/man/man1/lmdbio-run.1 -a -e rest/usr/share/man/man7/lmdbio.7

# --- with a program that runs the other machine's programs ---
judge runner_is_configured configured runner "$scratch/release" RUN_BUILT='emulator -x'
judge runner_needs_no_warning sh -c '! grep -q "left out" configure.log'
judge manual_would_be_made would runner doc/lmdbio-run.1
judge manual_is_made_by_the_runner grep -q 'emulator -x tools/lmdbio-run --table-of-options' out
judge completion_would_be_made would runner tools/zsh/_lmdbio-run
judge completion_is_made_by_the_runner grep -q 'emulator -x tools/lmdbio-run --table-of-options' out
finish
