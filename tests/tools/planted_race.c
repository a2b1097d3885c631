/* SPDX-License-Identifier: OLDAP-2.8 */
/* Takes a name away from a command while some of its system calls run, and puts it back.
 *
 * planted_race PATH FIRST LAST COMMAND [ARGUMENT...]
 *
 * Counts the calls of the command, from 1, that are given the last name of PATH. From before call
 * FIRST until after call LAST, what is at PATH is at PATH.aside instead; it does not come back
 * where something else has taken its place. Prints the number of calls; ends with the command's
 * status, or with 77 if processes cannot be traced here. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether one of a call's first two arguments is a text in which the name is. */
static bool is_named(pid_t command, const struct __ptrace_syscall_info *call, const char *name)
{
	char text[256];
	struct iovec here = {text, sizeof(text) - 1}, there = {NULL, sizeof(text) - 1};
	ssize_t length;

	for (int i = 0; i < 2; i++) {
		there.iov_base = (void *)(uintptr_t)call->entry.args[i];
		length = process_vm_readv(command, &here, 1, &there, 1, 0);
		text[length < 0 ? 0 : length] = '\0';
		if (strstr(text, name))
			return true;
	}
	return false;
}

static int trace(pid_t command, const char *path, long first, long last)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct __ptrace_syscall_info call;
	bool inside = false;
	long calls = 0;
	char aside[4096];
	int status;

	snprintf(aside, sizeof(aside), "%s.aside", path);
	while (!ptrace(PTRACE_SYSCALL, command, NULL, NULL) &&
	       waitpid(command, &status, 0) == command && WIFSTOPPED(status)) {
		memset(&call, 0, sizeof(call));
		if (WSTOPSIG(status) != (SIGTRAP | 0x80) ||
		    ptrace(PTRACE_GET_SYSCALL_INFO, command, sizeof(call), &call) < 0)
			continue;
		if (call.op == PTRACE_SYSCALL_INFO_ENTRY) {
			inside = is_named(command, &call, name);
			calls += inside;
			if (inside && calls == first)
				rename(path, aside);
		} else if (inside) {
			inside = false;
			if (calls == last)
				renameat2(AT_FDCWD, aside, AT_FDCWD, path, RENAME_NOREPLACE);
		}
	}
	renameat2(AT_FDCWD, aside, AT_FDCWD, path, RENAME_NOREPLACE);
	printf("%ld\n", calls);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

int main(int argc, char **argv)
{
	pid_t command;
	int status;

	if (argc < 5)
		return 125;
	command = fork();
	if (!command) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(77);
		raise(SIGSTOP);
		execv(argv[4], argv + 4);
		_exit(126);
	}
	if (command < 0 || waitpid(command, &status, 0) != command || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, command, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))
		return 77;
	return trace(command, argv[1], strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
}
