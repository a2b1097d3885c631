/* SPDX-License-Identifier: OLDAP-2.8 */
/* Parses the text that glibc's loader prints in its trace modes. */
#include "loader_trace.h"

#include "elf_inspect.h"
#include "run_signals.h"
#include "tool_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 100 }; /* at the traces, until none is left */

static const char traces_name[] = "lmdbio-traces.XXXXXX"; /* mkdtemp() */

const char *loader_path(void)
{
	static struct elf_facts own;

	if (!*own.loader)
		elf_inspect(tool_place_self(), &own);
	return own.loader;
}

static int child_wait(pid_t pid, int *status)
{
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

/* Parses "\tname => /path (0x...)", "\t/path (0x...)", "\tname => not found" or "\tlinux-vdso.so.1
 * (0x...)". */
static void list_line(char *line, loader_file *found, loader_file *missing, void *context)
{
	char *arrow = strstr(line, " => ");
	char *name = line + strspn(line, "\t ");
	char *path = arrow ? arrow + 4 : name;
	char *end = strstr(path, " (0x");

	if (arrow && !strncmp(path, "not found", 9)) {
		*arrow = 0;
		missing(name, context);
	} else if (*path == '/' && end) {
		*end = 0;
		found(path, context);
	}
}

int loader_list(const char *program, const char *preload, loader_file *found, loader_file *missing,
		void *context)
{
	char line[2 * PATH_MAX];
	int ends[2], status = 0, rc;
	FILE *output;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return errno;
	pid = fork();
	if (pid < 0) {
		rc = errno;
		close(ends[0]);
		close(ends[1]);
		return rc;
	}
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		setenv("LD_PRELOAD", preload, 1);
		/* As ldd does: --list would stop at the first library that is missing. */
		setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
		execl(loader_path(), loader_path(), program, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	output = fdopen(ends[0], "r");
	while (output && fgets(line, sizeof(line), output))
		list_line(line, found, missing, context);
	if (output)
		fclose(output);
	rc = child_wait(pid, &status);
	if (rc)
		return rc;
	return status ? -1 : 0;
}

/* Ends a file's name in front of " [NUMBER" and `next`. Returns what follows these, or NULL. A name
 * may have brackets and blanks itself. */
static char *name_end(char *name, const char *next)
{
	for (char *at = name; (at = strstr(at, " [")); at++) {
		char *behind = at + 2 + strspn(at + 2, "0123456789");

		if (strncmp(behind, next, strlen(next)) != 0)
			continue;
		*at = 0;
		return behind + strlen(next);
	}
	return NULL;
}

/* Parses "binding file CALLER [0] to TARGET [0]: normal symbol `NAME' [VERSION]". */
static void binding_line(char *line, struct loader_bindings *bindings)
{
	static const char begin[] = "binding file ";
	char *found = strstr(line, begin), *caller = found ? found + sizeof(begin) - 1 : NULL;
	char *target = caller ? name_end(caller, "] to ") : NULL;
	char *symbol = target ? name_end(target, "]: normal symbol `") : NULL;
	size_t length = strlen(bindings->symbol);

	if (!symbol || strncmp(symbol, bindings->symbol, length) || symbol[length] != '\'')
		return;
	/* An LMDB that binds to itself, as the original does when lmdbio has opened it. */
	if (!strcmp(caller, target) && strstr(caller, "/liblmdb.so"))
		return;
	if (!strcmp(target, bindings->library)) {
		if (!bindings->to_library)
			snprintf(bindings->caller, PATH_MAX, "%s", caller);
		bindings->to_library = true;
	} else if (!*bindings->elsewhere) {
		if (!bindings->to_library)
			snprintf(bindings->caller, PATH_MAX, "%s", caller);
		snprintf(bindings->elsewhere, PATH_MAX, "%s", target);
	}
}

static int trace_read(int directory, const char *name, struct loader_bindings *bindings,
		      loader_file *loaded, void *context)
{
	static const char initialized[] = "calling init: ";
	char line[4 * PATH_MAX];
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	FILE *trace = fd < 0 ? NULL : fdopen(fd, "r");
	int rc = trace ? 0 : errno;

	while (trace && fgets(line, sizeof(line), trace)) {
		char *path = strstr(line, initialized);

		line[strcspn(line, "\n")] = 0;
		if (path)
			loaded(path + sizeof(initialized) - 1, context);
		else
			binding_line(line, bindings);
	}
	if (trace)
		fclose(trace);
	else if (fd >= 0)
		close(fd);
	return rc;
}

/* Reads every trace file (one per process) and removes it, then the directory, and closes `fd`, which
 * leads there if it is not -1. The program may have left processes behind, which start others
 * meanwhile. */
static int traces_read(const char *directory, int fd, struct loader_bindings *bindings,
		       loader_file *loaded, void *context)
{
	DIR *stream = fd < 0 ? opendir(directory) : fdopendir(fd);
	struct dirent *entry;
	int rc = stream ? 0 : errno;

	if (!stream) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	for (int look = 0; look < LOOKS; look++) {
		rewinddir(stream);
		while ((entry = readdir(stream))) {
			if (*entry->d_name == '.')
				continue;
			if (!rc)
				rc = trace_read(dirfd(stream), entry->d_name, bindings, loaded,
						context);
			unlinkat(dirfd(stream), entry->d_name, 0);
		}
		if (!rmdir(directory) || errno != ENOTEMPTY)
			break;
	}
	closedir(stream);
	return rc;
}

/* Whether a killed lmdbio-run has left the directory: it is this user's and not so young that its
 * maker could be about to lock it, and neither its maker nor a process with a trace lives. */
static bool traces_are_left(DIR *stream)
{
	enum { LEFT_SECONDS = 60 };
	const struct dirent *entry;
	bool left;
	struct stat st;

	left = !fstat(dirfd(stream), &st) && st.st_uid == geteuid() &&
	       time(NULL) - st.st_mtime > LEFT_SECONDS && !flock(dirfd(stream), LOCK_EX | LOCK_NB);
	while (left && (entry = readdir(stream))) {
		int pid;

		if (*entry->d_name != '.')
			left = sscanf(entry->d_name, "trace.%d", &pid) == 1 && kill(pid, 0) &&
			       errno == ESRCH;
	}
	return left;
}

/* Removes what killed processes have left. */
static void traces_clear(const char *temporary)
{
	const size_t length = sizeof(traces_name) - 7;
	DIR *places = opendir(temporary), *stream;
	const struct dirent *place, *entry;

	while (places && (place = readdir(places))) {
		int fd = strncmp(place->d_name, traces_name, length) != 0
				 ? -1
				 : openat(dirfd(places), place->d_name,
					  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		stream = fd < 0 ? NULL : fdopendir(fd);
		if (stream && traces_are_left(stream)) {
			rewinddir(stream);
			while ((entry = readdir(stream)))
				(void)unlinkat(fd, entry->d_name, 0);
			(void)unlinkat(dirfd(places), place->d_name, AT_REMOVEDIR);
		}
		if (stream)
			closedir(stream);
		else if (fd >= 0)
			close(fd);
	}
	if (places)
		closedir(places);
}

/* Runs the program with its traces in `directory`, and waits. A signal ends the program, not this
 * process, which still has the traces to remove. */
static int program_trace(const char *program, char *const *arguments, const char *directory,
			 int signals)
{
	char output[PATH_MAX + 8];
	int status;
	pid_t pid;

	snprintf(output, sizeof(output), "%s/trace", directory);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		run_signals_give_back();
		setenv("LD_DEBUG", "bindings,files", 1);
		setenv("LD_DEBUG_OUTPUT", output, 1);
		execvp(program, arguments); /* gives a script without #! to the shell */
		_exit(126);
	}
	if (pid < 0)
		return errno;
	while (!run_signals_step(signals, pid, &status))
		run_signals_wait(signals, -1);
	return 0;
}

const char *loader_traces_directory(void)
{
	const char *temporary = getenv("TMPDIR");

	return temporary && *temporary == '/' ? temporary : "/tmp";
}

int loader_run(const char *program, char *const *arguments, struct loader_bindings *bindings,
	       loader_file *loaded, void *context)
{
	const char *temporary = loader_traces_directory();
	char directory[PATH_MAX];
	int rc, trace_rc, signals, lock = -1;
	bool made;

	if ((size_t)snprintf(directory, sizeof(directory), "%s/%s", temporary, traces_name) >=
	    sizeof(directory))
		return ENAMETOOLONG;
	traces_clear(temporary);
	signals = run_signals_take();
	if (signals < 0)
		return errno;
	made = mkdtemp(directory) != NULL;
	rc = made ? 0 : errno;
	if (made) {
		lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)flock(lock, LOCK_SH | LOCK_NB); /* traces_are_left() */
		rc = program_trace(program, arguments, directory, signals);
	}
	/* The signals stay blocked while the traces are read, but need no descriptors. */
	close(signals);
	run_signals_leave();
	if (!made)
		return rc;
	trace_rc = traces_read(directory, lock, bindings, loaded, context);
	return rc ? rc : trace_rc;
}
