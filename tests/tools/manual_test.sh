#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# The manual pages format without a warning, all commands use the same forms, and lmdbio(3) and lmdbio-loader(3)
# together have the functions, advice values, options, counters and codes of lmdbio.h.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
header=$top_srcdir/include/lmdbio.h
page=$top_srcdir/doc/lmdbio.3
loader_page=$top_srcdir/doc/lmdbio-loader.3
cd "$scratch"

# --- the header and the page ---
# prototypes: one a line, with single blanks.
prototypes() {
	tr '\n' ' ' | sed 's/;/;\n/g' | tr -s ' \t' ' ' | grep -o '[a-z][a-z ]* \**lmdbio_[a-z]*[a-z_]*(.*;' |
		sort
}
grep -v '^#' "$header" | tr '\n' ' ' | sed 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/::g' | prototypes |
	grep -v '^typedef' > header.functions
sed -s -n '/^\.SH SYNOPSIS/,/^\.SH DESCRIPTION/p' "$page" "$loader_page" | grep '^\.B' |
	sed 's/^\.BI* //; s/" \([a-z]*\) "/\1/g; s/ \([a-z]*\) );"$/\1);/; s/" \([a-z]*\) );*$/\1);/; s/" \([a-z]*\) ,$/\1,/; s/"//g' |
	prototypes > page.functions
judge header_has_functions test "$(wc -l < header.functions)" -ge 5
same page_has_the_functions_of_the_header header.functions page.functions

sed -n '/^struct lmdbio_stats {/,/^}/s/^\tuint64_t \([a-z_]*\);.*/\1/p' "$header" | grep -vx size > header.counters
sed -n '/^\.SS lmdbio_stats/,/^\.SS lmdbio_version/s/^\([a-z_]*\)|.*/\1/p' "$page" > page.counters
judge header_has_counters test "$(wc -l < header.counters)" -ge 17
same page_has_the_counters_of_the_header header.counters page.counters

for struct in loader_options loader_stats quality; do
	tr '\n' ' ' < "$header" | sed 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/::g' |
		grep -o "struct lmdbio_$struct {[^}]*}" | sed 's/.*{//; s/\[[^]]*\]//g' | tr ',;' '\n' |
		grep -o '[a-z_]* *$' | tr -d ' ' | grep . | grep -vx size | sort > "header.$struct"
	awk -v heading=".SS struct lmdbio_$struct" '/^\.S[SH]/ { inside = $0 == heading; next } inside' "$loader_page" |
		sed -n 's/^\([a-z_]*\)|.*/\1/p' | sort > "page.$struct"
	judge "header_has_$struct" test "$(wc -l < "header.$struct")" -ge 4
	same "page_has_the_${struct}_of_the_header" "header.$struct" "page.$struct"
done

sed -n 's/^\t\(LMDBIO_[A-Z]*\) = .*/\1/p' "$header" > header.advices
sed -n 's/^\(LMDBIO_[A-Z]*\)|.*/\1/p' "$page" > page.advices
judge header_has_advices test -s header.advices
same page_has_the_advices_of_the_header header.advices page.advices

sed -n '/Returns:/,/\*\//p' "$header" | grep -oE '\b(E[A-Z]{3,}|MDB_[A-Z_]+)\b' | sort -u > header.codes
sed -s -n '/^\.SH RETURN VALUE/,/^\.SH THREADS/s/^\([A-Z_]*\)|.*/\1/p' "$page" "$loader_page" |
	sort -u > page.codes
judge header_has_codes test -s header.codes
same page_has_the_codes_of_the_header header.codes page.codes

# --- the commands and their pages ---
pages=$(ls "$top_srcdir"/doc/*.[1-9] "$top_builddir"/doc/*.1)
for tool in "$top_builddir"/tools/lmdbio-*; do
	if [ ! -f "$tool" ] || [ ! -x "$tool" ]; then
		continue
	fi
	command=${tool##*/}
	status "${command}_help_is_no_error" 0 "$tool" --help
	judge "${command}_help_has_no_message" test ! -s err
	cp out help
	status "${command}_has_h" 0 "$tool" -h
	same "${command}_h_is_help" help out
	status "${command}_has_version" 0 "$tool" --version
	judge "${command}_version_is_one_line" grep -q "^$command (lmdbio) [0-9]" out
	cp out version
	status "${command}_has_V" 0 "$tool" -V
	same "${command}_V_is_version" version out
	told "${command}_refuses_an_option_that_is_none" 2 "Try '$command --help'" "$tool" --no-such-option
	tr '\n' ' ' < help | sed 's/.*Exit status: //' | grep -oE '(^|; )[0-9]+ ' | tr -d '; ' | sort -n > help.codes
	sed -n '/^\.SH EXIT STATUS/,/^\.TE/s/^\([0-9]*\)|.*/\1/p' "$top_builddir/doc/$command.1" | sort -n > page.codes
	judge "${command}_help_has_exit_codes" grep -qx 2 help.codes
	same "${command}_page_has_the_exit_codes_of_help" help.codes page.codes
done

# --- the pages ---
if command -v man >/dev/null && echo .TH A 7 | man -l -Tutf8 - >/dev/null 2>&1; then
	for file in $pages; do
		name=$(basename "$file")
		rc=0
		man --warnings -E UTF-8 -l -Tutf8 "$file" > text 2> paged || rc=$?
		# A terminal has no pages, so that no row of a table can cross the end of one.
		grep -v 'table text block will not fit on one page' paged > warnings || true
		judge "${name}_formats" test $rc -eq 0 -a "$(wc -l < text)" -gt 20
		judge "${name}_formats_without_warnings" test ! -s warnings
		test ! -s warnings || cat warnings
	done
	printf '.TH A 7\n.SH NAME\n.XX\n' > bad.7
	man --warnings -E UTF-8 -l -Tutf8 bad.7 > text 2> warnings || true
	judge warnings_are_seen test -s warnings
else
	not_run pages_format "no working man here"
fi
if command -v mandoc > /dev/null; then
	# shellcheck disable=SC2086
	mandoc -Tlint -W style $pages > lint 2>&1 || true
	judge pages_are_clean_for_mandoc test ! -s lint
	head -n 20 lint
else
	not_run pages_are_clean_for_mandoc "no mandoc here"
fi

# mandoc drops macros inside tables, and the text that they would print.
# shellcheck disable=SC2086
awk '/^\.TS/ { table = 1; next } /^\.TE/ { table = 0 } table && /^\./ { print FILENAME ": " $0 }' $pages > dropped
judge no_table_has_a_macro test ! -s dropped
cat dropped
# shellcheck disable=SC2086
grep -LE '^\.TH [A-Z-]+ [0-9] 20[0-9]{2}-[01][0-9]-[0-3][0-9] "lmdbio"' $pages > undated || true
judge each_page_has_a_date test ! -s undated

# --- a page for each function, which refers to the page that describes it ---
if [ -d "$top_builddir/doc/functions" ]; then
	sed 's:/\*.*\*/::' "$header" "$top_srcdir/include/lmdbio_mpi.h" | grep -oE '^[a-z].*\blmdbio_[a-z_]+\(' |
		grep -v '^typedef' | grep -oE 'lmdbio_[a-z_]+\(' | tr -d '(' | sort -u > functions
	(cd "$top_builddir/doc/functions" && ls) | sed 's/\.3$//' | sort > pages
	same each_function_has_a_page functions pages
	wrong=0
	while read -r function; do
		page=$(sed -n 's/^\.so man3\///p' "$top_builddir/doc/functions/$function.3")
		grep -q "$function" "$top_srcdir/doc/$page" || wrong=$((wrong + 1))
	done < functions
	judge each_page_leads_to_the_function test $wrong -eq 0
fi
finish
