#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio-sim's options have the effect that they name, and that its table and its JSON have the same
# figures.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
tool=$top_builddir/tools/lmdbio-sim
[ -x "$tool" ] || skip "no lmdbio-sim in this build (libjansson is missing)"
cd "$scratch"
small='--records=4000 --epochs=3 --nodes=4 --batch=40'

# column POLICY NUMBER: that column of the table in out.
column() {
	awk -v policy="$1" -v n="$2" '$1 == policy { print $n }' out
}
# seconds POLICY OPTION...: the seconds of a small job.
seconds() {
	seconds_policy=$1
	shift
	# shellcheck disable=SC2086
	"$tool" $small --policy="$seconds_policy" "$@" > out
	column "$seconds_policy" 2
}
# shellcheck disable=SC2317
more() {
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 > b + 0) }'
}

# --- the lists ---
status list_is_no_error 0 "$tool" --list
judge list_has_the_presets test "$(grep -c '^  scenario[1-4] ' out)" -eq 4
judge list_has_the_bound_and_ours grep -q '^  lmdbio ' out
sed '1,/^policies:/d' out | awk '{ print $1 }' > policies
judge list_has_ten_policies_and_more test "$(wc -l < policies)" -ge 10

# --- the table ---
# shellcheck disable=SC2086
status all_policies_are_simulated 0 "$tool" $small
awk 'seen { print $1 } /^policy / { seen = 1 }' out > found
same table_has_a_line_for_each_policy policies found
# shellcheck disable=SC2086
status some_policies_are_simulated 0 "$tool" $small --policy=lmdbio,naive
awk 'seen { print $1 } /^policy / { seen = 1 }' out > found
printf 'naive\nlmdbio\n' > expected
same table_has_a_line_for_each_policy_asked_for expected found
judge bound_is_one_times_itself test "$(seconds none; column none 3)" = "$(column none 2)
1.0000"

# --- each option changes what it names ---
base=$(seconds naive)
judge more_epochs_take_longer more "$(seconds naive --epochs=5)" "$base"
judge larger_records_take_longer more "$(seconds naive --record-size=64k)" "$base"
judge slower_computing_takes_longer more "$(seconds naive --compute=1M)" "$base"
judge slower_storage_takes_longer more "$(seconds naive --storage=1:1M,4:2M)" "$base"
judge slower_requests_take_longer more "$(seconds naive --storage-latency=5000)" "$base"
judge bounded_storage_takes_longer more "$(seconds naive --storage-total=10M)" "$base"
judge bounded_nodes_take_longer more "$(seconds naive --storage-node=1M)" "$base"
judge slower_preprocessing_takes_longer more "$(seconds naive --preprocess=10M)" "$base"
judge preset_comes_before_options test "$(seconds naive --preset=scenario1)" = "$base"
judge another_preset_is_another more "$(seconds naive --preset=scenario2)" "$base"
base=$(seconds double)
judge more_streams_take_less more "$base" "$(seconds double --streams=9,2,2)"
judge no_gain_of_streams_takes_longer more "$(seconds double --storage-gain=0)" "$base"
base=$(seconds lmdbio)
judge slower_network_takes_longer more "$(seconds lmdbio --network=1M)" "$base"
judge no_room_takes_longer more "$(seconds lmdbio --memory=0 --ssd=0 --storage=1:1M)" \
	"$(seconds lmdbio --storage=1:1M)"
judge slower_ssd_takes_longer more "$(seconds staging --ssd-read=1M)" "$(seconds staging)"
judge slower_writes_to_ssd_take_longer more "$(seconds lmdbio --memory=0 --ssd-write=1M)" \
	"$(seconds lmdbio --memory=0)"
judge other_seed_is_another_order test "$(seconds none --compute=10k --size-spread=0.5 --seed=1)" != \
	"$(seconds none --compute=10k --size-spread=0.5 --seed=2)"

# --- JSON ---
if command -v python3 > /dev/null; then
	# shellcheck disable=SC2086
	"$tool" $small --json > out.json
	# shellcheck disable=SC2086
	"$tool" $small > out
	cat > table.py <<'END'
import json
found = json.load(open("out.json"))
assert found["schema"] == "lmdbio-sim/1" and found["job"]["records"] == 4000
for row in found["policies"]:
	assert row["seconds"] >= row["stall"] and 0 <= row["kept"] <= 1
	print(row["policy"], "%.2f" % row["seconds"], "%.4f" % row["over_bound"],
	      "%.2fx" % row["storage_over_data"])
END
	python3 table.py > found
	awk 'seen { print $1, $2, $3, $7 } /^policy / { seen = 1 }' out > expected
	same json_has_the_numbers_of_the_table expected found
	# shellcheck disable=SC2086
	"$tool" $small --json --policy=none --memory=18446744073709551615 > out.json
	python3 -c 'import json; print(json.load(open("out.json"))["cluster"]["memory"] >= 2**63 - 1)' > found
	echo True > expected
	same json_has_no_negative_sizes expected found
else
	not_run json_has_the_numbers_of_the_table "no python3"
fi

# --- the jobs of LMDBIO's papers ---
status papers_are_no_error 0 "$tool" --papers
judge papers_have_both_plots test "$(grep -c '^\(bebop\|blues\): ' out)" -eq 2
judge papers_have_a_row_for_each_scale test "$(grep -c '^ *9216 ' out)" -eq 3
judge papers_name_each_plots_best test "$(grep -c '^best against best: ' out)" -eq 2
"$tool" --plot=bebop > plot.svg
same plot_is_the_one_of_the_page "$top_srcdir/doc/papers-bebop.svg" plot.svg
if command -v python3 > /dev/null; then
	judge plot_is_xml python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("plot.svg")'
else
	not_run plot_is_xml "no python3"
fi
strided='--strided=2 --nodes=2 --records=4096 --record-size=3090 --batch=512'
# strided WAY COLUMN OPTION...: a figure of that table.
strided() {
	strided_way=$1 strided_column=$2
	shift 2
	# shellcheck disable=SC2086
	"$tool" $strided "$@" > out
	column "$strided_way" "$strided_column"
}
judge shorter_read_ahead_takes_more_requests more "$(strided LMDB 2 --read-ahead=64k)" "$(strided LMDB 2)"
judge more_nodes_read_more_bytes more "$(strided LMDB 3 --nodes=4)" "$(strided LMDB 3)"
judge all_nodes_together_read_once more "$(strided LMDB 3)" "$(strided lmdbio 3)"

# --- wrong usage ---
# wrong NAME SAYS OPTION...
wrong() {
	wrong_name=$1 wrong_says=$2
	shift 2
	status "${wrong_name}_fails" 2 "$tool" "$@"
	says "${wrong_name}_is_told" "$wrong_says"
	judge "${wrong_name}_prints_no_table" test ! -s out
}
wrong unknown_preset "no preset 'x'" --preset=x
wrong unknown_policy "no policy 'x'" --policy=none,x
wrong unknown_option 'more information' --nosuch
wrong argument_that_is_no_option "'x' is no option" x
wrong nodes_of_none 'from 1 to' --nodes=0
wrong batch_below_the_nodes 'record for every node' --nodes=200 --batch=100
wrong data_below_a_batch 'batch of records' --records=1
wrong storage_without_a_colon 'points such as' --storage=1G
wrong storage_that_goes_back 'ever more nodes' --storage=4:1G,2:2G
wrong gain_above_one 'from 0 to 1' --storage-gain=2
wrong no_records 'records wants a number from 1 to 9223372036854775807, not .0' --records=0
wrong records_of_no_bytes '1 or more of each' --record-size=0
wrong nodes_beyond_the_range 'nodes wants a number from 1 to 30000, not .30001' --nodes=30001
wrong epochs_beyond_the_range 'epochs wants a number from 1 to 4096, not .4097' --epochs=4097
wrong sizes_down_to_nothing 'size-spread wants a number from 0 to less than 1, not .1' --size-spread=1
wrong read_ahead_of_no_reader 'read-ahead is for --strided' --read-ahead=1M
wrong operand_behind_list "'extra' is no option" --list extra
wrong rate_of_no_size 'wants a size' --compute=fast
wrong rate_of_zero 'above 0' --compute=0
wrong streams_of_none 'from 1 to' --streams=0,1,1
wrong streams_of_four_tiers 'streams takes at most 3 numbers' --streams=1,2,3,4
wrong papers_with_another_option 'no other option' --papers --nodes=2
wrong papers_with_a_plot 'no other option' --papers --plot=bebop
wrong unknown_plot "wants bebop or blues, not 'x'" --plot=x
wrong strided_readers_of_none 'from 1 to' --strided=0
# shellcheck disable=SC2086
{
wrong strided_readers_of_small_records 'above 2038 bytes' $strided --record-size=100
wrong strided_readers_without_a_record 'for every reader' $strided --batch=3
wrong strided_readers_beyond_counting '4096 readers' $strided --strided=5000
wrong strided_readers_of_too_much '256 GiB' $strided --records=100000000000
wrong strided_readers_without_read_ahead 'reads ahead' $strided --read-ahead=1k
wrong strided_readers_with_policies 'one table' $strided --policy=lmdbio
}
status full_output_fails 2 sh -c "exec '$tool' $small > /dev/full"
finish
