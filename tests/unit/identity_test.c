/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the identity of a data file on simulated file systems of each kind: their type, id, flags
 * and times, and the image file behind a loop device. */
#include "util/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	PIECE = 4096,
	PIECES = 32,
	FS_EXT4 = 0xef53,
	FS_BTRFS = 0x9123683e,
	FS_CEPH = 0x00c36400,
	FS_EROFS = 0xe0f5e1e2,
	FS_SQUASHFS = 0x73717368,
	FS_ISO9660 = 0x9660,
	FS_CRAMFS = 0x28cd3d45,
	FS_ROMFS = 0x7275,
	FS_OVERLAY = 0x794c7630,
	FS_FUSE = 0x65735546,
	FS_XFS = 0x58465342,
	FS_TMPFS = 0x01021994,
};

/* The simulated kernel's answers. The image's file is found by /sys/dev/block/MAJOR:MINOR. */
static struct machine {
	long type;
	uint64_t id, device;
	bool read_only, system_fails, file_fails, image_fails;
	struct timespec changed, modified;
	const char *image; /* the content of backing_file, or NULL */
	ino_t image_inode;
	uint64_t image_device;
} machine;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstatfs(int fd, struct statfs *fs);
int __wrap_stat(const char *path, struct stat *st);

int __wrap_fstatfs(int fd, struct statfs *fs)
{
	(void)fd;
	if (machine.system_fails) {
		errno = EIO;
		return -1;
	}
	memset(fs, 0, sizeof(*fs));
	fs->f_type = machine.type;
	fs->f_flags = machine.read_only ? ST_RDONLY : 0;
	memcpy(&fs->f_fsid, &machine.id, sizeof(machine.id));
	return 0;
}

int __wrap_fstat(int fd, struct stat *st)
{
	if (machine.file_fails) {
		errno = EIO;
		return -1;
	}
	if (__real_fstat(fd, st))
		return -1;
	st->st_dev = machine.device;
	st->st_ctim = machine.changed;
	st->st_mtim = machine.modified;
	return 0;
}

int __wrap_stat(const char *path, struct stat *st)
{
	if (machine.image_fails || (strcmp(path, "/images/one.img") != 0 && strcmp(path, "i") != 0)) {
		errno = ENOENT;
		return -1;
	}
	memset(st, 0, sizeof(*st));
	st->st_dev = machine.image_device;
	st->st_ino = machine.image_inode;
	st->st_size = 1 << 20;
	return 0;
}

int __wrap_open(const char *path, int flags, ...)
{
	char expected[64];
	int fd;

	if (strncmp(path, "/sys/", 5) != 0)
		return __real_open(path, flags);
	snprintf(expected, sizeof(expected), "/sys/dev/block/%u:%u/loop/backing_file",
		 major(machine.device), minor(machine.device));
	assert_string_equal(path, expected);
	assert_true(flags & O_CLOEXEC);
	if (!machine.image) {
		errno = ENOENT;
		return -1;
	}
	fd = memfd_create("backing_file", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, machine.image, strlen(machine.image)), strlen(machine.image));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* --- a data file ------------------------------------------------------------------------------ */

static int file_make(size_t bytes)
{
	int fd = memfd_create("data", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static void file_put(int fd, uint64_t at, uint8_t byte)
{
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
}

static int setup(void **state)
{
	(void)state;
	machine = (struct machine){
		.type = FS_EXT4,
		.id = UINT64_C(0x1122334455667788),
		.device = makedev(7, 3),
		.changed = {1700000000, 123456789},
		.modified = {1700000000, 123456789},
		.image_inode = 5,
		.image_device = 9,
	};
	return 0;
}

/* Returns the file system's part of the identity for a data file of `bytes` bytes, all 0 but `byte`
 * at `at`. */
static uint64_t system_of(size_t bytes, uint64_t at, uint8_t byte)
{
	int fd = file_make(bytes);
	uint64_t system;

	if (bytes)
		file_put(fd, at, byte);
	system = identity_system(fd);
	close(fd);
	return system;
}

/* Whether a byte of the data file changes the result. */
static bool looks_into_the_file(void)
{
	uint64_t one = system_of(PIECE, 0, 0);

	assert_true(system_of(PIECE, 0, 0) == one);
	return system_of(PIECE, 0, 1) != one;
}

static void made_by_a_program(void)
{
	machine.changed = machine.modified = (struct timespec){1700000000, 0};
}

/* --- the id of a file system -------------------------------------------------------------------- */

static void system_when_the_type_has_an_id_of_its_own_then_that(void **state)
{
	static const long types[] = {FS_EXT4, FS_BTRFS, FS_CEPH};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		machine.type = types[i];
		assert_true(system_of(PIECE, 0, 0) == machine.id);
		assert_false(looks_into_the_file());
	}
}

static void system_when_the_type_has_none_then_0(void **state)
{
	static const long types[] = {FS_XFS, FS_TMPFS, FS_OVERLAY, FS_FUSE, FS_EXT4 + 1, 0};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		machine.type = types[i];
		assert_true(system_of(PIECE, 0, 0) == 0);
	}
}

static void system_when_the_id_is_the_devices_number_then_0(void **state)
{
	(void)state;
	machine.device = makedev(7, 3);
	machine.id = 0x703;
	assert_true(system_of(PIECE, 0, 0) == 0);
	machine.id = 0x704;
	assert_true(system_of(PIECE, 0, 0) == 0x704);
	/* The kernel's new_encode_dev(): low byte of the minor number, major, the rest of the minor. */
	machine.device = makedev(0x1b4, 0x12345);
	machine.id = UINT64_C(0x45) | UINT64_C(0x1b4) << 8 | UINT64_C(0x12300) << 12;
	assert_true(system_of(PIECE, 0, 0) == 0);
	machine.device = makedev(0x1b4, 0x12344);
	assert_true(system_of(PIECE, 0, 0) == machine.id);
}

static void system_when_the_kernel_does_not_say_then_0(void **state)
{
	(void)state;
	machine.system_fails = true;
	assert_true(system_of(PIECE, 0, 0) == 0);
	machine.system_fails = false;
	machine.file_fails = true;
	assert_true(system_of(PIECE, 0, 0) == 0);
}

/* --- where a program may have set the times ---------------------------------------------------- */

static void system_when_an_image_then_pieces_of_the_file_count(void **state)
{
	static const long types[] = {FS_SQUASHFS, FS_EROFS, FS_ISO9660, FS_CRAMFS, FS_ROMFS};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		machine.type = types[i];
		assert_true(looks_into_the_file());
	}
}

static void system_when_an_image_with_an_id_then_the_id_counts_too(void **state)
{
	uint64_t one;

	(void)state;
	machine.type = FS_EROFS;
	one = system_of(PIECE, 0, 0);
	machine.id++;
	assert_true(system_of(PIECE, 0, 0) != one);
	machine.type = FS_SQUASHFS; /* the device's number, which is another one after a remount */
	one = system_of(PIECE, 0, 0);
	machine.id++;
	assert_true(system_of(PIECE, 0, 0) == one);
}

static void system_when_times_are_made_then_read_only_and_layers_are_looked_into(void **state)
{
	static const struct {
		long type;
		bool read_only, looks;
	} cases[] = {
		{FS_EXT4, false, false}, {FS_EXT4, true, true},  {FS_XFS, false, false}, {FS_XFS, true, true},
		{FS_OVERLAY, false, true}, {FS_OVERLAY, true, true}, {FS_FUSE, false, true}, {FS_FUSE, true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		machine.type = cases[i].type;
		machine.read_only = cases[i].read_only;
		made_by_a_program();
		assert_int_equal(looks_into_the_file(), cases[i].looks);
		machine.changed.tv_nsec = machine.modified.tv_nsec = 1; /* a write's */
		assert_false(looks_into_the_file());
		made_by_a_program();
		machine.modified.tv_sec--; /* a program has set one time, the kernel the other */
		assert_false(looks_into_the_file());
	}
}

static void system_when_a_layer_can_be_written_then_the_images_file_does_not_count(void **state)
{
	uint64_t one;

	(void)state;
	machine.type = FS_FUSE;
	machine.image = "/images/one.img\n";
	made_by_a_program();
	one = system_of(PIECE, 0, 0);
	machine.image_inode++;
	assert_true(system_of(PIECE, 0, 0) == one);
	machine.read_only = true;
	one = system_of(PIECE, 0, 0);
	machine.image_inode++;
	assert_true(system_of(PIECE, 0, 0) != one);
}

/* --- the image's file ---------------------------------------------------------------------------- */

static void system_when_another_image_is_mounted_then_another(void **state)
{
	uint64_t none, one;

	(void)state;
	machine.type = FS_SQUASHFS;
	none = system_of(PIECE, 0, 0);
	machine.image = "/images/one.img\n";
	one = system_of(PIECE, 0, 0);
	assert_true(one != none);
	assert_true(system_of(PIECE, 0, 0) == one);
	machine.image_device++; /* each node numbers its devices by itself */
	assert_true(system_of(PIECE, 0, 0) == one);
	machine.image_inode++;
	assert_true(system_of(PIECE, 0, 0) != one);
}

static void system_when_the_images_file_cannot_be_found_then_as_without(void **state)
{
	static const char *const said[] = {"", "\n", "/images/one.img", "/images/one.imgX",
					   "/images/gone.img\n"};
	uint64_t none;

	(void)state;
	machine.type = FS_SQUASHFS;
	none = system_of(PIECE, 0, 0);
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		machine.image = said[i];
		assert_true(system_of(PIECE, 0, 0) == none);
	}
	machine.image = "/images/one.img\n";
	machine.image_fails = true;
	assert_true(system_of(PIECE, 0, 0) == none);
	machine.image_fails = false;
	machine.image = "i\n"; /* a name of one letter is a name */
	assert_true(system_of(PIECE, 0, 0) != none);
}

/* In a program without standard input the next file gets descriptor 0. */
static void system_when_standard_input_is_closed_then_as_with_it(void **state)
{
	int input = dup(STDIN_FILENO), fd;
	uint64_t one;

	(void)state;
	machine.type = FS_SQUASHFS;
	machine.image = "/images/one.img\n";
	one = system_of(PIECE, 0, 0);
	fd = file_make(PIECE);
	close(STDIN_FILENO);
	assert_true(identity_system(fd) == one);
	close(fd);
	if (input >= 0) {
		assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
		close(input);
	}
}

static void system_when_asked_again_and_again_then_no_descriptor_is_left(void **state)
{
	int first, last;

	(void)state;
	machine.type = FS_SQUASHFS;
	machine.image = "/images/one.img\n";
	first = file_make(0);
	for (int i = 0; i < 4; i++)
		system_of(PIECE, 0, 0);
	last = file_make(0);
	assert_int_equal(last, first + 1);
	close(first);
	close(last);
}

/* --- which pieces ------------------------------------------------------------------------------- */

static void pieces_when_the_file_has_few_then_all_count(void **state)
{
	const size_t bytes = (PIECES - 1) * PIECE; /* with the bytes behind them: 32 pieces */
	uint64_t none;

	(void)state;
	machine.type = FS_SQUASHFS;
	none = system_of(bytes, 0, 0);
	for (unsigned i = 0; i + 1 < PIECES; i++) {
		assert_true(system_of(bytes, (uint64_t)i * PIECE, 1) != none);
		assert_true(system_of(bytes, (uint64_t)i * PIECE + PIECE - 1, 1) != none);
	}
	assert_true(system_of(bytes + 1, bytes, 0) != none);
	assert_true(system_of(bytes + 1, bytes, 1) != system_of(bytes + 1, bytes, 0));
	assert_true(system_of(0, 0, 0) != system_of(1, 0, 0));
}

/* Piece i of 32 in a file of `pieces` is the one in the middle of its 32nd part. */
static void pieces_when_the_file_has_many_then_32_that_lie_evenly(void **state)
{
	enum { MANY = 1000 };
	const size_t bytes = (size_t)(MANY - 1) * PIECE;
	unsigned counted = 0;
	uint64_t none;

	(void)state;
	machine.type = FS_SQUASHFS;
	none = system_of(bytes, 0, 0);
	for (uint64_t piece = 0; piece + 1 < MANY; piece++) {
		bool expected = false;

		for (uint64_t i = 0; i < PIECES && !expected; i++)
			expected = (MANY * i + MANY / 2) / PIECES == piece;
		assert_int_equal(system_of(bytes, piece * PIECE, 1) != none, expected);
		counted += expected;
	}
	assert_int_equal(counted, PIECES);
}

/* --- hashes, which disks and other nodes keep ----------------------------------------------------- */

static const struct identity example = {.device = 1, .system = 2, .inode = 3, .size = 4, .mtime_ns = 5,
					.ctime_ns = 6, .snapshot = 7, .metas = 8};

static void hash_when_a_field_or_the_seed_changes_then_changes(void **state)
{
	uint64_t hash[2], other[2], single = identity_hash(&example, 9);

	(void)state;
	identity_hash128(&example, 9, hash);
	assert_true(hash[0] != hash[1]);
	for (size_t i = 0; i < sizeof(example) / sizeof(uint64_t); i++) {
		struct identity changed = example;

		((uint64_t *)&changed)[i] ^= UINT64_C(1) << 63;
		assert_true(identity_hash(&changed, 9) != single);
		identity_hash128(&changed, 9, other);
		assert_true(other[0] != hash[0] && other[1] != hash[1]);
		assert_false(identity_equal(&example, &changed));
		assert_int_equal(identity_equal_job(&example, &changed), i == 0);
	}
	assert_true(identity_hash(&example, 10) != single);
	identity_hash128(&example, 10, other);
	assert_true(other[0] != hash[0] && other[1] != hash[1]);
	assert_true(identity_equal(&example, &example));
}

static void hash_when_kept_by_an_earlier_build_then_the_same(void **state)
{
	static const uint8_t first[4] = {1, 2, 3, 4}, second[4] = {5, 6, 7, 8};
	uint64_t hash[2];

	setup(state);
	machine.type = FS_SQUASHFS;
	assert_true(system_of(2 * PIECE, PIECE, 1) == UINT64_C(0x6d8fb74e588f5f3a));
	machine.image = "/images/one.img\n";
	machine.read_only = true;
	assert_true(system_of(2 * PIECE, PIECE, 1) == UINT64_C(0xd07a024f918dac5b));
	assert_true(identity_hash(&example, 9) == UINT64_C(0x03fc17af58a7f2b2));
	identity_hash128(&example, 9, hash);
	assert_true(hash[0] == UINT64_C(0x8a0285199aaa45ea) && hash[1] == UINT64_C(0xc8d09816f07effda));
	assert_true(identity_metas(first, second, 4) == UINT64_C(0x6e362e3c8c9be2c8));
}

static void metas_when_either_or_the_order_changes_then_changes(void **state)
{
	static const uint8_t first[4] = {1, 2, 3, 4}, second[4] = {5, 6, 7, 8}, third[4] = {1, 2, 3, 5};
	uint64_t metas = identity_metas(first, second, 4);

	(void)state;
	assert_true(identity_metas(second, first, 4) != metas);
	assert_true(identity_metas(third, second, 4) != metas);
	assert_true(identity_metas(first, third, 4) != metas);
	assert_true(identity_metas(first, second, 3) != metas);
	assert_true(identity_metas(first, second, 3) == identity_metas(third, second, 3));
}

/* --- forms ----------------------------------------------------------------------------------------- */

static struct stat example_status(void)
{
	struct stat st;

	memset(&st, 0, sizeof(st));
	st.st_dev = 1;
	st.st_ino = 3;
	st.st_size = 4;
	st.st_mtim = (struct timespec){2, 5};
	st.st_ctim = (struct timespec){3, 6};
	return st;
}

static void identity_when_taken_of_a_file_then_its_status(void **state)
{
	struct stat st = example_status();
	struct identity identity = identity_of(&st);
	struct identity expected = {.device = 1, .inode = 3, .size = 4, .mtime_ns = INT64_C(2000000005),
				    .ctime_ns = INT64_C(3000000006)};

	(void)state;
	assert_memory_equal(&identity, &expected, sizeof(expected));
	expected.device = 0;
	identity = identity_job(&identity);
	assert_memory_equal(&identity, &expected, sizeof(expected));
	identity = identity_content(&example);
	expected = (struct identity){.size = 4, .snapshot = 7};
	assert_memory_equal(&identity, &expected, sizeof(expected));
}

static void identity_when_the_file_changes_then_holds_no_more(void **state)
{
	struct stat st = example_status(), other = st;
	struct identity identity = identity_of(&st);

	(void)state;
	assert_true(identity_holds(&identity, &st));
	other.st_ino++;
	assert_false(identity_holds(&identity, &other));
	other = st;
	other.st_mtim.tv_nsec++;
	assert_false(identity_holds(&identity, &other));
	other = st;
	other.st_ctim.tv_sec--; /* a clock that was set back */
	assert_false(identity_holds(&identity, &other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(system_when_the_type_has_an_id_of_its_own_then_that, setup),
		cmocka_unit_test_setup(system_when_the_type_has_none_then_0, setup),
		cmocka_unit_test_setup(system_when_the_id_is_the_devices_number_then_0, setup),
		cmocka_unit_test_setup(system_when_the_kernel_does_not_say_then_0, setup),
		cmocka_unit_test_setup(system_when_an_image_then_pieces_of_the_file_count, setup),
		cmocka_unit_test_setup(system_when_an_image_with_an_id_then_the_id_counts_too, setup),
		cmocka_unit_test_setup(system_when_times_are_made_then_read_only_and_layers_are_looked_into, setup),
		cmocka_unit_test_setup(system_when_a_layer_can_be_written_then_the_images_file_does_not_count, setup),
		cmocka_unit_test_setup(system_when_another_image_is_mounted_then_another, setup),
		cmocka_unit_test_setup(system_when_the_images_file_cannot_be_found_then_as_without, setup),
		cmocka_unit_test_setup(system_when_standard_input_is_closed_then_as_with_it, setup),
		cmocka_unit_test_setup(system_when_asked_again_and_again_then_no_descriptor_is_left, setup),
		cmocka_unit_test_setup(pieces_when_the_file_has_few_then_all_count, setup),
		cmocka_unit_test_setup(pieces_when_the_file_has_many_then_32_that_lie_evenly, setup),
		cmocka_unit_test(hash_when_a_field_or_the_seed_changes_then_changes),
		cmocka_unit_test(hash_when_kept_by_an_earlier_build_then_the_same),
		cmocka_unit_test(metas_when_either_or_the_order_changes_then_changes),
		cmocka_unit_test(identity_when_taken_of_a_file_then_its_status),
		cmocka_unit_test(identity_when_the_file_changes_then_holds_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
