/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the parts of a container in their order. */
#include "container/container_private.h"
#include "container_write_private.h"
#include "util/whole.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE_JOBS = 16 }; /* at most in one write */

/* The file. */

static int fail(struct container_writer *writer, int rc)
{
	if (rc && !writer->error)
		writer->error = rc;
	return rc;
}

static int write_parts(const struct container_writer *writer, struct iovec *parts, int n)
{
	return whole_write_parts(writer->fd, parts, n, writer->is_pipe ? -1 : (off_t)writer->offset);
}

/* Appends bytes to the file; a list_take. */
static int append(void *taker, const void *bytes, size_t length)
{
	struct container_writer *writer = taker;
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	int rc = write_parts(writer, &part, 1);

	if (!rc)
		writer->offset += length;
	return rc;
}

/* Beginning. */

int writer_new(struct container_writer **writer, int fd,
	       const struct container_write_options *options)
{
	struct container_writer *made;
	uint64_t seed;
	int rc, unplaced;

	made = calloc(1, sizeof(*made));
	if (!made)
		return ENOMEM;
	made->fd = fd;
	unplaced = lseek(fd, 0, SEEK_CUR) < 0 ? errno : 0;
	made->is_pipe = unplaced == ESPIPE;
	rc = options_settle(&made->options, options, made->header, &made->info);
	if (!rc && !made->is_pipe)
		rc = unplaced;
	seed = get64(made->header + LAYOUT_END_HASH);
	list_open(&made->leaves, LAYOUT_LEAVES, seed, options->temporary);
	list_open(&made->trees, LAYOUT_TREES, seed, options->temporary);
	list_open(&made->chunks, LAYOUT_CHUNKS, seed, options->temporary);
	collect_open(&made->copies, &made->options, seed);
	if (!rc)
		rc = jobs_open(&made->jobs, &made->options);
	if (rc) {
		container_write_close(made);
		return rc;
	}
	*writer = made;
	return 0;
}

int container_write_open(struct container_writer **writer, int fd,
			 const struct container_write_options *options)
{
	return writer_new(writer, fd, options);
}

int container_write_begin(struct container_writer *writer)
{
	uint8_t frame[LAYOUT_FRAME];
	int rc;

	if (writer->error || writer->begun)
		return writer->error;
	rc = append(writer, writer->header, sizeof(writer->header));
	if (!rc && writer->options.dictionary) {
		put32(frame, LAYOUT_SKIPPABLE);
		put32(frame + 4, writer->info.dictionary_size);
		rc = append(writer, frame, sizeof(frame));
		if (!rc)
			rc = append(writer, writer->options.dictionary,
				    writer->options.dictionary_size);
	}
	writer->begun = !rc;
	return fail(writer, rc);
}

/* Chunks. */

int writer_add(struct container_writer *writer, const struct container_frame *frame)
{
	struct page_list *list = &writer->chunks;
	uint8_t *entry = list_entry(list, CHUNK_ENTRY, writer->offset);

	put32(entry + CHUNK_ENTRY_LENGTH, frame->length);
	put32(entry + CHUNK_ENTRY_CHECK, frame->check);
	put64(entry + CHUNK_ENTRY_HASH, frame->hash);
	writer->content = hash_chain(writer->content, frame->hash);
	writer->offset += frame->length;
	writer->data += frame->size;
	return list->entries == CHUNKS_PER_PAGE ? list_seal(list) : 0;
}

/* Writes the oldest jobs that are done, in one write. */
static int write_done(struct container_writer *writer, bool wait)
{
	struct iovec parts[WRITE_JOBS];
	struct job *done[WRITE_JOBS];
	size_t i, n = jobs_done(&writer->jobs, done, WRITE_JOBS, wait);
	unsigned j;
	int rc = 0;

	for (i = 0; i < n; i++) {
		if (done[i]->error)
			return fail(writer, done[i]->error);
		parts[i] = (struct iovec){done[i]->out, done[i]->length};
	}
	rc = write_parts(writer, parts, (int)n);
	for (i = 0; !rc && i < n; i++) {
		for (j = 0; !rc && j < done[i]->n; j++)
			rc = writer_add(writer, &done[i]->frames[j]);
		if (!rc)
			rc = collect_picked(&writer->copies, done[i]->in, done[i]->filled,
					    done[i]->offset, done[i]->picked);
	}
	jobs_drop(&writer->jobs, n);
	return fail(writer, rc);
}

int container_write_buffer(struct container_writer *writer, void **buffer, size_t *length)
{
	uint64_t left = writer->options.size - writer->given;
	struct job *job = NULL;
	int rc = container_write_begin(writer);

	*length = 0;
	if (rc || left == 0)
		return rc;
	rc = fail(writer, jobs_fill(&writer->jobs, &job));
	if (!rc && !job) {
		rc = write_done(writer, true);
		if (!rc)
			rc = fail(writer, jobs_fill(&writer->jobs, &job));
	}
	if (rc)
		return rc;
	*buffer = job->in + job->filled;
	*length = writer->jobs.capacity - job->filled;
	if (*length > left)
		*length = (size_t)left;
	return 0;
}

int container_write_commit(struct container_writer *writer, size_t length)
{
	uint64_t left = writer->options.size - writer->given;
	struct job *job;
	int rc = writer->error ? writer->error : jobs_fill(&writer->jobs, &job);

	if (rc)
		return fail(writer, rc);
	if (!job || length == 0 || length > left || length > writer->jobs.capacity - job->filled)
		return EINVAL;
	if (job->filled == 0)
		job->offset = writer->given;
	job->filled += length;
	writer->given += length;
	if (job->filled < writer->jobs.capacity && length < left)
		return 0;
	jobs_queue(&writer->jobs);
	return 0;
}

int container_write_bytes(struct container_writer *writer, const void *bytes, size_t length)
{
	const char *from = bytes;

	if (writer->error)
		return writer->error;
	if (length > writer->options.size - writer->given)
		return EINVAL;
	while (length > 0) {
		void *buffer;
		size_t n;
		int rc = container_write_buffer(writer, &buffer, &n);

		if (rc)
			return rc;
		if (n > length)
			n = length;
		memcpy(buffer, from, n);
		rc = container_write_commit(writer, n);
		if (rc)
			return rc;
		from += n;
		length -= n;
	}
	return 0;
}

int container_write_offset(struct container_writer *writer, uint64_t *offset)
{
	int rc = writer->given == writer->data ? container_write_begin(writer) : EBUSY;

	*offset = writer->offset;
	return rc;
}

uint64_t container_write_content(const struct container_writer *writer)
{
	return writer->content;
}

int container_write_frame(struct container_writer *writer, const void *bytes,
			  const struct container_frame *frame)
{
	uint64_t number = writer->data / writer->info.chunk_size;
	int rc = writer->error;

	if (rc)
		return rc;
	if (writer->given != writer->data)
		return EBUSY;
	if (number >= writer->info.chunks ||
	    frame->size != container_chunk_size(&writer->info, number) || frame->length == 0 ||
	    frame->length > container_frame_bound(frame->size) || (!bytes && writer->is_pipe))
		return EINVAL;
	rc = container_write_begin(writer);
	if (!rc && bytes) {
		struct iovec part = {(void *)(uintptr_t)bytes, frame->length};

		rc = write_parts(writer, &part, 1);
	}
	if (!rc)
		rc = writer_add(writer, frame);
	writer->given = writer->data;
	return fail(writer, rc);
}

int container_write_copy(struct container_writer *writer, uint64_t page, const void *bytes)
{
	if (writer->error)
		return writer->error;
	if (page < writer->next_copy || page >= writer->options.size / writer->options.page_size)
		return EINVAL;
	writer->next_copy = page + 1;
	return fail(writer, collect_page(&writer->copies, page, bytes));
}

/* The record index. */

static int end_tree(struct container_writer *writer)
{
	int rc = list_seal(&writer->leaves);

	if (rc || !writer->in_tree)
		return rc;
	writer->in_tree = false;
	put64(writer->tree + TREE_ENTRY_RECORDS, writer->tree_records);
	put64(writer->tree + TREE_ENTRY_LEAVES, writer->tree_leaves);
	memcpy(list_entry(&writer->trees, TREE_ENTRY, 0), writer->tree, TREE_ENTRY);
	return writer->trees.entries == TREES_PER_PAGE ? list_seal(&writer->trees) : 0;
}

int container_write_tree(struct container_writer *writer, const void *name, size_t name_size,
			 uint16_t flags, uint64_t *tree)
{
	int rc = writer->error;

	if (rc)
		return rc;
	if (name_size > CONTAINER_NAME_MAX)
		return EINVAL;
	rc = end_tree(writer);
	if (rc)
		return fail(writer, rc);
	memset(writer->tree, 0, sizeof(writer->tree));
	put64(writer->tree + TREE_ENTRY_FIRST, writer->leaves.pages);
	put16(writer->tree + TREE_ENTRY_FLAGS, flags);
	put16(writer->tree + TREE_ENTRY_NAME_SIZE, (uint16_t)name_size);
	if (name_size)
		memcpy(writer->tree + TREE_ENTRY_NAME, name, name_size);
	writer->tree_leaves = 0;
	writer->tree_records = 0;
	writer->in_tree = true;
	*tree = writer->n_trees++;
	return 0;
}

int container_write_leaf(struct container_writer *writer, uint64_t tree, uint64_t leaf_page,
			 uint64_t entries)
{
	uint64_t records;
	uint8_t *leaf;

	if (writer->error)
		return writer->error;
	if (!writer->in_tree || tree != writer->n_trees - 1 || entries == 0 ||
	    leaf_page >= layout_pages(writer->options.size, writer->options.page_size) ||
	    !checked_add(writer->tree_records, entries, &records))
		return EINVAL;
	leaf = list_entry(&writer->leaves, LEAF_ENTRY, tree);
	put64(leaf + LEAF_ENTRY_PAGE, leaf_page);
	put64(leaf + LEAF_ENTRY_FIRST, writer->tree_records);
	writer->tree_records = records;
	writer->tree_leaves++;
	if (writer->leaves.entries < LEAVES_PER_PAGE)
		return 0;
	return fail(writer, list_seal(&writer->leaves));
}

/* The end. */

static int write_footer(struct container_writer *writer, uint64_t data_end)
{
	uint8_t footer[LAYOUT_END] = {0};

	put32(footer, LAYOUT_SKIPPABLE);
	put32(footer + 4, LAYOUT_END - LAYOUT_FRAME);
	put64(footer + END_MAGIC, LAYOUT_FOOTER_MAGIC);
	put16(footer + END_MAJOR, LAYOUT_MAJOR);
	put16(footer + END_MINOR, LAYOUT_MINOR);
	put64(footer + FOOTER_HEADER_HASH, get64(writer->header + LAYOUT_END_HASH));
	put64(footer + FOOTER_FILE_SIZE, writer->offset + LAYOUT_END);
	put64(footer + FOOTER_DATA_END, data_end);
	put64(footer + FOOTER_LEAF_PAGES, writer->leaves.pages);
	put64(footer + FOOTER_TREES, writer->n_trees);
	put64(footer + FOOTER_CONTENT_HASH, writer->content);
	collect_footer(&writer->copies, footer);
	hash_seal(footer, LAYOUT_END_HASH, 0);
	return append(writer, footer, sizeof(footer));
}

static int write_tail(struct container_writer *writer)
{
	uint64_t data_end = writer->offset;
	int rc = end_tree(writer);

	if (!rc)
		rc = list_seal(&writer->trees);
	if (!rc)
		rc = list_seal(&writer->chunks);
	if (!rc)
		rc = collect_end(&writer->copies);
	if (!rc)
		rc = list_empty(&writer->leaves, append, writer);
	if (!rc)
		rc = list_empty(&writer->trees, append, writer);
	if (!rc)
		rc = spool_empty(&writer->copies.groups, append, writer);
	if (!rc)
		rc = list_empty(&writer->chunks, append, writer);
	if (!rc)
		rc = list_empty(&writer->copies.index, append, writer);
	return rc ? rc : write_footer(writer, data_end);
}

int container_write_finish(struct container_writer *writer)
{
	int rc = writer->error;

	if (rc)
		return rc;
	if (writer->finished || writer->given != writer->options.size)
		return EINVAL;
	rc = container_write_begin(writer);
	while (!rc && writer->data < writer->given)
		rc = write_done(writer, true);
	if (!rc)
		rc = write_tail(writer);
	writer->finished = !rc;
	return fail(writer, rc);
}

struct container_progress container_write_progress(const struct container_writer *writer)
{
	return (struct container_progress){writer->data, writer->offset};
}

void container_write_close(struct container_writer *writer)
{
	if (!writer)
		return;
	jobs_close(&writer->jobs);
	list_close(&writer->leaves);
	list_close(&writer->trees);
	list_close(&writer->chunks);
	collect_close(&writer->copies);
	free(writer);
}
