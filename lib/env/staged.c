/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how a data file is told from others of the same name. */
#include "env/staged.h"

#include "format/layout.h"
#include "format/meta.h"
#include "util/checked.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SKIPPABLE = 0x184d2a50 }; /* how a container begins, its lowest four bits apart */

void staged_name(const struct staged_identity *identity, char name[STAGED_NAME])
{
	snprintf(name, STAGED_NAME, "%llx-%llx-%llx-%llx", (unsigned long long)identity->inode,
		 (unsigned long long)identity->size, (unsigned long long)identity->mtime_ns,
		 (unsigned long long)identity->snapshot);
}

const char *staged_file(const struct staged_identity *identity)
{
	return identity->page_size ? "data.mdb" : "data.mdb.zst";
}

static int read_metas(int fd, struct staged_identity *identity)
{
	uint8_t first[META_END], second[META_END];
	struct meta meta;
	int rc = whole_read(fd, first, sizeof(first), 0, MDB_INVALID);

	if (rc)
		return rc;
	if ((load32(first) & ~0xfu) == SKIPPABLE)
		return 0;
	rc = meta_parse(&meta, first);
	if (!rc)
		rc = whole_read(fd, second, sizeof(second), meta.page_size, MDB_INVALID);
	if (!rc)
		rc = meta_judge(first, second, &meta);
	if (rc)
		return rc;
	identity->page_size = meta.page_size;
	identity->snapshot = meta.txnid;
	return 0;
}

int staged_identify(int fd, struct staged_identity *identity)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;
	if (!S_ISREG(st.st_mode))
		return MDB_INVALID;
	*identity = (struct staged_identity){
		.inode = st.st_ino,
		.size = (uint64_t)st.st_size,
		.mtime_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec,
	};
	return read_metas(fd, identity);
}

int staged_trust(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;
	return (st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & (S_IWGRP | S_IWOTH)
		       ? EPERM
		       : 0;
}

/* What it holds has the same length and the same newest transaction. */
static int judge(int fd, const struct staged_identity *identity)
{
	struct staged_identity found;
	int rc = staged_trust(fd);

	if (!rc)
		rc = staged_identify(fd, &found);
	if (!rc && (found.size != identity->size || found.snapshot != identity->snapshot ||
		    found.page_size != identity->page_size))
		rc = MDB_INVALID;
	return rc;
}

int staged_open(const char *directory, const struct staged_identity *identity, char **path, int *fd)
{
	char name[STAGED_NAME];
	int rc;

	staged_name(identity, name);
	if (asprintf(path, "%s/%s/%s", directory, name, staged_file(identity)) < 0)
		return ENOMEM;
	/* Who made it is not known yet: a FIFO must not be waited for. */
	*fd = open(*path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	rc = *fd < 0 ? errno : judge(*fd, identity);
	if (rc) {
		if (*fd >= 0)
			close(*fd);
		free(*path);
	}
	return rc;
}
