/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests what opening an environment on a container reads of it: its header and its footer, once
 * each, which also say which data set it is. */
#include "container_image.h"
#include "env/packed.h"
#include "env/staged.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, SIZE = 96 * PAGE, CHUNK = 16 * PAGE };

static uint64_t file_size;
static unsigned headers, footers; /* requests that have the first and the last byte */

ssize_t __real_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset);

ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset)
{
	ssize_t done = __real_pread(fd, buffer, length, offset);

	headers += done > 0 && offset == 0;
	footers += done > 0 && (uint64_t)offset + (uint64_t)done == file_size;
	return done;
}

/* What a hardened build calls where it knows the buffer's size. */
ssize_t __wrap___pread_chk(int fd, void *buffer, size_t length, off_t offset, size_t room);

ssize_t __wrap___pread_chk(int fd, void *buffer, size_t length, off_t offset, size_t room)
{
	assert_true(length <= room);
	return __wrap_pread(fd, buffer, length, offset);
}

/* A container in memory, too large for its header to come with its footer. */
static int file_make(void)
{
	static const struct image_tree tree = {"", 0, 0, 0, 0};
	int fd = memfd_create("container-ends-test", MFD_CLOEXEC);
	uint8_t *data = malloc(SIZE);
	struct image image;
	uint32_t state = 1;

	assert_non_null(data);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
	image_make(&image, &(struct image_plan){.data = data,
						.size = SIZE,
						.page_size = PAGE,
						.chunk_size = CHUNK,
						.zstd_version = 10504,
						.trees = &tree,
						.txnid = 7,
						.source_size = SIZE});
	assert_int_equal(write(fd, image.bytes, image.size), image.size);
	file_size = image.size;
	assert_true(file_size > 3 * SIZE / 4);
	image_free(&image);
	free(data);
	return fd;
}

static void container_when_opened_then_its_ends_are_read_once(void **state)
{
	struct staged_original original;
	struct packed *packed;
	int fd = file_make();

	(void)state;
	assert_int_equal(staged_identify(fd, &original), 0);
	assert_true(footers > 0); /* they are seen */
	headers = footers = 0;
	assert_int_equal(packed_open(&packed, fd, "container"), 0);
	assert_int_equal(headers, 1);
	assert_int_equal(footers, 1);
	/* Its own size is not that of its data; all else is what a stager says. */
	original.identity.size = SIZE;
	assert_true(identity_equal(&packed->identity, &original.identity));
	packed_close(packed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(container_when_opened_then_its_ends_are_read_once),
	};

	setenv("LMDBIO_IO", "pread", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
