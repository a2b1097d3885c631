#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Tests the Python package: its types, its errors, its commands, and what importing it costs.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
python=/usr/bin/python3
"$python" -c 'import lmdb, mypy, numpy' 2> /dev/null || skip "no python3-lmdb, python3-mypy or python3-numpy here"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/python" LIBLMDBIO="$dropin"
cd "$scratch"

status package_passes_mypy_strict 0 "$python" -m mypy --strict --cache-dir="$scratch/mypy" \
	"$top_srcdir/python/lmdbio"
status package_check_ends_well 0 "$python" "$top_srcdir/tests/python/package_check.py" db
grep -v '^ok ' out || true
judge package_check_has_cases test "$(grep -c '^ok ' out)" -ge 12
status announcer_check_ends_well 0 "$python" "$top_srcdir/tests/python/announcer_check.py" announced
grep -v '^ok ' out || true
status ctrl_c_loses_nothing 0 "$python" "$top_srcdir/tests/python/interrupts_check.py" interrupted
grep -v '^ok ' out || true
status forked_children_leave_their_parents_slots 0 "$python" "$top_srcdir/tests/python/inherited_check.py" inherited
grep -v '^ok ' out || true

status usage_on_request 0 "$python" -m lmdbio --help
status usage_of_run_on_request 0 "$python" -m lmdbio run --help
judge usage_names_both_commands grep -q 'lmdbio check' out
status usage_without_words 2 "$python" -m lmdbio
told command_that_is_none_is_named 2 "^lmdbio: there is no command 'ran': run or check" "$python" -m lmdbio ran
told operand_of_check_is_named 2 "^lmdbio: check takes no operand, such as 'train.py'" "$python" -m lmdbio check train.py
told missing_lmdbio_run_is_told 2 '^lmdbio: lmdbio-run is neither .* nor in PATH: add its directory to PATH' \
	env PATH=/nowhere "$python" -m lmdbio check
PATH=$(dirname "$lmdbio_run"):$PATH
export PATH
told missing_script_is_told 2 '^lmdbio: no SCRIPT is given' "$python" -m lmdbio run --verbose
says wrong_usage_leads_to_help "^Try 'python3 -m lmdbio --help' for more information"
told script_that_is_a_value_is_none 2 '^lmdbio: no SCRIPT is given' "$python" -m lmdbio run --stats script.py
cat > script.py <<'END'
import sys, lmdb, lmdbio
with lmdb.open("db", readonly=True, lock=False) as env, env.begin() as txn:
    assert txn.get(b"0001")
    print(sys.argv[1:], lmdbio.Hints(env).why_not)
END
status run_starts_a_script 0 "$python" -m lmdbio run --prefetch=0 script.py a --b
judge run_passes_arguments_and_takes_effect grep -qx "\['a', '--b'\] None" out
status run_takes_the_value_of_an_option_as_a_word 0 "$python" -m lmdbio run --prefetch 0 script.py a
judge run_keeps_values_of_options_from_the_script grep -qx "\['a'\] None" out
# Values that are also names of files; --mem is an abbreviation of --memory.
mkdir arena
touch 0 64M
for option in "--store arena" "--stats counters.json" "--stats counters.json" "--library $dropin" "-l $dropin" "-vl $dropin" \
	"--prefetch 0" "--mem 64M" "--verbose" "-v" "--io=auto" "-l$dropin"; do
	# shellcheck disable=SC2086
	status "run_takes_${option}_for_no_script" 0 "$python" -m lmdbio run $option script.py a
	judge "script_starts_behind_${option}" grep -qx "\['a'\] None" out
done
judge run_gives_values_to_their_options test -s counters.json
status run_starts_a_script_of_standard_input 0 "$python" -m lmdbio run --prefetch=0 - a < script.py
judge run_starts_that_script_on_lmdbio grep -qx "\['a'\] None" out
status run_starts_a_module 0 "$python" -m lmdbio run -m script b
judge run_starts_the_module_on_lmdbio grep -qx "\['b'\] None" out
told run_names_a_script_that_is_missing 2 "no script 'missing.py'" "$python" -m lmdbio run --verbose missing.py
told version_is_told 0 '^lmdbio [0-9]' "$python" -m lmdbio --version
status check_says_that_it_takes_effect 0 "$python" -m lmdbio check
finish
