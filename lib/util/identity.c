/* SPDX-License-Identifier: OLDAP-2.8 */
/* The identity of a data set's bytes: its hashes, and the id of the file system. */
#include "util/identity.h"

#include <sys/vfs.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* File systems whose f_fsid comes out of their superblock (Linux: the UUID of ext2 to ext4 and of
 * btrfs with its subvolume, the cluster's id of ceph). Those of xfs, f2fs, squashfs and erofs are their
 * device's number, those of lustre and overlay the mount's; nfs, fuse, gpfs and beegfs have none or do not
 * say. */
static const uint32_t with_own_id[] = {
	0x0000ef53, /* ext2, ext3, ext4 */
	0x9123683e, /* btrfs */
	0x00c36400, /* ceph */
};

uint64_t identity_system(int fd)
{
	struct statfs fs;
	uint64_t id = 0;

	if (fstatfs(fd, &fs))
		return 0;
	for (size_t i = 0; i < sizeof(with_own_id) / sizeof(with_own_id[0]); i++)
		if ((uint32_t)fs.f_type == with_own_id[i])
			memcpy(&id, &fs.f_fsid,
			       sizeof(id) < sizeof(fs.f_fsid) ? sizeof(id) : sizeof(fs.f_fsid));
	return id;
}

uint64_t identity_metas(const void *first, const void *second, size_t size)
{
	return XXH3_64bits_withSeed(second, size, XXH3_64bits(first, size));
}

uint64_t identity_hash(const struct identity *identity, uint64_t seed)
{
	return XXH3_64bits_withSeed(identity, sizeof(*identity), seed);
}

void identity_hash128(const struct identity *identity, uint64_t seed, uint64_t hash[2])
{
	XXH128_hash_t both = XXH3_128bits_withSeed(identity, sizeof(*identity), seed);

	hash[0] = both.low64;
	hash[1] = both.high64;
}
