/* What only this file knows: that a line leaves the process in one piece. */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void log_line(const char *format, ...)
{
	static const char prefix[] = "lmdbio: ";
	char line[1024];
	int saved = errno;
	size_t used = sizeof(prefix) - 1;
	va_list arguments;
	int n;

	__builtin_memcpy(line, prefix, used);
	va_start(arguments, format);
	n = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
	va_end(arguments);
	if (n > 0)
		used += (size_t)n < sizeof(line) - used - 1 ? (size_t)n : sizeof(line) - used - 2;
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, used) < 0) {
		/* Nowhere is left to say it. */
	}
	errno = saved;
}
