#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that links in the documents lead to files that exist, that each document is in the index, that the short ones
# stay short, and that the changelog keeps its form.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cd "$top_srcdir"
pages=$(ls README.md CONTRIBUTING.md SECURITY.md doc/*.md doc/decisions/*.md)

# links PAGE: the files that the page links to, as paths from the top.
links() {
	grep -o '](\([^)#]*\)' "$1" | sed 's/^](//' | grep -v '^[a-z]*:' | sort -u |
		while read -r link; do realpath -m --relative-to=. "$(dirname "$1")/$link"; done
}

# sources PAGE: the files and folders of the source that the page names.
sources() {
	grep -o '\(lib\|compat\|tools\|include\|tests\|bench\|contrib\|debian\)/[a-zA-Z0-9_./*-]*[a-zA-Z0-9*]' "$1" | sort -u
}

: > "$scratch/missing"
for page in $pages; do
	for link in $(links "$page"); do
		[ -e "$link" ] || echo "$page links to $link" >> "$scratch/missing"
	done
done
# These pages name only files of the source; other pages also name files that a build makes.
for page in doc/architecture.md doc/glossary.md doc/decisions/*.md; do
	for name in $(sources "$page"); do
		# A file, a pattern, or a program that is built.
		compgen -G "$name" > /dev/null || compgen -G "$name.c" > /dev/null ||
			echo "$page names $name" >> "$scratch/missing"
	done
done
judge all_files_that_documents_name_exist sh -c "cat '$scratch/missing'; test ! -s '$scratch/missing'"

# A release archive contains only what the makefiles list.
for page in $pages doc/*.svg; do
	grep -q -e "\(^\|[[:space:]]\)$page\($\|[[:space:]]\)" Makefile.am doc/Makemodule.am || echo "$page"
done > "$scratch/unshipped"
judge all_documents_are_in_a_release sh -c "cat '$scratch/unshipped'; test ! -s '$scratch/unshipped'"

links doc/README.md > "$scratch/index"
for page in doc/*.md doc/decisions; do
	[ "$page" = doc/README.md ] ||
		judge "${page//[^a-z]/_}_is_in_the_index" grep -qx "$page" "$scratch/index"
done
links doc/architecture.md > "$scratch/linked"
for page in doc/decisions/*.md; do
	judge "${page//[^a-z]/_}_is_linked_by_the_architecture" grep -qx "$page" "$scratch/linked"
done
judge index_has_fewer_than_200_words test "$(wc -w < doc/README.md)" -lt 200
judge architecture_has_at_most_3000_words test "$(wc -w < doc/architecture.md)" -le 3000
judge readme_has_at_most_250_lines test "$(wc -l < README.md)" -le 250

# Each table of figures has its command, before or behind it, and behind it a text on what the figures mean and do not
# mean.
awk '
	function judged() {
		if (table && (text before) !~ /`[^`]*(bench\/|lmdbio-bench)[^`]*`/)
			print table ": no command"
		if (table && text !~ /What it means/)
			print table ": what does it mean?"
		if (table && text !~ /hat it does not mean/)
			print table ": what does it not mean?"
	}
	/^\|/ {
		if (!inside) {
			judged()
			before = text
			text = ""
			table = "line " NR
		}
		inside = 1
		next
	}
	{ inside = 0; text = text " " $0 }
	END { judged() }
' doc/benchmarks.md > "$scratch/unexplained"
judge each_table_of_figures_is_explained sh -c "cat '$scratch/unexplained'; test ! -s '$scratch/unexplained'"

# README's figures come from the page that explains them: all figures of a row stand in one table or paragraph of that
# page.
sed -n 's/^| [^|]* | \([0-9][^|]*\) | \([0-9][^|]*\) |.*/\1 \2/p' README.md > "$scratch/figures"
awk '
	NR == FNR { blocks[++n] = $0; next }
	{
		for (i = 1; i <= n; i++) {
			rest = $0
			figure = ""
			while (match(rest, /[0-9][0-9.,]*[0-9]/)) {
				figure = substr(rest, RSTART, RLENGTH)
				rest = substr(rest, RSTART + RLENGTH)
				gsub(/[.]/, "[.]", figure)
				if (blocks[i] !~ "(^|[^0-9.,])" figure "($|[^0-9])")
					break
				figure = ""
			}
			if (figure == "")
				next
		}
		print "README.md has \"" $0 "\", no table or paragraph of doc/benchmarks.md has all of it"
	}
' RS= doc/benchmarks.md RS='\n' "$scratch/figures" > "$scratch/unknown"
judge figures_of_README_stand_in_benchmarks sh -c "cat '$scratch/unknown'; test ! -s '$scratch/unknown'"
judge README_has_figures test "$(wc -l < "$scratch/figures")" -ge 5

# Keep a Changelog: unreleased changes stand first, versions have dates, and each change has one line.
sed '1,/^## \[Unreleased\]$/d' CHANGELOG.md > "$scratch/changes"
grep -vE '^(## \[[0-9]+\.[0-9]+\.[0-9]+\] - 20[0-9]{2}-[01][0-9]-[0-3][0-9]|### (Added|Changed|Deprecated|Removed|Fixed|Security)|- .{1,140})?$' \
	"$scratch/changes" > "$scratch/formless" || true
judge changes_have_one_short_line_each_under_a_kind sh -c "cat '$scratch/formless'; test ! -s '$scratch/formless'"
version=$(sed -n 's/^AC_INIT(\[lmdbio\], \[\(.*\)\])$/\1/p' configure.ac)
judge this_version_is_in_the_changelog grep -q "^## \[$version\] - " "$scratch/changes"
finish
