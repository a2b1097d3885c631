#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Runs a short soak, bounded by rounds; at night one of six minutes, whose figures must be flat.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
soak=$top_builddir/tests/stress/soak
export TMPDIR=$scratch

# ends CODE OPTION...: whether a soak ends with that code.
# shellcheck disable=SC2317 # judge calls it
ends() {
	local expected=$1 rc=0

	shift
	"$soak" "$@" || rc=$?
	[ "$rc" = "$expected" ]
}

if [ -z "${TESTS_LONG:-}" ]; then
	judge soak_when_calls_fail_and_readers_are_killed_then_nothing_is_wrong ends 0 --rounds=80
else
	judge soak_of_six_minutes_is_flat ends 0 --hours=0.1
	judge soak_when_readers_keep_descriptors_then_says_so ends 1 --hours=0.03 --wrong=descriptors
	judge soak_when_readers_hang_then_says_so ends 1 --hours=0.1 --wrong=hang
fi
judge soak_when_a_reader_sees_a_wrong_value_then_says_so ends 1 --rounds=100 --wrong=bytes
judge soak_without_time_is_a_usage_error ends 2 --hours=0
judge soak_with_an_unknown_option_is_a_usage_error ends 2 --unknown
judge soak_when_it_has_ended_then_no_file_is_left sh -c "! ls -A '$scratch' | grep ."
finish
