/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens the original of programs built for LMDB 1.0, if the machine has one.
 *
 * lmdbio reads for these programs as for those of 0.9. An LMDB 1.0 is needed only for other work,
 * above all writing. It is never built in. Its calls of its own public functions may come to us, as
 * those of an LMDB inside a program do, and go back to it in the same way (origin_find.c).
 */
#include "origin/origin_find.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic bool later_told;
static struct origin later; /* guarded by `lock` until complete, then never changed */
static const struct origin *_Atomic ready;
static char problem[256];

static void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void refuse(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(problem, sizeof(problem), format, arguments);
	va_end(arguments);
}

/* Messages for the codes that LMDB 0.9 does not know. */
static const char *const words[] = {
	[MDB_PROBLEM - MDB_PROBLEM] = "MDB_PROBLEM: the transaction met a state that it cannot go on from",
	[MDB_BAD_CHECKSUM - MDB_PROBLEM] = "MDB_BAD_CHECKSUM: a page does not have its checksum",
	[MDB_CRYPTO_FAIL - MDB_PROBLEM] = "MDB_CRYPTO_FAIL: a page could not be encrypted or decrypted",
	[MDB_ENV_ENCRYPTION - MDB_PROBLEM] =
		"MDB_ENV_ENCRYPTION: the environment is encrypted and its reader is not set up for "
		"that, or the other way round",
	[MDB_TXN_PENDING - MDB_PROBLEM] = "MDB_TXN_PENDING: the transaction is prepared: commit or "
					  "abort it",
	[MDB_CANT_ROLLBACK - MDB_PROBLEM] = "MDB_CANT_ROLLBACK: the last transaction can no longer "
					    "be taken back",
	[MDB_DBIS_BUSY - MDB_PROBLEM] = "MDB_DBIS_BUSY: the main database cannot be dropped while "
					"others are open",
	[MDB_SHORT_WRITE - MDB_PROBLEM] = "MDB_SHORT_WRITE: not all bytes were written",
	[MDB_ENV_BUSY - MDB_PROBLEM] = "MDB_ENV_BUSY: another process has the environment open, so "
				       "its last snapshot stays the newest",
	[MDB_IS_READONLY - MDB_PROBLEM] = "MDB_IS_READONLY: the transaction or environment is open "
					  "for reading alone",
	[MDB_ADDR_BUSY - MDB_PROBLEM] = "MDB_ADDR_BUSY: the address for the map is taken",
};

static char *words_of(int code)
{
	if (code < MDB_PROBLEM || code > MDB_ADDR_BUSY)
		return origin_built_in()->call.mdb_strerror(code);
	return (char *)(uintptr_t)words[code - MDB_PROBLEM];
}

/* The version text for programs where no LMDB 1.0 is installed. */
static char version_text[48];

static char *version_of(int *major, int *minor, int *patch)
{
	if (major)
		*major = LATER_MAJOR;
	if (minor)
		*minor = LATER_MINOR;
	if (patch)
		*patch = LATER_PATCH;
	return version_text;
}

/* Returns the LMDB 1.0 in a library, or NULL, and then `problem` says why. */
static const struct origin *library_open(const char *path)
{
	const struct origin *found;
	const void *target;
	void *handle;

	if (!path || !*path) {
		refuse("none is installed");
		return NULL;
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		refuse("%s", dlerror());
		return NULL;
	}
	target = dlsym(handle, "mdb_env_create");
	found = target && !dlsym(handle, "lmdbio_version") ? origin_at(target) : NULL;
	if (found && found->later && found->version >= ORIGIN_VERSION(1, 0, 0) &&
	    found->version < ORIGIN_VERSION(2, 0, 0))
		return found;
	refuse("%s is no LMDB 1.0", path);
	dlclose(handle);
	return NULL;
}

const struct origin *origin_later(const char *path)
{
	const struct origin *origin = ready, *found;

	if (origin)
		return origin;
	pthread_mutex_lock(&lock);
	if (!ready) {
		found = library_open(path);
		later = found ? *found : *origin_built_in();
		later.whole = false;
		later.for_later = true;
		later.told = &later_told;
		if (!found) {
			snprintf(version_text, sizeof(version_text),
				 "LMDB %d.%d.%d: (as read by lmdbio)", LATER_MAJOR, LATER_MINOR,
				 LATER_PATCH);
			later.call.mdb_version = version_of;
			later.call.mdb_strerror = words_of;
			later.version = ORIGIN_VERSION(LATER_MAJOR, LATER_MINOR, LATER_PATCH);
			later.where = "not installed";
		}
		ready = &later;
	}
	origin = ready;
	pthread_mutex_unlock(&lock);
	return origin;
}

/* Another thread of the parent may have held `lock`. The child then opens the original itself. */
void origin_later_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}

const char *origin_later_why(void)
{
	return problem;
}
