/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes the hashes of a data set's identity, and the id that tells file systems apart. */
#include "util/identity.h"

#include "util/hash.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* File systems whose f_fsid comes out of their superblock (Linux: the UUID of ext2 to ext4, of
 * erofs and of btrfs with its subvolume, the cluster's id of ceph). The f_fsid of xfs, f2fs and
 * squashfs is the device's number, as that of erofs without a UUID; that of lustre and overlay is
 * the mount's; nfs, fuse, gpfs and beegfs have none or do not say. */
static const uint32_t with_own_id[] = {
	0x0000ef53, /* ext2, ext3, ext4 */
	0x9123683e, /* btrfs */
	0x00c36400, /* ceph */
	0xe0f5e1e2, /* erofs */
};

/* File systems that a program makes as a whole, with all times as it likes. */
static const uint32_t images[] = {
	0x73717368, /* squashfs */
	0xe0f5e1e2, /* erofs */
	0x00009660, /* iso9660 */
	0x28cd3d45, /* cramfs */
	0x00007275, /* romfs */
};

/* File systems that show the files of another file system, which may be an image. */
static const uint32_t layers[] = {
	0x794c7630, /* overlay */
	0x65735546, /* fuse: squashfuse and the like */
};

enum {
	PIECES = 32, /* pieces of a file that are hashed */
	PIECE = 4096,
	DEVICE_NAME = 64,
	SECOND = 1000000000, /* ns */
};

static bool is_one_of(const uint32_t *types, size_t n, const struct statfs *fs)
{
	for (size_t i = 0; i < n; i++)
		if ((uint32_t)fs->f_type == types[i])
			return true;
	return false;
}

static bool is_image(const struct statfs *fs)
{
	return is_one_of(images, sizeof(images) / sizeof(images[0]), fs);
}

static bool is_layer(const struct statfs *fs)
{
	return is_one_of(layers, sizeof(layers) / sizeof(layers[0]), fs);
}

/* Returns a device's number as the kernel writes it to f_fsid. */
static uint64_t device_as_id(dev_t device)
{
	uint64_t least = minor(device);

	return (least & 0xff) | (uint64_t)major(device) << 8 | (least & ~UINT64_C(0xff)) << 12;
}

static uint64_t own_id(const struct statfs *fs, dev_t device)
{
	uint64_t id;

	_Static_assert(sizeof(id) == sizeof(fs->f_fsid), "it is two words of 32 bits");
	if (!is_one_of(with_own_id, sizeof(with_own_id) / sizeof(with_own_id[0]), fs))
		return 0;
	memcpy(&id, &fs->f_fsid, sizeof(id));
	return id == device_as_id(device) ? 0 : id;
}

/* Whether a program may have set a file's times. A write sets both times to the clock's, with its
 * fractions. Equal times of whole seconds come from a program, or from a file system that keeps no
 * fractions, as Lustre. */
static bool times_are_made(const struct stat *st)
{
	struct identity identity = identity_of(st);

	return identity.ctime_ns == identity.mtime_ns && identity.ctime_ns % SECOND == 0;
}

/* Returns the identity's hash of a loop device's image file; 0: the device has none, or it cannot
 * be found. */
static uint64_t image_hash(dev_t device)
{
	char name[DEVICE_NAME], path[PATH_MAX];
	struct identity image;
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/loop/backing_file", major(device),
		 minor(device));
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, path, sizeof(path));
	close(fd);
	if (n < 2 || path[n - 1] != '\n')
		return 0;
	path[n - 1] = 0;
	if (stat(path, &st))
		return 0;
	image = identity_of(&st);
	image = identity_job(&image);
	return identity_hash(&image, 0);
}

/* Hashes pieces that lie evenly in the file. */
static uint64_t sample_hash(int fd, uint64_t size, uint64_t seed)
{
	uint8_t piece[PIECE];
	uint64_t pieces = size / PIECE + 1, n = pieces < PIECES ? pieces : PIECES, hash = seed;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = (pieces * i + pieces / 2) / n * PIECE;
		ssize_t length = pread(fd, piece, sizeof(piece), (off_t)at);

		if (length > 0)
			hash = hash_seeded(piece, (size_t)length, hash);
	}
	return hash;
}

uint64_t identity_system(int fd)
{
	struct statfs fs;
	struct stat st;
	uint64_t id;
	bool fixed;

	if (fstatfs(fd, &fs) || fstat(fd, &st))
		return 0;
	id = own_id(&fs, st.st_dev);
	fixed = is_image(&fs) || fs.f_flags & ST_RDONLY;
	if (!is_image(&fs) && !(times_are_made(&st) && (fixed || is_layer(&fs))))
		return id;
	/* Each write to an image changes its file's state: only a read-only image's file counts. */
	if (fixed)
		id = hash_seeded(&id, sizeof(id), image_hash(st.st_dev));
	return sample_hash(fd, (uint64_t)st.st_size, id);
}

uint64_t identity_metas(const void *first, const void *second, size_t size)
{
	return hash_seeded(second, size, hash_bytes(first, size));
}

uint64_t identity_hash(const struct identity *identity, uint64_t seed)
{
	return hash_seeded(identity, sizeof(*identity), seed);
}

void identity_hash128(const struct identity *identity, uint64_t seed, uint64_t hash[2])
{
	hash_wide(identity, sizeof(*identity), seed, hash);
}
