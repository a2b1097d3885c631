#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that each command's --help, manual page and completion in bash, zsh and fish have the same options, and that
# real shells complete the values of options.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need python3 awk
awk=${AWK:-awk}
words=$top_srcdir/tests/tools/shell_words.py
cd "$scratch"

# --- the folders in which the shells look ---
mkdir -p commands bash/completions zsh data/fish/vendor_completions.d
for tool in "$top_builddir"/tools/lmdbio-*; do
	if [ ! -f "$tool" ] || [ ! -x "$tool" ]; then
		continue
	fi
	name=${tool##*/}
	echo "$name"
	ln -s "$tool" commands/
	cp "$top_builddir/tools/bash/$name" bash/completions/
	cp "$top_builddir/tools/zsh/_$name" zsh/
	cp "$top_builddir/tools/fish/$name.fish" data/fish/vendor_completions.d/
done > names
judge commands_are_found test "$(wc -l < names)" -ge 3
shells=
for shell in bash zsh fish; do
	if ! command -v $shell > /dev/null; then
		not_run "${shell}_completes" "no $shell here"
	elif [ $shell = bash ] && [ ! -e /usr/share/bash-completion/bash_completion ]; then
		not_run bash_completes "no bash-completion here"
	else
		shells="$shells $shell"
	fi
done

# --- the same options everywhere ---
help_options() {
	grep -oE '^ +(-[A-Za-z])?(, | +)?(--[a-z0-9-]+)?' | grep -oE -e '--?[A-Za-z][a-z0-9-]*' | sort -u
}
page_options() {
	sed -n '/^\.SH OPTIONS/,/^\.SH [^O]/p' "$1" | awk '/^\.TP/ { head = 1; next } head { print; head = 0 }' |
		sed 's/\\f[A-Z]//g; s/\\-/-/g; s/=.*//' | grep -oE -e '--?[A-Za-z][a-z0-9-]*' | sort -u
}
while read -r name; do
	"commands/$name" --help > help
	help_options < help > "$name.options"
	judge "${name}_help_has_options" test "$(wc -l < "$name.options")" -ge 6
	page_options "$top_builddir/doc/$name.1" > page.options
	same "${name}_page_has_the_options_of_help" "$name.options" page.options
	echo "$name -" >> lines
done < names
for shell in $shells; do
	rc=0
	python3 "$words" "$shell" . < lines > found || rc=$?
	judge "${shell}_answers_each_line" test $rc -eq 0 -a "$(wc -l < found)" -eq "$(wc -l < lines)"
	number=0
	while read -r name; do
		number=$((number + 1))
		# Where a program name may stand, zsh also offers "-", a word of its own.
		sed -n "${number}p" found | tr ' ' '\n' | grep -vxe - | sort -u > completed
		same "${shell}_completes_the_options_of_$name" "$name.options" completed
	done < names
done

# --- the values of an option, and operands ---
cat > records <<'DUMP'
VERSION=3
format=print
type=btree
database=pictures
mapsize=1048576
HEADER=END
 key
 value
DATA=END
VERSION=3
format=print
type=btree
database=labels
mapsize=1048576
HEADER=END
 key
 value
DATA=END
DUMP
mkdir db folder odd "o dd"
mdb_load -f records db
sed "s/=pictures/=\$(touch executed)/; s/=labels/=two words/" records > odd.records
mdb_load -f odd.records odd
mdb_load -f odd.records "o dd"
# "LINE|WORDS"; the first word of LINE is the command.
cat > expected <<'LINES'
lmdbio-run --io=|auto direct pread
lmdbio-run --store c|cache
lmdbio-run --check=|run
lmdbio-run lmdbio-conv|lmdbio-convert
lmdbio-run --io auto lmdbio-convert --to=|container lmdb lmdb-0.9
lmdbio-convert --max-v|--max-value
lmdbio-serve --io=p|pread
lmdbio-stage --tier=|memory ssd
lmdbio-stage --to=fo|folder
lmdbio-stage --hold db lmdbio-conv|lmdbio-convert
lmdbio-convert --from=|caffe container lmdb tar tree webdataset
lmdbio-convert --max-v|--max-value
lmdbio-convert --root fo|folder
lmdbio-convert recor|records
lmdbio-dump db --subdb=|labels pictures
lmdbio-stat db -s pic|pictures
lmdbio-dump odd -s |$(touch executed) two words
lmdbio-dump odd --subdb two\ w|two words
lmdbio-stat o\ dd -s tw|two words
lmdbio-sim --preset=scen|scenario1 scenario2 scenario3 scenario4
lmdbio-sim --policy=dee|deepio deepio-ordered
lmdbio-top --sort=|pid program queue requests storage values wait
LINES
while IFS='|' read -r line meant; do
	grep -qxF "${line%% *}" names || continue
	echo "$line|$meant"
done < expected > known
cut -d'|' -f1 known > lines
cut -d'|' -f2 known > meant
for shell in $shells; do
	# fish puts the option in front of a directory's name; zsh quotes words.
	python3 "$words" "$shell" . < lines | sed 's:/\( \|$\):\1:g; s/--[a-z]*=folder/folder/; s/\\//g' > found
	same "${shell}_completes_what_an_option_takes" meant found
	judge "${shell}_executes_no_name_of_a_database" test ! -e executed
	rm -f executed
done

# --- a manual page and a table of options that differ are refused ---
tool=commands/lmdbio-dump
# shellcheck disable=SC2317
made() {
	"$tool" --table-of-options | "$awk" -v form=man -f "$top_srcdir/tools/options.awk" - "$1"
}
page=$top_srcdir/doc/lmdbio-dump.1.in
told page_is_made_of_the_table 0 'SH OPTIONS' made "$page"
sed '/^@option salvage@/d' "$page" > less
told page_that_lacks_an_option_is_refused 1 'lacks @option salvage@' made less
sed 's/^@option salvage@/@option salve@/' "$page" > other
told page_with_another_option_is_refused 1 'has no option salve' made other
sed 's/^@option salvage@/@option list@/' "$page" > twice
told page_with_an_option_twice_is_refused 1 'option list is there twice' made twice
finish
