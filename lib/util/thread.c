/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a crew's steps, and shares loops out to threads. */
#include "util/thread.h"

#include "util/stats.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { SHARE_MOST = 256 /* threads */ };

static int start(pthread_t *thread, size_t stack, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int rc = -1;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (stack && !pthread_attr_init(&attributes)) {
		if (!pthread_attr_setstacksize(&attributes, stack))
			rc = pthread_create(thread, &attributes, run, argument);
		pthread_attr_destroy(&attributes);
	}
	if (rc) /* very large thread-local variables need the default size */
		rc = pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	return start(thread, 0, run, argument);
}

void thread_name(const char *name)
{
	prctl(PR_SET_NAME, name, 0, 0, 0);
}

/* --- a loop ----------------------------------------------------------------------------------- */

struct share {
	unsigned n;
	_Atomic unsigned next;
	const char *name;
	void (*work)(void *argument, unsigned i);
	void *argument;
};

static void share_work(struct share *share, unsigned i)
{
	for (; i < share->n; i = atomic_fetch_add(&share->next, 1))
		share->work(share->argument, i);
}

static void *share_run(void *argument)
{
	struct share *share = argument;

	thread_name(share->name);
	stats_thread_serves();
	share_work(share, atomic_fetch_add(&share->next, 1));
	return NULL;
}

void thread_share(unsigned n, const char *name, void (*work)(void *argument, unsigned i),
		  void *argument)
{
	struct share share = {.n = n, .next = 1, .name = name, .work = work, .argument = argument};
	pthread_t threads[SHARE_MOST];
	unsigned started = 0;

	while (started + 1 < n && started < SHARE_MOST &&
	       !thread_start(&threads[started], share_run, &share))
		started++;
	share_work(&share, 0);
	while (started)
		pthread_join(threads[--started], NULL);
}

/* --- a crew ----------------------------------------------------------------------------------- */

void crew_init(struct crew *crew, const struct crew_work *work, void *owner, pthread_mutex_t *lock)
{
	*crew = (struct crew){.work = work, .owner = owner, .lock = lock};
	clock_condition(&crew->wake);
}

void crew_wake(struct crew *crew)
{
	pthread_cond_signal(&crew->wake);
}

void crew_wake_all(struct crew *crew)
{
	pthread_cond_broadcast(&crew->wake);
}

void crew_wait(struct crew *crew, uint64_t until)
{
	(void)clock_wait(&crew->wake, crew->lock, until);
}

static void *crew_run(void *argument)
{
	struct crew *crew = argument;

	thread_name(crew->work->name);
	if (crew->work->serves)
		stats_thread_serves();
	pthread_mutex_lock(crew->lock);
	while (!crew->stopping) {
		uint64_t until = crew->work->step(crew->owner);

		if (!until || crew->stopping)
			continue;
		crew->idle++;
		crew_wait(crew, until);
		crew->idle--;
	}
	pthread_mutex_unlock(crew->lock);
	return NULL;
}

int crew_start(struct crew *crew, unsigned wanted)
{
	int rc = 0;

	while (!rc && crew->count < wanted) {
		pthread_t *grown = reallocarray(crew->threads, crew->count + 1, sizeof(*grown));

		if (!grown)
			return crew->count ? 0 : ENOMEM;
		crew->threads = grown;
		rc = start(&grown[crew->count], crew->work->stack, crew_run, crew);
		crew->count += !rc;
	}
	return crew->count ? 0 : rc;
}

void crew_stop(struct crew *crew)
{
	pthread_mutex_lock(crew->lock);
	crew->stopping = true;
	crew_wake_all(crew);
	pthread_mutex_unlock(crew->lock);
	for (unsigned i = 0; crew->threads && i < crew->count; i++)
		pthread_join(crew->threads[i], NULL);
	free(crew->threads);
	crew->threads = NULL;
}

void crew_forget(struct crew *crew)
{
	free(crew->threads);
	crew_init(crew, crew->work, crew->owner, crew->lock);
}
