/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lists the open loaders, so that threads need not agree on when one is closed: a call that
 * comes too late finds it gone. */
#include "loader/loader_private.h"

#include "util/at_fork.h"

#include <errno.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lmdbio_loader *list;
static _Atomic unsigned process; /* fork_generation of the process that has opened one last */

/* The parent's loaders are not the child's, and another thread of the parent may have held the lock. */
static void fork_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	list = NULL;
}

/* Not with the first loader: that may be opened while another thread forks. */
__attribute__((constructor)) static void fork_begin(void)
{
	static const struct fork_steps steps = {.child = fork_in_child};

	at_fork(FORK_LOADERS, &steps);
}

void loader_enlist(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&lock);
	loader->live = list;
	list = loader;
	process = fork_generation;
	pthread_mutex_unlock(&lock);
}

/* Where it stands in the list, or the list's end. Under the list's lock. */
static struct lmdbio_loader **find(const struct lmdbio_loader *loader)
{
	struct lmdbio_loader **link = &list;

	while (*link && *link != loader)
		link = &(*link)->live;
	return link;
}

bool loader_delist(struct lmdbio_loader *loader)
{
	struct lmdbio_loader **link;
	bool there;

	pthread_mutex_lock(&lock);
	link = find(loader);
	there = *link != NULL;
	if (there)
		*link = loader->live;
	pthread_mutex_unlock(&lock);
	return there;
}

struct lmdbio_loader *loader_enter(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&lock);
	loader = *find(loader);
	if (loader) {
		pthread_mutex_lock(&loader->lock);
		loader->references++;
		pthread_mutex_unlock(&loader->lock);
	}
	pthread_mutex_unlock(&lock);
	return loader;
}

void loader_leave(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	loader_release(loader);
}

int loader_gone(void)
{
	return process != fork_generation ? ECHILD : ECANCELED;
}
