/* SPDX-License-Identifier: OLDAP-2.8 */
/* The staged copy of a data set: its name, its seal, and how it is opened. */
#include "env/staged.h"

#include "container/container.h"
#include "format/layout.h"
#include "format/meta.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	SKIPPABLE = 0x184d2a50, /* a container's first word, its lowest four bits apart */
	FILE_NAME = 32,         /* of a seal */
};

static const char magic[8] = {'l', 'm', 'd', 'b', 'i', 'o', 'S', '1'};

struct seal {
	char magic[sizeof(magic)];
	struct identity original, copy;
	uint64_t hash;
};

_Static_assert(sizeof(struct seal) == 144, "it is written as it stands");

void staged_name(const struct identity *identity, char name[STAGED_NAME])
{
	struct identity job = identity_job(identity);

	snprintf(name, STAGED_NAME, "%llx-%llx-%016llx", (unsigned long long)job.inode,
		 (unsigned long long)job.snapshot, (unsigned long long)identity_hash(&job, 0));
}

const char *staged_file(const struct staged_original *original)
{
	return original->page_size ? "data.mdb" : "data.mdb.zst";
}

static int read_container(int fd, struct identity *identity)
{
	uint8_t footer[CONTAINER_FOOTER];
	int rc = identity->size < sizeof(footer)
			 ? MDB_INVALID
			 : whole_read(fd, footer, sizeof(footer), identity->size - sizeof(footer),
				      MDB_INVALID);

	if (!rc)
		identity->metas = hash_bytes(footer, sizeof(footer));
	return rc;
}

static int read_metas(int fd, struct staged_original *original)
{
	uint8_t first[META_LOOK], second[META_LOOK];
	enum format format = FORMAT_0_9;
	struct meta meta;
	uint32_t shift;
	int rc = whole_read(fd, first, sizeof(first), 0, MDB_INVALID);

	if (rc)
		return rc;
	if ((load32(first) & ~0xfu) == SKIPPABLE)
		return read_container(fd, &original->identity);
	rc = meta_parse(&meta, first, format);
	if (rc && !meta_parse(&meta, first, FORMAT_1_0)) {
		format = FORMAT_1_0;
		rc = 0;
	}
	shift = page_layouts[format].shift;
	if (!rc)
		rc = whole_read(fd, second, shift + META_END, meta.page_size, MDB_INVALID);
	if (!rc)
		rc = meta_judge(first, second, &meta, format);
	if (rc)
		return rc;
	original->page_size = meta.page_size;
	original->identity.snapshot = meta.txnid;
	original->identity.metas = identity_metas(first + shift, second + shift, META_END);
	return 0;
}

int staged_identify(int fd, struct staged_original *original)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;
	if (!S_ISREG(st.st_mode))
		return MDB_INVALID;
	*original = (struct staged_original){.identity = identity_of(&st)};
	original->identity.system = identity_system(fd);
	return read_metas(fd, original);
}

static void seal_make(struct seal *seal, const struct stat *copy, const struct identity *original)
{
	struct identity own = identity_of(copy);

	*seal = (struct seal){.original = identity_job(original), .copy = identity_job(&own)};
	memcpy(seal->magic, magic, sizeof(magic));
	seal->hash = hash_bytes(seal, offsetof(struct seal, hash));
}

static int seal_write(const struct guarded *place, const char *name, const struct seal *seal,
		      mode_t mode)
{
	int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0)
		return errno;
	rc = whole_write(fd, seal, sizeof(*seal), 0);
	if (!rc && (fchmod(fd, mode & 0644) || fsync(fd)))
		rc = errno;
	close(fd);
	return rc;
}

/* Opens a file if other users cannot have put it there. Does not wait for a FIFO. */
static int open_judged(const struct guarded *place, const char *name, int flags, int *fd)
{
	int rc;

	*fd = openat(place->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags);
	if (*fd < 0)
		return errno;
	rc = guarded_file(*fd);
	if (rc)
		close(*fd);
	return rc;
}

/* Checks that the copy is the file that was sealed as a copy of that original, unchanged since.
 * Returns 0, MDB_INVALID or another error. */
static int judge_seal(const struct guarded *place, const char *file, const struct stat *copy,
		      const struct identity *original)
{
	struct seal found, right;
	char name[FILE_NAME];
	int fd, rc;

	snprintf(name, sizeof(name), "%s.seal", file);
	rc = open_judged(place, name, O_CLOEXEC, &fd);
	if (rc)
		return rc;
	rc = whole_read(fd, &found, sizeof(found), 0, MDB_INVALID);
	close(fd);
	if (rc)
		return rc;
	seal_make(&right, copy, original);
	return memcmp(&found, &right, sizeof(found)) ? MDB_INVALID : 0;
}

/* Gets the copy's status by its name, after the rename: on a network file system an older
 * descriptor may still show the old time of change. */
static int copy_status(const struct guarded *place, const char *file, struct stat *st)
{
	int fd = openat(place->fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
	    rc;

	if (fd < 0)
		return errno;
	rc = fstat(fd, st) ? errno : 0;
	close(fd);
	return rc;
}

/* Writes the seal and renames it. Its first name has the time, too: OS containers on two nodes that
 * see one directory may number their processes alike. */
static int seal_put(const struct guarded *place, const char *file, const struct stat *copy,
		    const struct identity *original)
{
	char name[FILE_NAME], partial[FILE_NAME + 48];
	struct seal seal;
	int rc;

	snprintf(name, sizeof(name), "%s.seal", file);
	/* lmdbio-stage removes files of this name that killed jobs have left. */
	snprintf(partial, sizeof(partial), "%s.%x-%llx.partial", name, (unsigned)getpid(),
		 (unsigned long long)clock_of(CLOCK_REALTIME));
	seal_make(&seal, copy, original);
	rc = seal_write(place, partial, &seal, copy->st_mode);
	if (!rc && renameat(place->fd, partial, place->fd, name))
		rc = errno;
	if (rc)
		(void)unlinkat(place->fd, partial, 0);
	return rc;
}

/* Another job may stage the same data set to the same place, and its copy may replace the one whose
 * status is in the seal. Each job looks once more at the seal that it has put there, so the last
 * job leaves a seal that holds. */
int staged_seal(const struct guarded *place, const char *file, const struct identity *original)
{
	enum { TRIES = 20 };
	struct stat copy;
	int rc = MDB_INVALID;

	for (unsigned i = 0; i < TRIES && rc == MDB_INVALID; i++) {
		rc = copy_status(place, file, &copy);
		if (!rc)
			rc = seal_put(place, file, &copy, original);
		if (!rc)
			rc = copy_status(place, file, &copy);
		if (!rc)
			rc = judge_seal(place, file, &copy, original);
	}
	return rc == MDB_INVALID ? EBUSY : rc;
}

void staged_unseal(const struct guarded *place, const char *file)
{
	char name[FILE_NAME];

	snprintf(name, sizeof(name), "%s.seal", file);
	(void)unlinkat(place->fd, name, 0);
}

/* Checks the copy's seal, and that the copy has the original's length and meta pages as well. */
static int judge(const struct guarded *place, int fd, const struct staged_original *original)
{
	struct staged_original found;
	struct stat st;
	int rc = fstat(fd, &st) ? errno : 0;

	if (!rc)
		rc = judge_seal(place, staged_file(original), &st, &original->identity);
	if (!rc)
		rc = staged_identify(fd, &found);
	if (!rc && (found.identity.size != original->identity.size ||
		    found.identity.metas != original->identity.metas ||
		    found.page_size != original->page_size))
		rc = MDB_INVALID;
	return rc;
}

/* Opens the directory of the copies of a data set with that identity. */
static int place_open(struct guarded *place, const char *directory, const struct identity *identity)
{
	char name[STAGED_NAME];
	struct guarded top;
	int rc = guarded_open(&top, directory, false);

	*place = (struct guarded){.fd = -1};
	if (rc)
		return rc;
	staged_name(identity, name);
	rc = guarded_below(place, &top, name, false);
	guarded_close(&top);
	return rc;
}

int staged_open(const char *directory, const struct staged_original *original, char **path, int *fd)
{
	const char *file = staged_file(original);
	struct guarded place;
	int rc = place_open(&place, directory, &original->identity);

	*path = NULL;
	if (rc)
		return rc;
	rc = open_judged(&place, file, 0, fd);
	if (rc)
		goto done;
	rc = judge(&place, *fd, original);
	if (!rc && asprintf(path, "%s/%s", place.path, file) < 0) {
		*path = NULL;
		rc = ENOMEM;
	}
	if (rc)
		close(*fd);
done:
	guarded_close(&place);
	return rc;
}
