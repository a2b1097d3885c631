/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what the tests of the io contract share. */
#ifndef LMDBIO_TESTS_IO_CONTRACT_H
#define LMDBIO_TESTS_IO_CONTRACT_H

#include "io/io.h"
#include "io_fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define ARENA_SLOTS 64 /* of 1 MiB */

/* A file of a known pattern. It has no name, so nothing is left behind. */
struct data_file {
	int fd;
	uint64_t size;
	const void *bytes; /* a view of it as made, for the memory back end; NULL if empty */
	uint64_t mapped;   /* length of the view: the file may grow */
	int container;     /* the same as a container; 0 or less: none was made */
};

extern struct data_file big_file;   /* 40 MiB and a tail that is aligned to nothing */
extern struct data_file small_file; /* 10,001 bytes */
extern struct data_file empty_file;

/* Shared memory, as the buffers of a forking program should be. */
extern char *arena;

/* A back end under test, over one of the files. */
struct subject {
	struct io io;
	struct io below;      /* of a stacked one */
	struct io_fault plan; /* of the fault back end */
};

struct row {
	const char *name; /* for files: the back end's */
	int (*open)(struct subject *subject, const char *name, const struct data_file *file);
	bool is_file;     /* reads a descriptor: kernel errors and growth can be seen */
};

enum contract_rows { ALL_ROWS, FILE_ROWS, PREAD_ROW, DIRECT_ROW };

/* A test, to be run with each row that it is about. */
struct contract_test {
	const char *name;
	CMUnitTestFunction run;
	enum contract_rows rows;
};

#define TEST(which, function) { .name = #function, .run = function, .rows = which }

extern const struct contract_test fault_tests[], process_tests[], refusal_tests[];
extern const size_t n_fault_tests, n_process_tests, n_refusal_tests;

int make_file(struct data_file *file, uint64_t size);
void free_file(struct data_file *file);
void append_pattern(struct data_file *file, uint64_t more);

/* Makes file->container, of the file as it is now. 0 or errno. */
int make_container(struct data_file *file);
int open_container_on_pread(struct subject *subject, const char *name, const struct data_file *file);
int open_container_on_direct(struct subject *subject, const char *name,
	const struct data_file *file);

/* Skips the test where the environment cannot open this back end. */
void open_subject(struct subject *subject, const struct row *row, const struct data_file *file);
void close_subject(struct subject *subject);

bool has_pattern(const void *buffer, size_t length, uint64_t offset);

/* Bytes that a read of this range has to bring. */
size_t bytes_there(uint64_t size, uint64_t offset, size_t length);

/* Reads the whole file with up to `depth` requests in flight, each checked and handed back once.
 * 0, or the number of the step that went wrong. No assertion inside: children use it. */
int read_in_flight(struct io *io, uint64_t size, size_t chunk, size_t depth);

/* The same after n requests were submitted already and `next` is the first offset that was not. */
int finish_in_flight(struct io *io, uint64_t size, size_t chunk, uint64_t next, size_t in_flight);

/* Submits requests of `chunk` bytes from `offset` on, in arena slots from `slot` on. 0 or errno. */
int submit_some(struct io *io, size_t n, size_t chunk, uint64_t offset, size_t slot);

typedef int (*child_body)(struct subject *subject, const void *arg);

/* Forks; the child ends with what body returns. Its arena is another one, empty. */
pid_t start_child(struct subject *subject, child_body body, const void *arg);

/* Waits for it. What it returned, or something else above 0. */
int end_child(pid_t pid);

/* A child's: reads the big file in every way and closes. 0, or the step that went wrong. */
int read_as_child(struct subject *subject, const void *arg);

/* Whether this process has an io_uring open. */
bool has_ring(void);

#endif
