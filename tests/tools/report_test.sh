#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks the page of lmdbio-report as a graphical browser and a text browser show it, and what the command refuses.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
tool=$top_builddir/tools/lmdbio-report
[ -x "$tool" ] || skip "no lmdbio-report in this build (libjansson is missing)"
need python3
cd "$scratch"
python3 "$top_srcdir/tests/tools/report_inputs.py" .

# --- what it makes ---
status page_of_ranks_is_made 0 "$tool" rank0.json rank1.json rank2.json rank3.json -o page.html
judge page_says_nothing_else test ! -s out -a ! -s err
"$tool" rank[0-3].json > printed.html
same page_goes_to_standard_output_too page.html printed.html
cat rank[0-3].json > all.json
"$tool" all.json > printed.html
same processes_may_be_in_one_file page.html printed.html
"$tool" - < all.json > printed.html
same processes_may_come_from_a_pipe page.html printed.html
python3 -c 'import json; print(json.dumps(json.load(open("rank0.json")), indent=4))' > pretty.json
"$tool" rank0.json > plain.html
"$tool" pretty.json > printed.html
same json_may_have_any_blanks plain.html printed.html
judge page_needs_no_network sh -c '! grep -nE "(src=|href=|url\\(|@import|https?:)" page.html'
judge page_needs_no_script sh -c '! grep -niE "<script|onerror|onload|javascript:" page.html'
# well_formed NAME PAGE
well_formed() {
	judge "$1" python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$2"
}
well_formed page_is_well_formed page.html
"$tool" odd.json -o odd.html
well_formed page_with_odd_names_is_well_formed odd.html
told same_process_twice_counts_once 0 'process 1000 is in rank0.json already' "$tool" rank0.json rank0.json -o printed.html
same same_process_twice_is_one plain.html printed.html
status old_statistics_are_read 0 "$tool" old.json
judge old_statistics_say_that_they_lack_the_time grep -q 'Waited 123 ms for data' out
judge old_statistics_say_that_they_lack_the_rest test "$(grep -c 'earlier release' out)" -eq 2

# --- without graphics ---
if command -v w3m > /dev/null; then
	# words PAGE: one line.
	words() {
		HOME=$scratch w3m -dump -cols 200 -T text/html "$1" | tr -s '\n ' ' '
	}
	words page.html > text
	# has NAME TEXT
	has() {
		judge "$1" grep -qF -e "$2" text
		grep -qF -e "$2" text || cat text
	}
	has text_begins_with_the_verdict 'lmdbio report I/O is not your bottleneck: waited 5.6'
	has text_names_the_slowest 'rank 3, train.py 1003 (3 processes) on node1 waited 12.5 % of its time'
	has text_has_the_hosts '12 processes on 2 hosts'
	has text_has_bytes_asked 'Asked of storage 8.0 GiB'
	has text_has_bytes_needed 'handed to the program 4.0 GiB'
	has text_has_the_ratio '2.00 bytes for each byte'
	has text_has_small_requests '4 KiB to 8 KiB 400'
	has text_has_large_requests '1 MiB to 2 MiB 8,000'
	has text_has_waits '200 times for data, 5.6 s in all'
	has text_has_the_axis '0 s 43 s'
	has text_has_each_column '3 s 2.5 s 4 s'
	has text_has_shared_memory 'loaded by the process itself 6,000 73.2 %'
	has text_has_peers 'Other nodes (peers) 1.2 GiB 29.3 %'
	has text_has_the_spread 'at least 0.2 %, in the median 0.5 %, at most 12.5 %'
	has text_has_a_rank 'rank 0, train.py 1000 (3 processes) on node0 100 ms 0.2 % 2.0 GiB'
	"$tool" busy.json -o busy.html
	words busy.html > text
	has text_of_a_bottleneck_says_so 'I/O is your bottleneck: waited 30'
	has text_of_a_bottleneck_says_what_to_try 'What to try'
	"$tool" odd.json -o odd.html
	words odd.html > text
	has odd_program_is_text '</title><script>alert(1)</script>&amp; 1002'
	has odd_host_is_text '<img src=x onerror=alert(2)>'
else
	not_run text_of_the_page "no w3m here"
fi

# --- with graphics ---
# rendered PAGE WIDTH: writes the document after layout, with each box's place and size, to dom.
rendered() {
	# The page forbids scripts, but the measurement needs one.
	sed '/Content-Security-Policy/d' "$1" > measured.html
	cat >> measured.html <<'END_SCRIPT'
<script>
for (const e of document.querySelectorAll("rect, section, td, p")) {
	const b = e.getBoundingClientRect();
	e.setAttribute("data-box", [b.x, b.y, b.width, b.height].map(v => v.toFixed(1)).join(" "));
}
document.body.setAttribute("data-overflow", document.documentElement.scrollWidth - document.documentElement.clientWidth);
document.body.setAttribute("data-strangers", document.querySelectorAll("img, script:not(:last-of-type)").length);
for (const s of document.querySelectorAll("section"))
	s.setAttribute("data-overflow", s.scrollWidth - s.clientWidth);
</script>
END_SCRIPT
	HOME=$scratch timeout 300 chromium --headless --no-sandbox --disable-gpu --disable-breakpad \
		--disable-dev-shm-usage --user-data-dir="$scratch/browser" --window-size="$2",1200 \
		--virtual-time-budget=1000 --dump-dom "file://$scratch/measured.html" > dom 2> dom.err ||
		{ cat dom.err; return 1; }
}
# box SECTION CLASS N FIELD: x, y, width or height of the n-th rectangle of a class in a section.
box() {
	tr '\n' ' ' < dom | sed 's/<section/\n<section/g' | grep "^<section id=\"$1\"" |
		grep -oE "<rect class=\"$2\"[^>]*data-box=\"[^\"]*\"" | sed -n "$3s/.*data-box=\"\(.*\)\"/\1/p" |
		awk -v n="$4" '{ print $n }'
}
# nearly NAME VALUE EXPECTED: one case: equal to within a pixel.
nearly() {
	judge "$1" awk -v a="$2" -v b="$3" 'BEGIN { exit !(a != "" && a - b <= 1 && b - a <= 1) }'
}
if [ "${with_sanitizer:-no}" != no ]; then
	not_run page_in_a_browser "the plain build makes the same page"
elif command -v chromium > /dev/null; then
	rendered page.html 900
	judge browser_shows_the_verdict_first sh -c \
		"tr '\n' ' ' < dom | grep -q '</h1> *<p class=\"verdict [a-z]*\"[^>]*><bdi>I/O is not your bottleneck: waited 5'"
	nearly needed_is_half_of_the_bar "$(box bytes c1 1 3)" 120
	nearly asked_is_the_whole_bar "$(box bytes c2 1 3)" 240
	nearly rare_size_has_a_short_bar "$(box sizes c1 1 3)" 12
	nearly frequent_size_has_the_whole_bar "$(box sizes c1 9 3)" 240
	nearly slowest_rank_has_an_eighth "$(box spread wait 1 3)" 15
	judge columns_are_as_many_as_slots_with_waits test "$(grep -o '<rect class="wait"[^>]*><title>' dom | wc -l)" -eq 8
	nearly columns_are_in_proportion "$(box waits wait 1 4)" \
		"$(awk -v h="$(box waits wait 4 4)" 'BEGIN { print h / 50 }')"
	nearly columns_stand_on_the_line "$(awk -v y="$(box waits wait 1 2)" -v h="$(box waits wait 1 4)" 'BEGIN { print y + h }')" \
		"$(box waits line 3 2)"
	nearly sources_fill_the_width "$(awk -v a="$(box sources c3 1 3)" -v b="$(box sources c2 1 3)" \
		-v c="$(box sources c4 1 3)" 'BEGIN { print a + b + c }')" \
		"$(awk -v w="$(box waits line 1 3)" 'BEGIN { print w - 3 * 2 * w / 720 }')"
	judge nothing_is_wider_than_the_page sh -c 'grep -q "<body[^>]*data-overflow=\"0\"" dom && ! grep "<section[^>]*data-overflow=\"[1-9-]" dom'
	rendered page.html 500
	judge nothing_is_wider_than_a_narrow_page grep -q '<body[^>]*data-overflow="0"' dom
	"$tool" odd.json -o odd.html
	rendered odd.html 900
	judge names_make_no_elements grep -q '<body[^>]*data-strangers="0"' dom
	judge names_are_shown grep -q 'img src=x onerror=alert(2)' dom
else
	not_run page_in_a_browser "no chromium here"
fi

# --- what it refuses ---
# refused NAME PATTERN ARGUMENT...: the command ends with 2, and makes no page.
refused() {
	rm -f none.html
	refused_name=$1 refused_pattern=$2
	shift 2
	told "$refused_name" 2 "$refused_pattern" "$tool" "$@" -o none.html
	judge "${refused_name}_without_a_page" test ! -e none.html
}
echo 'Epoch 1: loss 0.5' > log.txt
refused text_file '^lmdbio-report: log.txt: not JSON (line 1.*LMDBIO_STATS=FILE' log.txt
printf 'SQLite format 3\0\001\377\033[2J' > binary
refused binary_file '^lmdbio-report: binary: not JSON' binary
judge binary_file_leaves_the_terminal_alone sh -c "! grep -q '$(printf '\033')' err"
echo '{"loss": 0.5}' > other.json
refused other_programs_json "other.json: JSON, but not lmdbio's statistics.*LMDBIO_STATS=FILE" other.json
echo '[1, 2]' > list.json
refused list_of_numbers "list.json: JSON, but not lmdbio's" list.json
echo '{"schema": "lmdbio-check/1", "path": "x"}' > check.json
refused other_commands_json "its schema is 'lmdbio-check/1'" check.json
head -c 300 rank0.json > cut.json
refused truncated_file 'cut.json: it ends in the middle' cut.json
cat rank1.json cut.json > second.json
refused truncated_second_entry 'second.json: entry 2: it ends in the middle' second.json
sed 's/"waits": 50/"waits": 99999999999999999999/' rank0.json > huge.json
refused huge_number 'huge.json: a number is too large' huge.json
sed 's/"waits": 50/"waits": 1e999/' rank0.json > infinite.json
refused infinite_number 'infinite.json: a number is too large' infinite.json
sed 's/"waits": 50/"waits": -1/' rank0.json > negative.json
refused negative_number "negative.json: 'waits' is no count" negative.json
sed 's/"waits": 50/"waits": "50"/' rank0.json > quoted.json
refused quoted_number "quoted.json: 'waits' is no count" quoted.json
sed 's/"pid": 1000, //' rank0.json > nobody.json
refused missing_process "nobody.json: 'pid' is no count" nobody.json
sed 's/"request_sizes": \[/&'"$(yes '0, ' | head -n 64 | tr -d '\n')"'/' rank0.json > long.json
refused too_many_sizes "long.json: 'request_sizes' is no list of at most" long.json
: > empty.json
refused empty_file 'empty.json: it is empty' empty.json
refused missing_file 'absent.json: No such file or directory; give' absent.json
refused directory ': a directory; give the files in it' .
python3 -c 'print("[" * 100000)' > deep.json
refused deep_nesting 'deep.json: not JSON' deep.json
truncate -s 300M large.json
refused large_file 'large.json: larger than 256 MiB' large.json
refused second_file_alone 'absent.json' rank0.json absent.json
sed 's/"\(waits\|wait_ns\|storage_bytes\|storage_requests\|served_bytes\|elapsed_ns\)": [0-9]*/"\1": 9223372036854775807/g' rank0.json > most.json
sed 's/"pid": 1000/"pid": 1001/' most.json > most2.json
sed 's/"pid": 1000/"pid": 1002/' most.json > most3.json
status largest_numbers_are_added_without_overflow 0 "$tool" most.json most2.json most3.json
judge largest_numbers_stay_numbers sh -c '! grep -qE "nan|inf[^o]|-[0-9]+\.[0-9]+ %" out'
told no_file 2 'no FILE is given' "$tool"
told unknown_option 2 "Try 'lmdbio-report --help'" "$tool" --frob rank0.json
told page_in_place_of_its_statistics 2 'rank0.json is one of the statistics' "$tool" rank0.json -o rank0.json
judge statistics_stay_what_they_are grep -q '^{"schema"' rank0.json
told page_where_none_can_be 2 'absent/page.html: No such file' "$tool" rank0.json -o absent/page.html
if [ -c /dev/full ]; then
	told page_on_a_full_disk 2 'No space left' "$tool" rank0.json -o /dev/full
fi
finish
