/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that the record index leads to the right leaf by few pages, and that
 * the index of a container of any size costs as little as it says. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "container_fixture.h"

#include "random_stream.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, CHUNK = 64 << 10, INDEX_PAGE = 4096 };

/* How many records leaf `i` of a database has. */
typedef uint64_t (*fill)(uint64_t i);

static uint64_t alike(uint64_t i)
{
	return 20 + i % 3;
}

static uint64_t one_each(uint64_t i)
{
	(void)i;
	return 1;
}

static uint64_t huge_at_last(uint64_t i)
{
	return i < 3000 ? 1 : 100000000;
}

static uint64_t huge_at_first(uint64_t i)
{
	return i < 5 ? 10000000000 : 1;
}

static uint64_t growing(uint64_t i)
{
	return 1 + i * i;
}

struct database {
	const char *name;
	size_t name_size;
	uint64_t leaves;
	fill records;
};

static const struct database databases[] = {
	{"", 0, 5000, alike},
	{"ones", 4, 254, one_each},
	{"none", 4, 0, one_each},
	{"last", 4, 4000, huge_at_last},
	{"\0zero", 5, 1, alike},
	{"first", 5, 3000, huge_at_first},
	{"grows", 5, 3000, growing},
	{"one page", 8, 253, alike},
	{"b", 1, 2, alike},
	{"c", 1, 3, alike},
	{"d", 1, 4, alike},
	{"e", 1, 5, alike},
	{"f", 1, 6, alike},
	{"g", 1, 7, alike},
	{"last of all", 11, 999, alike},
};

enum { DATABASES = sizeof(databases) / sizeof(databases[0]) };

/* Leaves stand all over the file. */
static uint64_t page_of(size_t database, uint64_t i, uint64_t pages)
{
	return random_mix(database * 100000 + i) % pages;
}

/* A container whose frames nobody has written: the file has holes where they would be. */
static void write_sparse(int fd, uint64_t size, uint32_t chunk_size, uint32_t frame, bool trees)
{
	const struct container_write_options options = {
		.size = size, .page_size = PAGE, .chunk_size = chunk_size};
	struct container_frame placed = {.length = frame, .size = chunk_size};
	struct container_writer *writer;
	uint64_t tree;

	assert_int_equal(container_write_open(&writer, fd, &options), 0);
	for (uint64_t at = 0; at < size; at += chunk_size) {
		placed.hash = random_mix(at);
		assert_int_equal(container_write_frame(writer, NULL, &placed), 0);
	}
	for (size_t d = 0; trees && d < DATABASES; d++) {
		assert_int_equal(container_write_tree(writer, databases[d].name,
						      databases[d].name_size, (uint16_t)d, &tree),
				 0);
		assert_int_equal(tree, d);
		for (uint64_t i = 0; i < databases[d].leaves; i++)
			assert_int_equal(container_write_leaf(writer, tree,
							      page_of(d, i, size / PAGE),
							      databases[d].records(i)),
					 0);
	}
	assert_int_equal(container_write_finish(writer), 0);
	container_write_close(writer);
}

/* Records. */

struct indexed {
	int fd;
	uint64_t pages;
	struct reader reader;
};

static int open_indexed(void **state)
{
	static struct indexed indexed;

	indexed.fd = memory_file();
	indexed.pages = 1000 * CHUNK / PAGE;
	write_sparse(indexed.fd, indexed.pages * PAGE, CHUNK, 5000, true);
	*state = &indexed;
	return reader_open_file(&indexed.reader, indexed.fd);
}

static int close_indexed(void **state)
{
	struct indexed *indexed = *state;

	reader_close(&indexed->reader);
	return close(indexed->fd);
}

static void databases_are_found_by_name_and_number(void **state)
{
	struct indexed *indexed = *state;
	struct io *io = &indexed->reader.io;
	struct container_tree tree, found;

	assert_int_equal(container_info(io)->trees, DATABASES);
	for (size_t d = 0; d < DATABASES; d++) {
		uint64_t records = 0;

		for (uint64_t i = 0; i < databases[d].leaves; i++)
			records += databases[d].records(i);
		assert_int_equal(container_tree(io, d, &tree), 0);
		assert_int_equal(tree.number, d);
		assert_int_equal(tree.flags, d);
		assert_int_equal(tree.leaves, databases[d].leaves);
		assert_int_equal(tree.records, records);
		assert_int_equal(tree.name_size, databases[d].name_size);
		assert_memory_equal(tree.name, databases[d].name, databases[d].name_size + 1);
		assert_int_equal(
			container_tree_find(io, databases[d].name, databases[d].name_size, &found),
			0);
		assert_int_equal(found.number, d);
	}
	assert_int_equal(container_tree(io, DATABASES, &tree), EINVAL);
	assert_int_equal(container_tree_find(io, "nobody", 6, &tree), MDB_NOTFOUND);
}

static void every_leaf_is_where_it_was_written(void **state)
{
	struct indexed *indexed = *state;
	struct io *io = &indexed->reader.io;
	struct container_tree tree;
	struct container_leaf leaf;

	for (size_t d = 0; d < DATABASES; d++) {
		uint64_t first = 0;

		assert_int_equal(container_tree(io, d, &tree), 0);
		for (uint64_t i = 0; i < databases[d].leaves; i++) {
			assert_int_equal(container_leaf(io, &tree, i, &leaf), 0);
			assert_int_equal(leaf.page, page_of(d, i, indexed->pages));
			assert_int_equal(leaf.first, first);
			first += databases[d].records(i);
		}
		assert_int_equal(container_leaf(io, &tree, databases[d].leaves, &leaf), EINVAL);
	}
}

static bool memory_refused;

int __real_posix_memalign(void **to, size_t alignment, size_t size);
int __wrap_posix_memalign(void **to, size_t alignment, size_t size);

int __wrap_posix_memalign(void **to, size_t alignment, size_t size)
{
	return memory_refused ? ENOMEM : __real_posix_memalign(to, alignment, size);
}

/* Nothing is read for a page that no memory can hold. */
static void page_without_memory_is_an_error_until_there_is_some(void **state)
{
	struct indexed *indexed = *state;
	struct container_tree tree;
	struct container_leaf leaf = {.page = 1, .first = 1};
	struct reader reader;
	uint64_t reads, bad;

	assert_int_equal(reader_open_file(&reader, indexed->fd), 0);
	assert_int_equal(container_tree(&reader.io, 0, &tree), 0);
	reads = io_counted(&reader.below).reads;
	memory_refused = true;
	for (int i = 0; i < 2; i++)
		assert_int_equal(container_leaf(&reader.io, &tree, 0, &leaf), ENOMEM);
	assert_int_equal(container_check_index(&reader.io, &bad), ENOMEM);
	memory_refused = false;
	assert_int_equal(leaf.page, 1);
	assert_int_equal(leaf.first, 1);
	assert_int_equal(io_counted(&reader.below).reads, reads);
	assert_int_equal(container_leaf(&reader.io, &tree, 0, &leaf), 0);
	assert_int_equal(leaf.page, page_of(0, 0, indexed->pages));
	assert_int_equal(leaf.first, 0);
	assert_int_equal(io_counted(&reader.below).reads, reads + 1);
	assert_int_equal(container_check_index(&reader.io, &bad), 0);
	reader_close(&reader);
}

static void whole_index_is_consistent(void **state)
{
	struct indexed *indexed = *state;
	uint64_t bad;

	assert_int_equal(container_check_index(&indexed->reader.io, &bad), 0);
}

/* Size. */

static void hundred_gigabytes_open_by_two_small_reads(void **state)
{
	uint64_t size = (uint64_t)100 << 30, chunks = size >> 20;
	struct container_chunk chunk;
	struct reader reader;
	int fd = memory_file();

	(void)state;
	write_sparse(fd, size, 1 << 20, 1 << 20, false);
	assert_int_equal(reader_open_file(&reader, fd), 0);
	assert_int_equal(container_info(&reader.io)->chunks, chunks);
	assert_int_equal(io_counted(&reader.below).reads, 2);
	assert_int_equal(io_counted(&reader.below).bytes, 256 + (64 << 10));
	/* And any chunk's entry is at most one page away. */
	assert_int_equal(container_chunk(&reader.io, chunks - 1, &chunk), 0);
	assert_int_equal(chunk.offset, 256 + (chunks - 1) * MIB);
	assert_int_equal(chunk.hash, random_mix((chunks - 1) << 20));
	assert_int_equal(container_chunk(&reader.io, chunks / 2, &chunk), 0);
	assert_int_equal(container_chunk(&reader.io, chunks, &chunk), EINVAL);
	assert_int_equal(io_counted(&reader.below).reads, 3);
	assert_int_equal(io_counted(&reader.below).bytes, 256 + (64 << 10) + INDEX_PAGE);
	reader_close(&reader);
	(void)close(fd);
}

/* 64 pages of each kind are kept in memory; here are 80 of chunks and 120 of leaves. */
static void index_that_outgrows_memory_is_the_same(void **state)
{
	uint64_t size = (uint64_t)20000 * CHUNK, bad;
	const struct container_write_options options = {
		.size = size, .page_size = PAGE, .chunk_size = CHUNK, .temporary = "/nowhere"};
	struct container_frame placed = {.length = 10, .size = CHUNK};
	struct container_writer *writer;
	struct container_chunk chunk;
	struct container_tree tree;
	struct container_leaf leaf;
	struct reader reader;
	int fd = memory_file(), rc = 0;
	uint64_t number;

	(void)state;
	assert_int_equal(container_write_open(&writer, fd, &options), 0);
	for (uint64_t i = 0; !rc && i < 20000; i++)
		rc = container_write_frame(writer, NULL, &placed);
	assert_int_equal(rc, ENOENT);
	assert_int_equal(container_write_finish(writer), ENOENT);
	container_write_close(writer);
	assert_int_equal(ftruncate(fd, 0), 0);

	write_sparse(fd, size, CHUNK, 10, true);
	assert_int_equal(reader_open_file(&reader, fd), 0);
	assert_int_equal(container_check_index(&reader.io, &bad), 0);
	for (uint64_t i = 0; i < 20000; i += 97) {
		assert_int_equal(container_chunk(&reader.io, i, &chunk), 0);
		assert_int_equal(chunk.offset, 256 + i * 10);
		assert_int_equal(chunk.hash, random_mix(i * CHUNK));
	}
	number = DATABASES - 1;
	assert_int_equal(container_tree(&reader.io, number, &tree), 0);
	assert_int_equal(container_leaf(&reader.io, &tree, 998, &leaf), 0);
	assert_int_equal(leaf.page, page_of(number, 998, size / PAGE));
	reader_close(&reader);
	(void)close(fd);
}

/* A database is found in the page in which the last one was, or in the next. */
static void many_databases_found_in_order_read_each_page_once(void **state)
{
	enum { TREES = 2000, PER_PAGE = 7 };
	const struct container_write_options options = {
		.size = CHUNK, .page_size = PAGE, .chunk_size = CHUNK};
	struct container_frame placed = {.length = 10, .size = CHUNK};
	struct container_writer *writer;
	struct container_tree found;
	struct reader reader;
	int fd = memory_file();
	uint64_t tree, before;
	char name[16];

	(void)state;
	assert_int_equal(container_write_open(&writer, fd, &options), 0);
	assert_int_equal(container_write_frame(writer, NULL, &placed), 0);
	for (uint64_t i = 0; i < TREES; i++) {
		int size = snprintf(name, sizeof(name), "%05u", (unsigned)i);

		assert_int_equal(container_write_tree(writer, name, (size_t)size, 0, &tree), 0);
		assert_int_equal(container_write_leaf(writer, tree, i % (CHUNK / PAGE), 1), 0);
	}
	assert_int_equal(container_write_finish(writer), 0);
	container_write_close(writer);
	assert_int_equal(reader_open_file(&reader, fd), 0);
	before = io_counted(&reader.below).reads;
	for (uint64_t i = 0; i < TREES; i++) {
		int size = snprintf(name, sizeof(name), "%05u", (unsigned)i);

		assert_int_equal(container_tree_find(&reader.io, name, (size_t)size, &found), 0);
		assert_int_equal(found.number, i);
	}
	assert_in_range(io_counted(&reader.below).reads - before, 1, TREES / PER_PAGE + 2);
	assert_int_equal(container_tree_find(&reader.io, "00000", 5, &found), 0);
	assert_int_equal(found.number, 0);
	reader_close(&reader);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(databases_are_found_by_name_and_number),
		cmocka_unit_test(every_leaf_is_where_it_was_written),
		cmocka_unit_test(page_without_memory_is_an_error_until_there_is_some),
		cmocka_unit_test(whole_index_is_consistent),
		cmocka_unit_test(hundred_gigabytes_open_by_two_small_reads),
		cmocka_unit_test(index_that_outgrows_memory_is_the_same),
		cmocka_unit_test(many_databases_found_in_order_read_each_page_once),
	};

	return cmocka_run_group_tests(tests, open_indexed, close_indexed);
}
