/* SPDX-License-Identifier: OLDAP-2.8 */
/* Blocks signals during a write, and takes the signals that the write has caused. */
#include "util/whole.h"

#include <pthread.h>
#include <time.h>

/* The signals stay blocked for the whole call: when a pipe breaks during a write, the kernel sends
 * SIGPIPE at once, but returns EPIPE only from the next write. */
int quiet_put(int fd, const void *bytes, uint64_t length, const sigset_t *signals)
{
	static const struct timespec now = {0, 0};
	sigset_t before, pending, sent;
	int rc;

	sigemptyset(&pending);
	sigpending(&pending);
	sigemptyset(&sent);
	for (int number = 1; number < NSIG; number++)
		if (sigismember(signals, number) == 1 && !sigismember(&pending, number))
			sigaddset(&sent, number);
	rc = pthread_sigmask(SIG_BLOCK, signals, &before);
	if (rc)
		return rc;
	rc = whole_put(fd, bytes, length);
	while (rc && (sigtimedwait(&sent, NULL, &now) > 0 || errno == EINTR))
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}
