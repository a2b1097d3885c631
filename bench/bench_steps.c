/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps the steps of a run's accelerators together by a lock in memory that their processes share. */
#include "bench_steps.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

struct bench_steps {
	pthread_mutex_t lock;
	pthread_cond_t all_there;
	uint64_t accelerators;
	uint64_t waiting; /* accelerators that have ended the step */
	uint64_t step;    /* steps that all have ended */
	uint64_t last;    /* an accelerator wants no further step */
	uint64_t over;    /* no other step begins */
};

static int shared_init(struct bench_steps *steps, unsigned accelerators)
{
	pthread_mutexattr_t lock;
	pthread_condattr_t condition;
	int rc = pthread_mutexattr_init(&lock);

	if (rc)
		return rc;
	pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
	rc = pthread_mutex_init(&steps->lock, &lock);
	pthread_mutexattr_destroy(&lock);
	if (!rc)
		rc = pthread_condattr_init(&condition);
	if (rc)
		return rc;
	pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
	rc = pthread_cond_init(&steps->all_there, &condition);
	pthread_condattr_destroy(&condition);
	steps->accelerators = accelerators;
	return rc;
}

int steps_make(unsigned accelerators, int *ret)
{
	struct bench_steps *steps = NULL;
	int fd = memfd_create("lmdbio-bench steps", 0), rc;

	if (fd < 0)
		return errno;
	rc = ftruncate(fd, sizeof(*steps)) ? errno : steps_map(fd, &steps);
	if (!rc) {
		rc = shared_init(steps, accelerators);
		steps_unmap(steps);
	}
	if (rc)
		close(fd);
	else
		*ret = fd;
	return rc;
}

int steps_map(int fd, struct bench_steps **ret)
{
	void *at = mmap(NULL, sizeof(**ret), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return errno;
	*ret = at;
	return 0;
}

void steps_unmap(struct bench_steps *steps)
{
	munmap(steps, sizeof(*steps));
}

bool steps_wait(struct bench_steps *steps, bool last)
{
	uint64_t step;
	bool another;

	pthread_mutex_lock(&steps->lock);
	step = steps->step;
	steps->last |= last;
	if (++steps->waiting == steps->accelerators) {
		steps->waiting = 0;
		steps->step++;
		steps->over |= steps->last;
		pthread_cond_broadcast(&steps->all_there);
	}
	while (steps->step == step && !steps->over)
		pthread_cond_wait(&steps->all_there, &steps->lock);
	/* Once the last accelerator of a step has set it, no accelerator begins another step. */
	another = !steps->over;
	pthread_mutex_unlock(&steps->lock);
	return another;
}

void steps_end(struct bench_steps *steps)
{
	pthread_mutex_lock(&steps->lock);
	steps->over = 1;
	pthread_cond_broadcast(&steps->all_there);
	pthread_mutex_unlock(&steps->lock);
}
