/* SPDX-License-Identifier: OLDAP-2.8 */
/* The folder .slowfs of the mount's root: what can be read in it and which commands can be written
 * to it.
 *
 * It is found by name but not listed, so that a copy or comparison of the mount is one of the
 * backing folder. What is read from a file in it was true when that file was opened. */
#include "slowfs_control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "slowfs_ops.h"

/* Below every address, so no node has such a number; 1 is the root. */
enum { CONTROL_FOLDER = 2, CONTROL_FIRST = 3 };

#define CONTROL_TEXT_MAX 4096

static void control_print_settings(struct slowfs *fs, FILE *out)
{
	fprintf(out, "latency %ju\n", (uintmax_t)slowfs_model_latency(&fs->model));
	fprintf(out, "bandwidth %ju\n", (uintmax_t)slowfs_model_bandwidth(&fs->model));
	fprintf(out, "clock %jd\n", (intmax_t)atomic_load(&fs->nodes.clock));
	fprintf(out, "log %s\n", atomic_load(&fs->stats.logging) ? "on" : "off");
	slowfs_faults_print(&fs->faults, out);
}

static void control_print_stats(struct slowfs *fs, FILE *out)
{
	slowfs_stats_print(&fs->stats, out);
}

static void control_print_log(struct slowfs *fs, FILE *out)
{
	slowfs_stats_print_log(&fs->stats, out);
}

/* Row i has the inode number CONTROL_FIRST + i. */
static const struct {
	const char *name;
	mode_t mode;
	void (*print)(struct slowfs *fs, FILE *out);
} control_files[] = {
	{.name = "control", .mode = S_IFREG | 0600, .print = control_print_settings},
	{.name = "stats", .mode = S_IFREG | 0400, .print = control_print_stats},
	{.name = "log", .mode = S_IFREG | 0400, .print = control_print_log},
};

#define CONTROL_FILES (sizeof(control_files) / sizeof(control_files[0]))

static bool control_number(const char *text, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *value <= UINT32_MAX;
}

static int control_reset(struct slowfs *fs, const char *rest)
{
	if (*rest != '\0')
		return EINVAL;
	slowfs_stats_reset(&fs->stats);
	return 0;
}

static int control_latency(struct slowfs *fs, const char *rest)
{
	uint64_t microseconds;

	if (!control_number(rest, &microseconds))
		return EINVAL;
	slowfs_model_set_latency(&fs->model, microseconds);
	return 0;
}

static int control_bandwidth(struct slowfs *fs, const char *rest)
{
	uint64_t mib_per_sec;

	if (!control_number(rest, &mib_per_sec))
		return EINVAL;
	slowfs_model_set_bandwidth(&fs->model, mib_per_sec);
	return 0;
}

static int control_hold(struct slowfs *fs, const char *rest)
{
	uint64_t requests;

	if (!control_number(rest, &requests))
		return EINVAL;
	slowfs_model_set_hold(&fs->model, requests);
	return 0;
}

static int control_gate(struct slowfs *fs, const char *rest)
{
	uint64_t mib = 0;
	bool open = strcmp(rest, "open") == 0;

	if (!open && !control_number(rest, &mib))
		return EINVAL;
	slowfs_model_set_gate(&fs->model, open ? UINT64_MAX : mib << 20);
	return 0;
}

static int control_fail(struct slowfs *fs, const char *rest)
{
	return slowfs_faults_add(&fs->faults, rest);
}

static int control_clear(struct slowfs *fs, const char *rest)
{
	if (*rest != '\0')
		return EINVAL;
	slowfs_faults_clear(&fs->faults);
	return 0;
}

/* The kernel forgets the attributes of all files, and their pages from `offset` on, unless that is negative. */
static int control_forget(struct slowfs *fs, off_t offset)
{
	fuse_ino_t *inos;
	size_t count;
	int rc;

	rc = slowfs_nodes_list(&fs->nodes, &inos, &count);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		int result = fuse_lowlevel_notify_inval_inode(fs->session, inos[i], offset, 0);

		/* ENOENT: forgotten in the meantime. */
		if (result != 0 && result != -ENOENT)
			rc = -result;
	}
	free(inos);
	return rc;
}

/* The kernel forgets its pages of the mount, mapped ones included, and the backing folder's stay
 * in memory: the next reads are cold here and never wait for a real disk. */
static int control_drop(struct slowfs *fs, const char *rest)
{
	return *rest == '\0' ? control_forget(fs, 0) : EINVAL;
}

/* The clock that times of change come from is set: by so many seconds, negative: back. */
static int control_clock(struct slowfs *fs, const char *rest)
{
	uint64_t seconds;
	bool back = *rest == '-';

	if (!control_number(rest + back, &seconds))
		return EINVAL;
	atomic_store(&fs->nodes.clock, back ? -(int64_t)seconds : (int64_t)seconds);
	return control_forget(fs, -1);
}

static int control_log(struct slowfs *fs, const char *rest)
{
	bool on = strcmp(rest, "on") == 0;

	if (!on && strcmp(rest, "off") != 0)
		return EINVAL;
	return slowfs_stats_log(&fs->stats, on);
}

static const struct {
	const char *name;
	int (*run)(struct slowfs *fs, const char *rest);
} control_commands[] = {
	{.name = "reset", .run = control_reset},
	{.name = "latency", .run = control_latency},
	{.name = "bandwidth", .run = control_bandwidth},
	{.name = "hold", .run = control_hold},
	{.name = "gate", .run = control_gate},
	{.name = "fail", .run = control_fail},
	{.name = "clear", .run = control_clear},
	{.name = "drop", .run = control_drop},
	{.name = "clock", .run = control_clock},
	{.name = "log", .run = control_log},
};

#define CONTROL_COMMANDS (sizeof(control_commands) / sizeof(control_commands[0]))

int slowfs_control_run(struct slowfs *fs, const char *line)
{
	size_t length = strcspn(line, " ");

	for (size_t i = 0; i < CONTROL_COMMANDS; i++) {
		if (strlen(control_commands[i].name) == length &&
		    strncmp(control_commands[i].name, line, length) == 0)
			return control_commands[i].run(fs, line + length + (line[length] == ' '));
	}
	return EINVAL;
}

bool slowfs_control_owns(fuse_ino_t ino)
{
	return ino >= CONTROL_FOLDER && ino < CONTROL_FIRST + CONTROL_FILES;
}

bool slowfs_control_names(fuse_ino_t parent, const char *name)
{
	return parent == CONTROL_FOLDER || (parent == FUSE_ROOT_ID && strcmp(name, ".slowfs") == 0);
}

static struct stat control_stat(fuse_ino_t ino)
{
	struct stat st = {.st_ino = ino, .st_uid = getuid(), .st_gid = getgid()};

	if (ino == CONTROL_FOLDER) {
		st.st_mode = S_IFDIR | 0500;
		st.st_nlink = 2;
	} else {
		st.st_mode = control_files[ino - CONTROL_FIRST].mode;
		st.st_nlink = 1;
	}
	return st;
}

void slowfs_control_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {.attr_timeout = 0, .entry_timeout = 0};

	if (parent != CONTROL_FOLDER)
		entry.ino = CONTROL_FOLDER;
	for (size_t i = 0; entry.ino == 0 && i < CONTROL_FILES; i++) {
		if (strcmp(control_files[i].name, name) == 0)
			entry.ino = CONTROL_FIRST + i;
	}
	if (entry.ino == 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	entry.attr = control_stat(entry.ino);
	fuse_reply_entry(req, &entry);
}

void slowfs_control_getattr(fuse_req_t req, fuse_ino_t ino)
{
	struct stat st = control_stat(ino);

	fuse_reply_attr(req, &st, 0);
}

void slowfs_control_readdir(fuse_req_t req, size_t size, off_t offset)
{
	char text[1024];
	size_t room = size < sizeof(text) ? size : sizeof(text);
	size_t used = 0;

	for (size_t i = (size_t)offset; i < CONTROL_FILES; i++) {
		struct stat st = control_stat(CONTROL_FIRST + i);
		size_t need = fuse_add_direntry(req, text + used, room - used,
						control_files[i].name, &st, (off_t)i + 1);

		if (need > room - used)
			break;
		used += need;
	}
	fuse_reply_buf(req, text, used);
}

struct control_text {
	size_t length;
	char *bytes;
};

void slowfs_control_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct control_text *text = calloc(1, sizeof(*text));
	FILE *out = NULL;

	if (text != NULL)
		out = open_memstream(&text->bytes, &text->length);
	if (out == NULL) {
		free(text);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	control_files[ino - CONTROL_FIRST].print(fuse_req_userdata(req), out);
	if (fclose(out) != 0) {
		free(text->bytes);
		free(text);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)text;
	/* Never cached, and read to its end though its size is given as 0. */
	fi->direct_io = 1;
	fuse_reply_open(req, fi);
}

/* Answers with a copy: the reader may close the file, which frees the text, before the call that
 * answers has returned. */
void slowfs_control_read(fuse_req_t req, size_t size, off_t offset, struct fuse_file_info *fi)
{
	const struct control_text *text = (const struct control_text *)(uintptr_t)fi->fh;
	size_t left = (size_t)offset < text->length ? text->length - (size_t)offset : 0;
	char *copy;

	if (left > size)
		left = size;
	copy = malloc(left + 1);
	if (copy == NULL) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	memcpy(copy, text->bytes + (left > 0 ? offset : 0), left);
	fuse_reply_buf(req, copy, left);
	free(copy);
}

void slowfs_control_write(fuse_req_t req, fuse_ino_t ino, const char *text, size_t size)
{
	char lines[CONTROL_TEXT_MAX];
	char *rest = lines;
	char *line;
	int rc = 0;

	if (control_files[ino - CONTROL_FIRST].print != control_print_settings ||
	    size >= sizeof(lines)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	memcpy(lines, text, size);
	lines[size] = '\0';
	while (rc == 0 && (line = strsep(&rest, "\n")) != NULL) {
		if (*line != '\0')
			rc = slowfs_control_run(fuse_req_userdata(req), line);
	}
	if (rc == 0)
		fuse_reply_write(req, size);
	else
		fuse_reply_err(req, rc);
}

void slowfs_control_release(struct fuse_file_info *fi)
{
	struct control_text *text = (struct control_text *)(uintptr_t)fi->fh;

	free(text->bytes);
	free(text);
}
