/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a program and becomes it, or says why it cannot. */
#include "program_start.h"

#include "util/phrases.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_NOT_EXECUTABLE = 126, STATUS_NOT_FOUND = 127 };

static int executable_check(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return errno;
	if (!S_ISREG(status.st_mode))
		return EACCES;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) ? errno : 0;
}

int program_find(const char *name, char *found)
{
	const char *path = getenv("PATH");
	int rc = ENOENT;

	if (!*name)
		return ENOENT;
	if (strchr(name, '/')) {
		if ((size_t)snprintf(found, PATH_MAX, "%s", name) >= PATH_MAX)
			return ENAMETOOLONG;
		return executable_check(found);
	}
	for (const char *at = path ? path : "/bin:/usr/bin";;) {
		size_t length = strcspn(at, ":");
		int one = ENAMETOOLONG; /* no program is there, as execvp(3) has it */

		if ((size_t)snprintf(found, PATH_MAX, "%.*s/%s", length ? (int)length : 1,
				     length ? at : ".", name) < PATH_MAX)
			one = executable_check(found);
		if (!one)
			return 0;
		if (one == EACCES) /* a later directory may have an executable file */
			rc = EACCES;
		if (!at[length])
			return rc;
		at += length + 1;
	}
}

const char *program_remedy(const char *name, const char *path, int rc)
{
	if (rc == EACCES || rc == ENOEXEC)
		return "is it executable?";
	if (rc != ENOENT)
		return remedy_find(rc) ? remedy_find(rc) : "it cannot be started here";
	if (!access(path, F_OK))
		return "the interpreter in its first line is not there";
	return *name && !strchr(name, '/') && !access(name, F_OK)
		       ? "it is here, and not in PATH: start it as ./PROGRAM, or its interpreter with "
			 "it (python3 SCRIPT)"
		       : "check its name, or give its path";
}

const char *program_path(const char *path)
{
	static char *text;
	char *here = *path == '/' ? NULL : getcwd(NULL, 0);

	free(text);
	text = NULL;
	if (here && asprintf(&text, "%s/%s", here, path) < 0)
		text = NULL;
	free(here);
	return text ? text : path;
}

int program_become(const char *tool, char **arguments)
{
	char path[PATH_MAX] = "";
	int rc = program_find(arguments[0], path);

	if (!rc) {
		execvp(path, arguments); /* gives a script without #! to the shell */
		rc = errno;
	}
	fprintf(stderr, "%s: %s: %s: %s\n", tool, arguments[0], strerror(rc),
		program_remedy(arguments[0], path, rc));
	return rc == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}
