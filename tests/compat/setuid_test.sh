#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that no user can influence lmdbio in a program with more rights than its caller.
#
# The reader is linked with the drop-in itself, since the loader preloads nothing into such a program. Run by root it
# becomes another user: the kernel treats that as it treats the reverse.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cc=${CC:-gcc}
need "${cc%% *}" mdb_load
test "$(id -u)" -eq 0 || skip "needs root to make a program of another owner"
nobody=65534
cd "$scratch"
# A directory that another user can enter, wherever the build tree lies.
directory=$scratch/lib
mkdir "$directory"
cp "$dropin" "$core" "$directory"
dropin=$directory/$(basename "$dropin")
chmod 755 "$directory" "$directory"/*
# The reader refers to a function of lmdbio's own: with the original instead it would not even start.
cat > ours.c <<'END'
const char *lmdbio_version(void);
const char *ours;
__attribute__((constructor)) static void ours_use(void) { ours = lmdbio_version(); }
END
$cc -o reader ours.c "$top_srcdir/tools/quickstart_reader.c" "$dropin" -Wl,-rpath,"$directory"
mkdir db
i=0
{
	printf 'VERSION=3\nformat=print\ntype=btree\nmapsize=16777216\nmaxreaders=126\nHEADER=END\n'
	while [ $i -lt 500 ]; do
		printf ' key%05d\n value %d\n' $i $i
		i=$((i + 1))
	done
	echo 'DATA=END'
} | mdb_load db
chmod 755 "$scratch" db
chmod 666 db/*
cp reader privileged
chown $nobody privileged
chmod 4755 privileged
if mount | grep -q "on $(df --output=target . | tail -n 1) .*nosuid"; then
	skip "set-uid programs do not work under $scratch (nosuid)"
fi
setpriv --reuid $nobody --regid $nobody --clear-groups test -r "$dropin" ||
	skip "another user cannot reach $scratch"

./reader db > expected 2> err
judge plain_copy_is_silent_unless_asked test ! -s err
LMDBIO_VERBOSE=1 ./reader db > out 2> err
same plain_copy_with_verbose_reads_the_same expected out
judge plain_copy_with_verbose_speaks grep -q 'read by lmdbio' err
LMDBIO_NONSENSE=1 ./reader db > out 2> err
judge plain_copy_with_unknown_variable_says_one_line test "$(wc -l < err)" -eq 1
LMDBIO_VERBOSE=banana ./reader db > out 2> err
same plain_copy_with_bad_value_reads_the_same expected out
judge plain_copy_with_bad_value_says_one_line test "$(grep -c LMDBIO_VERBOSE=banana err)" -eq 1

for setting in LMDBIO_VERBOSE=1 LMDBIO_VERBOSE=banana LMDBIO_NONSENSE=1 LMDBIO_DISABLE=maybe; do
	rc=0
	env "$setting" ./privileged db > out 2> err || rc=$?
	same "privileged_copy_with_${setting}_reads_the_same" expected out
	judge "privileged_copy_with_${setting}_is_silent" test ! -s err -a $rc -eq 0
done

# Every variable, from the manual's table.
sed -n 's/^\(LMDBIO_[A-Z_]*\)|.*/\1/p' "$top_srcdir/doc/lmdbio.7" > variables
judge the_manual_lists_variables test -s variables
while read -r variable; do
	env "$variable=/such nonsense" ./privileged db > out 2> err || true
	same "privileged_copy_ignores_$variable" expected out
	judge "privileged_copy_is_silent_about_$variable" test ! -s err
done < variables
finish
