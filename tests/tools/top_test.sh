#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks the live view of lmdbio-top in a terminal, its plain text, and what the command refuses.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
tool=$top_builddir/tools/lmdbio-top
reader=$top_builddir/tests/tools/top_reader
[ -x "$tool" ] || skip "no lmdbio-top in this build (ncurses is missing)"
cd "$scratch"

# --- plain text, while a process reads ---
mkfifo words answers
"$reader" "$scratch/set.mdb" topbatch < words > answers &
pid=$!
exec 3> words 4< answers
# answered LINE: waits for the reader's next answer.
# shellcheck disable=SC2317
answered() {
	read -r answer <&4 && test "$answer" = "$1"
}
judge reader_is_ready answered ready
status looks_are_printed 0 "$tool" -b -n 2 -d 0.1
judge looks_are_as_many_as_asked_for test "$(grep -c '^lmdbio-top: .* every 0.1 s' out)" -eq 2
judge looks_have_the_titles test "$(grep -c '^ *PID PROGRAM ' out)" -eq 2
judge looks_have_the_process test "$(grep -c "^ *$pid topbatch  *reader " out)" -eq 2
judge process_has_a_data_set_open test "$(awk -v pid=$pid '$1 == pid { print $NF; exit }' out)" -eq 1
echo >&3
judge reader_has_read answered round
"$tool" --batch --looks=1 > out
judge first_look_has_the_rate_of_its_life test "$(awk -v pid=$pid '$1 == pid { print $6 }' out)" != 0
"$tool" -b -n 1 --sort=pid > out
awk 'rows { print $1 } /^ *PID PROGRAM/ { rows = 1 }' out > found
sort -n found > expected
same processes_are_sorted_by_number expected found
"$tool" -b -n 1 --sort=program | awk 'rows { print $2 } /^ *PID PROGRAM/ { rows = 1 }' > found
sort found > expected
same processes_are_sorted_by_name expected found
judge lines_are_80_columns test "$(awk 'length > m { m = length } END { print m + 0 }' out)" -lt 80
"$tool" -b -d 0.1 | head -n 1 > first
judge reader_of_the_text_may_go grep -q '^lmdbio-top: ' first
kill -9 $pid
wait $pid || true
exec 3>&- 4<&-
"$tool" -b -n 1 > out
judge killed_process_is_not_shown sh -c '! grep topbatch out'

# --- what it refuses ---
told no_terminal 2 'are no terminal; --batch prints' "$tool"
told no_looks 2 "from 1 to .*, not '0'" "$tool" -b -n 0
told looks_that_are_no_number 2 "not '2x'" "$tool" -b -n 2x
told looks_without_batch 2 'looks wants --batch' "$tool" -n 2
told delay_that_is_no_number 2 "seconds from 0.1 to 3600, not 'soon'" "$tool" -b -d soon
told delay_that_is_too_short 2 "not '0'" "$tool" -b -d 0
told delay_that_is_not_a_number 2 "not 'nan'" "$tool" -b -d nan
told unknown_column 2 "sort wants storage, .*, not 'size'" "$tool" --sort=size
told operand 2 "such as '17'" "$tool" 17
told unknown_option 2 "Try 'lmdbio-top --help'" "$tool" --frob
if [ -c /dev/full ]; then
	rc=0
	"$tool" -b -n 1 > /dev/full 2> err || rc=$?
	judge full_disk_is_an_error test $rc -eq 2
	says full_disk_is_named 'No space left'
fi

# --- a terminal ---
if command -v tmux > /dev/null && command -v python3 > /dev/null; then
	rc=0
	python3 "$top_srcdir/tests/tools/top_screen.py" "$tool" "$reader" > screen.out 2>&1 || rc=$?
	cat screen.out
	cases=$((cases + $(grep -cE '^(NOT OK|ok) ' screen.out)))
	judge terminal_shows_all test $rc -eq 0
else
	not_run terminal_shows_all "no tmux here"
fi
finish
