/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how to plant faults and to ask whether a read meets one. */
#ifndef SLOWFS_FAULTS_H
#define SLOWFS_FAULTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SLOWFS_FAULTS_MAX 64

/* What is written as [NAME@]OFF[-OFF]:eio|short[:COUNT]. A read that touches any byte of the range
 * meets the fault:
 *   eio    it fails with EIO;
 *   short  it ends before the range (before its first page, rather), or fails with EIO when it
 *          begins inside or came by the page cache.
 * COUNT says how many reads meet it, after which it is gone; without COUNT it stays.
 *
 * Why short is EIO for the page cache: the kernel would take a short answer for the file's end,
 * fill the pages with zeros and make the file shorter for everybody. Given EIO it reads page by
 * page up to the fault, so that the program sees a short read all the same.
 *
 * A program meets what the kernel lets through. O_DIRECT by aio or io_uring: each fault. A plain
 * O_DIRECT read: eio always; after a short answer the kernel asks for the rest by the page cache.
 * Buffered reads: a read-ahead that failed is repeated. So a small COUNT may pass unseen there. */
struct slowfs_fault {
	char name[256]; /* of the file, with or without its folder; "" is any file */
	uint64_t first; /* bytes of the file, both included */
	uint64_t last;
	uint64_t left;	   /* reads still to meet it; UINT64_MAX: for ever */
	unsigned int kind; /* a row of slowfs_faults.c's table */
};

struct slowfs_faults {
	pthread_mutex_t lock;
	unsigned int count;
	struct slowfs_fault list[SLOWFS_FAULTS_MAX];
};

void slowfs_faults_init(struct slowfs_faults *faults);

/* Returns 0, EINVAL (not understood), ENOSPC (SLOWFS_FAULTS_MAX are planted). */
int slowfs_faults_add(struct slowfs_faults *faults, const char *spec);
void slowfs_faults_clear(struct slowfs_faults *faults);

/* For a read of *length bytes at offset in the file called path; direct: it was opened O_DIRECT.
 * The oldest fault that the read meets is applied and counted down. Returns 0, *length then being
 * what may be served, or an errno, *length then being 0. */
int slowfs_faults_apply(struct slowfs_faults *faults, const char *path, bool direct,
			uint64_t offset, uint64_t *length);

/* One line "fail SPEC" for each fault, as slowfs_faults_add would take it. */
void slowfs_faults_print(struct slowfs_faults *faults, FILE *out);

#endif
