/* SPDX-License-Identifier: OLDAP-2.8 */
/* Names a data set's bytes: the file that they are in, and its state.
 *
 * All code that keeps a data set's bytes outside of its file (the arena, a staged copy, a node's
 * part, the disk tier's file, a server, a peer) names them by this one type, and uses them only if
 * it is equal. An identity has no path: a name may lead to another file by now.
 *
 * One type has three forms, because nodes do not agree on everything:
 *   node      all fields, on which processes of one machine agree
 *   job       without `device`, which each node numbers for itself; sealed on disks as well, because
 *             a device's number is another one after a reboot
 *   content   size and snapshot alone, on which byte copies of a data set agree
 */
#ifndef LMDBIO_UTIL_IDENTITY_H
#define LMDBIO_UTIL_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

/* Written to disks and sent between nodes as it is: eight words, no padding. An unknown field is
 * 0. */
struct identity {
	uint64_t device;   /* st_dev */
	uint64_t system;   /* tells file systems apart: identity_system() */
	uint64_t inode;
	uint64_t size; /* bytes of the data: of the file, or in the container */
	int64_t mtime_ns;
	int64_t ctime_ns;  /* no program can set it, images apart: other bytes, another time */
	uint64_t snapshot; /* transaction id */
	uint64_t metas;    /* identity_metas() of the data file, or a hash of the container's footer */
};

_Static_assert(sizeof(struct identity) == 8 * sizeof(uint64_t), "it is hashed and compared whole");

/* Returns the fields that a file's status has: device, inode, size and times; the others are 0. */
static inline struct identity identity_of(const struct stat *st)
{
	return (struct identity){
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec,
		.ctime_ns = st->st_ctim.tv_sec * INT64_C(1000000000) + st->st_ctim.tv_nsec,
	};
}

static inline struct identity identity_job(const struct identity *identity)
{
	struct identity job = *identity;

	job.device = 0;
	return job;
}

static inline struct identity identity_content(const struct identity *identity)
{
	return (struct identity){.size = identity->size, .snapshot = identity->snapshot};
}

static inline bool identity_equal(const struct identity *one, const struct identity *other)
{
	return !memcmp(one, other, sizeof(*one));
}

static inline bool identity_equal_job(const struct identity *one, const struct identity *other)
{
	struct identity a = identity_job(one), b = identity_job(other);

	return identity_equal(&a, &b);
}

/* Whether a file is still in the state of an identity, as far as its status tells. */
static inline bool identity_holds(const struct identity *identity, const struct stat *st)
{
	return st->st_ino == identity->inode &&
	       identity_of(st).mtime_ns == identity->mtime_ns &&
	       identity_of(st).ctime_ns == identity->ctime_ns;
}

/* Returns a number that tells the file system of an open data file from another one in which all
 * else agrees. The number is the same on all nodes and after a remount. It is the id that the file
 * system got when it was made (statfs(2), f_fsid), or 0. Many file systems fill f_fsid with the
 * number of the device or mount, which is left out.
 *
 * Where a program may have set the time of change, a hash takes the id's place. That is in a file
 * system that is an image, and for times of whole seconds in one that is mounted read-only or
 * overlays another. The hash is of that id, of the identity of the image's file if it is found, and
 * of 32 pieces of 4 KiB of the data file. Elsewhere the call costs two system calls, which a
 * network file system may answer by asking its server. */
uint64_t identity_system(int fd);

/* Returns the hash of two meta pages, of `size` bytes each. */
uint64_t identity_metas(const void *first, const void *second, size_t size);

/* Return the XXH3 of a whole identity; `seed` keeps different uses apart. */
uint64_t identity_hash(const struct identity *identity, uint64_t seed);
void identity_hash128(const struct identity *identity, uint64_t seed, uint64_t hash[2]);

#endif
