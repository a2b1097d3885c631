# SPDX-License-Identifier: OLDAP-2.8
# Functions for tests of staging: they stage, and check what staging has left. Sourced, after mpi_lib.sh.
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154

stage=$top_builddir/tools/lmdbio-stage

stage_require() {
	mpi_require
	[ -x "$stage" ] || skip "lmdbio-stage is not built"
	need flock python3
}

# staging RANKS NODES OPTION...: leaves the output in out and err, and the status in rc. mpiexec would read the input
# of a loop around it.
staging() {
	staging_ranks=$1
	staging_nodes=$2
	shift 2
	rc=0
	mpi_job "$staging_ranks" "$staging_nodes" "$stage" "$@" < /dev/null > out 2> err || rc=$?
}

# copies_are NUMBER FILE DIRECTORY...: NUMBER files lie below the directories, each equal to FILE and with a seal
# beside it, and nothing else does.
copies_are() {
	copies=$1
	original=$2
	shift 2
	find "$@" -type f ! -name '*.seal' > found
	[ "$(find "$@" -name '*.seal' -size 1 | wc -l)" -eq "$copies" ] || { find "$@"; return 1; }
	[ "$(wc -l < found)" -eq "$copies" ] || { cat found; return 1; }
	while read -r copy; do
		cmp "$original" "$copy" || return 1
	done < found
}

# parts_are NODES FILE DIRECTORY...: the files below the directories are the parts of so many nodes, and together they
# are the file: each chunk is in one part, each node has as many chunks (but for one, or parts_unit bytes), and the
# disks hold next to nothing else.
parts_unit=1048576
parts_are() {
	parts_unit=$parts_unit python3 - "$@" <<'PYTHON'
import os, struct, sys

CHUNK, HEAD_COUNT, HEAD = 1 << 20, 88, 104
nodes, data = int(sys.argv[1]), open(sys.argv[2], "rb").read()
parts = sorted(os.path.join(where, name) for directory in sys.argv[3:]
               for where, _, names in os.walk(directory) for name in names)
names = sorted(os.path.basename(part) for part in parts)
if names != sorted("part-%d-of-%d" % (node, nodes) for node in range(nodes)):
    sys.exit("the parts are %s" % names)
head = (len(data) + 4095) // 4096 * 4096
seen, shares, blocks = set(), [], 0
for part in parts:
    blocks += os.stat(part).st_blocks * 512
    held = open(part, "rb").read()
    count = struct.unpack_from("=Q", held, head + HEAD_COUNT)[0]
    share = 0
    for row in range(count):
        chunk = struct.unpack_from("=Q", held, head + HEAD + row * 16)[0]
        bytes_ = data[chunk * CHUNK:(chunk + 1) * CHUNK]
        if chunk in seen or not bytes_ or held[chunk * CHUNK:chunk * CHUNK + len(bytes_)] != bytes_:
            sys.exit("%s: chunk %d is twice, or wrong" % (part, chunk))
        seen.add(chunk)
        share += len(bytes_)
    shares.append(share)
if sum(shares) != len(data):
    sys.exit("%d bytes of %d" % (sum(shares), len(data)))
if max(shares) - min(shares) > int(os.environ["parts_unit"]):
    sys.exit("the nodes have %s" % shares)
if blocks > len(data) * 1.02 + nodes * 8192:
    sys.exit("%d bytes on the disks for %d" % (blocks, len(data)))
print("   %d bytes on the disks for %d; the nodes have %s" % (blocks, len(data), shares))
PYTHON
}

# nothing_in DIRECTORY...: not even an empty directory of ours.
nothing_in() {
	find "$@" -mindepth 1 > found
	test ! -s found || { cat found; return 1; }
}

# all_ranks_say RANKS TEXT: with --verbose, each rank prints a line of its own.
all_ranks_say() {
	[ "$(grep -c "^rank [0-9]* of $1: $2\$" err)" -eq "$1" ] || { cat out err; return 1; }
}

# fresh DIRECTORY...: makes the directories anew, empty.
fresh() {
	rm -rf "$@"
	mkdir "$@"
}

# hold SET: starts a reader that has read all of it and stays until let_go, and with it its shared memory. It uses
# descriptors 8 and 9.
# shellcheck disable=SC2238
hold() {
	mkfifo ask told
	LD_LIBRARY_PATH=$(dirname "$dropin") LMDBIO_STORE=arena \
		"$top_builddir/tests/stores/stores_reader" --hold scan "$1" < ask > told &
	held=$!
	exec 8> ask 9< told
	read -r _ <&9
}

let_go() {
	exec 8>&- 9<&-
	wait "$held"
	rm ask told
}
