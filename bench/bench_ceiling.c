/* SPDX-License-Identifier: OLDAP-2.8 */
/* Measures the simplest fast reader, and memcpy. */
#include "bench_ceiling.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IN_FLIGHT = 16, REQUEST = 1 << 20, COPY = 128 << 20, COPIES = 5 };

struct reader {
	int fd;
	uint64_t size;
	uint64_t until;            /* no request begins later */
	atomic_uint_fast64_t read; /* bytes */
	atomic_uint_fast64_t next; /* the first byte that no thread has taken */
	atomic_int error;
};

static void *read_pieces(void *argument)
{
	struct reader *reader = argument;
	void *buffer;

	if (posix_memalign(&buffer, 4096, REQUEST)) {
		atomic_store(&reader->error, ENOMEM);
		return NULL;
	}
	while (!atomic_load(&reader->error)) {
		uint64_t at = atomic_fetch_add(&reader->next, REQUEST);
		ssize_t n;

		if (at >= reader->size || clock_now() > reader->until)
			break;
		n = pread(reader->fd, buffer, REQUEST, (off_t)at);
		if (n <= 0 || (n < REQUEST && at + (uint64_t)n < reader->size))
			atomic_store(&reader->error, n < 0 ? errno : EIO);
		else
			atomic_fetch_add(&reader->read, (uint64_t)n);
	}
	free(buffer);
	return NULL;
}

int ceiling_direct(const char *path, const struct ceiling_limit *limit, double *seconds,
		   uint64_t *bytes)
{
	struct reader reader = {.fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC)};
	pthread_t threads[IN_FLIGHT];
	struct stat st;
	uint64_t begin;
	int started, rc = 0;

	if (reader.fd < 0 || fstat(reader.fd, &st)) {
		rc = errno;
		if (reader.fd >= 0)
			close(reader.fd);
		return rc;
	}
	reader.size = (uint64_t)st.st_size;
	if (limit->bytes && limit->bytes < reader.size)
		reader.size = limit->bytes;
	begin = clock_now();
	reader.until = limit->seconds > 0
			       ? begin + (uint64_t)(limit->seconds * (double)CLOCK_SECOND)
			       : CLOCK_NEVER;
	for (started = 0; started < IN_FLIGHT && !rc; started++)
		rc = pthread_create(&threads[started], NULL, read_pieces, &reader);
	if (rc) {
		started--;
		atomic_store(&reader.error, rc);
	}
	while (started > 0)
		pthread_join(threads[--started], NULL);
	*seconds = (double)(clock_now() - begin) / (double)CLOCK_SECOND;
	*bytes = atomic_load(&reader.read);
	close(reader.fd);
	return atomic_load(&reader.error);
}

int ceiling_memory(double *bytes_a_second)
{
	char *from = malloc(COPY), *to = malloc(COPY);
	double best = 0;

	if (!from || !to) {
		free(from);
		free(to);
		return ENOMEM;
	}
	memset(from, 1, COPY);
	memset(to, 2, COPY);
	for (int i = 0; i < COPIES; i++) {
		uint64_t begin = clock_now();
		double rate;

		from[i] = (char)i;
		memcpy(to, from, COPY);
		/* The compiler must not leave out the copy. */
		__asm__ volatile("" : : "r"(to) : "memory");
		rate = COPY * (double)CLOCK_SECOND / (double)(clock_now() - begin);
		if (rate > best)
			best = rate;
	}
	free(from);
	free(to);
	*bytes_a_second = best;
	return 0;
}
