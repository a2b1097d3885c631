/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how slowfs, a pass-through file system with the costs of a parallel
 * one, is started: its options, its threads and what it asks of the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "slowfs_control.h"
#include "slowfs_ops.h"

/* Each read under way holds a thread. The kernel sends at most SLOWFS_BACKGROUND asynchronous
 * ones (its own default, 12, would cap what a program can have in flight), the rest of the
 * threads serve page faults and what else must not wait behind those. */
#define SLOWFS_THREADS	  "256"
#define SLOWFS_BACKGROUND 192
#define SLOWFS_CONGESTION 160

struct slowfs_options {
	char *backing;
	unsigned int latency;
	unsigned int bandwidth;
	int nocache;
	int log;
	int transient;
	char *stats;
	char *lock;
	struct slowfs *fs;
};

enum { OPTION_FAIL };

static const struct fuse_opt options_spec[] = {
	{.templ = "latency=%u", .offset = offsetof(struct slowfs_options, latency)},
	{.templ = "bandwidth=%u", .offset = offsetof(struct slowfs_options, bandwidth)},
	{.templ = "nocache", .offset = offsetof(struct slowfs_options, nocache), .value = 1},
	{.templ = "log", .offset = offsetof(struct slowfs_options, log), .value = 1},
	{.templ = "transient", .offset = offsetof(struct slowfs_options, transient), .value = 1},
	{.templ = "stats=%s", .offset = offsetof(struct slowfs_options, stats)},
	{.templ = "lock=%s", .offset = offsetof(struct slowfs_options, lock)},
	FUSE_OPT_KEY("fail=", OPTION_FAIL),
	FUSE_OPT_END,
};

static void print_help(const char *program)
{
	printf("usage: %s [options] BACKING MOUNT\n\n"
	       "Shows the folder BACKING at MOUNT, with the costs of a parallel file system.\n\n"
	       "    -o latency=US          of each read request, in microseconds (default 500)\n"
	       "    -o bandwidth=MIB       that all reads share, per second (default 1500;\n"
	       "                           0: unlimited)\n"
	       "    -o fail=SPEC           plants a fault, SPEC being\n"
	       "                           [NAME@]OFF[-OFF]:eio|short[:COUNT]\n"
	       "    -o nocache             each open forgets the file's pages\n"
	       "    -o log                 every read is logged from the start\n"
	       "    -o transient           MOUNT is removed when unmounted\n"
	       "    -o stats=FILE          writes the counters there when unmounted\n"
	       "    -o lock=FILE           holds a lock (flock) on it as long as it lives; its\n"
	       "                           process id is in it\n\n"
	       "While mounted: MOUNT/.slowfs/stats and MOUNT/.slowfs/log are read;\n"
	       "MOUNT/.slowfs/control shows the settings and takes lines: reset, latency US,\n"
	       "bandwidth MIB, hold N, gate MIB|open, fail SPEC, clear, drop, clock S,\n"
	       "log on|off. hold N makes the next N requests wait for each other, once. gate\n"
	       "MIB lets reads of so many MiB pass; later ones wait until it is open. clock S\n"
	       "adds S seconds, which may be negative, to the times of change of all files.\n\n"
	       "What follows is libfuse's; here the default of max_threads is %s and that of\n"
	       "max_background %d.\n\n",
	       program, SLOWFS_THREADS, SLOWFS_BACKGROUND);
	fuse_cmdline_help();
	fuse_lowlevel_help();
}

static int option_each(void *data, const char *text, int key, struct fuse_args *args)
{
	struct slowfs_options *options = data;

	(void)args;
	if (key == OPTION_FAIL) {
		if (slowfs_faults_add(&options->fs->faults, text + strlen("fail=")) == 0)
			return 0;
		fprintf(stderr, "slowfs: not understood: %s\n", text);
		return -1;
	}
	if (key == FUSE_OPT_KEY_NONOPT && options->backing == NULL) {
		options->backing = strdup(text);
		return options->backing != NULL ? 0 : -1;
	}
	return 1;
}

static void op_init(void *data, struct fuse_conn_info *conn)
{
	(void)data;
	if (conn->max_background == 0)
		conn->max_background = SLOWFS_BACKGROUND;
	if (conn->congestion_threshold == 0)
		conn->congestion_threshold = SLOWFS_CONGESTION;
	/* All changes go through the mount, so the kernel's pages are never stale; with this on,
	 * each write would cost the file all of them. */
	conn->want &= ~(unsigned int)FUSE_CAP_AUTO_INVAL_DATA;
	/* Left out, flock is kept by the kernel, as all other locks are. */
	conn->want &= ~(unsigned int)FUSE_CAP_FLOCK_LOCKS;
}

static const struct fuse_lowlevel_ops slowfs_ops = {
	.init = op_init,
	.lookup = slowfs_op_lookup,
	.forget = slowfs_op_forget,
	.forget_multi = slowfs_op_forget_multi,
	.getattr = slowfs_op_getattr,
	.setattr = slowfs_op_setattr,
	.readlink = slowfs_op_readlink,
	.mknod = slowfs_op_mknod,
	.mkdir = slowfs_op_mkdir,
	.unlink = slowfs_op_unlink,
	.rmdir = slowfs_op_rmdir,
	.symlink = slowfs_op_symlink,
	.link = slowfs_op_link,
	.rename = slowfs_op_rename,
	.opendir = slowfs_op_opendir,
	.readdir = slowfs_op_readdir,
	.releasedir = slowfs_op_releasedir,
	.statfs = slowfs_op_statfs,
	.create = slowfs_op_create,
	.open = slowfs_op_open,
	.read = slowfs_op_read,
	.write = slowfs_op_write,
	.release = slowfs_op_release,
	.fsync = slowfs_op_fsync,
	.fallocate = slowfs_op_fallocate,
};

static int open_or_complain(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		fprintf(stderr, "slowfs: %s: %s\n", path, strerror(errno));
	return fd;
}

/* Whatever has a name is opened here: in the background the current folder is another one. */
static int apply_options(struct slowfs *fs, const struct slowfs_options *options, FILE **stats)
{
	int fd;

	slowfs_model_set_latency(&fs->model, options->latency);
	slowfs_model_set_bandwidth(&fs->model, options->bandwidth);
	fs->nocache = options->nocache;
	if (options->log && slowfs_stats_log(&fs->stats, true) != 0)
		return ENOMEM;
	fd = open_or_complain(options->backing, O_PATH | O_DIRECTORY);
	if (fd < 0 || slowfs_nodes_init(&fs->nodes, &fs->stats, fd) != 0)
		return EIO;
	if (options->lock != NULL) {
		/* Kept open, and never closed: the process's end lets the lock go. */
		fs->lock = open_or_complain(options->lock, O_RDWR | O_CREAT);
		if (fs->lock < 0 || flock(fs->lock, LOCK_EX | LOCK_NB) != 0)
			return EBUSY;
	}
	if (options->stats != NULL) {
		fd = open_or_complain(options->stats, O_WRONLY | O_CREAT | O_TRUNC);
		*stats = fd >= 0 ? fdopen(fd, "w") : NULL;
		if (*stats == NULL)
			return EIO;
	}
	return 0;
}

static int serve(struct slowfs *fs, const struct fuse_cmdline_opts *cmdline)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int rc;

	if (config == NULL)
		return ENOMEM;
	fuse_loop_cfg_set_clone_fd(config, (unsigned int)cmdline->clone_fd);
	fuse_loop_cfg_set_max_threads(config, cmdline->singlethread ? 1 : cmdline->max_threads);
	rc = fuse_session_loop_mt(fs->session, config);
	fuse_loop_cfg_destroy(config);
	return rc;
}

/* From the mount to the unmount. In the background the calling process ends, with 0, when the
 * mount is there. */
static int mount_and_serve(struct slowfs *fs, struct fuse_args *args,
			   const struct fuse_cmdline_opts *cmdline)
{
	int rc = EIO;

	fs->session = fuse_session_new(args, &slowfs_ops, sizeof(slowfs_ops), fs);
	if (fs->session == NULL)
		return EINVAL;
	if (fuse_set_signal_handlers(fs->session) != 0)
		goto destroy;
	if (fuse_session_mount(fs->session, cmdline->mountpoint) != 0)
		goto signals;
	if (fuse_daemonize(cmdline->foreground) == 0) {
		if (fs->lock >= 0 && ftruncate(fs->lock, 0) == 0)
			dprintf(fs->lock, "%d\n", (int)getpid());
		rc = serve(fs, cmdline);
	}
	fuse_session_unmount(fs->session);
      signals:
	fuse_remove_signal_handlers(fs->session);
destroy:
	fuse_session_destroy(fs->session);
	return rc;
}

int main(int argc, char **argv)
{
	static struct slowfs fs = {.lock = -1};
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fuse_cmdline_opts cmdline = {.mountpoint = NULL};
	struct slowfs_options options = {.latency = 500, .bandwidth = 1500, .fs = &fs};
	FILE *stats = NULL;
	int rc = EINVAL;

	slowfs_model_init(&fs.model);
	slowfs_faults_init(&fs.faults);
	slowfs_stats_init(&fs.stats);
	/* Inherited by all threads: waits end within microseconds of their time, not within 50. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	if (fuse_opt_parse(&args, &options, options_spec, option_each) != 0 ||
	    fuse_opt_insert_arg(&args, 1, "-omax_threads=" SLOWFS_THREADS) != 0 ||
	    fuse_parse_cmdline(&args, &cmdline) != 0)
		goto out;
	if (cmdline.show_help || cmdline.show_version) {
		if (cmdline.show_help)
			print_help(argv[0]);
		else
			fuse_lowlevel_version();
		rc = 0;
		goto out;
	}
	if (options.backing == NULL || cmdline.mountpoint == NULL) {
		fprintf(stderr, "usage: %s [options] BACKING MOUNT (see --help)\n", argv[0]);
		goto out;
	}
	rc = apply_options(&fs, &options, &stats);
	if (rc == 0)
		rc = mount_and_serve(&fs, &args, &cmdline);
	if (options.transient && rmdir(cmdline.mountpoint) != 0)
		fprintf(stderr, "%s: %s\n", cmdline.mountpoint, strerror(errno));
	if (stats != NULL) {
		slowfs_stats_print(&fs.stats, stats);
		fclose(stats);
	}
out:
	free(options.backing);
	free(options.stats);
	free(options.lock);
	free(cmdline.mountpoint);
	fuse_opt_free_args(&args);
	return rc == 0 ? 0 : 1;
}
