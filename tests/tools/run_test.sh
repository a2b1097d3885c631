#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks the programs for which lmdbio-run --check must answer yes, no or "not known".
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
cc=${CC:-gcc}
need "${cc%% *}" od
test -e /usr/lib/gcc || skip "no compiler's files"

# --- programs of every kind ---
cat > "$scratch/user.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <lmdb.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	Dl_info where;
	MDB_env *env;
	(void)argv;
	if (mdb_env_create(&env) || !dladdr((void *)mdb_env_open, &where))
		return 9;
	if (argc > 99)
		mdb_env_open(env, ".", 0, 0);
	puts(where.dli_fname);
	mdb_env_close(env);
	return argc - 1;
}
END
cat > "$scratch/static.c" <<'END'
#include <lmdb.h>
int main(int argc, char **argv)
{
	MDB_env *env;
	return mdb_env_create(&env) || (argc > 9 && mdb_env_open(env, argv[1], 0, 0));
}
END
cat > "$scratch/outer.c" <<'END'
int inner(void);
int main(void) { return inner(); }
END
sed 's/int main(.*)/int inner(void); int inner(void)/; s/(argc > 9 .*))/mdb_env_open(env, ".", MDB_RDONLY, 0) == 0/' \
	"$scratch/static.c" > "$scratch/inner.c"
echo 'int main(void) { return 0; }' > "$scratch/none.c"
archive=$($cc -print-file-name=liblmdb.a)
cd "$scratch"
$cc -pie -fPIE -o user user.c -llmdb
$cc -static -o static static.c "$archive" -pthread
$cc -o none none.c
# The archive's code can be linked into an executable at a fixed address or anywhere, but not into a shared library;
# there the dynamic library's functions of the same names take its place.
cat > bundle.c <<'END'
const char *version = "LMDB 0.9.24: (bundled)";
int mdb_env_create(void **env) { *env = 0; return 0; }
int mdb_env_open(void *env, const char *path, unsigned flags, unsigned mode)
{
	(void)env, (void)path, (void)flags, (void)mode;
	return 13;
}
END
$cc -w -fPIC -shared -Wl,-Bsymbolic -o libsymbolic.so inner.c bundle.c
$cc -w -fPIC -shared -Wl,-Bsymbolic-functions -o libsymbolicfunctions.so inner.c bundle.c
$cc -w -fPIC -shared -o libreplaceable.so inner.c bundle.c
echo '{ global: inner; local: *; };' > inner.map
$cc -w -fPIC -shared -Wl,--version-script=inner.map -o libhidden.so inner.c bundle.c
$cc -w -fPIC -shared -Wl,-soname,liblmdb.so.1 -o liblmdb.so.1 bundle.c
for kind in symbolic symbolicfunctions replaceable hidden; do
	$cc -o with_$kind outer.c -L. -l$kind -Wl,-rpath,"$scratch"
done
$cc -o with_version_1 static.c liblmdb.so.1 -Wl,-rpath,"$scratch"
$cc -o lacking outer.c -L. -lreplaceable # no run path
cp user foreign
printf '\267\000' | dd of=foreign bs=1 seek=18 conv=notrunc 2>/dev/null # e_machine: AArch64
cp user otherclass
printf '\001' | dd of=otherclass bs=1 seek=4 conv=notrunc 2>/dev/null # 32-bit
cp user notexecutable
chmod 644 notexecutable
printf '#!%s\n' "$scratch/user" > script
printf '#!/usr/bin/env user\n' > script_env
printf '#!/no/such/interpreter\n' > script_lost
echo 'echo bare; exit 5' > script_bare
chmod +x script script_env script_lost script_bare
mkdir directory

both=$dropin:${dropin%0}1 # the first entries of LD_PRELOAD

# verdict NAME EXPECTED-CODE EXPECTED-WORDS COMMAND...
verdict() {
	name=$1 code=$2 words=$3
	shift 3
	rc=0
	"$lmdbio_run" "$@" > out 2> err || rc=$?
	judge "$name" test "$rc" -eq "$code"
	cases=$((cases + 1))
	if ! grep -q -e "$words" out err; then
		echo "NOT OK $name: wants '$words' in: $(cat out err)"
		failures=$((failures + 1))
	fi
}

# --- --check ------------------------------------------------------------------------------------
verdict check_linked_program_yes 0 'takes effect' --check -- ./user
verdict check_static_program_no 1 'statically linked, LMDB included' --check -- ./static
verdict check_program_without_lmdb_no 1 'neither it nor its libraries' --check -- ./none
verdict check_bundled_symbolic_no 1 'libsymbolic.so exports an LMDB of its own' --check -- ./with_symbolic
verdict check_bundled_symbolic_functions_no 1 'libsymbolicfunctions.so exports' --check -- \
	./with_symbolicfunctions
verdict check_bundled_replaceable_yes 0 'libreplaceable.so looks for LMDB' --check -- ./with_replaceable
verdict check_hidden_lmdb_no 1 'libhidden.so has LMDB linked into it' --check -- ./with_hidden
verdict check_lmdb_1_yes 0 'was built for LMDB 1.0; it only reads' --lmdb1=none --check -- ./with_version_1
verdict check_lmdb_1_that_is_lmdbio_is_refused 2 'this is lmdbio, and not the original' --lmdb1="$dropin" -- ./user
verdict check_lmdb_1_that_is_another_library_is_refused 2 'another library than LMDB' --lmdb1="$core" -- ./user
verdict check_lmdb_1_by_one_library_no 1 'LMDB 1.0' --library="$dropin" --check -- ./with_version_1
verdict check_lacking_library_no 1 'does not find libreplaceable.so' --check -- ./lacking
verdict check_other_machine_no 1 'another kind of machine' --check -- ./foreign
verdict check_other_class_no 1 'another kind of machine' --check -- ./otherclass
verdict check_not_executable_no 1 'Permission denied' --check -- ./notexecutable
verdict check_missing_no 1 'No such file' --check -- ./nowhere
verdict check_directory_no 1 'Permission denied' --check -- ./directory
verdict check_script_follows_interpreter 0 'takes effect' --check -- ./script
PATH=$scratch:$PATH
verdict check_env_script_follows_path 0 'takes effect' --check -- script_env
verdict check_program_in_path_yes 0 "^$scratch/user: takes effect" --check -- user
verdict check_script_lost_interpreter_no 1 'its interpreter' --check -- ./script_lost
verdict check_shell_is_not_known 2 'check=run' --check -- sh -c 'exit 0'
if [ "$(id -u)" -eq 0 ]; then
	cp user setuid && chown 65534 setuid && chmod u+s setuid
	cp user setgid && chgrp 65534 setgid && chmod g+s setgid
	verdict check_setuid_no 1 'set-uid' --check -- ./setuid
	verdict check_setgid_no 1 'set-gid' --check -- ./setgid
	cp user capable
	chmod 755 "$scratch"
	if command -v setcap >/dev/null && setcap cap_net_raw+ep capable 2>/dev/null; then
		other="setpriv --reuid 65534 --regid 65534 --clear-groups"
		if $other test -x "$lmdbio_run"; then
			$other "$lmdbio_run" --check -- ./capable > out 2>&1 || true
			judge check_capabilities_no grep -q 'file capabilities' out
		else
			not_run check_capabilities_no "another user cannot reach the build tree"
		fi
	else
		not_run check_capabilities_no "setcap does not work here"
	fi
else
	not_run check_setuid_no "needs root to make a program of another owner"
fi

# --- --check=run --------------------------------------------------------------------------------
verdict check_run_linked_program_yes 0 'was bound to lmdbio' --check=run -- ./user
verdict check_run_program_in_path_yes 0 "$scratch/user was bound to lmdbio" --check=run -- user
verdict check_run_grandchild_in_path_yes 0 "$scratch/user was bound to lmdbio" --check=run -- \
	sh -c 'cd / && user; true'
verdict check_run_grandchild_yes 0 'was bound to lmdbio' --check=run -- sh -c './user; true'
verdict check_run_without_lmdb_no 1 'ended without' --check=run -- ./none
verdict check_run_hidden_no 1 'has LMDB linked into it' --check=run -- ./with_hidden
verdict check_run_static_no 1 'not loaded' --check=run -- ./static
if /usr/bin/python3 -c 'import lmdb' 2>/dev/null; then
	verdict check_python_is_not_known 2 'check=run' --check -- /usr/bin/python3
	verdict check_run_python_yes 0 'was bound to lmdbio' --check=run -- \
		/usr/bin/python3 -c 'import lmdb'
else
	not_run check_run_python_yes "no python3-lmdb"
fi
TMPDIR=$scratch/directory "$lmdbio_run" --check=run -- ./user > out
judge check_run_leaves_no_trace test -z "$(ls directory)"
mkdir 'odd [x] to 1' && cp user 'odd [x] to 1/'
verdict check_run_program_of_odd_name_yes 0 'was bound to lmdbio' --check=run -- './odd [x] to 1/user'
printf './user\nexit 5\n' > script_bare_user && chmod +x script_bare_user
verdict check_bare_script_is_not_known 2 'check=run' --check -- ./script_bare_user
verdict check_run_bare_script_yes 0 'was bound to lmdbio' --check=run -- ./script_bare_user
# The trace's folder cannot be removed: a process of the program that still runs may write there, too.
mkdir kept_traces
# shellcheck disable=SC2016
TMPDIR=$scratch/kept_traces "$lmdbio_run" --check=run -- \
	sh -c './user; mkdir "${LD_DEBUG_OUTPUT%/*}/used"' > out || true
judge check_run_answers_beside_a_trace_in_use grep -q 'was bound to lmdbio' out
TMPDIR=$scratch/directory "$lmdbio_run" --check=run -- sh -c './user; exec sleep 60' > said 2>&1 &
while ! grep -q liblmdb said; do kill -0 $! || break; done
kill -TERM $!
rc=0
wait $! || rc=$?
judge check_run_passes_a_signal_on test $rc -eq 0
judge check_run_answers_after_a_signal grep -q 'was bound to lmdbio' said
judge check_run_leaves_no_trace_after_a_signal test -z "$(ls directory)"
# After SIGKILL the traces stay. They are removed later, but not below a process that goes on writing there.
TMPDIR=$scratch/directory "$lmdbio_run" --check=run -- sh -c 'echo $$ > started; exec sleep 600' &
killed=$!
while ! [ -s started ]; do kill -0 $killed || break; done
kill -KILL $killed
wait $killed || true
left=$(echo directory/*)
touch -d '2 minutes ago' "$left"
TMPDIR=$scratch/directory "$lmdbio_run" --check=run -- ./user > out
judge check_run_leaves_traces_of_a_live_process test -d "$left"
kill -KILL "$(cat started)"
while kill -0 "$(cat started)" 2>/dev/null; do :; done
TMPDIR=$scratch/directory "$lmdbio_run" --check=run -- ./user > out
judge check_run_removes_what_a_killed_one_has_left test -z "$(ls directory)"
# Without /proc the loader does not find the core beside the command, so a link leads to it.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2> /dev/null; then
	mkdir core_alone fixed
	ln -s "$core" core_alone/
	cat > without_proc <<-END
		#!/bin/sh
		export LD_LIBRARY_PATH='$scratch/core_alone' TMPDIR='$scratch/fixed'
		exec unshare -m sh -c 'mount -t tmpfs none /proc && mount -t tmpfs -o ro none fixed && exec "\$@"' - '$lmdbio_run' "\$@"
	END
	chmod +x without_proc
	with_proc=$lmdbio_run lmdbio_run=./without_proc
	verdict check_without_proc_yes 0 'takes effect' --check -- ./user
	verdict check_run_to_a_fixed_directory_is_not_known 2 \
		"cannot be written to $scratch/fixed (Read-only file system): set TMPDIR" --check=run -- ./user
	lmdbio_run=$with_proc
else
	not_run check_without_proc_yes "no mount namespaces"
fi
# shellcheck disable=SC2016
sh -c 'ulimit -n 5 && exec "$@"' - "$lmdbio_run" --check=run -- ./user > out || true
judge check_run_with_few_descriptors_yes grep -q 'was bound to lmdbio' out
# shellcheck disable=SC2016
sh -c 'ulimit -n 4 && exec "$@"' - "$lmdbio_run" --check=run -- ./user > out 2>&1 || true
judge check_run_without_descriptors_is_not_known grep -q 'not known: .*Too many open files' out

# --- a program without a standard error: a file of the data set may get its number ---
cat > daemon.c <<'END'
#include <lmdb.h>
#include <unistd.h>
int main(void)
{
	MDB_val key = {3, "key"}, value = {5, "value"};
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (int reads = 0; reads < 2; reads++) {
		if (mdb_env_create(&env) || mdb_env_open(env, "kept", reads ? MDB_RDONLY : 0, 0600) ||
		    mdb_txn_begin(env, NULL, reads ? MDB_RDONLY : 0, &txn) || mdb_dbi_open(txn, NULL, 0, &dbi))
			return 1;
		if (reads ? mdb_get(txn, dbi, &key, &value) : mdb_put(txn, dbi, &key, &value, 0))
			return 2;
		if (mdb_txn_commit(txn))
			return 3;
		mdb_env_close(env);
	}
	return 0;
}
END
$cc -o daemon daemon.c -llmdb
mkdir kept
status run_of_a_daemon_ends_well 0 env LD_PRELOAD="$dropin" LMDBIO_VERBOSE=1 LMDBIO_STATS=1 LMDBIO_MEMORY=nonsense ./daemon
judge messages_of_a_daemon_get_into_no_file sh -c 'test -s kept/data.mdb && ! grep -q lmdbio kept/*'

# --- starting ---
"$lmdbio_run" -- ./user > out
judge run_linked_program_uses_dropin grep -qx "$dropin" out
PATH=/$(printf %05000d 0):$PATH "$lmdbio_run" -- user > out || true
judge run_skips_a_folder_of_a_name_too_long grep -qx "$dropin" out
./user > out
judge plain_run_uses_other_library sh -c "! grep -qx '$dropin' out"
verdict run_passes_exit_code 3 "$dropin" -- ./user a b c
verdict run_missing_127 127 'No such file' -- ./nowhere
verdict run_missing_interpreter_127 127 'the interpreter in its first line is not there' -- ./script_lost
verdict run_not_executable_126 126 'ermission denied' -- ./notexecutable
verdict run_bare_script_by_shell 5 'bare' -- ./script_bare
verdict run_without_program_2 2 'no PROGRAM is given' --verbose
verdict run_with_a_setting_that_makes_no_sense_2 2 'memory wants auto, a size of 1M' --memory=lots -- ./user
verdict run_with_a_switch_that_makes_no_sense_2 2 'prefetch wants 0 or 1' --prefetch=maybe -- ./user
verdict run_with_a_directory_that_is_missing_2 2 'staged wants a directory' --staged=/no/such -- ./user
mkdir staged
judge run_gives_a_directory_its_whole_path test "$("$lmdbio_run" --staged=staged -- sh -c 'echo "$LMDBIO_STAGED"')" = "$PWD/staged"
verdict run_unknown_option_2 2 'unrecognized option' --nonsense -- ./user
verdict check_odd_argument_2 2 'takes nothing or =run' --check=maybe -- ./user
verdict run_missing_library_2 2 'No such file' --library=/no/such.so -- ./user
"$lmdbio_run" --print-env --staged=staged > out
judge print_env_gives_a_directory_its_whole_path grep -q " LMDBIO_STAGED=$PWD/staged$" out
mkdir 'sp ace' && cp "$dropin" 'sp ace/liblmdb.so.0'
verdict run_library_with_space_2 2 'cannot hold' --library="$scratch/sp ace/liblmdb.so.0" -- ./user
cp "$dropin" other.so && cp "$core" .
"$lmdbio_run" --library=other.so -- ./user > out
judge run_other_library_is_used grep -qx "$scratch/other.so" out
# shellcheck disable=SC2016
LD_PRELOAD=$scratch/other.so "$lmdbio_run" -vd -- \
	sh -c 'echo "$LD_PRELOAD $LMDBIO_VERBOSE $LMDBIO_DISABLE"' > out
judge run_keeps_older_preload grep -qx "$both:$scratch/other.so 1 1" out
LD_PRELOAD=$dropin "$lmdbio_run" --print-env > out
judge preload_is_not_doubled grep -qx "LD_PRELOAD=$both" out
"$lmdbio_run" --print-env --verbose > out
judge print_env_lists_words grep -qx "LD_PRELOAD=$both LMDBIO_VERBOSE=1" out
"$lmdbio_run" --print-env --io=direct --store=arena --memory=50% --node=n --share=0 --prefetch=0 \
	--stats=json > out
judge print_env_lists_settings grep -qx "LD_PRELOAD=$both LMDBIO_IO=direct LMDBIO_STORE=arena \
LMDBIO_MEMORY=50% LMDBIO_NODE=n LMDBIO_SHARE=0 LMDBIO_PREFETCH=0 LMDBIO_STATS=json" out
rc=0
"$lmdbio_run" --print-env --node='two words' > out 2>&1 || rc=$?
judge print_env_of_two_words_is_refused test "$rc" = 2
# shellcheck disable=SC2016
"$lmdbio_run" --memory=64M --io=pread -- sh -c 'echo "$LMDBIO_MEMORY $LMDBIO_IO"' > out
judge run_passes_settings grep -qx "64M pread" out
# shellcheck disable=SC2016
judge program_finds_closed_streams_closed sh -c 'exec "$@" <&- >&-' - \
	"$lmdbio_run" sh -c '! [ -e /proc/$$/fd/0 ] && ! [ -e /proc/$$/fd/1 ]'
# shellcheck disable=SC2046
env $("$lmdbio_run" --print-env) ./user > out
judge print_env_works_in_a_script grep -qx "$dropin" out

# --- installed ---
make_value() {
	sed -n "s|^$1 = ||p" "$top_builddir/Makefile" 2>/dev/null | head -n 1
}
# shellcheck disable=SC2016
if [ "$(make_value bindir)" = '${exec_prefix}/bin' ] && [ "$(make_value libdir)" = '${exec_prefix}/lib' ]; then
	mkdir -p moved/bin moved/lib/lmdbio
	cp "$lmdbio_run" moved/bin/ && cp "$dropin" "$core" moved/lib/lmdbio/
	moved/bin/lmdbio-run -- ./user > out
	judge installed_elsewhere_finds_its_library grep -qx "$scratch/moved/lib/lmdbio/liblmdb.so.0" out
else
	not_run installed_elsewhere_finds_its_library "configured with a library directory of its own"
fi

# --- damaged programs ---
size=$(wc -c < user)
signals=0 n=0
while [ $n -lt 150 ]; do
	cp user damaged
	# Changes two bytes of each copy, at many places of the headers and tables at the front; every third copy is
	# truncated as well, each to another length.
	printf '\377\177' | dd of=damaged bs=1 seek=$((n * 23 % 3400)) conv=notrunc 2>/dev/null
	test $((n % 3)) -ne 0 || dd if=user of=damaged bs=$((1 + size * n / 150)) count=1 2>/dev/null
	rc=0
	"$lmdbio_run" --check -- ./damaged >/dev/null 2>&1 || rc=$?
	if [ $rc -gt 2 ]; then
		echo "damage $n: rc $rc"
		signals=$((signals + 1))
	fi
	n=$((n + 1))
done
judge check_damaged_programs_never_crash test $signals -eq 0

finish
