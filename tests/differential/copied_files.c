/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which bytes of a page are in use. */
#include "copied_files.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	PAGE_BRANCH_OR_LEAF = 1 | 2,
	PAGE_OVERFLOW = 4,
	PAGE_LEAF2 = 0x20,
	PAGE_HEADER = 16,
	META_PAGE_SIZE = 40,
};

struct file {
	unsigned char *bytes;
	size_t size;
};

static bool file_read(struct file *file, const char *path)
{
	FILE *stream = fopen(path, "re");
	struct stat status;
	bool done;

	if (!stream)
		return false;
	done = fstat(fileno(stream), &status) == 0;
	file->size = done ? (size_t)status.st_size : 0;
	file->bytes = malloc(file->size + 1);
	done = done && file->bytes && fread(file->bytes, 1, file->size, stream) == file->size;
	fclose(stream);
	return done;
}

static uint32_t read32(const unsigned char *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof value);
	return value;
}

static unsigned read16(const unsigned char *bytes)
{
	return bytes[0] | (unsigned)bytes[1] << 8;
}

static bool range_agrees(const struct file *a, const struct file *b, size_t from, size_t to,
			 size_t *at)
{
	if (to > a->size)
		to = a->size;
	for (*at = from; *at < to; ++*at)
		if (a->bytes[*at] != b->bytes[*at])
			return false;
	return true;
}

/* One page, or an overflow run, from byte *next on; *next is moved behind it. */
static bool page_agrees(const struct file *a, const struct file *b, size_t page_size, size_t *next,
			size_t *at)
{
	const unsigned char *page = a->bytes + *next;
	unsigned flags = read16(page + 10), count = (read16(page + 12) - PAGE_HEADER) / 2;
	size_t from = *next, used = PAGE_HEADER + 2 * (size_t)count, rest = read16(page + 14);

	*next += flags & PAGE_OVERFLOW ? read32(page + 12) * page_size : page_size;
	if (!(flags & PAGE_BRANCH_OR_LEAF) || *next > a->size)
		return range_agrees(a, b, from, *next, at);
	if (flags & PAGE_LEAF2) {
		used = PAGE_HEADER + (size_t)count * read16(page + 8);
		rest = page_size;
	}
	return range_agrees(a, b, from, from + used, at) &&
	       range_agrees(a, b, from + rest, *next, at);
}

bool copied_files_agree(const char *one, const char *other, bool compacted, size_t *at)
{
	struct file a = {0}, b = {0};
	bool agree = file_read(&a, one) && file_read(&b, other);
	size_t page_size, next;

	*at = 0;
	agree = agree && a.size == b.size;
	if (agree && (!compacted || a.size < 2 * META_PAGE_SIZE)) {
		agree = range_agrees(&a, &b, 0, a.size, at);
	} else if (agree) {
		page_size = read32(a.bytes + META_PAGE_SIZE);
		agree = page_size >= 512 && range_agrees(&a, &b, 0, 2 * page_size, at);
		for (next = 2 * page_size; agree && next + page_size <= a.size;)
			agree = page_agrees(&a, &b, page_size, &next, at);
	}
	free(a.bytes);
	free(b.bytes);
	return agree;
}
