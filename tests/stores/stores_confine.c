/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how a command is run with something forbidden or scarce: system calls,
 * address space, descriptors, locked memory, processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <getopt.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CANNOT = 77, EXIT_USAGE = 2, NOBODY = 65534 };

struct refusal {
	unsigned first, last; /* system call numbers, both included */
	int error;
};

/* clone() is refused only for threads, so that the command can still fork. glibc takes to clone()
 * where clone3() is not there. */
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

static int limit(int resource, const char *text)
{
	struct rlimit most = {.rlim_cur = strtoull(text, NULL, 0)};

	most.rlim_max = most.rlim_cur;
	return setrlimit(resource, &most) ? errno : 0;
}

/* Root has no limit of processes. */
static int no_processes(void)
{
	int rc = limit(RLIMIT_NPROC, "0");

	if (!rc && geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY))
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
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "+", known, NULL)) != -1) {
		int rc = confine(option, optarg);

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
