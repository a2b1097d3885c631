/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps index pages until the data before them is written: the first ones in memory, the rest in a
 * file without a name, so that there is no limit to a data set's size. */
#include "container_write_private.h"

#include "container/container_layout.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void list_open(struct page_list *list, enum layout_kind kind, uint64_t seed, const char *temporary)
{
	memset(list, 0, sizeof(*list));
	list->kind = kind;
	list->seed = seed;
	list->temporary = temporary;
	list->fd = -1;
}

void list_close(struct page_list *list)
{
	free(list->memory);
	if (list->fd >= 0)
		(void)close(list->fd);
}

uint8_t *list_entry(struct page_list *list, size_t size, uint64_t base)
{
	if (list->entries == 0) {
		memset(list->page, 0, sizeof(list->page));
		put64(list->page + INDEX_BASE, base);
	}
	return list->page + INDEX_BODY + size * list->entries++;
}

static int open_unnamed(const char *folder, int *fd)
{
	char path[PATH_MAX];

	if (!folder)
		folder = secure_getenv("TMPDIR");
	if (!folder || !*folder)
		folder = "/tmp";
	*fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (*fd >= 0)
		return 0;
	if (snprintf(path, sizeof(path), "%s/lmdbio.XXXXXX", folder) >= (int)sizeof(path))
		return ENAMETOOLONG;
	*fd = mkostemp(path, O_CLOEXEC);
	if (*fd < 0)
		return errno;
	(void)unlink(path);
	return 0;
}

static int keep_page(struct page_list *list)
{
	uint64_t at = list->pages;
	int rc;

	if (at < LIST_MEMORY) {
		size_t room = list->room ? list->room * 2 : 1;
		uint8_t *memory = list->memory;

		if (at == list->room) {
			memory = realloc(memory, room * LAYOUT_PAGE);
			if (!memory)
				return ENOMEM;
			list->memory = memory;
			list->room = room;
		}
		memcpy(memory + at * LAYOUT_PAGE, list->page, LAYOUT_PAGE);
		return 0;
	}
	if (list->fd < 0) {
		rc = open_unnamed(list->temporary, &list->fd);
		if (rc)
			return rc;
	}
	return whole_write(list->fd, list->page, LAYOUT_PAGE, (at - LIST_MEMORY) * LAYOUT_PAGE);
}

int list_seal(struct page_list *list)
{
	int rc;

	if (list->entries == 0)
		return 0;
	put32(list->page, LAYOUT_SKIPPABLE);
	put32(list->page + 4, LAYOUT_PAGE - LAYOUT_FRAME);
	put32(list->page + INDEX_KIND, (uint32_t)list->kind);
	put32(list->page + INDEX_ENTRIES, list->entries);
	put64(list->page + INDEX_NUMBER, list->pages);
	hash_seal(list->page, LAYOUT_PAGE_HASH, list->seed);
	rc = keep_page(list);
	if (rc)
		return rc;
	list->pages++;
	list->entries = 0;
	return 0;
}

void spool_open(struct spool *spool, const char *temporary)
{
	memset(spool, 0, sizeof(*spool));
	spool->temporary = temporary;
	spool->fd = -1;
}

void spool_close(struct spool *spool)
{
	free(spool->memory);
	if (spool->fd >= 0)
		(void)close(spool->fd);
}

static int spool_flush(struct spool *spool)
{
	int rc = spool->fd < 0 ? open_unnamed(spool->temporary, &spool->fd) : 0;

	if (!rc)
		rc = whole_write(spool->fd, spool->memory, spool->used, spool->size - spool->used);
	spool->used = 0;
	return rc;
}

int spool_append(struct spool *spool, const void *bytes, size_t length)
{
	const uint8_t *from = bytes;
	int rc = 0;

	if (!spool->memory)
		spool->memory = malloc(SPOOL_MEMORY);
	if (!spool->memory)
		return ENOMEM;
	while (length > 0 && !rc) {
		size_t n = SPOOL_MEMORY - spool->used;

		if (n > length)
			n = length;
		memcpy(spool->memory + spool->used, from, n);
		spool->used += n;
		spool->size += n;
		from += n;
		length -= n;
		if (spool->used == SPOOL_MEMORY)
			rc = spool_flush(spool);
	}
	return rc;
}

int spool_empty(struct spool *spool, list_take take, void *taker)
{
	uint64_t at = 0;
	int rc;

	if (spool->fd < 0)
		return spool->used ? take(taker, spool->memory, spool->used) : 0;
	rc = spool_flush(spool);
	while (!rc && at < spool->size) {
		size_t n =
			spool->size - at < SPOOL_MEMORY ? (size_t)(spool->size - at) : SPOOL_MEMORY;

		rc = whole_read(spool->fd, spool->memory, n, at, EIO);
		if (!rc)
			rc = take(taker, spool->memory, n);
		at += n;
	}
	return rc;
}

/* Hands out the pages in memory first, to make room for reading the others. */
int list_empty(struct page_list *list, list_take take, void *taker)
{
	uint64_t left = list->pages, in_file = 0;
	size_t n = left < LIST_MEMORY ? (size_t)left : LIST_MEMORY;
	int rc = n ? take(taker, list->memory, n * LAYOUT_PAGE) : 0;

	for (left -= n; !rc && left > 0; left -= n) {
		n = left < LIST_MEMORY ? (size_t)left : LIST_MEMORY;
		rc = whole_read(list->fd, list->memory, n * LAYOUT_PAGE, in_file, EIO);
		if (!rc)
			rc = take(taker, list->memory, n * LAYOUT_PAGE);
		in_file += n * LAYOUT_PAGE;
	}
	return rc;
}
