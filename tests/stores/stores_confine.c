/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a command with something forbidden or scarce: system calls, address space, descriptors,
 * locked memory, processes, the length of files. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CANNOT = 77, EXIT_USAGE = 2, USERS_OF_NONE = 2000000 };

struct refusal {
	unsigned first, last; /* system call numbers, both included */
	int error;
};

/* clone() is refused only for threads, so that the command can still fork. glibc uses clone() where
 * clone3() does not exist. */
enum { THREAD_FLAG = 0x10000 };

static int install(struct sock_filter *filter, size_t n)
{
	struct sock_fprog program = {.len = (unsigned short)n, .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? errno : 0;
}

static int refuse(const struct refusal *refusal)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, refusal->first, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, refusal->last, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)refusal->error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return install(filter, sizeof(filter) / sizeof(filter[0]));
}

static int refuse_threads(void)
{
	const struct refusal clone3 = {SYS_clone3, SYS_clone3, ENOSYS};
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, THREAD_FLAG, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	int rc = refuse(&clone3);

	return rc ? rc : install(filter, sizeof(filter) / sizeof(filter[0]));
}

/* What --refuse knows by name: system calls, or only their uses with a certain argument. */
struct call {
	const char *name;
	unsigned first, last;
	int argument; /* counted from 0; -1: whatever the arguments */
	unsigned least, most;
};

static const struct call calls[] = {
	{"madvise", SYS_madvise, SYS_madvise, -1, 0, 0},
	{"populate", SYS_madvise, SYS_madvise, 2, 22, 23}, /* MADV_POPULATE_* */
	{"dontfork", SYS_madvise, SYS_madvise, 2, MADV_DONTFORK, MADV_DONTFORK},
	{"collapse", SYS_madvise, SYS_madvise, 2, 25, 25}, /* MADV_COLLAPSE */
	{"mincore", SYS_mincore, SYS_mincore, -1, 0, 0},
	{"cachestat", 451, 451, -1, 0, 0},
	{"memfd", SYS_memfd_create, SYS_memfd_create, -1, 0, 0},
	{"io_uring", SYS_io_uring_setup, SYS_io_uring_register, -1, 0, 0},
	{"userfaultfd", SYS_userfaultfd, SYS_userfaultfd, -1, 0, 0},
	{"sched", SYS_sched_setparam, SYS_sched_rr_get_interval, -1, 0, 0},
	{"affinity", SYS_sched_setaffinity, SYS_sched_getaffinity, -1, 0, 0},
	{"sched_attr", SYS_sched_setattr, SYS_sched_getattr, -1, 0, 0},
	{"sched_yield", SYS_sched_yield, SYS_sched_yield, -1, 0, 0},
	{"fadvise", SYS_fadvise64, SYS_fadvise64, -1, 0, 0},
	{"readahead", SYS_readahead, SYS_readahead, -1, 0, 0},
	{"fallocate", SYS_fallocate, SYS_fallocate, -1, 0, 0},
	{"getrandom", SYS_getrandom, SYS_getrandom, -1, 0, 0},
	{"membarrier", SYS_membarrier, SYS_membarrier, -1, 0, 0},
	{"mlock", SYS_mlock, SYS_munlockall, -1, 0, 0},
	{"socket", SYS_socket, SYS_socket, -1, 0, 0},
	{"bind", SYS_bind, SYS_bind, -1, 0, 0},
	{"connect", SYS_connect, SYS_connect, -1, 0, 0},
	{"socketpair", SYS_socketpair, SYS_socketpair, -1, 0, 0},
	{"statfs", SYS_statfs, SYS_fstatfs, -1, 0, 0},
	{"statx", SYS_statx, SYS_statx, -1, 0, 0},
	{"close_range", SYS_close_range, SYS_close_range, -1, 0, 0},
	{"clone3", SYS_clone3, SYS_clone3, -1, 0, 0},
	{"preadv2", SYS_preadv2, SYS_preadv2, -1, 0, 0},
	{"prctl", SYS_prctl, SYS_prctl, -1, 0, 0},
	{"priority", SYS_getpriority, SYS_setpriority, -1, 0, 0},
	{"ioctl", SYS_ioctl, SYS_ioctl, -1, 0, 0},
	{"seals", SYS_fcntl, SYS_fcntl, 1, F_ADD_SEALS, F_GET_SEALS},
	{"ofd_locks", SYS_fcntl, SYS_fcntl, 1, F_OFD_GETLK, F_OFD_SETLKW},
};

static int refuse_call(const struct call *call, int error)
{
	unsigned argument = (unsigned)(call->argument < 0 ? 0 : call->argument);
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, call->first, 0, 5),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, call->last, 4, 0),
		/* Little-endian: the lower half of an argument comes first. */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (unsigned)(offsetof(struct seccomp_data, args) + argument * 8)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, call->least, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, call->most, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	if (call->argument < 0)
		return refuse(&(struct refusal){call->first, call->last, error});
	return install(filter, sizeof(filter) / sizeof(filter[0]));
}

/* Refuses a call: CALL:EPERM or CALL:ENOSYS. */
static int refuse_named(const char *text)
{
	size_t length = strcspn(text, ":");
	int error = !strcmp(text + length, ":EPERM")	? EPERM
		    : !strcmp(text + length, ":ENOSYS") ? ENOSYS
							: 0;

	for (size_t i = 0; error && i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strlen(calls[i].name) == length && !strncmp(calls[i].name, text, length))
			return refuse_call(&calls[i], error);
	return EINVAL;
}

static int list_calls(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		puts(calls[i].name);
	return 0;
}

static int limit(int resource, const char *text)
{
	struct rlimit most = {.rlim_cur = strtoull(text, NULL, 0)};

	most.rlim_max = most.rlim_cur;
	return setrlimit(resource, &most) ? errno : 0;
}

/* Root has no limit of processes, and a user above the limit cannot start a program. So the command
 * runs as a user without any other process; tests that run at the same time must not share that
 * user. */
static int no_processes(void)
{
	uid_t user = USERS_OF_NONE + (uid_t)getpid();
	int rc = limit(RLIMIT_NPROC, "0");

	if (!rc && geteuid() == 0 && setresuid(user, user, user))
		rc = errno;
	return rc;
}

static int confine(int option, const char *text)
{
	const struct refusal ring = {SYS_io_uring_setup, SYS_io_uring_register, EPERM};
	const struct refusal memfd = {SYS_memfd_create, SYS_memfd_create, EPERM};
	const struct refusal fallocate = {SYS_fallocate, SYS_fallocate, ENOSPC};

	switch (option) {
	case 'r':
		return refuse(&ring);
	case 'm':
		return refuse(&memfd);
	case 'f':
		return refuse(&fallocate);
	case 't':
		return refuse_threads();
	case 'a':
		return limit(RLIMIT_AS, text);
	case 'n':
		return limit(RLIMIT_NOFILE, text);
	case 'l':
		return limit(RLIMIT_MEMLOCK, text);
	case 'p':
		return no_processes();
	case 's':
		return limit(RLIMIT_FSIZE, text);
	case 'R':
		return refuse_named(text);
	default:
		return EINVAL;
	}
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"no-ring", no_argument, NULL, 'r'},
		{"no-memfd", no_argument, NULL, 'm'},
		{"no-fallocate", no_argument, NULL, 'f'},
		{"no-threads", no_argument, NULL, 't'},
		{"as", required_argument, NULL, 'a'},
		{"nofile", required_argument, NULL, 'n'},
		{"memlock", required_argument, NULL, 'l'},
		{"no-processes", no_argument, NULL, 'p'},
		{"fsize", required_argument, NULL, 's'},
		{"refuse", required_argument, NULL, 'R'},
		{"list", no_argument, NULL, 'L'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "+", known, NULL)) != -1) {
		int rc;

		if (option == 'L')
			return list_calls();
		rc = confine(option, optarg);

		if (rc == EINVAL)
			return EXIT_USAGE;
		if (rc) {
			errno = rc;
			perror("stores_confine");
			return CANNOT;
		}
	}
	if (optind == argc)
		return EXIT_USAGE;
	execvp(argv[optind], argv + optind);
	perror(argv[optind]);
	return 126;
}
