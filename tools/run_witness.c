/* SPDX-License-Identifier: OLDAP-2.8 */
/* Has a child receive signals and report them through a pipe. */
#include "config.h"
#include "run_witness.h"

#include "util/clock.h"
#include "util/settings.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNALS = 65 }; /* Linux's, which begin with 1 */

/* ns: how long to wait for a word on its way. */
static const uint64_t on_its_way = CLOCK_SECOND;

/* heard[]: until when each signal's word counts, in ns. */
static const uint64_t not_heard = 0, just_heard = UINT64_MAX;

static struct {
	pid_t pid; /* 0: no witness */
	int words; /* pipe of signal numbers, a byte each; -1: the witness is gone */
	uint64_t heard[SIGNALS];
} witness = {.words = -1};

/* How far apart a word and its signal may come, in ns. */
static uint64_t patience(void)
{
	return settings_patience(CLOCK_SECOND / 10);
}

/* Reports a signal before taking it: at any time a signal is pending or reported. */
static void signals_tell(const sigset_t *set, int to)
{
	const struct timespec now = {0};
	sigset_t pending;

	sigpending(&pending);
	for (int number = 1; number < SIGNALS; number++) {
		unsigned char word = (unsigned char)number;
		sigset_t one;

		if (sigismember(set, number) <= 0 || sigismember(&pending, number) <= 0)
			continue;
		if (write(to, &word, 1) < 0)
			_exit(0);
		sigemptyset(&one);
		sigaddset(&one, number);
		(void)sigtimedwait(&one, NULL, &now);
	}
}

/* Closes all descriptors but 0, even if the kernel does not know close_range(2), or a sandbox
 * refuses it. Returns false if some may have stayed open. */
static bool descriptors_close(void)
{
	const struct dirent *entry;
	DIR *open_ones;
	bool any = true;

	if (!close_range(1, ~0U, 0))
		return true;
	close(1); /* frees a number for the directory */
	open_ones = opendir("/proc/self/fd");
	if (!open_ones)
		return false;
	while (any) { /* the directory's entries may move during the loop */
		any = false;
		rewinddir(open_ones);
		while ((entry = readdir(open_ones))) {
			int fd = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;

			any |= fd > 0 && fd != dirfd(open_ones) && !close(fd);
		}
	}
	closedir(open_ones);
	return true;
}

/* Runs the witness. It closes all descriptors that it inherited: their readers must see the end of
 * a program's stream or of the connection to the launcher. */
static void live(const sigset_t *set, int to, pid_t parent)
{
	struct pollfd ready = {.events = POLLIN};

	(void)prctl(PR_SET_NAME, "lmdbio-witness");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || dup2(to, 0) < 0 ||
	    !descriptors_close())
		_exit(0);
	ready.fd = signalfd(-1, set, SFD_CLOEXEC);
	while (ready.fd >= 0) {
		(void)poll(&ready, 1, -1);
		signals_tell(set, 0);
	}
	_exit(0);
}

void run_witness_begin(const sigset_t *set)
{
	pid_t parent = getpid();
	sigset_t before;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return;
	fflush(NULL);
	sigprocmask(SIG_BLOCK, set, &before);
	witness.pid = fork();
	if (!witness.pid)
		live(set, ends[1], parent);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	witness.words = ends[0];
	if (witness.pid > 0)
		return;
	close(ends[0]);
	witness.words = -1;
	witness.pid = 0;
}

int run_witness_words(void)
{
	return witness.words;
}

void run_witness_hear(void)
{
	unsigned char word;
	ssize_t n = -1;

	while (witness.words >= 0 && (n = read(witness.words, &word, 1)) > 0)
		if (word < SIGNALS)
			witness.heard[word] = just_heard;
	if (n)
		return;
	close(witness.words);
	witness.words = -1;
}

void run_witness_settle(void)
{
	for (int number = 1; number < SIGNALS; number++)
		if (witness.heard[number] == just_heard)
			witness.heard[number] = clock_now() + patience();
}

/* Looks at the witness in /proc. Returns whether a signal is pending for it. *stopped: it takes no
 * signal until it is continued. */
static bool is_pending(int number, bool *stopped)
{
	char line[128], *value;
	unsigned long long bits = 0;
	FILE *status;

	*stopped = false;
	snprintf(line, sizeof(line), "/proc/%d/status", (int)witness.pid);
	status = fopen(line, "re");
	while (status && fgets(line, sizeof(line), status)) {
		value = strchr(line, '\t');
		if (value && !strncmp(line, "State:", 6))
			*stopped = value[1] == 'T';
		if (value && (!strncmp(line, "SigPnd:", 7) || !strncmp(line, "ShdPnd:", 7)))
			bits |= strtoull(value, NULL, 16);
	}
	if (status)
		fclose(status);
	return bits >> (number - 1) & 1;
}

bool run_witness_has(int number, bool *there)
{
	struct pollfd ready = {.fd = witness.words, .events = POLLIN};
	uint64_t now = clock_now(), end = now + patience(), longest = now + on_its_way;
	bool has = false, pending = false, stopped;

	*there = number > 0 && number < SIGNALS;
	while (*there) {
		/* Checked before the words: the witness reports a signal before it stops being
		 * pending. */
		pending = is_pending(number, &stopped);
		if (pending)
			end = stopped ? now : longest;
		run_witness_hear();
		*there = witness.words >= 0;
		now = clock_now();
		has = witness.heard[number] > now;
		if (has || now >= end)
			break;
		(void)clock_poll(&ready, 1, patience());
	}
	if (*there)
		witness.heard[number] = not_heard;
	return has || (*there && pending);
}

void run_witness_continue(void)
{
	bool stopped = false;

	if (witness.words >= 0)
		(void)is_pending(SIGCONT, &stopped);
	if (stopped)
		kill(witness.pid, SIGCONT);
}

void run_witness_end(void)
{
	if (!witness.pid)
		return;
	/* Another wait for any child may have taken its end: then the number may be another
	 * process's. */
	if (!waitpid(witness.pid, NULL, WNOHANG)) {
		kill(witness.pid, SIGKILL);
		while (waitpid(witness.pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (witness.words >= 0)
		close(witness.words);
	witness.words = -1;
	witness.pid = 0;
}
