/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a line in one piece, from one of many processes. */
#include "util/log.h"

#include "util/settings.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* If a program has closed standard error, another file gets its number sooner or later: the lock
 * file or the data file, perhaps. LMDB and lmdbio open their files with FD_CLOEXEC. A standard
 * error lacks that flag, because programs that are started inherit it. */
static bool is_open(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFD);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

void log_bytes(const char *text, size_t length)
{
	sigset_t signals;

	if (!is_open())
		return;
	sigemptyset(&signals);
	sigaddset(&signals, SIGPIPE);
	sigaddset(&signals, SIGXFSZ);
	(void)quiet_put(STDERR_FILENO, text, length, &signals); /* nothing else can report it */
}

static void line_write(const char *format, va_list arguments)
{
	static const char prefix[] = "lmdbio: ";
	char line[1024];
	int saved = errno;
	size_t used = sizeof(prefix) - 1;
	int n;

	__builtin_memcpy(line, prefix, used);
	n = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
	if (n > 0)
		used += (size_t)n < sizeof(line) - used - 1 ? (size_t)n : sizeof(line) - used - 2;
	line[used++] = '\n';
	log_bytes(line, used);
	errno = saved;
}

void log_line(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	line_write(format, arguments);
	va_end(arguments);
}

/* Whether the launcher (MPICH's, Slurm's) has numbered the processes of the node, and this is not
 * the first. MPI itself may be what is refused, so it cannot be asked. */
static bool is_numbered_behind(void)
{
	static const char *const numbers[] = {"MPI_LOCALRANKID", "SLURM_LOCALID"};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (getenv(numbers[i]))
			return atoi(getenv(numbers[i])) > 0;
	return false;
}

void log_refused(const char *format, ...)
{
	va_list arguments;

	if (is_numbered_behind() && !settings_get()->verbose)
		return;
	va_start(arguments, format);
	line_write(format, arguments);
	va_end(arguments);
}
