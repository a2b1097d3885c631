# What only this file knows: how a test of staging stages, and what it expects to find. Sourced, after
# mpi_lib.sh.
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154

stage=$top_builddir/tools/lmdbio-stage

stage_require() {
	mpi_require
	[ -x "$stage" ] || skip "lmdbio-stage is not built"
	need flock
}

# staging RANKS NODES OPTION...: what it says is in out and err, its status in rc. mpiexec would read
# the input of a loop around it.
staging() {
	staging_ranks=$1
	staging_nodes=$2
	shift 2
	rc=0
	mpi_job "$staging_ranks" "$staging_nodes" "$stage" "$@" < /dev/null > out 2> err || rc=$?
}

# copies_are NUMBER FILE DIRECTORY...: so many files lie below the directories, each like FILE, and
# nothing else does.
copies_are() {
	copies=$1
	original=$2
	shift 2
	find "$@" -type f > found
	[ "$(wc -l < found)" -eq "$copies" ] || { cat found; return 1; }
	while read -r copy; do
		cmp "$original" "$copy" || return 1
	done < found
}

# nothing_in DIRECTORY...: not even an empty directory of ours.
nothing_in() {
	find "$@" -mindepth 1 > found
	test ! -s found || { cat found; return 1; }
}

# all_ranks_say RANKS TEXT: with --verbose, each rank on a line of its own.
all_ranks_say() {
	[ "$(grep -c "^rank [0-9]* of $1: $2\$" err)" -eq "$1" ] || { cat out err; return 1; }
}

# fresh DIRECTORY...: empty.
fresh() {
	rm -rf "$@"
	mkdir "$@"
}
