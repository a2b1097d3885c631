/* SPDX-License-Identifier: OLDAP-2.8 */
/* Walks the strided readers of one node through a file, always the one furthest behind. */
#include "sim_stride.h"

#include <errno.h>
#include <stdlib.h>

enum { META_PAGES = 2 };

struct walk {
	const struct stride *stride;
	struct pages pages;
	uint64_t end;   /* records of all batches */
	uint64_t *next; /* [reader]: its current record */
	struct stride_result *result;
};

uint64_t stride_pages(const struct stride *stride, uint64_t records)
{
	uint64_t leaves = (records + stride->leaf_records - 1) / stride->leaf_records;

	return META_PAGES + leaves + records * stride->value_pages;
}

static uint64_t leaf_page(const struct stride *stride, uint64_t record)
{
	uint64_t leaf = record / stride->leaf_records;

	return META_PAGES + leaf * (1 + (uint64_t)stride->leaf_records * stride->value_pages);
}

/* Returns the first record from this one on that a reader of the job uses, perhaps beyond the
 * end. */
static uint64_t own_record(const struct stride *stride, uint32_t reader, uint64_t record)
{
	uint64_t round = stride->run * stride->readers;
	uint64_t batch = record / stride->batch, at = record % stride->batch;
	uint64_t first = at - at % round + reader * stride->run;

	if (at >= first + stride->run)
		first += round;
	if (first >= stride->batch)
		return (batch + 1) * stride->batch + reader * stride->run;
	return batch * stride->batch + (at > first ? at : first);
}

static uint64_t value_page(const struct stride *stride, uint64_t record)
{
	return leaf_page(stride, record) + 1 +
	       (record % stride->leaf_records) * stride->value_pages;
}

/* Reads a reader's part of a batch, from its first value to its last: the reader knows the places
 * of its values. */
static void part_turn(struct walk *walk, uint32_t i, uint64_t own)
{
	const struct stride *stride = walk->stride;
	struct pages_reader *reader = &walk->pages.readers[i];
	uint64_t end = own + stride->run < walk->end ? own + stride->run : walk->end;
	uint64_t first = value_page(stride, own);
	uint64_t n = value_page(stride, end - 1) + stride->value_pages - first;

	walk->next[i] = end;
	if (own >= walk->end)
		return;
	if (stride->way == STRIDE_READS)
		pages_read(&walk->pages, reader, first, n);
	for (uint64_t page = first; stride->way == STRIDE_TOUCHES && page < first + n; page++)
		pages_touch(&walk->pages, reader, page);
	reader->now += (double)(end - own) * stride->step;
	walk->result->records += end - own;
}

/* Takes one touch of a leaf page, or a used record, or all records that the reader steps over at
 * once. */
static void turn(struct walk *walk, uint32_t i)
{
	const struct stride *stride = walk->stride;
	struct pages_reader *reader = &walk->pages.readers[i];
	uint64_t record = walk->next[i], leaf = leaf_page(stride, record);
	uint64_t own = own_record(stride, stride->first + i, record);
	uint64_t leaf_end = record - record % stride->leaf_records + stride->leaf_records;

	if (stride->way != STRIDE_STEPS) {
		part_turn(walk, i, own);
	} else if (!reader->mapped[leaf]) {
		pages_touch(&walk->pages, reader, leaf);
	} else if (own == record) {
		leaf = value_page(stride, record);
		for (uint32_t page = 0; page < stride->value_pages; page++)
			pages_touch(&walk->pages, reader, leaf + page);
		reader->now += stride->step;
		walk->result->records++;
		walk->next[i]++;
	} else {
		uint64_t to = own < leaf_end ? own : leaf_end;

		reader->now += (double)(to - record) * stride->step;
		walk->next[i] = to;
	}
}

static uint32_t reader_behind(const struct walk *walk)
{
	uint32_t behind = walk->stride->here;

	for (uint32_t i = 0; i < walk->stride->here; i++)
		if (walk->next[i] < walk->end &&
		    (behind == walk->stride->here ||
		     walk->pages.readers[i].now < walk->pages.readers[behind].now))
			behind = i;
	return behind;
}

static bool makes_sense(const struct stride *stride)
{
	return stride->batch && stride->run && stride->batches && stride->value_pages &&
	       stride->leaf_records && stride->readers && stride->here &&
	       stride->first + stride->here <= stride->readers &&
	       stride->run <= stride->batch / stride->readers;
}

int stride_run(const struct stride *stride, const struct pages_kernel *kernel,
	       struct stride_result *result)
{
	struct walk walk = {.stride = stride, .result = result};
	uint32_t i;
	int rc;

	*result = (struct stride_result){0};
	if (!makes_sense(stride) || !kernel->window || !kernel->around || kernel->rate <= 0)
		return EINVAL;
	walk.end = stride->batch * stride->batches;
	rc = pages_open(&walk.pages, kernel, stride_pages(stride, walk.end), stride->here);
	walk.next = calloc(stride->here, sizeof(*walk.next));
	if (rc || !walk.next) {
		rc = ENOMEM;
		goto end;
	}
	for (uint64_t record = 0; stride->looks_first && record < walk.end;
	     record += stride->leaf_records)
		pages_touch(&walk.pages, walk.pages.readers, leaf_page(stride, record));
	while ((i = reader_behind(&walk)) < stride->here)
		turn(&walk, i);
	for (i = 0; i < stride->here; i++) {
		const struct pages_reader *reader = &walk.pages.readers[i];

		result->faults += reader->faults;
		result->waits += reader->waits;
		if (reader->now > result->seconds)
			result->seconds = reader->now;
	}
	result->bytes = walk.pages.bytes;
	result->requests = walk.pages.requests;
end:
	pages_close(&walk.pages);
	free(walk.next);
	return rc;
}
