#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that lmdbio(7) lists exactly the variables, values and defaults that lib/util/settings.c has, and the words
# that the parsers accept, and that it names every variable that code reads.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
source=$top_srcdir/lib/util/settings.c
manual=$top_srcdir/doc/lmdbio.7
cd "$scratch"

# code_table FILE: "NAME|values|default" for each row of variables[]. A default is what the initialiser of `settings`
# says, otherwise what zero means to the variable's parser.
code_table() {
	awk '
	/^static struct settings settings = \{/ { first = 1; next }
	first && /^\};/ { first = 0 }
	first {
		field = $1; value = $3
		sub(/^\./, "", field); gsub(/[",]/, "", value)
		initial[field] = value == "true" ? "1" : value == "false" ? "0" : value
	}
	/^\} variables\[\] = \{/ { table = 1; next }
	table && /^\};/ { table = 0 }
	table { text = text " " $0 }
	END {
		zero["parse_boolean"] = zero["parse_process"] = zero["parse_stats"] = "0"
		zero["parse_memory"] = "auto"
		zero["parse_library"] = "found"
		zero["parse_node"] = zero["parse_directory"] = zero["parse_place"] = zero["parse_checksum"] = "none"
		while (match(text, /\{"LMDBIO_[^}]*\}/)) {
			row = substr(text, RSTART + 1, RLENGTH - 2)
			text = substr(text, RSTART + RLENGTH)
			split(row, quoted, "\"")
			split(quoted[3], word, ", *")
			match(row, /settings, [a-z_]+/)
			field = substr(row, RSTART + 10, RLENGTH - 10)
			value = field in initial ? initial[field] : word[2] in zero ? zero[word[2]] : "?"
			print quoted[2] "|" quoted[4] "|" value
		}
	}' "$1"
}

# manual_table FILE: the same rows, from the table whose first row begins with "Variable".
manual_table() {
	awk '
	/^Variable\|/ { table = 1; next }
	/^\.TE/ { table = 0 }
	!table { next }
	/^T\}/ { open = 0; row = row substr($0, 3) }
	open { row = row (row ~ /\|$/ ? "" : " ") $0 }
	!open && !/^T\}/ { row = $0 }
	/T\{$/ { open = 1; sub(/T\{$/, "", row) }
	!open { split(row, cell, "|"); gsub(/\\-/, "-", row); print cell[1] "|" cell[2] "|" cell[3] }
	' "$1"
}

# words FILE PARSER: the words that a parser accepts, the default first, as the manual's table writes them.
words() {
	sed -n "/^static bool $2(/,/^}/s/.*words\[\] = {\(.*\), NULL};/\1/p" "$1" | tr -d '"' |
		sed 's/\(.*\), /\1 or /'
}

code_table "$source" > code
manual_table "$manual" > listed
judge code_has_a_table test "$(grep -c '^LMDBIO_[A-Z]*|..*|..*' code)" -ge 9
judge code_table_is_whole test "$(wc -l < code)" -eq "$(grep -c '{"LMDBIO_' "$source")"
judge code_defaults_are_all_known sh -c '! grep -q "|?$" code'
same manual_lists_what_the_code_has code listed
for parser in parse_io:LMDBIO_IO parse_store:LMDBIO_STORE; do
	judge "${parser%:*}_takes_the_words_of_the_table" \
		grep -q "^${parser#*:}|$(words "$source" "${parser%:*}")|" code
done

# Variables that code outside the table reads as well, in the library, the commands and the Python package: the manual
# has each of them, and no others.
{
	cut -d'|' -f1 code
	grep -rhoE '(getenv|environ\.get)\("(LIB)?LMDBIO[A-Z0-9_]*"' "$top_srcdir/lib" "$top_srcdir/compat" "$top_srcdir/tools" \
		"$top_srcdir/python/lmdbio" | grep -oE '(LIB)?LMDBIO[A-Z0-9_]*'
} | sort -u > read.names
grep -v '^\.\\"' "$manual" | grep -oE '\b(LIB)?LMDBIO(_[A-Z0-9_]*[A-Z0-9])?\b' | grep -vx LMDBIO | sort -u > manual.names
judge names_are_found test "$(wc -l < read.names)" -ge 15
same manual_has_the_variables_that_code_reads read.names manual.names

# Tests the comparison itself: one change on either side must show.
# shellcheck disable=SC2317
differs() {
	code_table "$1" > code.changed
	manual_table "$2" > manual.changed
	! cmp -s code.changed manual.changed
}
sed '/^LMDBIO_VERBOSE|/,/^T}/d' "$manual" > less
judge row_missing_in_the_manual_is_noticed differs "$source" less
sed '/{"LMDBIO_VERBOSE"/d' "$source" > less
judge row_missing_in_the_code_is_noticed differs less "$manual"
sed '/^T}|auto|T{/s/auto/none/' "$manual" > other
judge other_default_in_the_manual_is_noticed differs "$source" other
sed 's/\.share = true/.share = false/' "$source" > other
judge other_default_in_the_code_is_noticed differs other "$manual"
sed 's/^auto, cache or arena/auto or cache/' "$manual" > other
judge other_values_in_the_manual_are_noticed differs "$source" other

# What the code answers: a value that is not in the table is refused in the table's words.
if command -v /usr/bin/python3 >/dev/null && /usr/bin/python3 -c 'import lmdb' 2>/dev/null && [ -e "$dropin" ]; then
	cat > refused.py <<'END'
import lmdb
lmdb.open("db", map_size=1 << 20).close()
END
	while IFS='|' read -r name values _; do
		test "$name" = LMDBIO_NODE && continue # nearly every text is a valid node name
		env "$name=9banana%x" "$lmdbio_run" -- /usr/bin/python3 refused.py 2> err || true
		judge "${name}_refused_with_the_words_of_the_table" grep -qF "wants $values, " err
	done < code
else
	not_run values_refused_with_the_words_of_the_table "no python3-lmdb"
fi
finish
