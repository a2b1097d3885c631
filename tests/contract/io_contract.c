/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what every back end of the io layer has to do, and the list of them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io_contract.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int open_file(struct subject *subject, const char *name, const struct data_file *file)
{
	memset(subject, 0, sizeof(*subject));
	return io_open_file(&subject->io, name, file->fd);
}

static int open_bytes(struct subject *subject, const char *name, const struct data_file *file)
{
	(void)name;
	memset(subject, 0, sizeof(*subject));
	return io_open_memory(&subject->io, file->bytes, file->size);
}

static int open_stacked(struct subject *subject, const char *below, const struct data_file *file)
{
	int rc;

	memset(subject, 0, sizeof(*subject));
	rc = io_open_file(&subject->below, below, file->fd);
	return rc ? rc : io_open_fault(&subject->io, &subject->below, &subject->plan);
}

static int open_on_pread(struct subject *subject, const char *name, const struct data_file *file)
{
	(void)name;
	return open_stacked(subject, "pread", file);
}

static int open_on_direct(struct subject *subject, const char *name, const struct data_file *file)
{
	(void)name;
	return open_stacked(subject, "direct", file);
}

static struct row rows[] = {
	{ .name = "pread", .open = open_file, .is_file = true },
	{ .name = "direct", .open = open_file, .is_file = true },
	{ .name = "direct-threads", .open = open_file, .is_file = true },
	{ .name = "memory", .open = open_bytes },
	{ .name = "fault", .open = open_on_pread },
	{ .name = "direct under fault", .open = open_on_direct },
	{ .name = "container", .open = open_container_on_pread },
	{ .name = "direct under container", .open = open_container_on_direct },
};

static void read_of_whole_file_gives_every_byte(void **state)
{
	struct subject s;
	struct io_counts counts;
	uint64_t offset = 0, size;
	size_t done;

	open_subject(&s, *state, &big_file);
	assert_int_equal(io_size(&s.io, &size), 0);
	assert_int_equal(size, big_file.size);
	while (offset < size) {
		assert_int_equal(io_read(&s.io, arena, 3 * MIB, offset, &done), 0);
		assert_int_equal(done, bytes_there(size, offset, 3 * MIB));
		assert_true(has_pattern(arena, done, offset));
		offset += done;
	}
	counts = io_counted(&s.io);
	assert_int_equal(counts.reads, 14);
	assert_int_equal(counts.requests, 0);
	assert_int_equal(counts.bytes, size);
	assert_int_equal(counts.errors, 0);
	close_subject(&s);
}

static void read_of_any_aligned_range_gives_it(void **state)
{
	unsigned seed = 1;
	struct subject s;
	size_t a, i;

	open_subject(&s, *state, &big_file);
	a = io_alignment(&s.io);
	assert_true(a > 0 && (a & (a - 1)) == 0);
	for (i = 0; i < 200; i++) {
		uint64_t offset = (uint64_t)rand_r(&seed) % (big_file.size + MIB) / a * a;
		size_t length = ((size_t)rand_r(&seed) % (i % 2 ? MIB : 20000) + a) / a * a, done;

		memset(arena, 0xee, length);
		assert_int_equal(io_read(&s.io, arena, length, offset, &done), 0);
		assert_int_equal(done, bytes_there(big_file.size, offset, length));
		assert_true(has_pattern(arena, done, offset));
	}
	close_subject(&s);
}

static void read_of_empty_file_gives_nothing(void **state)
{
	struct subject s;
	size_t done = 1;

	open_subject(&s, *state, &empty_file);
	assert_int_equal(io_read(&s.io, arena, 8192, 0, &done), 0);
	assert_int_equal(done, 0);
	assert_int_equal(io_read(&s.io, arena, 0, 0, &done), 0);
	assert_int_equal(read_in_flight(&s.io, 0, 8192, 3), 0);
	close_subject(&s);
}

static void read_past_the_end_gives_nothing(void **state)
{
	static const uint64_t far[] = { 12288, MIB, (uint64_t)1 << 40, (uint64_t)1 << 43 };
	struct io_request *out[1];
	struct subject s;
	size_t i, done;

	open_subject(&s, *state, &small_file);
	for (i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		assert_int_equal(io_read(&s.io, arena, 8192, far[i], &done), 0);
		assert_int_equal(done, 0);
		assert_int_equal(submit_some(&s.io, 1, 8192, far[i], 0), 0);
		assert_int_equal(io_wait(&s.io, out, 1, 1), 1);
		assert_int_equal(out[0]->error, 0);
		assert_int_equal(out[0]->done, 0);
	}
	close_subject(&s);
}

static void read_across_the_tail_stops_at_the_end(void **state)
{
	struct io_request *out[1];
	struct subject s;
	size_t done;

	open_subject(&s, *state, &small_file);
	assert_int_equal(io_read(&s.io, arena, MIB, 0, &done), 0);
	assert_int_equal(done, 10001);
	assert_true(has_pattern(arena, done, 0));
	assert_int_equal(io_read(&s.io, arena, 4096, 8192, &done), 0);
	assert_int_equal(done, 10001 - 8192);
	assert_int_equal(submit_some(&s.io, 1, 4096, 8192, 0), 0);
	assert_int_equal(io_wait(&s.io, out, 1, 1), 1);
	assert_int_equal(out[0]->error, 0);
	assert_int_equal(out[0]->done, 10001 - 8192);
	assert_true(has_pattern(arena, 10001 - 8192, 8192));
	close_subject(&s);
}

static void read_after_the_file_grew_gives_the_new_bytes(void **state)
{
	const struct row *row = *state;
	struct data_file file;
	struct subject s;
	size_t done, i;

	assert_int_equal(make_file(&file, 5000), 0);
	open_subject(&s, row, &file);
	for (i = 0; i < 8; i++) {
		assert_int_equal(io_read(&s.io, arena, MIB, 0, &done), 0);
		assert_int_equal(done, file.size);
		assert_true(has_pattern(arena, done, 0));
		assert_int_equal(read_in_flight(&s.io, file.size, 4096, 5), 0);
		append_pattern(&file, 3333);
	}
	close_subject(&s);
	free_file(&file);
}

static void range_that_cannot_be_is_refused(void **state)
{
	struct io_request good = { .length = 4096, .buffer = arena };
	struct io_request bad = { .length = 0, .buffer = arena };
	struct io_request *both[2] = { &good, &bad };
	struct subject s;
	size_t a, done;

	open_subject(&s, *state, &small_file);
	a = io_alignment(&s.io);
	assert_int_equal(io_read(&s.io, arena, 4096, (uint64_t)INT64_MAX - 4095, &done), EINVAL);
	assert_int_equal(io_read(&s.io, arena, 4096, UINT64_MAX - 4095, &done), EINVAL);
	assert_int_equal(io_read(&s.io, arena, SIZE_MAX - 4095, 0, &done), EINVAL);
	assert_int_equal(done, 0);
	if (a > 1) {
		assert_int_equal(io_read(&s.io, arena, a, a / 2, &done), EINVAL);
		assert_int_equal(io_read(&s.io, arena, a + 1, 0, &done), EINVAL);
		assert_int_equal(io_read(&s.io, arena + 1, a, 0, &done), EINVAL);
	}
	assert_int_equal(io_submit(&s.io, both, 2), EINVAL);
	bad = (struct io_request){ .offset = UINT64_MAX - 4095, .length = 4096, .buffer = arena };
	assert_int_equal(io_submit(&s.io, both, 2), EINVAL);
	assert_int_equal(io_wait(&s.io, both, 1, 2), 0);
	assert_int_equal(io_submit(&s.io, both, 0), 0);
	close_subject(&s);
}

static void requests_in_flight_all_come_back_once(void **state)
{
	struct subject s;
	struct io_counts counts;

	open_subject(&s, *state, &big_file);
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 64), 0);
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	assert_int_equal(read_in_flight(&s.io, big_file.size, 65536, 5), 0);
	counts = io_counted(&s.io);
	assert_int_equal(counts.reads, 0);
	assert_int_equal(counts.requests, 64 + 41 + big_file.size / 65536 + 1);
	assert_int_equal(counts.bytes, 3 * big_file.size);
	assert_int_equal(counts.errors, 0);
	close_subject(&s);
}

static void requests_beyond_every_queue_all_come_back(void **state)
{
	enum { N = 1000, LENGTH = 4096 };
	struct io_request *some = test_calloc(N, sizeof(*some)), *list[N];
	struct subject s;
	size_t i;

	open_subject(&s, *state, &big_file);
	for (i = 0; i < N; i++) {
		some[i].offset = (i * 7919 % 10000) * LENGTH;
		some[i].length = LENGTH;
		some[i].buffer = arena + i * LENGTH;
		list[i] = &some[i];
	}
	assert_int_equal(io_submit(&s.io, list, N), 0);
	assert_int_equal(io_wait(&s.io, list, N, N), N);
	for (i = 0; i < N; i++) {
		assert_int_equal(list[i]->error, 0);
		assert_int_equal(list[i]->done, LENGTH);
		assert_true(has_pattern(list[i]->buffer, LENGTH, list[i]->offset));
		list[i]->done = 0;
	}
	test_free(some);
	close_subject(&s);
}

static void wait_keeps_to_min_and_max(void **state)
{
	struct io_request *out[64];
	struct subject s;
	size_t n;

	open_subject(&s, *state, &big_file);
	assert_int_equal(io_wait(&s.io, out, 5, 64), 0);
	assert_int_equal(submit_some(&s.io, 20, 65536, 0, 0), 0);
	assert_int_equal(io_wait(&s.io, out, 3, 3), 3);
	n = io_wait(&s.io, out, 4, 9);
	assert_in_range(n, 4, 9);
	n += io_wait(&s.io, out, 0, 1);
	assert_in_range(n, 4, 10);
	/* More than there are. */
	assert_int_equal(io_wait(&s.io, out, 64, 64), 17 - n);
	assert_int_equal(io_wait(&s.io, out, 1, 64), 0);
	/* A program that only ever polls gets there as well. */
	assert_int_equal(submit_some(&s.io, 8, MIB, 0, 0), 0);
	for (n = 0; n < 8;)
		n += io_wait(&s.io, out, 0, 64);
	close_subject(&s);
}

static void close_with_requests_in_flight_waits_for_them(void **state)
{
	struct subject s;
	size_t i;

	open_subject(&s, *state, &big_file);
	assert_int_equal(submit_some(&s.io, 30, MIB, 0, 0), 0);
	close_subject(&s);
	for (i = 0; i < 30; i++)
		assert_true(has_pattern(arena + i * MIB, MIB, i * MIB));
	close_subject(&s); /* once more is harmless */
}

struct reader {
	pthread_t thread;
	struct io *io;
	char *buffer;
	uint64_t from;
	bool good;
};

static void *read_many(void *arg)
{
	struct reader *reader = arg;
	uint64_t offset;
	size_t done;

	reader->good = true;
	for (offset = reader->from; offset < big_file.size; offset += 4 * MIB) {
		if (io_read(reader->io, reader->buffer, MIB, offset, &done) != 0 ||
		    done != bytes_there(big_file.size, offset, MIB) ||
		    !has_pattern(reader->buffer, done, offset))
			reader->good = false;
	}
	return NULL;
}

static void reads_of_threads_go_on_beside_requests(void **state)
{
	struct reader readers[4];
	struct subject s;
	size_t i;

	open_subject(&s, *state, &big_file);
	for (i = 0; i < 4; i++) {
		readers[i].io = &s.io;
		readers[i].buffer = arena + (60 + i) * MIB;
		readers[i].from = i * MIB;
		assert_int_equal(pthread_create(&readers[i].thread, NULL, read_many, &readers[i]),
			0);
	}
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
		assert_true(readers[i].good);
	}
	close_subject(&s);
}

/* The kernel's own errors, by every way that a read can take. */
static void expect_error(struct io *io, void *buffer, int error)
{
	struct io_request r = { .length = 4096, .buffer = buffer }, *out = &r;
	size_t done;

	assert_int_equal(io_read(io, buffer, 4096, 0, &done), error);
	assert_int_equal(done, 0);
	assert_int_equal(io_submit(io, &out, 1), 0);
	assert_int_equal(io_wait(io, &out, 1, 1), 1);
	assert_ptr_equal(out, &r);
	assert_int_equal(r.error, error);
	assert_int_equal(r.done, 0);
	assert_int_equal(io_counted(io).errors, 2);
}

static void error_of_the_kernel_is_reported(void **state)
{
	const struct row *row = *state;
	struct data_file folder = { .fd = -1 };
	struct subject s;
	void *nowhere;

	assert_int_equal(row->open(&s, row->name, &folder), EBADF);
	close_subject(&s);

	nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(nowhere != MAP_FAILED);
	open_subject(&s, row, &big_file);
	expect_error(&s.io, nowhere, EFAULT);
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	close_subject(&s);
	(void)munmap(nowhere, 4096);

	folder.fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(folder.fd >= 0);
	if (row->open(&s, row->name, &folder) == 0) {
		expect_error(&s.io, arena, EISDIR);
		close_subject(&s);
	}
	(void)close(folder.fd);
}

/* The direct ones read through a descriptor of their own. */
static void descriptor_closed_under_way_is_ebadf(void **state)
{
	const struct row *row = *state;
	struct data_file file = big_file;
	struct subject s;

	file.fd = dup(big_file.fd);
	open_subject(&s, row, &file);
	(void)close(file.fd);
	expect_error(&s.io, arena, EBADF);
	close_subject(&s);
}

static void unknown_backend_is_refused(void **state)
{
	struct io io;

	(void)state;
	assert_int_equal(io_open_file(&io, "", big_file.fd), EINVAL);
	assert_int_equal(io_open_file(&io, "memory", big_file.fd), EINVAL);
	assert_int_equal(io_open_file(&io, "Pread", big_file.fd), EINVAL);
	io_close(&io);
}

static const struct contract_test basic_tests[] = {
	TEST(ALL_ROWS, read_of_whole_file_gives_every_byte),
	TEST(ALL_ROWS, read_of_any_aligned_range_gives_it),
	TEST(ALL_ROWS, read_of_empty_file_gives_nothing),
	TEST(ALL_ROWS, read_past_the_end_gives_nothing),
	TEST(ALL_ROWS, read_across_the_tail_stops_at_the_end),
	TEST(FILE_ROWS, read_after_the_file_grew_gives_the_new_bytes),
	TEST(ALL_ROWS, range_that_cannot_be_is_refused),
	TEST(ALL_ROWS, requests_in_flight_all_come_back_once),
	TEST(ALL_ROWS, requests_beyond_every_queue_all_come_back),
	TEST(ALL_ROWS, wait_keeps_to_min_and_max),
	TEST(ALL_ROWS, close_with_requests_in_flight_waits_for_them),
	TEST(ALL_ROWS, reads_of_threads_go_on_beside_requests),
	TEST(FILE_ROWS, error_of_the_kernel_is_reported),
	TEST(PREAD_ROW, descriptor_closed_under_way_is_ebadf),
	TEST(PREAD_ROW, unknown_backend_is_refused),
};

static int make_world(void **state)
{
	(void)state;
	arena = mmap(NULL, ARENA_SLOTS * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (arena == MAP_FAILED || make_file(&big_file, 40 * MIB + 1234) ||
	    make_file(&small_file, 10001) || make_file(&empty_file, 0))
		return -1;
	if (make_container(&big_file) || make_container(&small_file) || make_container(&empty_file))
		return -1;
	return 0;
}

static int end_world(void **state)
{
	(void)state;
	free_file(&empty_file);
	free_file(&small_file);
	free_file(&big_file);
	return munmap(arena, ARENA_SLOTS * MIB);
}

static struct CMUnitTest suite[512];
static char names[512][128];
static size_t n_suite;

static bool is_about(const struct contract_test *test, const struct row *row)
{
	switch (test->rows) {
	case FILE_ROWS:
		return row->is_file;
	case PREAD_ROW:
		return strcmp(row->name, "pread") == 0;
	case DIRECT_ROW:
		return strcmp(row->name, "direct") == 0;
	default:
		return true;
	}
}

/* Names have to tell the row, and stay. */
static void add_tests(struct row *row, const struct contract_test *tests, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (!is_about(&tests[i], row))
			continue;
		(void)snprintf(names[n_suite], sizeof(names[0]), "%s: %s", row->name,
			tests[i].name);
		suite[n_suite] = (struct CMUnitTest){
			.name = names[n_suite],
			.test_func = tests[i].run,
			.initial_state = row,
		};
		n_suite++;
	}
}

/* An argument is a pattern of names, to run some of the tests by hand: "direct: *ring*". */
int main(int argc, char **argv)
{
	size_t i;

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		add_tests(&rows[i], basic_tests, sizeof(basic_tests) / sizeof(basic_tests[0]));
		add_tests(&rows[i], fault_tests, n_fault_tests);
		add_tests(&rows[i], process_tests, n_process_tests);
		add_tests(&rows[i], refusal_tests, n_refusal_tests);
	}
	(void)alarm(600); /* a hang is a failure */
	return _cmocka_run_group_tests("io_contract", suite, n_suite, make_world, end_world);
}
