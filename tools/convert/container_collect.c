/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gathers copies of pages into groups while a container is written.
 *
 * Pages come in the order of their numbers. A full group is compressed as a frame of its own, and
 * kept until the data's end is written.
 */
#include "container/container_private.h"
#include "container_write_private.h"
#include "format/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void collect_open(struct collect *collect, const struct container_write_options *options,
		  uint64_t seed)
{
	memset(collect, 0, sizeof(*collect));
	collect->options = options;
	list_open(&collect->index, LAYOUT_COPIES, seed, options->temporary);
	spool_open(&collect->groups, options->temporary);
}

void collect_close(struct collect *collect)
{
	container_compressor_close(collect->compressor);
	list_close(&collect->index);
	spool_close(&collect->groups);
	free(collect->pages);
}

/* Allocates numbers and pages, and behind them the room for a frame. */
static int give_memory(struct collect *collect)
{
	struct container_write_options plain = *collect->options;
	size_t size;

	collect->room = LAYOUT_GROUP / plain.page_size;
	size = (size_t)collect->room * (LAYOUT_NUMBER + (size_t)plain.page_size);
	collect->pages = malloc(size + LAYOUT_FRAME + container_frame_bound(size));
	if (!collect->pages)
		return ENOMEM;
	collect->frame = collect->pages + size;
	plain.dictionary = NULL;
	plain.dictionary_size = 0;
	plain.long_distance = false;
	return container_compressor_open(&collect->compressor, &plain);
}

/* Returns a page's place in the group; the pages begin behind the numbers of a full group. */
static uint8_t *page_at(const struct collect *collect, uint32_t i)
{
	return collect->pages + (size_t)collect->room * LAYOUT_NUMBER +
	       (size_t)i * collect->options->page_size;
}

static int group_end(struct collect *collect)
{
	size_t numbers = (size_t)collect->n * LAYOUT_NUMBER;
	uint8_t *begin = page_at(collect, 0) - numbers, *entry;
	uint64_t first = get64(collect->pages);
	struct container_frame frame;
	int rc;

	memmove(begin, collect->pages, numbers);
	rc = container_compress(collect->compressor, begin,
				numbers + (size_t)collect->n * collect->options->page_size,
				collect->frame + LAYOUT_FRAME, &frame);
	if (rc)
		return rc;
	put32(collect->frame, LAYOUT_SKIPPABLE);
	put32(collect->frame + 4, frame.length);
	entry = list_entry(&collect->index, GROUP_ENTRY, collect->groups.size);
	put64(entry + GROUP_ENTRY_FIRST, first);
	put64(entry + GROUP_ENTRY_HASH, frame.hash);
	put32(entry + GROUP_ENTRY_LENGTH, frame.length);
	put32(entry + GROUP_ENTRY_CHECK, frame.check);
	rc = spool_append(&collect->groups, collect->frame, LAYOUT_FRAME + (size_t)frame.length);
	if (!rc && collect->index.entries == GROUPS_PER_PAGE)
		rc = list_seal(&collect->index);
	collect->n = 0;
	return rc;
}

int collect_page(struct collect *collect, uint64_t number, const uint8_t *page)
{
	int rc = collect->pages ? 0 : give_memory(collect);

	if (rc)
		return rc;
	if (number < FORMAT_METAS) {
		memcpy(collect->metas[number], page, sizeof(collect->metas[number]));
		if (!number && collect->options->format == FORMAT_1_0)
			collect->sum_size =
				load16(page + collect->options->page_size - sizeof(uint16_t));
		return 0;
	}
	put64(collect->pages + (size_t)collect->n * LAYOUT_NUMBER, number);
	memcpy(page_at(collect, collect->n), page, collect->options->page_size);
	collect->copies++;
	return ++collect->n < collect->room ? 0 : group_end(collect);
}

int collect_picked(struct collect *collect, const void *data, size_t length, uint64_t offset,
		   const uint8_t *picked)
{
	uint32_t size = collect->options->page_size;
	const uint8_t *pages = data;
	int rc = 0;

	for (size_t i = 0; i < length / size && !rc; i++)
		if (picked[i / 8] >> i % 8 & 1)
			rc = collect_page(collect, offset / size + i, pages + i * size);
	return rc;
}

int collect_end(struct collect *collect)
{
	int rc = collect->n ? group_end(collect) : 0;

	return rc ? rc : list_seal(&collect->index);
}

void collect_footer(const struct collect *collect, uint8_t *footer)
{
	enum format format = collect->options->format;
	int newest = select_meta(collect->metas[0], collect->metas[1], collect->options->page_size,
				 format);

	put64(footer + FOOTER_COPIES, collect->copies);
	if (newest < 0)
		return;
	put32(footer + FOOTER_META_PAGE, (uint32_t)newest + 1);
	memcpy(footer + FOOTER_META,
	       collect->metas[newest] + page_layouts[format].shift + META_MAGIC, FOOTER_META_SIZE);
	put16(footer + FOOTER_SUM_SIZE, collect->sum_size);
}
