/* SPDX-License-Identifier: OLDAP-2.8 */
/* A program that loads extension modules with LMDBs of their own and has them do something.
 * usage: bundled_program all|deep|crossing|closing|fork|locked|threads DATA-FILE MODULE [MODULE]
 * MODULE is a path, or "-" for the one in the program. */
#include "bundled_module.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EACH_FUNCTION(X)                                                                           \
	X(module_version)                                                                          \
	X(module_open)                                                                             \
	X(module_write)                                                                            \
	X(module_read) X(module_copy) X(module_state) X(module_close) X(module_counts)

struct module {
	void *handle;
#define MEMBER(name) __typeof__(&name) name;
	EACH_FUNCTION(MEMBER)
};

static void module_load(struct module *module, const char *path, int flags)
{
	module->handle = dlopen(path, RTLD_NOW | flags);
	if (!module->handle) {
		printf("%s\n", dlerror());
		exit(2);
	}
#define FIND(name) module->name = (__typeof__(&name))dlsym(module->handle, #name);
	EACH_FUNCTION(FIND)
}

/* Linked with the module, which is then part of the program. */
static void module_own(struct module *module)
{
#ifdef DIRECT
#define TAKE(name) module->name = name;
	EACH_FUNCTION(TAKE)
#else
	(void)module;
#endif
}

static char data[4096];

/* Writes, reads and copies, then reads and copies in a read-only environment. */
static void do_all(const struct module *module)
{
	char copies[4200];
	MDB_env *env;

	module->module_version();
	for (int reading = 0; reading < 2; reading++) {
		env = module->module_open(data, reading ? MDB_RDONLY : 0);
		if (!reading)
			module->module_write(env);
		module->module_read(env);
		module->module_state(env);
		snprintf(copies, sizeof(copies), "%s-%s", data, reading ? "read" : "written");
		module->module_copy(env, copies);
		module->module_close(env);
		for (char *end = copies + strlen(copies), way = '0'; way < '5'; way++) {
			if (way == '3')
				continue; /* not every module makes it */
			end[0] = way;
			end[1] = 0;
			env = module->module_open(copies, MDB_RDONLY | MDB_NOLOCK);
			module->module_read(env);
			module->module_close(env);
		}
	}
	module->module_counts();
}

/* One module's environments are used and closed by another one, which has another LMDB. */
static void do_crossing(const struct module *one, const struct module *other)
{
	MDB_env *env = one->module_open(data, 0);

	one->module_version();
	other->module_version();
	one->module_write(env);
	other->module_read(env);
	other->module_state(env);
	other->module_close(env);
	env = other->module_open(data, MDB_RDONLY);
	one->module_read(env);
	one->module_close(env);
	env = one->module_open(data, MDB_RDONLY);
	other->module_read(env);
	other->module_state(env);
	other->module_close(env);
	one->module_counts();
}

/* A module is unloaded while another one uses the environment that it has opened. */
static void do_closing(struct module *one, const char *path, const struct module *other)
{
	MDB_env *env = one->module_open(data, 0);

	one->module_write(env);
	for (int round = 0; round < 3; round++) {
		dlclose(one->handle);
		other->module_read(env);
		other->module_write(env);
		module_load(one, path, RTLD_LOCAL);
		one->module_read(env);
	}
	dlclose(one->handle);
	other->module_close(env);
	module_load(one, path, RTLD_LOCAL);
	one->module_version();
	env = one->module_open(data, MDB_RDONLY);
	one->module_read(env);
	one->module_close(env);
}

/* A forked child goes on with what the parent has open. */
static void do_fork(const struct module *module)
{
	MDB_env *env = module->module_open(data, 0);
	int status = -1;
	pid_t pid;

	module->module_write(env);
	module->module_close(env);
	env = module->module_open(data, MDB_RDONLY);
	module->module_read(env);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		module->module_read(env);
		module->module_version();
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("child %d\n", status);
	module->module_close(env);
}

/* The program keeps writers out by a lock of its own on the data file. The kernel takes it away when
 * the process closes any descriptor of the file. */
static void do_locked(const struct module *module)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)1 << 40, .l_len = 1};
	MDB_env *env = module->module_open(data, 0);
	int fd, status = -1;
	pid_t pid;

	module->module_write(env);
	module->module_close(env);
	fd = open(data, O_RDWR);
	if (fcntl(fd, F_SETLK, &lock))
		exit(3);
	env = module->module_open(data, MDB_RDONLY | MDB_NOLOCK);
	module->module_read(env);
	pid = fork();
	if (!pid)
		_exit(fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK);
	waitpid(pid, &status, 0);
	printf("lock is gone: %d\n", status);
	module->module_close(env);
}

static pthread_barrier_t barrier;

static void *thread_run(void *argument)
{
	const struct module *module = argument;

	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 20; i++)
		module->module_close(module->module_open(data, MDB_RDONLY | MDB_NOLOCK));
	return NULL;
}

/* The first calls of all come from many threads at once. */
static void do_threads(const struct module *module)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];
	MDB_env *env = module->module_open(data, 0);

	module->module_close(env);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if ((errno = pthread_create(&threads[i], NULL, thread_run,
					    (void *)(uintptr_t)module)))
			exit(3);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	module->module_version();
}

int main(int argc, char **argv)
{
	struct module one = {0}, other = {0};

	if (argc < 4)
		return 2;
	snprintf(data, sizeof(data), "%s", argv[2]);
	if (!strcmp(argv[3], "-"))
		module_own(&one);
	else
		module_load(&one, argv[3],
			    strcmp(argv[1], "deep") ? RTLD_LOCAL : RTLD_LOCAL | RTLD_DEEPBIND);
	if (argc > 4)
		module_load(&other, argv[4], RTLD_LOCAL);
	if (!strcmp(argv[1], "all") || !strcmp(argv[1], "deep"))
		do_all(&one);
	else if (!strcmp(argv[1], "crossing") && argc > 4)
		do_crossing(&one, &other);
	else if (!strcmp(argv[1], "closing") && argc > 4)
		do_closing(&one, argv[3], &other);
	else if (!strcmp(argv[1], "fork"))
		do_fork(&one);
	else if (!strcmp(argv[1], "locked"))
		do_locked(&one);
	else if (!strcmp(argv[1], "threads"))
		do_threads(&one);
	else
		return 2;
	return 0;
}
