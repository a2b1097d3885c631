#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Builds contrib/container/Containerfile by buildah, and runs its image: every command, a program on lmdbio,
# and a job of two ranks.
#
# One of the long tests. The base image is a bare Debian 12 made by debootstrap, under the name that the Containerfile
# has: no image is downloaded from a registry.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need buildah debootstrap git
[ "$(id -u)" -eq 0 ] || skip "debootstrap wants root"
unset MAKEFLAGS MFLAGS
cd "$scratch"
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
store=(--root "$scratch/store" --runroot "$scratch/run")
trap 'buildah "${store[@]}" rm --all > /dev/null 2>&1 || :; rm -rf "$scratch"' EXIT

mirror=$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" && $2 ~ /^http/ { print $2; exit }' \
	/etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2> /dev/null) || :
status base_system_is_made 0 debootstrap --variant=minbase bookworm base "${mirror:-http://deb.debian.org/debian}"
[ "$rc" -eq 0 ] || finish
cp /etc/apt/apt.conf.d/*proxy* base/etc/apt/apt.conf.d/ 2> /dev/null || :
base=$(buildah "${store[@]}" from scratch)
buildah "${store[@]}" add -q "$base" base / > /dev/null
buildah "${store[@]}" commit -q "$base" docker.io/library/debian:12-slim > /dev/null
buildah "${store[@]}" rm "$base" > /dev/null
rm -rf base

mkdir checkout
(cd "$top_srcdir" && git -c safe.directory='*' ls-files -z | xargs -0 cp --parents -t "$scratch/checkout")
status image_is_built 0 buildah "${store[@]}" bud --pull=never -q -t lmdbio \
	-f checkout/contrib/container/Containerfile checkout
[ "$rc" -eq 0 ] || finish
container=$(buildah "${store[@]}" from --pull=never lmdbio)
# in_image COMMAND...: runs the command in a container of this image.
in_image() {
	buildah "${store[@]}" run "$container" -- "$@"
}
for command in run bench check convert dump report serve sim stage stat top; do
	told "image_has_lmdbio-$command" 0 "^lmdbio-$command (lmdbio) [0-9]" in_image "lmdbio-$command" --version
done
judge image_starts_programs_by_lmdbio_run sh -c "buildah ${store[*]} inspect lmdbio |
	tr -d ' \n' | grep -q '\"Entrypoint\":\[\"lmdbio-run\",\"--\"\]'"
told lmdbio_takes_effect_in_the_image 0 'takes effect' in_image lmdbio-run --check=run -- python3 -c 'import lmdb'
status image_writes_and_reads 0 in_image lmdbio-run --verbose -- python3 -c '
import lmdb, lmdbio
with lmdb.open("/tmp/set", map_size=1 << 24) as env, env.begin(write=True) as txn:
    for i in range(100): txn.put(b"%04d" % i, b"v" * 1000)
with lmdb.open("/tmp/set", readonly=True) as env, env.begin() as txn:
    assert len(list(txn.cursor())) == 100
with lmdbio.Loader("/tmp/set", 10, seed=1) as loader:
    assert sum(len(batch) for batch in loader.epoch(0)) == 100'
says image_reads_by_lmdbio 'set: read by lmdbio'
status image_runs_a_job 0 in_image mpiexec -n 2 lmdbio-run --mpi -- python3 -c 'import lmdb
assert len(list(lmdb.open("/tmp/set", readonly=True).begin().cursor())) == 100'
finish
