/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a stop point of each change to what processes share: each atomic store, and each system
 * call that another process may notice.
 *
 * The tests' build of the arena includes this before its sources, so that each change in them is a
 * stop point. arena_steps_test.sh checks that no call is missing here.
 */
#ifndef LMDBIO_TESTS_ARENA_SITES_H
#define LMDBIO_TESTS_ARENA_SITES_H

#include "util/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct arena_site {
	const char *file, *function, *call;
	int line;
	unsigned number; /* from 1 on; set by a program that needs the numbers */
};

/* Called before each change. */
void arena_site(const struct arena_site *site);

#ifndef ARENA_SITES_OF_OTHERS /* for a source whose own changes are no stop points */

/* The address lies in a section of its own, so that a program can find all sites. */
#define ARENA_SITE(name)                                                                           \
	({                                                                                         \
		static struct arena_site arena_site_ = {__FILE__, __func__, name, __LINE__, 0};    \
		static struct arena_site *const arena_site_at_                                     \
			__attribute__((section("arena_sites"), used)) = &arena_site_;              \
		arena_site(arena_site_at_);                                                        \
	})

#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_or
#undef atomic_fetch_and
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#define atomic_store(at, value) (ARENA_SITE("store"), __atomic_store_n(at, value, __ATOMIC_SEQ_CST))
#define atomic_store_explicit(at, value, order) \
	(ARENA_SITE("store"), __atomic_store_n(at, value, order))
#define atomic_exchange(at, value) \
	(ARENA_SITE("exchange"), __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_add(at, value) \
	(ARENA_SITE("add"), __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_add_explicit(at, value, order) \
	(ARENA_SITE("add"), __atomic_fetch_add(at, value, order))
#define atomic_fetch_sub(at, value) \
	(ARENA_SITE("sub"), __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_or(at, value) \
	(ARENA_SITE("or"), __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_and(at, value) \
	(ARENA_SITE("and"), __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong(at, expected, value)                             \
	(ARENA_SITE("compare"), __atomic_compare_exchange_n(at, expected, value, false, \
							    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_weak(at, expected, value) \
	atomic_compare_exchange_strong(at, expected, value)

#define accept4(...) (ARENA_SITE("accept4"), accept4(__VA_ARGS__))
#define bind(...) (ARENA_SITE("bind"), bind(__VA_ARGS__))
#define close(fd) (ARENA_SITE("close"), close(fd))
#define connect(...) (ARENA_SITE("connect"), connect(__VA_ARGS__))
#define fallocate(...) (ARENA_SITE("fallocate"), fallocate(__VA_ARGS__))
#define fchmod(...) (ARENA_SITE("fchmod"), fchmod(__VA_ARGS__))
#define fcntl(...) (ARENA_SITE("fcntl"), fcntl(__VA_ARGS__))
#define ftruncate(...) (ARENA_SITE("ftruncate"), ftruncate(__VA_ARGS__))
#define listen(...) (ARENA_SITE("listen"), listen(__VA_ARGS__))
#define madvise(...) (ARENA_SITE("madvise"), madvise(__VA_ARGS__))
#define memfd_create(...) (ARENA_SITE("memfd_create"), memfd_create(__VA_ARGS__))
#define mmap(...) (ARENA_SITE("mmap"), mmap(__VA_ARGS__))
#define munmap(...) (ARENA_SITE("munmap"), munmap(__VA_ARGS__))
#define open(...) (ARENA_SITE("open"), open(__VA_ARGS__))
#define openat(...) (ARENA_SITE("openat"), openat(__VA_ARGS__))
#define pwrite(...) (ARENA_SITE("pwrite"), pwrite(__VA_ARGS__))
#define recvmsg(...) (ARENA_SITE("recvmsg"), recvmsg(__VA_ARGS__))
#define sendmsg(...) (ARENA_SITE("sendmsg"), sendmsg(__VA_ARGS__))
#define setsockopt(...) (ARENA_SITE("setsockopt"), setsockopt(__VA_ARGS__))
#define socketpair(...) (ARENA_SITE("socketpair"), socketpair(__VA_ARGS__))
#define clock_futex_wake(...) (ARENA_SITE("wake"), clock_futex_wake(__VA_ARGS__))

#endif
#endif
