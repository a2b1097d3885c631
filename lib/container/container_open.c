/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens a container by its header and footer alone.
 *
 * Sections lie one behind the other, so their places follow from a few counts, which must add up to
 * the file's length to the byte. Nothing else is read, however large the file.
 */
#include "container/container_private.h"
#include "format/layout.h"
#include "io/io_backend.h"
#include "util/at_fork.h"

#include <errno.h>
#include <lmdb.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum {
	CACHE_DEFAULT = 8 << 20, /* bytes of data */
	CACHE_CHUNKS_LEAST = 2,
	CACHE_PAGES = 64,  /* pages of the index */
	CACHE_GROUPS = 16, /* groups of copies */
	TAIL = 64
	       << 10, /* bytes that are read with the footer: index pages for the first lookups */
};

int container_code(int error)
{
	return error == EBADMSG ? MDB_CORRUPTED : error;
}

uint32_t container_chunk_size(const struct container_info *info, uint64_t number)
{
	uint64_t left = info->size - number * info->chunk_size;

	return left < info->chunk_size ? (uint32_t)left : info->chunk_size;
}

int container_read_below(struct container *container, uint64_t offset, size_t length, void *out)
{
	size_t alignment = io_alignment(container->below), lead = offset & (alignment - 1), done;
	void *buffer;
	int rc;

	if (alignment == 1) {
		rc = io_read(container->below, out, length, offset, &done);
		return !rc && done < length ? EBADMSG : rc;
	}
	if (posix_memalign(&buffer, alignment, round_up(lead + length, alignment)))
		return ENOMEM;
	rc = io_read(container->below, buffer, round_up(lead + length, alignment), offset - lead,
		     &done);
	if (!rc && done < lead + length)
		rc = EBADMSG;
	if (!rc)
		memcpy(out, (const uint8_t *)buffer + lead, length);
	free(buffer);
	return rc;
}

bool container_is_one(int fd)
{
	static const char name[] = "lmdbio"; /* the part of the magic that no transfer changes */
	uint8_t first[END_MAGIC + sizeof(name) - 1];

	return pread(fd, first, sizeof(first), 0) == sizeof(first) &&
	       get32(first) == LAYOUT_SKIPPABLE &&
	       !memcmp(first + END_MAGIC, name, sizeof(name) - 1);
}

/* Judges a header or footer. Its first 24 bytes and checksum are the same in every version. */
static int judge_end(const uint8_t *end, uint64_t magic)
{
	if (get32(end) != LAYOUT_SKIPPABLE || get32(end + 4) != LAYOUT_END - LAYOUT_FRAME ||
	    get64(end + END_MAGIC) != magic)
		return MDB_INVALID;
	if (hash_bytes(end, LAYOUT_END_HASH) != get64(end + LAYOUT_END_HASH))
		return MDB_CORRUPTED;
	return get16(end + END_MAJOR) == LAYOUT_MAJOR ? 0 : MDB_VERSION_MISMATCH;
}

static bool is_size(uint64_t size, uint64_t least, uint64_t most)
{
	return is_power_of_two(size) && size >= least && size <= most;
}

int container_parse_header(const uint8_t *header, struct container_info *info)
{
	uint32_t flags = get32(header + HEADER_FLAGS);
	int rc = judge_end(header, LAYOUT_HEADER_MAGIC);

	if (rc)
		return rc;
	if (flags & (LAYOUT_NEEDED ^ (LAYOUT_DICTIONARY | LAYOUT_LMDB_1_0)))
		return MDB_VERSION_MISMATCH;
	memset(info, 0, sizeof(*info));
	info->format = flags & LAYOUT_LMDB_1_0 ? FORMAT_1_0 : FORMAT_0_9;
	info->major = get16(header + END_MAJOR);
	info->minor = get16(header + END_MINOR);
	info->relaid = (flags & LAYOUT_RELAID) != 0;
	info->long_distance = (flags & LAYOUT_LONG_DISTANCE) != 0;
	info->page_size = get32(header + HEADER_PAGE_SIZE);
	info->chunk_size = get32(header + HEADER_CHUNK_SIZE);
	info->size = get64(header + HEADER_SIZE);
	info->level = (int)get32(header + HEADER_LEVEL);
	info->zstd_version = get32(header + HEADER_ZSTD_VERSION);
	info->dictionary_size = get32(header + HEADER_DICTIONARY_SIZE);
	info->source.txnid = get64(header + HEADER_SOURCE_TXNID);
	info->source.size = get64(header + HEADER_SOURCE_SIZE);
	memcpy(info->source.hash, header + HEADER_SOURCE_HASH, sizeof(info->source.hash));
	if (!is_size(info->page_size, FORMAT_PAGE_MIN, page_layouts[info->format].page_max) ||
	    !is_size(info->chunk_size, CONTAINER_CHUNK_MIN, CONTAINER_CHUNK_MAX))
		return MDB_CORRUPTED;
	if (info->size > INT64_MAX || info->dictionary_size > CONTAINER_DICTIONARY_MAX ||
	    !(flags & LAYOUT_DICTIONARY) != !info->dictionary_size)
		return MDB_CORRUPTED;
	info->chunks = layout_pages(info->size, info->chunk_size);
	info->data_offset = LAYOUT_END;
	if (info->dictionary_size)
		info->data_offset += LAYOUT_FRAME + info->dictionary_size;
	return 0;
}

/* Places the next section, of `pages` pages. Returns false if it does not fit before `end`. */
static bool lay_section(struct section *section, uint64_t *at, uint64_t pages, uint64_t end)
{
	if (*at > end || pages > (end - *at) / LAYOUT_PAGE)
		return false;
	*section = (struct section){*at, pages};
	*at += pages * LAYOUT_PAGE;
	return true;
}

/* Parses the footer's fields of copies. */
static bool parse_copies(struct container *container, const uint8_t *footer)
{
	struct container_info *info = &container->info;
	uint32_t page = get32(footer + FOOTER_META_PAGE);

	info->copies = get64(footer + FOOTER_COPIES);
	container->group_pages = LAYOUT_GROUP / info->page_size;
	info->groups = layout_pages(info->copies, container->group_pages);
	if (info->copies > info->size / info->page_size || page > FORMAT_METAS)
		return false;
	info->has_meta = page > 0;
	info->meta_page = info->has_meta ? page - 1 : 0;
	memcpy(info->meta, footer + FOOTER_META, sizeof(info->meta));
	if (info->format == FORMAT_1_0)
		info->sum_size = get16(footer + FOOTER_SUM_SIZE);
	return true;
}

static int parse_footer(struct container *container, const uint8_t *footer, uint64_t file_size)
{
	struct container_info *info = &container->info;
	uint64_t end = file_size - LAYOUT_END, at = get64(footer + FOOTER_DATA_END), behind;
	int rc = judge_end(footer, LAYOUT_FOOTER_MAGIC);

	info->footer_hash = hash_bytes(footer, LAYOUT_END);
	if (rc)
		return rc == MDB_VERSION_MISMATCH ? rc : MDB_CORRUPTED;
	info->file_size = file_size;
	info->data_end = at;
	info->trees = get64(footer + FOOTER_TREES);
	info->content_hash = get64(footer + FOOTER_CONTENT_HASH);
	if (get64(footer + FOOTER_HEADER_HASH) != container->header_hash ||
	    get64(footer + FOOTER_FILE_SIZE) != file_size || at < info->data_offset)
		return MDB_CORRUPTED;
	if (!parse_copies(container, footer))
		return MDB_CORRUPTED;
	behind = layout_pages(info->chunks, CHUNKS_PER_PAGE) +
		 layout_pages(info->groups, GROUPS_PER_PAGE);
	if (!lay_section(&container->sections[LAYOUT_LEAVES], &at,
			 get64(footer + FOOTER_LEAF_PAGES), end) ||
	    !lay_section(&container->sections[LAYOUT_TREES], &at,
			 layout_pages(info->trees, TREES_PER_PAGE), end) ||
	    behind > (end - at) / LAYOUT_PAGE)
		return MDB_CORRUPTED;
	/* The bytes in between are groups. */
	container->groups = (struct section){at, info->groups};
	info->groups_size = end - behind * LAYOUT_PAGE - at;
	at += info->groups_size;
	if (!info->groups != !info->groups_size ||
	    !lay_section(&container->sections[LAYOUT_CHUNKS], &at,
			 layout_pages(info->chunks, CHUNKS_PER_PAGE), end) ||
	    !lay_section(&container->sections[LAYOUT_COPIES], &at,
			 layout_pages(info->groups, GROUPS_PER_PAGE), end))
		return MDB_CORRUPTED;
	return at == end ? 0 : MDB_CORRUPTED;
}

/* Caches index pages that came with the footer. A damaged page is found when it is used. */
static void keep_tail(struct container *container, const uint8_t *tail, size_t length)
{
	uint64_t begin = container->info.file_size - length;

	for (unsigned kind = LAYOUT_LEAVES; kind < LAYOUT_KINDS; kind++) {
		const struct section *section = &container->sections[kind];
		uint64_t number = begin > section->offset
					  ? layout_pages(begin - section->offset, LAYOUT_PAGE)
					  : 0;

		for (; number < section->pages; number++)
			index_keep(container, kind, number,
				   tail + (section->offset + number * LAYOUT_PAGE - begin));
	}
}

static int open_caches(struct container *container, const struct container_options *options)
{
	size_t bytes = options && options->cache ? options->cache : CACHE_DEFAULT;
	size_t n = bytes / container->info.chunk_size;
	int rc = cache_open(&container->pages, CACHE_PAGES, LAYOUT_PAGE);

	if (rc)
		return rc;
	if (n < CACHE_CHUNKS_LEAST)
		n = CACHE_CHUNKS_LEAST;
	rc = cache_open(&container->chunks, n, container->info.chunk_size);
	return rc ? rc : cache_open(&container->copies, CACHE_GROUPS, copies_size(container));
}

static int read_ends(struct container *container, const struct container_options *options)
{
	uint8_t header[LAYOUT_END], *tail;
	uint64_t file_size;
	size_t length;
	int rc = io_size(container->below, &file_size);

	if (rc)
		return rc;
	if (file_size < LAYOUT_END)
		return MDB_INVALID;
	rc = container_read_below(container, 0, sizeof(header), header);
	if (!rc)
		rc = container_parse_header(header, &container->info);
	if (rc)
		return rc;
	container->header_hash = get64(header + LAYOUT_END_HASH);
	container->dictionary_hash = get64(header + HEADER_DICTIONARY_HASH);
	if (file_size < container->info.data_offset + LAYOUT_END)
		return MDB_CORRUPTED;
	length = file_size < TAIL ? (size_t)file_size : TAIL;
	tail = malloc(length);
	if (!tail)
		return ENOMEM;
	rc = container_read_below(container, file_size - length, length, tail);
	if (!rc)
		rc = parse_footer(container, tail + length - LAYOUT_END, file_size);
	if (!rc)
		rc = open_caches(container, options);
	if (!rc)
		keep_tail(container, tail, length);
	free(tail);
	return rc;
}

static int read_dictionary(struct container *container)
{
	size_t size = container->info.dictionary_size;
	uint8_t *bytes;
	int rc;

	if (!size)
		return 0;
	bytes = malloc(LAYOUT_FRAME + size);
	if (!bytes)
		return ENOMEM;
	rc = container_read_below(container, LAYOUT_END, LAYOUT_FRAME + size, bytes);
	if (!rc && (get32(bytes) != LAYOUT_SKIPPABLE || get32(bytes + 4) != size ||
		    hash_bytes(bytes + LAYOUT_FRAME, size) != container->dictionary_hash))
		rc = EBADMSG;
	if (!rc) {
		container->dictionary = ZSTD_createDDict(bytes + LAYOUT_FRAME, size);
		rc = container->dictionary ? 0 : ENOMEM;
	}
	free(bytes);
	return rc;
}

static void free_container(struct container *container)
{
	struct read_worker *worker;

	if (!container)
		return;
	io_threads_free(container->threads);
	while ((worker = container->idle)) {
		container->idle = worker->next;
		ZSTD_freeDCtx(worker->zstd);
		free(worker->buffer);
		free(worker);
	}
	ZSTD_freeDDict(container->dictionary);
	cache_close(&container->pages);
	cache_close(&container->chunks);
	cache_close(&container->copies);
	pthread_mutex_destroy(&container->lock);
	free(container);
}

/* A lock that another thread held at the fork stays locked in the child. All threads of a child may
 * come here at the same time: one makes the locks anew, and the others wait, as long as it takes to
 * write a few hundred bytes. */
void container_enter(struct container *container)
{
	unsigned forks = fork_generation;
	unsigned before = __atomic_load_n(&container->adopting, __ATOMIC_RELAXED);

	if (likely(__atomic_load_n(&container->generation, __ATOMIC_ACQUIRE) == forks))
		return;
	if (before != forks &&
	    __atomic_compare_exchange_n(&container->adopting, &before, forks, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		pthread_mutex_init(&container->lock, NULL);
		cache_forked(&container->pages);
		cache_forked(&container->chunks);
		cache_forked(&container->copies);
		__atomic_store_n(&container->generation, forks, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&container->generation, __ATOMIC_ACQUIRE) != forks)
		(void)sched_yield();
}

int io_open_container(struct io *io, struct io *below, const struct container_options *options)
{
	struct container *container = calloc(1, sizeof(*container));
	int rc;

	memset(io, 0, sizeof(*io));
	io->fd = -1;
	if (!container)
		return ENOMEM;
	pthread_mutex_init(&container->lock, NULL);
	container->below = below;
	container->generation = container->adopting = fork_generation;
	rc = read_ends(container, options);
	if (!rc)
		rc = read_dictionary(container);
	if (!rc)
		rc = io_open_stacked(io, &io_container_ops, below);
	if (rc) {
		free_container(container);
		return container_code(rc);
	}
	io->state = container;
	return 0;
}

void container_close(struct io *io)
{
	container_enter(io->state);
	free_container(io->state);
}

const struct container_info *container_info(const struct io *io)
{
	return &((const struct container *)io->state)->info;
}
