/* SPDX-License-Identifier: OLDAP-2.8 */
/* Stands before the calls that ask for memory, and notes their sizes. */
#include "counted_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* After those that it needs. */
#include <cmocka.h>

size_t memory_largest;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_posix_memalign(void **to, size_t alignment, size_t size);
int __wrap_posix_memalign(void **to, size_t alignment, size_t size);

static void note_size(size_t size)
{
	if (size > memory_largest)
		memory_largest = size;
}

void *__wrap_malloc(size_t size)
{
	note_size(size);
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	note_size(n * size);
	return __real_calloc(n, size);
}

int __wrap_posix_memalign(void **to, size_t alignment, size_t size)
{
	note_size(size);
	return __real_posix_memalign(to, alignment, size);
}

void assert_modest(size_t file_size, size_t chunk_size)
{
	assert_in_range(memory_largest, 0, file_size + chunk_size + 200000);
}
