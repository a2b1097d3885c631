# SPDX-License-Identifier: OLDAP-2.8
# Makes a built tree from a fresh checkout. Sourced, not run; the caller's $root is the top of the
# source.
# shellcheck shell=sh
# shellcheck disable=SC2154

# tree_say WORD...: prints one line about the next step on standard error.
tree_say() {
	echo "== $*" >&2
}

# tree_missing SET...: prints the packages of these sets that are neither installed nor provided by an
# installed package, one a line.
tree_missing() {
	# shellcheck disable=SC2016
	dpkg-query -W -f='${db:Status-Status}, ${Package}, ${Provides}\n' 2>/dev/null |
		awk -v sets=" $* " '
			FILENAME == "-" && /^installed, / {
				gsub(/ \([^)]*\)/, "")
				count = split($0, names, ", ")
				for (i = 2; i <= count; i++)
					present[names[i]]
			}
			FILENAME != "-" && index(sets, " " $1 " ") && !($2 in present) { print $2 }
		' - "$root/tools/packages" | sort -u
}

# tree_as_root COMMAND...: runs the command directly as root, otherwise by sudo, which asks for a password only on a
# terminal.
tree_as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	elif [ -t 0 ]; then
		sudo env DEBIAN_FRONTEND=noninteractive "$@"
	else
		sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
	fi
}

# tree_install SET...: installs the missing packages. Returns 0 if none is missing afterwards; otherwise prints a line
# with the missing ones and returns 1.
tree_install() {
	missing=$(tree_missing "$@" | tr '\n' ' ')
	test -n "$missing" || return 0
	if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
		tree_say "not root and no sudo; missing: $missing"
		return 1
	fi
	tree_say "installing $missing"
	# The package lists of a fresh machine are empty or old: then the first try fails, quietly.
	# shellcheck disable=SC2086
	if ! tree_as_root apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1; then
		tree_as_root apt-get update -q >&2 || true
		known=
		for package in $missing; do
			# A package that this release lacks must not keep the others from being installed.
			! apt-get install -s --no-install-recommends "$package" >/dev/null 2>&1 ||
				known="$known $package"
		done
		tree_as_root apt-get install -y -q --no-install-recommends $known >&2 || true
	fi
	missing=$(tree_missing "$@" | tr '\n' ' ')
	test -z "$missing" || {
		tree_say "could not install: $missing"
		return 1
	}
}

# tree_generate: makes ./configure when it is missing or older than its sources.
tree_generate() {
	if [ ! -e "$root/configure" ] || [ ! -e "$root/Makefile.in" ] ||
		[ -n "$(find "$root" -path "$root/build*" -prune -o \
			\( -name '*.am' -o -name 'configure.ac' -o -name 'origin.m4' -o -name 'python.m4' \) \
			-newer "$root/Makefile.in" -print)" ]; then
		tree_say "autoreconf"
		(cd "$root" && mkdir -p m4 && autoreconf -fi) >&2 || return 1
	fi
}

# tree_configure DIRECTORY CONFIGURE-ARGUMENT...: configures the tree, unless it is configured with these arguments.
# If tree_cache names a file, the next tree's configure uses this one's results about the system.
# If dash is installed, it runs configure and libtool, which are scripts: a build takes a sixth less processor time.
# Each step's failure is returned explicitly: `set -e` does not hold in a condition.
tree_configure() {
	build=$1
	shift
	mkdir -p "$build" || return 1
	if [ ! -e "$build/Makefile" ] || [ "$(cat "$build/.configured" 2>/dev/null)" != "$*" ]; then
		tree_say "configure $*"
		rm -f "$build/.configured"
		(cd "$build" && CONFIG_SHELL=$(command -v dash || command -v sh) \
			"$root/configure" -q ${tree_cache:+--cache-file="$tree_cache"} "$@") >&2 || return 1
		# Objects that were made with other flags do not fit these.
		make -C "$build" -s --no-print-directory clean >/dev/null || return 1
		echo "$*" > "$build/.configured" || return 1
	fi
}

# tree_build DIRECTORY CONFIGURE-ARGUMENT...: configures and makes everything.
tree_build() {
	tree_configure "$@" || return 1
	build=$1
	tree_say "make in $build"
	make -C "$build" -j"$(nproc)" --no-print-directory >&2
}
