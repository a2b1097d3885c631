/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what an unusable path, file or limit is answered with: what the
 * original says, call by call. Each try runs in a process of its own.
 */
#include "habit_data.h"

#include "origin/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { NOBODY = 65534 };

/* The calls of a reader, of either library. */
struct library {
	int (*create)(MDB_env **env);
	int (*open)(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode);
	int (*begin)(MDB_env *env, MDB_txn *parent, unsigned flags, MDB_txn **txn);
	int (*dbi)(MDB_txn *txn, const char *name, unsigned flags, MDB_dbi *dbi);
	int (*get)(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data);
	void (*abort)(MDB_txn *txn);
	void (*close)(MDB_env *env);
};

static const struct library libraries[2] = {
	{.create = lmdbio_orig_mdb_env_create,
	 .open = lmdbio_orig_mdb_env_open,
	 .begin = lmdbio_orig_mdb_txn_begin,
	 .dbi = lmdbio_orig_mdb_dbi_open,
	 .get = lmdbio_orig_mdb_get,
	 .abort = lmdbio_orig_mdb_txn_abort,
	 .close = lmdbio_orig_mdb_env_close},
	{.create = mdb_env_create,
	 .open = mdb_env_open,
	 .begin = mdb_txn_begin,
	 .dbi = mdb_dbi_open,
	 .get = mdb_get,
	 .abort = mdb_txn_abort,
	 .close = mdb_env_close},
};

struct attempt {
	const struct library *library;
	const char *path;
	const char *root; /* NULL: the machine's */
	unsigned flags;
	unsigned uid;		 /* 0: stay */
	int free_descriptors;	 /* -1: no limit */
	bool full_when_open;	 /* no descriptor is left once the environment is open */
	unsigned long addresses; /* 0: no limit */
};

/* Leaves just so many descriptor numbers unused. */
static int descriptors_limit(int count)
{
	struct rlimit limit = {64, 64};
	int fd;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return -1;
	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd < 63);
	for (int i = 0; i < count; i++)
		close(63 - i);
	return 0;
}

static int limits_set(const struct attempt *attempt)
{
	struct rlimit addresses = {attempt->addresses, attempt->addresses};

	if (attempt->root && (chroot(attempt->root) || chdir("/")))
		return -1;
	if (attempt->free_descriptors >= 0 && descriptors_limit(attempt->free_descriptors))
		return -1;
	if (attempt->addresses && setrlimit(RLIMIT_AS, &addresses))
		return -1;
	if (attempt->uid && (setgroups(0, NULL) || setgid(attempt->uid) || setuid(attempt->uid)))
		return -1;
	return 0;
}

/* Reads record 42. The first call that fails is told as its number and its code. */
static int attempt_read(void *context)
{
	const struct attempt *attempt = context;
	const struct library *library = attempt->library;
	MDB_val key = {10, (void *)(uintptr_t) "00000042_k"}, value;
	MDB_txn *txn;
	MDB_env *env;
	MDB_dbi dbi;
	int rc;

	if (limits_set(attempt))
		return 77;
	rc = library->create(&env);
	if (rc)
		return rc + 1000000;
	rc = library->open(env, attempt->path, attempt->flags, 0644);
	if (rc) {
		library->close(env);
		return rc + 2000000;
	}
	if (attempt->full_when_open && descriptors_limit(0))
		return 77;
	rc = library->begin(env, NULL, MDB_RDONLY, &txn);
	if (rc) {
		library->close(env);
		return rc + 3000000;
	}
	rc = library->dbi(txn, NULL, 0, &dbi);
	rc = rc ? rc + 4000000 : library->get(txn, dbi, &key, &value);
	library->abort(txn);
	library->close(env);
	return rc;
}

/* The lock file is the one thing that a read-only environment may make; each library meets the same
 * directory, without the lock that the other one made. */
static void lock_remove(const struct attempt *attempt)
{
	const char *root = attempt->root ? attempt->root : "";
	char name[8192];

	snprintf(name, sizeof(name), "%s%s/lock.mdb", root, attempt->path);
	unlink(name);
	snprintf(name, sizeof(name), "%s%s-lock", root, attempt->path);
	unlink(name);
}

static void attempt_pair(struct attempt attempt, int found[2])
{
	for (int i = 0; i < 2; i++) {
		attempt.library = &libraries[i];
		found[i] = child_run(attempt_read, &attempt);
		lock_remove(&attempt);
	}
	if (found[0] != found[1])
		print_message("%s, flags %x: the original says %d, lmdbio %d\n", attempt.path,
			      attempt.flags, found[0], found[1]);
}

static int attempt_both(struct attempt attempt)
{
	int found[2];

	attempt_pair(attempt, found);
	assert_int_equal(found[0], found[1]);
	return found[1];
}

static const unsigned all_flags[] = {
	MDB_RDONLY,
	MDB_RDONLY | MDB_NOTLS,
	MDB_RDONLY | MDB_NOLOCK,
	MDB_RDONLY | MDB_NOLOCK | MDB_NORDAHEAD,
	MDB_RDONLY | MDB_WRITEMAP,
};

/* Under each set of flags; hands back the last code. */
static int attempt_all(const char *path, unsigned more)
{
	int code = 0;

	for (size_t i = 0; i < sizeof(all_flags) / sizeof(all_flags[0]); i++)
		code = attempt_both((struct attempt){
			.path = path, .flags = all_flags[i] | more, .free_descriptors = -1});
	return code;
}

static void file_write(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void sound_data_set_is_read(void **state)
{
	(void)state;
	assert_int_equal(attempt_all(data_make("data"), 0), 0);
}

static void missing_path_says_what_the_original_says(void **state)
{
	(void)state;
	assert_int_equal(attempt_all(room_path("nowhere"), 0), 2000000 + ENOENT);
	assert_int_equal(attempt_all(room_path("nowhere"), MDB_NOSUBDIR), 2000000 + ENOENT);
}

/* "" names "/data.mdb", a file that a machine may have. */
static void empty_path_says_what_the_original_says(void **state)
{
	(void)state;
	if (getuid())
		skip(); /* only root can have another root */
	assert_int_equal(mkdir(room_path("root"), 0755), 0);
	for (size_t i = 0; i < sizeof(all_flags) / sizeof(all_flags[0]); i++)
		assert_int_equal(attempt_both((struct attempt){.path = "",
							       .root = room_path("root"),
							       .flags = all_flags[i],
							       .free_descriptors = -1}),
				 2000000 + ENOENT);
}

static void directory_without_data_says_what_the_original_says(void **state)
{
	const char *path = room_path("empty");

	(void)state;
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(attempt_all(path, 0), 2000000 + ENOENT);
	attempt_all(path, MDB_NOSUBDIR); /* a directory where a file should be */
}

static void file_for_directory_says_what_the_original_says(void **state)
{
	(void)state;
	file_write(room_path("file"), "", 0);
	attempt_all(room_path("file"), 0);
}

static void unknown_flags_say_what_the_original_says(void **state)
{
	const char *path = data_make("data");

	(void)state;
	assert_int_equal(attempt_all(path, 0x2000000), 2000000 + EINVAL);
	assert_int_equal(attempt_all(path, 0x4), 2000000 + EINVAL);
	/* Also where opening would fail for another reason. */
	assert_int_equal(mkdir(room_path("directory"), 0755), 0);
	assert_int_equal(mkdir(room_path("directory/data.mdb"), 0755), 0);
	assert_int_equal(attempt_all(room_path("directory"), 0x4), 2000000 + EINVAL);
	file_write(room_path("letter"), "x", 1);
	assert_int_equal(attempt_all(room_path("letter"), 0x4 | MDB_NOSUBDIR), 2000000 + EINVAL);
}

static void file_of_zeros_says_what_the_original_says(void **state)
{
	static const size_t sizes[] = {0, 1, 151, 152, 4096, 8192, 12288, 1 << 20};
	static const unsigned char zeros[1 << 20];

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		file_write(room_path("zeros"), zeros, sizes[i]);
		attempt_all(room_path("zeros"), MDB_NOSUBDIR);
	}
}

static void file_of_noise_says_what_the_original_says(void **state)
{
	static unsigned char noise[65536];
	uint64_t random = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(noise); i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		noise[i] = (unsigned char)(random >> 56);
	}
	file_write(room_path("noise"), noise, sizeof(noise));
	assert_int_equal(attempt_all(room_path("noise"), MDB_NOSUBDIR), 2000000 + MDB_INVALID);
}

/* Offsets in a meta page of 0.9: the magic number at 16, the version at 20; 1.0 has both 8 later.
 */
static void foreign_versions_say_what_the_original_says(void **state)
{
	static const struct {
		unsigned offset, value;
		int code;
	} changes[] = {
		{16, 0xbeefc0df, 2000000 + MDB_INVALID},
		{20, 2, 2000000 + MDB_VERSION_MISMATCH},
		{20, 999, 2000000 + MDB_VERSION_MISMATCH},
		{10, 4, 2000000 + MDB_INVALID}, /* the page is no meta page */
	};
	unsigned char page[8192];

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		char name[16], file[8192];
		const char *path;
		int fd;

		snprintf(name, sizeof(name), "data%zu", i);
		path = data_make(name);
		assert_non_null(path);
		snprintf(file, sizeof(file), "%s/data.mdb", path);
		fd = open(file, O_RDWR);
		assert_int_equal(pread(fd, page, sizeof(page), 0), sizeof(page));
		for (unsigned meta = 0; meta < 2; meta++)
			memcpy(page + meta * 4096 + changes[i].offset, &changes[i].value,
			       changes[i].offset == 10 ? 2 : 4);
		assert_int_equal(pwrite(fd, page, sizeof(page), 0), sizeof(page));
		close(fd);
		assert_int_equal(attempt_all(path, 0), changes[i].code);
	}
	memset(page, 0, sizeof(page));
	for (unsigned meta = 0; meta < 2; meta++) {
		static const uint32_t start[2] = {0xbeefc0de, 3};

		memcpy(page + meta * 4096 + 24, start, sizeof(start));
		page[meta * 4096 + 18] = 8;
	}
	file_write(room_path("one"), page, sizeof(page));
	assert_int_equal(attempt_all(room_path("one"), MDB_NOSUBDIR), 2000000 + MDB_INVALID);
}

static void no_permission_says_what_the_original_says(void **state)
{
	static const struct {
		unsigned directory, data;
	} modes[] = {{0755, 0644}, {0755, 0600}, {0700, 0644},
		     {0777, 0644}, {0777, 0666}, {0744, 0644}};

	(void)state;
	if (getuid())
		skip(); /* only root can become somebody else */
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		char name[16], file[8192];
		const char *path;

		snprintf(name, sizeof(name), "data%zu", i);
		path = data_make(name);
		assert_non_null(path);
		lock_remove(&(struct attempt){.path = path});
		snprintf(file, sizeof(file), "%s/data.mdb", path);
		assert_int_equal(chmod(file, modes[i].data), 0);
		assert_int_equal(chmod(path, modes[i].directory), 0);
		for (size_t f = 0; f < sizeof(all_flags) / sizeof(all_flags[0]); f++)
			attempt_both((struct attempt){.path = path,
						      .flags = all_flags[f],
						      .uid = NOBODY,
						      .free_descriptors = -1});
	}
}

/* How a container begins; what follows in the file is nothing. */
static const unsigned char container_start[512] = {0x5c, 0x2a, 0x4d, 0x18, 0xf8, 0,   0,    0,
						   'l',  'm',  'd',  'b',  'i',  'o', '\r', '\n'};

/* A directory with nothing but a data.mdb.zst of these bytes. */
static const char *directory_with_zst(const char *name, const void *bytes, size_t size)
{
	const char *path = room_path(name);
	char file[8192];

	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(chmod(path, 0777), 0);
	snprintf(file, sizeof(file), "%s/data.mdb.zst", path);
	file_write(file, bytes, size);
	return path;
}

/* Opened for writing the data set is made, whatever has that name. */
static int attempt_to_write(const char *path, const struct library *library)
{
	struct attempt attempt = {.library = library, .path = path, .free_descriptors = -1};
	int code = child_run(attempt_read, &attempt);
	char file[8192];

	snprintf(file, sizeof(file), "%s/data.mdb", path);
	if (unlink(file))
		code += 5000000;
	lock_remove(&attempt);
	return code;
}

static void zst_that_is_no_container_says_what_the_original_says(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
	} files[] = {
		{"", 0},
		{"lmdbio\r\nlmdbio\r\nlmdbio\r\n", 24},
		{"\x28\xb5\x2f\xfd\x20\0\1\0\0", 9},            /* of nothing */
		{"\x50\x2a\x4d\x18\4\0\0\0abcdefghijkl", 20},   /* another program's */
		{"\x5c\x2a\x4d\x18\xf8\0\0\0abcdefghijkl", 20}, /* so is this */
		{"\x5c\x2a\x4d\x18\xf8\0\0\0lmdb", 12},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char name[16];
		const char *path;

		snprintf(name, sizeof(name), "data%zu", i);
		path = directory_with_zst(name, files[i].bytes, files[i].size);
		assert_int_equal(attempt_all(path, 0), 2000000 + ENOENT);
		for (int library = 0; library < 2; library++)
			assert_int_equal(attempt_to_write(path, &libraries[library]), MDB_NOTFOUND);
	}
}

static void zst_that_is_no_file_says_what_the_original_says(void **state)
{
	const char *path;
	char file[8192];

	(void)state;
	for (int pipe = 0; pipe < 2; pipe++) {
		path = directory_with_zst(pipe ? "pipe" : "directory", "", 0);
		snprintf(file, sizeof(file), "%s/data.mdb.zst", path);
		assert_int_equal(unlink(file), 0);
		assert_int_equal(pipe ? mkfifo(file, 0644) : mkdir(file, 0755), 0);
		assert_int_equal(attempt_all(path, 0), 2000000 + ENOENT);
		assert_int_equal(attempt_to_write(path, &libraries[1]), MDB_NOTFOUND);
	}
}

static void container_that_is_damaged_says_so(void **state)
{
	static const struct {
		size_t size;
		int code;
	} lengths[] = {{16, MDB_INVALID}, {255, MDB_INVALID}, {512, MDB_CORRUPTED}};

	(void)state;
	if (getenv("LMDBIO_DISABLE"))
		skip(); /* the original knows of no containers */
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct attempt attempt = {.library = &libraries[1], .free_descriptors = -1};
		char name[16];

		snprintf(name, sizeof(name), "data%zu", i);
		attempt.path = directory_with_zst(name, container_start, lengths[i].size);
		attempt.flags = MDB_RDONLY;
		assert_int_equal(child_run(attempt_read, &attempt), 2000000 + lengths[i].code);
		attempt.flags = 0;
		assert_int_equal(child_run(attempt_read, &attempt), 2000000 + EACCES);
		assert_int_equal(directory_count(attempt.path), 3); /* ., .. and the container */
	}
}

/* The container beside it is not what the program has asked for. */
static void data_beside_a_container_without_permission_is_refused(void **state)
{
	struct attempt attempt = {.uid = NOBODY, .free_descriptors = -1};
	char file[8192];

	(void)state;
	if (getuid())
		skip(); /* only root can become somebody else */
	attempt.path = directory_with_zst("data", container_start, sizeof(container_start));
	snprintf(file, sizeof(file), "%s/data.mdb", attempt.path);
	file_write(file, "", 0);
	assert_int_equal(chmod(file, 0600), 0);
	for (size_t f = 0; f < sizeof(all_flags) / sizeof(all_flags[0]); f++) {
		attempt.flags = all_flags[f];
		assert_int_equal(attempt_both(attempt), 2000000 + EACCES);
	}
}

static void full_descriptor_table_says_what_the_original_says(void **state)
{
	static const unsigned flags[] = {MDB_RDONLY | MDB_NOTLS, MDB_RDONLY | MDB_NOLOCK};
	const char *path = data_make("data");

	(void)state;
	for (int f = 0; f < 2; f++) {
		for (int count = 0; count < 5; count++) {
			attempt_both((struct attempt){.path = path,
						      .flags = flags[f],
						      .free_descriptors = count});
		}
	}
}

static void descriptor_table_full_after_opening_does_not_matter(void **state)
{
	const char *path = data_make("data");

	(void)state;
	for (size_t f = 0; f < sizeof(all_flags) / sizeof(all_flags[0]); f++)
		assert_int_equal(attempt_both((struct attempt){.path = path,
							       .flags = all_flags[f],
							       .free_descriptors = -1,
							       .full_when_open = true}),
				 0);
}

/* A map that does not fit once fails as the original's does; whether two maps of its size fit is
 * not the caller's to know, so only what fails for certain is compared. */
static void no_room_for_the_map_says_what_the_original_says(void **state)
{
	const char *path = data_make("data"); /* mapsize 256 MiB */
	struct attempt attempt = {.path = path,
				  .flags = MDB_RDONLY,
				  .free_descriptors = -1,
				  .addresses = 200ul << 20};

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* the sanitizer needs more addresses than that for itself */
#endif
	assert_int_equal(attempt_both(attempt), 2000000 + ENOMEM);
}

static int attempt_twice(void *context)
{
	struct attempt attempt = *(struct attempt *)context;
	unsigned before = directory_count("/proc/self/fd");

	attempt.free_descriptors = -1;
	for (int i = 0; i < 50; i++)
		attempt_read(&attempt);
	return directory_count("/proc/self/fd") == before ? 0 : 1;
}

static void failed_opening_leaks_no_descriptor(void **state)
{
	static const unsigned char zeros[8192];
	struct attempt attempt = {.library = &libraries[1], .flags = MDB_RDONLY | MDB_NOSUBDIR};

	(void)state;
	attempt.path = room_path("nowhere");
	assert_int_equal(child_run(attempt_twice, &attempt), 0);
	file_write(room_path("zeros"), zeros, sizeof(zeros));
	attempt.path = room_path("zeros");
	assert_int_equal(child_run(attempt_twice, &attempt), 0);
}

int main(void)
{
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, room_begin, room_end)
	const struct CMUnitTest tests[] = {
		IN_A_ROOM(sound_data_set_is_read),
		IN_A_ROOM(missing_path_says_what_the_original_says),
		IN_A_ROOM(empty_path_says_what_the_original_says),
		IN_A_ROOM(directory_without_data_says_what_the_original_says),
		IN_A_ROOM(file_for_directory_says_what_the_original_says),
		IN_A_ROOM(unknown_flags_say_what_the_original_says),
		IN_A_ROOM(file_of_zeros_says_what_the_original_says),
		IN_A_ROOM(file_of_noise_says_what_the_original_says),
		IN_A_ROOM(foreign_versions_say_what_the_original_says),
		IN_A_ROOM(no_permission_says_what_the_original_says),
		IN_A_ROOM(zst_that_is_no_container_says_what_the_original_says),
		IN_A_ROOM(zst_that_is_no_file_says_what_the_original_says),
		IN_A_ROOM(container_that_is_damaged_says_so),
		IN_A_ROOM(data_beside_a_container_without_permission_is_refused),
		IN_A_ROOM(full_descriptor_table_says_what_the_original_says),
		IN_A_ROOM(descriptor_table_full_after_opening_does_not_matter),
		IN_A_ROOM(no_room_for_the_map_says_what_the_original_says),
		IN_A_ROOM(failed_opening_leaks_no_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
