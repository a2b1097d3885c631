/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens environments, and decides whether each becomes own or forwarded. */
#include "env/env.h"
#include "env/staged.h"

#include "format/layout.h"
#include "format/meta.h"
#include "format/page.h"
#include "origin/origin_find.h"
#include "origin/origin_loan.h"
#include "util/descriptor.h"
#include "util/kernel_file.h"
#include "util/settings.h"
#include "util/log.h"
#include "util/stats.h"
#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"

/* Logs, once for each original, which LMDB it is and what becomes of its environments. */
static void banner_print(const struct origin *origin)
{
	char text[32];

	if (atomic_exchange(origin->told, true))
		return;
	snprintf(text, sizeof(text), "LMDB %u.%u.%u", origin->version >> 16,
		 origin->version >> 8 & 255, origin->version & 255);
	if (origin->whole)
		log_line("%s, %s is left to itself: lmdbio does not know this version (%s)",
			 PACKAGE_VERSION, text, origin->where);
	else
		log_line("%s, the original is %s, %s%s", PACKAGE_VERSION, text, origin->where,
			 settings_get()->disable ? "; disabled by LMDBIO_DISABLE, all is forwarded"
						 : "");
}

static void env_report(const MDB_env *env, const char *path, const char *how)
{
	if (!settings_get()->verbose)
		return;
	banner_print(env->origin);
	log_line("%s: %s", path, how);
}

void env_forward_assert(MDB_env *orig, const char *message)
{
	const struct origin *origin = origin_of(__builtin_return_address(0));
	MDB_env *env = origin->call.mdb_env_get_userctx(orig);

	if (env && env->assert_func)
		env->assert_func(env, message);
}

/* Makes an environment that wraps one of an original's. */
static int wrap_create(const struct origin *origin, MDB_env **ret)
{
	MDB_env *env;
	int rc;

	env = calloc(1, sizeof(*env));
	if (!env)
		return ENOMEM;
	env->fd = env->data = env->replaced.fd = -1;
	env->maxdbs = DBI_CORE;
	env->kind = HANDLE_ENV;
	env->holders = 1;
	env->origin = origin;
	rc = env->origin->call.mdb_env_create(&env->orig);
	if (rc) {
		handle_end(&env->kind);
		free(env);
		return rc;
	}
	env->origin->call.mdb_env_set_userctx(env->orig, env);
	*ret = env;
	return 0;
}

int env_create(MDB_env **ret)
{
	const char *why;
	int rc;

	if ((rc = origin_check(&why))) {
		log_line("%s", why);
		return rc;
	}
	return wrap_create(origin_built_in(), ret);
}

int env_create_by(const struct origin *origin, MDB_env **ret)
{
	MDB_env *env;
	int rc;

	if (origin->whole) {
		if (settings_get()->verbose)
			banner_print(origin);
		return origin->call.mdb_env_create(ret);
	}
	if (!origin->for_later)
		return wrap_create(origin, ret);
	rc = env_create(&env); /* lmdbio reads beside the built-in original */
	if (!rc && (rc = for_later_create(env, origin)))
		env_close(env);
	if (!rc)
		*ret = env;
	return rc;
}

/* Joins two strings; malloc'ed, or NULL. asprintf() would take a tenth of the time of opening a
 * small environment. */
static char *joined(const char *path, const char *rest)
{
	size_t length = strlen(path), more = strlen(rest) + 1;
	char *name = malloc(length + more);

	if (name) {
		memcpy(name, path, length);
		memcpy(name + length, rest, more);
	}
	return name;
}

char *env_data_path(const char *path, unsigned flags)
{
	return joined(path, flags & MDB_NOSUBDIR ? "" : "/data.mdb");
}

char *env_lock_path(const char *path, unsigned flags)
{
	return joined(path, flags & MDB_NOSUBDIR ? "-lock" : "/lock.mdb");
}

static char *absolute_path(const char *path)
{
	char here[PATH_MAX], *deep, *name;

	if (*path == '/')
		return strdup(path);
	if (getcwd(here, sizeof(here) - 1)) {
		strcat(here, "/");
		return joined(here, path);
	}
	deep = getcwd(NULL, 0);
	if (!deep)
		return strdup(path);
	if (asprintf(&name, "%s/%s", deep, path) < 0)
		name = NULL;
	free(deep);
	return name;
}

/* The meta pages of a data file, read before the original opens the file. */
struct file_metas {
	uint8_t first[META_LOOK], second[META_LOOK];
	struct meta newer; /* page_size 0: the file is not sound */
};

static bool is_meta(const uint8_t *page, enum format format)
{
	const struct page_layout *layout = &page_layouts[format];

	return load32(page + layout->shift + META_MAGIC) == FORMAT_MAGIC &&
	       load32(page + layout->shift + META_VERSION) == layout->version &&
	       page_flags(layout, page) & PAGE_META;
}

/* Judges whether the original may open this file: it computes with the file's page size before it
 * checks the file. Returns 0 to leave every other judgement to the original, else an error. */
static int judge_file(int fd, struct file_metas *look)
{
	enum format format = FORMAT_0_9;
	struct meta meta;
	ssize_t got = pread(fd, look->first, META_LOOK, 0);

	memset(&look->newer, 0, sizeof(look->newer));
	if (got < META_END)
		return got < 0 ? errno : 0;
	if (is_meta(look->first, FORMAT_1_0))
		format = FORMAT_1_0;
	else if (!is_meta(look->first, FORMAT_0_9))
		return 0;
	if (meta_parse(&meta, look->first, format))
		return MDB_INVALID;
	got = pread(fd, look->second, META_LOOK, meta.page_size);
	if (got < 0)
		return errno;
	if (got < META_END || !is_meta(look->second, format))
		return 0;
	return meta_judge(look->first, look->second, &look->newer, format);
}

/* Whether, after open() of a data file, a container may stand in its directory instead. A data file
 * that exists but cannot be opened is the original's to refuse. */
static bool is_missing(int fd, unsigned flags)
{
	return fd < 0 && errno == ENOENT && !(flags & MDB_NOSUBDIR);
}

/* Replaces *fd, the data file or container that `path` leads to, by the staged copy of the data
 * set, if one is wanted and there. Returns whether it has. */
static bool staged_take(MDB_env *env, const char *path, int *fd)
{
	const char *directory = settings_get()->staged;
	struct staged_original original;
	int copy, rc;

	if (!directory)
		return false;
	rc = staged_identify(*fd, &original);
	if (!rc)
		rc = staged_open(directory, &original, &env->staged, &copy);
	if (!rc && !(env->named = strdup(path))) {
		close(copy);
		free(env->staged);
		rc = ENOMEM;
	}
	if (rc) {
		env->staged = NULL;
		if (settings_get()->verbose)
			log_line("%s: no staged copy in %s: %s", path, directory,
				 env->origin->call.mdb_strerror(rc));
		return false;
	}
	env->original = original.identity;
	env_file_replaced(env, *fd, &original.identity);
	*fd = copy;
	return true;
}

/* The path by which the original opens a stand-in; malloc'ed, or NULL. For a directory's data file
 * it is a directory, so that the original's copies of the environment become directories too. */
static char *stand_in_path(const MDB_env *env, unsigned flags)
{
	if (env->packed)
		return strdup(env->packed->scratch_path);
	if (flags & MDB_NOSUBDIR)
		return strdup(env->staged);
	return strndup(env->staged, (size_t)(strrchr(env->staged, '/') - env->staged));
}

unsigned env_origin_flags(const MDB_env *env, unsigned flags)
{
	if (env->packed)
		return packed_flags(flags);
	return env->staged ? flags | MDB_NOLOCK : flags;
}

/* Opens a container, and puts its stand-in into the loan. Keeps `container` or closes it. */
static int container_open(MDB_env *env, const char *path, int container, struct origin_loan *loan)
{
	int before = container, rc;

	if (staged_take(env, path, &container) && before == loan->fd)
		loan->fd = -1;
	rc = packed_open(&env->packed, container, path);
	if (rc && container != loan->fd)
		close(container);
	if (rc)
		return rc;
	loan->path = env->packed->scratch_path;
	loan->fd = open(loan->path, O_RDONLY);
	if (loan->fd < 0) /* no /proc here */
		loan->fd = fcntl(env->packed->scratch.fd, F_DUPFD, 0);
	return loan->fd < 0 ? errno : 0;
}

/* Looks at the file, and lets the original open it by the same descriptor if it takes loans. */
static int origin_open(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode,
		       struct origin_loan *loan, struct meta *newer)
{
	char *name = env_data_path(path, flags);
	struct file_metas look = {.newer = {.page_size = 0}};
	int rc = 0, container = -1, fd;
	bool missing;

	if (!name)
		return ENOMEM;
	/* Not O_CLOEXEC: mdb_env_get_fd() gives this descriptor, and LMDB leaves its own open
	 * across exec(). */
	fd = open(name, O_RDONLY | (origin_takes_loans(env->origin) ? 0 : O_CLOEXEC));
	*loan = (struct origin_loan){.path = name, .fd = fd};
	/* Without a look, the file must not be judged by what the original sees a moment later. */
	if (loan->fd < 0 && descriptor_is_short(errno)) {
		rc = errno;
		free(name);
		return rc;
	}
	missing = is_missing(loan->fd, flags);
	if (loan->fd >= 0)
		rc = judge_file(loan->fd, &look);
	/* A sound data file is no container. */
	if (!rc && !look.newer.page_size)
		rc = packed_find(name, loan->fd, missing, &container);
	if (!rc && container >= 0) {
		rc = container_open(env, path, container, loan);
	} else if (!rc && look.newer.page_size && staged_take(env, path, &loan->fd)) {
		loan->path = env->staged;
	}
	if (!rc && (env->packed || env->staged)) {
		path = env->path = stand_in_path(env, flags);
		flags = env_origin_flags(env, flags);
		rc = path ? judge_file(loan->fd, &look) : ENOMEM;
	}
	if (!rc && look.newer.page_size && look.newer.format == FORMAT_1_0) {
		rc = later_lend(env, path, &look.newer, loan);
		if (!rc) {
			path = loan->path;
			flags = packed_flags(flags);
		}
	}
	if (!rc) {
		if (look.newer.page_size && !env->later) {
			loan->seen[0] = (struct origin_loan_bytes){look.first, META_END, 0};
			loan->seen[1] = (struct origin_loan_bytes){look.second, META_END,
								   look.newer.page_size};
		}
		origin_loan_begin(loan);
		rc = env->origin->call.mdb_env_open(env->orig, path, flags, mode);
		origin_loan_end();
		/* Another process was still making the file; the original has waited for that. */
		if (!rc && !look.newer.page_size)
			rc = env->origin->call.mdb_env_get_fd(env->orig, &fd);
		if (!rc && !look.newer.page_size)
			rc = judge_file(fd, &look);
		*newer = look.newer;
	}
	env_file_leave(loan, rc);
	free(name);
	return rc;
}

/* Opens the window over the original's map if the loan has it, otherwise over a map of its own, of
 * `length` bytes (0: as long as the original's). */
static int window_renew(MDB_env *env, uint32_t page_size, size_t length,
			const struct origin_loan *loan)
{
	struct window window;
	MDB_envinfo info = {.me_mapsize = length};
	int rc = 0;

	if (loan->map) {
		window_borrow(&window, loan->map, loan->length, page_size);
	} else {
		if (!length)
			rc = env->origin->call.mdb_env_info(env->orig, &info);
		/* The stand-in of a file of LMDB 1.0 knows only its map size. */
		if (!rc && info.me_mapsize < env->bytes)
			info.me_mapsize = env->bytes;
		if (!rc)
			rc = window_open(&window, env->data, info.me_mapsize, page_size);
		/* The original gives its own map the same advice. */
		if (!rc && env->flags & MDB_NORDAHEAD)
			(void)madvise((void *)(uintptr_t)window.base, window.length, MADV_RANDOM);
	}
	if (rc)
		return rc;
	window_close(&env->window);
	env->window = window;
	return 0;
}

static int env_open_own(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode)
{
	struct origin_loan loan;
	struct meta meta = {0};
	int rc = origin_open(env, path, flags, mode, &loan, &meta);

	if (!rc && !meta.page_size)
		rc = MDB_INVALID; /* the file has changed between two looks */
	if (!rc && env->fd < 0)
		rc = env->origin->call.mdb_env_get_fd(env->orig, &env->fd);
	if (!rc)
		rc = env_file_hold(env, &loan, meta.txnid);
	if (rc)
		goto fail;
	env->flags = flags;
	env->permissions = mode;
	env->bytes = (meta.last_page + 1) * meta.page_size;
	rc = window_renew(env, meta.page_size, 0, &loan);
	if (!rc) {
		env->slots = calloc(env->maxdbs, sizeof(*env->slots));
		if (!env->path)
			env->path = absolute_path(path);
		if (!env->slots || !env->path)
			rc = ENOMEM;
		if (!rc)
			rc = later_open(env);
	}
	if (rc) {
		window_close(&env->window);
		goto fail;
	}
	env->mode = ENV_OWN;
	stats_opened();
	records_open(env);
	env->dbis = DBI_CORE;
	env->slots[DBI_FREE].order.key.kind = COMPARE_INTEGER;
	env->generation = fork_generation;
	env_report(env, path,
		   env->packed  ? "a container, read by lmdbio"
		   : env->later ? "a data file of LMDB 1.0, read by lmdbio"
				: "read by lmdbio");
	if (env->staged)
		env_report(env, env->staged, "its staged copy, which is what is read");
	rc = env_store_open(env);
	if (rc && settings_get()->verbose)
		log_line("%s: nothing is read ahead: %s", path, strerror(rc));
	fork_enlist(env);
	/* Without a store the window stays at rest, which is right for any data file, but not for a
	 * container. */
	return env->packed ? rc : 0;

fail:
	env_file_release(env);
	later_leave(env);
	env_file_forget(env);
	free(env->slots);
	free(env->path);
	env->slots = NULL;
	env->path = NULL;
	return rc;
}

/* Refuses a container for writing. The original knows no containers and would make a data file
 * beside it, so it is not called either if the file cannot be judged. To close a descriptor of the
 * data file would drop the program's own fcntl(2) locks on it. So a file of whole pages, or one with
 * such locks, is only opened if the original has refused it (`invalid`). Returns 0 (none), EACCES or
 * an errno. */
static int refuse_container(const char *path, unsigned flags, bool invalid)
{
	enum { SMALLEST_PAGE = 4096 };
	char *name = env_data_path(path, flags);
	int fd = -1, container = -1, rc = 0;
	bool missing = false;
	struct stat st;

	if (!name)
		return ENOMEM;
	errno = 0;
	if (stat(name, &st))
		missing = is_missing(-1, flags);
	else if (S_ISREG(st.st_mode) &&
		 (invalid || (st.st_size % SMALLEST_PAGE && !inode_is_locked_here(st.st_ino))))
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && (errno == EIO || descriptor_is_short(errno)))
		rc = errno;
	if (!rc)
		rc = packed_find(name, fd, missing, &container);
	if (fd >= 0)
		close(fd);
	if (container >= 0 && container != fd)
		close(container);
	free(name);
	return container >= 0 ? EACCES : rc;
}

/* With LMDBIO_VERBOSE, tells the user which file is to blame and what to do. */
static void env_report_failure(const MDB_env *env, const char *path, unsigned flags, int rc)
{
	char *line;

	if (!settings_get()->verbose)
		return;
	banner_print(env->origin);
	line = path ? for_later_explain(env, path, flags, rc) : NULL;
	if (!line && path)
		line = env_explain(path, flags, rc);
	if (line)
		log_line("cannot open %s", line);
	free(line);
}

/* The flags that LMDB takes at opening. It refuses any other before it looks at a file. */
enum {
	OPEN_FLAGS = MDB_FIXEDMAP | MDB_NOSUBDIR | MDB_NOSYNC | MDB_RDONLY | MDB_NOMETASYNC |
		     MDB_WRITEMAP | MDB_MAPASYNC | MDB_NOTLS | MDB_NOLOCK | MDB_NORDAHEAD |
		     MDB_NOMEMINIT
};

static int env_open_either(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode)
{
	bool own = flags & MDB_RDONLY && !settings_get()->disable;
	bool writes = env->mode == ENV_NEW && !settings_get()->disable && !(flags & MDB_RDONLY);
	int rc;

	if (env->mode == ENV_NEW && env->for_later.origin &&
	    (rc = for_later_choose(env, path, &flags, &own)))
		return rc;
	if (env->mode == ENV_NEW && own && !(flags & ~(unsigned)OPEN_FLAGS))
		return env_open_own(env, path, flags, mode);
	if (writes && (rc = refuse_container(path, flags, false)))
		return rc;
	rc = env->origin->call.mdb_env_open(env->orig, path, flags, mode);
	if (rc == MDB_INVALID && writes && refuse_container(path, flags, true) == EACCES)
		return EACCES;
	if (!rc && env->mode == ENV_NEW) {
		env->mode = ENV_FORWARDED;
		env_report(env, path,
			   !(flags & MDB_RDONLY)	? "forwarded, it is opened for writing"
			   : settings_get()->disable	? "forwarded, lmdbio is disabled"
			   : env->for_later.encrypts	? "forwarded, its pages are encrypted"
						     : "forwarded, lmdbio does not read it like that");
	}
	return rc;
}

int env_open(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode)
{
	UNCANCELLED;
	int rc;

	flags = env_flags_added(env, flags);
	rc = env_open_either(env, path, flags, mode);
	if (rc && !env->for_later.refused)
		env_report_failure(env, path, flags, rc);
	/* The pages are encrypted, for which LMDB 1.0 has its own code. */
	return rc == MDB_INCOMPATIBLE && env->for_later.origin ? MDB_ENV_ENCRYPTION : rc;
}

int env_map_renew(MDB_env *env, size_t size)
{
	struct origin_loan loan = {.fd = -1};
	bool later = env->mode == ENV_OWN && env->later;
	size_t wanted = size;
	int rc, stored;

	/* If a descriptor leads to another file, so would the new map. */
	if (env->mode == ENV_OWN && (!env_file_is(env, env->fd) || !env_file_is(env, env->data)))
		return errno;
	/* The original unmaps its map before it makes the new one. If the new map failed, as with
	 * the size in a damaged file, the next transaction would read memory that is gone. */
	if (env->mode == ENV_OWN &&
	    ((rc = later_mapsize(env, &wanted)) || (rc = window_may_be(&env->window, wanted))))
		return rc;
	/* The original unmaps its map, which is our window. */
	env_store_close(env);
	if (!later) {
		origin_loan_begin(&loan);
		rc = env->origin->call.mdb_env_set_mapsize(env->orig, size);
		origin_loan_end();
	}
	if (!rc && env->for_later.orig)
		rc = env->for_later.origin->call.mdb_env_set_mapsize(env->for_later.orig, size);
	if (env->mode != ENV_OWN)
		return rc;
	if (!rc)
		rc = window_renew(env, env->window.page_size, later ? wanted : 0, &loan);
	stored = env->window.base ? env_store_open(env) : 0;
	return !rc && env->packed ? stored : rc; /* as in env_open_own() */
}

int env_set_assert(MDB_env *env, MDB_assert_func *func)
{
	env->assert_func = func;
	return env->origin->call.mdb_env_set_assert(env->orig, func ? env_forward_assert : NULL);
}

void env_close(MDB_env *env)
{
	UNCANCELLED;

	if (!env)
		return;
	if (env->mode == ENV_OWN) {
		fork_delist(env);
		records_close(env);
		txn_forget(env->spare);
		env_store_close(env);
		window_close(&env->window);
		env_file_release(env);
		dbi_free_all(env);
		free(env->path);
		/* A forked child counts an inherited environment only once it has used it. */
		if (env->generation == fork_generation)
			stats_closed();
	}
	if (!env_is_parents(env))
		env->origin->call.mdb_env_close(env->orig);
	later_leave(env);
	later_free(env);
	for_later_close(env);
	env_file_forget(env);
	free(env->node);
	handle_end(&env->kind);
	env->mode = ENV_CLOSED;
	env_drop(env);
}
