/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts a thread that takes none of the program's signals. */
#ifndef LMDBIO_UTIL_THREAD_H
#define LMDBIO_UTIL_THREAD_H

#include <pthread.h>
#include <signal.h>

/* pthread_create() with all signals blocked in the new thread. Returns 0 or an errno. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

#endif
