#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that every file of the project names its licence, and that LICENSE holds its text.
#
# usage: licence_test.sh, with the source in $top_srcdir (default: this folder)
# Outside a git checkout (a release's archive), or without git, it looks at every file that is not generated.
set -u
export LC_ALL=C
cd "${top_srcdir:-.}" || exit 99
line='SPDX-License-Identifier: OLDAP-2.8'

files() {
	if [ -e .git ] && command -v git >/dev/null; then
		git -c safe.directory='*' ls-files --cached --others --exclude-standard
	else
		find bench compat contrib doc include lab lib tests tools -name '*.[ch]' -o -name '*.sh' \
			-o -name '*.py' -o -name 'Makemodule.am'
	fi
}

missing=0 seen=0
while read -r file; do
	case $file in
	LICENSE | */py.typed | debian/changelog | debian/source/format) continue ;;
	esac
	[ -f "$file" ] || continue
	seen=$((seen + 1))
	# Two processes for each of a thousand files took half a minute.
	mapfile -n 3 head <"$file" 2>/dev/null
	[[ ${head[*]} == *"$line"* ]] || {
		echo "NOT OK: $file does not say \"$line\" in its first three lines"
		missing=$((missing + 1))
	}
done < <(files)
[ "$seen" -gt 500 ] || { echo "NOT OK: only $seen files were found"; exit 1; }
for words in 'The OpenLDAP Public License' 'Howard Chu, Symas Corp.' 'Martin Hedenfalk'; do
	grep -qF "$words" LICENSE || { echo "NOT OK: LICENSE lacks \"$words\""; missing=$((missing + 1)); }
done
echo "$seen files looked at"
[ "$missing" -eq 0 ]
