/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a file and two readers of it that share an arena. */
#include "store_fixture.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset / ARENA_BLOCK * 7 + offset % 251);
}

int reader_open(struct reader *reader, struct fixture *f, enum store_kind kind, bool believe_cache)
{
	struct arena_options options = {.budget = 2 * SIZE, .node = f->node, .share = true};

	reader->base = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, f->fd, 0);
	return reader->base == MAP_FAILED || io_open_file(&reader->io, "pread", f->fd) ||
	       store_open(&reader->store, kind, reader->base, SIZE, f->fd, &reader->io, &options,
			  believe_cache) ||
	       store_snapshot(&reader->store, &f->identity, SIZE, LOW, true);
}

void reader_close(struct reader *reader)
{
	store_close(&reader->store);
	io_close(&reader->io);
	munmap(reader->base, SIZE);
}

void assert_right(const struct reader *reader, uint64_t offset, uint64_t length)
{
	for (uint64_t i = offset; i < offset + length; i += 97)
		assert_int_equal(reader->base[i], byte_at(i));
}

void reader_map_says(const struct reader *reader, uint64_t offset, const char *name,
		     char said[MAP_LINE])
{
	uintptr_t at = (uintptr_t)reader->base + offset, from, to;
	FILE *maps = fopen("/proc/self/smaps", "re");
	size_t length = strlen(name);
	bool here = false;
	char line[MAP_LINE];

	assert_non_null(maps);
	said[0] = 0;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			here = from <= at && at < to;
		else if (here && !strncmp(line, name, length))
			strcpy(said, line + length);
	}
	fclose(maps);
}

int reader_maps(const struct reader *reader)
{
	uintptr_t base = (uintptr_t)reader->base;
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long start;
	char line[MAP_LINE];
	int n = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		n += sscanf(line, "%lx-", &start) == 1 && start >= base && start < base + SIZE;
	fclose(file);
	return n;
}

int store_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint8_t *bytes;

	if (!f || (f->fd = memfd_create("store-test", MFD_CLOEXEC)) < 0 || ftruncate(f->fd, SIZE))
		return -1;
	bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (bytes == MAP_FAILED)
		return -1;
	for (uint64_t i = 0; i < SIZE; i++)
		bytes[i] = byte_at(i);
	munmap(bytes, SIZE);
	f->identity = (struct identity){.device = 1, .inode = 2, .size = SIZE, .snapshot = 3};
	snprintf(f->node, sizeof(f->node), "store-%d", (int)getpid());
	*state = f;
	return reader_open(&f->first, f, STORE_ARENA, false) ||
	       reader_open(&f->second, f, STORE_ARENA, false);
}

int store_setup_told(void **state)
{
	struct fixture *f;

	if (store_setup(state))
		return -1;
	f = *state;
	f->first.store.believe_cache = true;
	f->first.store.look.told = TOLD_TRULY;
	return 0;
}

int store_teardown(void **state)
{
	struct fixture *f = *state;

	reader_close(&f->first);
	reader_close(&f->second);
	close(f->fd);
	free(f);
	return 0;
}
