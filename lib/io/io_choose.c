/* SPDX-License-Identifier: OLDAP-2.8 */
/* Chooses a back end for a file system. */
#include "io/io.h"
#include "io/io_backend.h"
#include "util/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/vfs.h>

enum {
	SMALL = 4 << 10,       /* bytes of the shorter read that is measured */
	LARGE = 1 << 20,       /* bytes of the longer one */
	MEASURE_MIN = 8 << 20, /* bytes of a file that is worth measuring */
	DEAR_NS = 200000,      /* a request that takes so long goes over a network, or to a disk */
	DEAR_RATIO = 64,       /* times as long for 256 times the bytes: requests are expensive */
};

struct file_system {
	uint32_t magic;  /* statfs(2), f_type */
	const char *why; /* a reason for the user */
};

/* File systems where the kernel cuts buffered reads small, or where each process's page faults
 * become requests over a network. A file system in neither list is measured. */
static const struct file_system direct_systems[] = {
	{0x0bd00bd0, "lustre: O_DIRECT keeps requests large"},
	{0x47504653, "gpfs: O_DIRECT keeps requests large"},
	{0x19830326, "beegfs: O_DIRECT keeps requests large"},
	{0x20030528, "pvfs2/orangefs: O_DIRECT keeps requests large"},
	{0xaad7aaea, "panfs: O_DIRECT keeps requests large"},
	{0x00c36400, "cephfs: O_DIRECT keeps requests large"},
	{0x65735546, "fuse: O_DIRECT keeps requests large"},
	{0x00006969, "nfs: O_DIRECT keeps requests large"},
	{0xff534d42, "cifs: O_DIRECT keeps requests large"},
	{0xfe534d42, "smb2: O_DIRECT keeps requests large"},
	{0x0000517b, "smb: O_DIRECT keeps requests large"},
	{0x01021997, "9p: O_DIRECT keeps requests large"},
	{0x5346414f, "afs: O_DIRECT keeps requests large"},
	{0x01161970, "gfs2: O_DIRECT keeps requests large"},
	{0x7461636f, "ocfs2: O_DIRECT keeps requests large"},
};

static const struct file_system local_systems[] = {
	{0x0000ef53, "ext4: local, the page cache serves it"},
	{0x58465342, "xfs: local, the page cache serves it"},
	{0x9123683e, "btrfs: local, the page cache serves it"},
	{0x2fc12fc1, "zfs: local, the page cache serves it"},
	{0xf2f52010, "f2fs: local, the page cache serves it"},
	{0x01021994, "tmpfs: it is the page cache"},
	{0x858458f6, "ramfs: it is the page cache"},
	{0x794c7630, "overlay: local, the page cache serves it"},
	{0x73717368, "squashfs: local, the page cache serves it"},
	{0xe0f5e1e2, "erofs: local, the page cache serves it"},
};

static const char *find_system(const struct file_system *systems, size_t n, uint32_t magic)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (systems[i].magic == magic)
			return systems[i].why;
	}
	return NULL;
}

/* Opens a file for direct reads, unless it is open already. A second open takes a round trip on a
 * network, so the io of a try that succeeds is kept. io->ops is NULL where nothing is open. */
static int try_direct(struct io *io, int fd)
{
	int rc = io->ops ? 0 : io_open_file(io, "direct", fd);

	if (rc)
		io->ops = NULL;
	return rc;
}

static void let_go(struct io *io)
{
	if (io->ops)
		io_close(io);
	io->ops = NULL;
}

/* Nanoseconds of a direct read of `length` bytes from about `offset`, the better of two, or 0. */
static uint64_t time_read(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	uint64_t best = 0;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t began = clock_now(), took;
		size_t done;

		if (io_read(io, buffer, length, (offset & ~(uint64_t)(LARGE - 1)) + i * LARGE,
			    &done) ||
		    done < length)
			return 0;
		took = clock_now() - began;
		best = best && best < took ? best : took;
	}
	return best;
}

/* Measures what first reads cost on a file system in neither list. If a small one takes long, and
 * one of a megabyte not much longer, then requests are expensive. */
static void choose_by_measure(int fd, const char **name, const char **why)
{
	void *buffer = io_buffer_new(LARGE);
	uint64_t size, small = 0, large = 0;
	struct io io;

	*why = "file system not known, and not measured";
	if (buffer && !io_open_file(&io, "direct", fd)) {
		if (!io_size(&io, &size) && size >= MEASURE_MIN) {
			small = time_read(&io, buffer, SMALL, size / 2);
			large = time_read(&io, buffer, LARGE, size / 4);
		}
		io_close(&io);
	}
	io_buffer_free(buffer, LARGE);
	if (!small || !large)
		return;
	if (small >= DEAR_NS && large < small * DEAR_RATIO) {
		*name = "direct";
		*why = "measured: a request costs more than its bytes";
	} else {
		*why = "measured: requests are cheap, the page cache serves it";
	}
}

static const char *why_not_direct(int rc)
{
	if (rc == EMFILE || rc == ENFILE)
		return "no descriptor is left to open it for O_DIRECT";
	if (rc == EACCES || rc == EPERM)
		return "it may not be opened again for O_DIRECT";
	if (rc == EOPNOTSUPP)
		return "this file system wants direct reads of more than 4 KiB";
	return "this file system refuses O_DIRECT";
}

/* Chooses by the file's file system. Returns whether that is a local one. */
static bool choose_by_system(struct io *direct, int fd, const char **name, const char **why)
{
	struct statfs fs;
	int rc;

	*name = "pread";
	if (fstatfs(fd, &fs) != 0) {
		*why = "file system unknown";
		return false;
	}
	*why = find_system(direct_systems, sizeof(direct_systems) / sizeof(direct_systems[0]),
			   (uint32_t)fs.f_type);
	if (*why) {
		rc = try_direct(direct, fd);
		if (rc)
			*why = why_not_direct(rc);
		else
			*name = "direct";
		return false;
	}
	*why = find_system(local_systems, sizeof(local_systems) / sizeof(local_systems[0]),
			   (uint32_t)fs.f_type);
	if (*why)
		return true;
	choose_by_measure(fd, name, why);
	return false;
}

/* Leaves a direct io that was opened on the way in *direct. */
static int choose(struct io *direct, int fd, const char *wanted, const char **name,
		  const char **why, bool *local)
{
	const char *known = wanted ? io_backend_name(wanted) : NULL;
	int rc;

	direct->ops = NULL;
	*local = choose_by_system(direct, fd, name, why);
	if (!wanted || wanted[0] == '\0' || strcmp(wanted, "auto") == 0)
		return 0;
	if (!known)
		return EINVAL;
	rc = strncmp(known, "direct", 6) == 0 ? try_direct(direct, fd) : 0;
	if (rc == EBADF)
		return rc;
	if (rc) {
		*name = "pread";
		*why = why_not_direct(rc);
		return 0;
	}
	*name = known;
	*why = "asked for";
	return 0;
}

int io_choose(int fd, const char *wanted, const char **name, const char **why)
{
	struct io direct;
	bool local;
	int rc = choose(&direct, fd, wanted, name, why, &local);

	let_go(&direct);
	return rc;
}

static int open_chosen(struct io *io, int fd, int rc, const char **name, const char **why)
{
	if (!rc && io->ops && !strcmp(*name, "direct"))
		return 0;
	let_go(io);
	if (!rc)
		rc = io_open_file(io, *name, fd);
	if (rc && strcmp(*name, "pread")) {
		*name = "pread";
		*why = "the other cannot be opened here";
		rc = io_open_file(io, *name, fd);
	}
	return rc;
}

int io_open_chosen(struct io *io, int fd, const char *wanted, const char **name, const char **why)
{
	bool local;
	int rc = choose(io, fd, wanted, name, why, &local);

	rc = open_chosen(io, fd, rc, name, why);
	io->local = local;
	return rc;
}
