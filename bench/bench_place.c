/* SPDX-License-Identifier: OLDAP-2.8 */
/* Mounts slowfs, and handles the kernel's page cache. */
#include "bench_place.h"

#include "bench_cache.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOUNT_SECONDS = 10 };

const char *const state_names[STATES] = {
	[STATE_COLD] = "cold", [STATE_WARM] = "warm", [STATE_HOT] = "hot", [STATE_AGAIN] = "again"};

void place_plain(struct place *place, const char *directory, bool drop_caches)
{
	memset(place, 0, sizeof(*place));
	place->drop_caches = drop_caches;
	snprintf(place->path, sizeof(place->path), "%s", directory);
	snprintf(place->backing, sizeof(place->backing), "%s", directory);
}

static void slowfs_exec(const struct place *place, const struct slowfs_settings *settings)
{
	char options[64];

	/* However this process ends, the mount and its folder go as well. */
	snprintf(options, sizeof(options), "transient,latency=%u,bandwidth=%u", settings->latency,
		 settings->bandwidth);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() == 1)
		_exit(127);
	execl(settings->program, settings->program, "-f", "-o", options, place->backing,
	      place->path, (char *)NULL);
	fprintf(stderr, "bench_figures: %s: %s\n", settings->program, strerror(errno));
	_exit(127);
}

/* The kernel reports every change in the table of mounts. */
static int mount_wait(struct place *place, dev_t before)
{
	uint64_t until = clock_now() + MOUNT_SECONDS * CLOCK_SECOND;
	int fd = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC), rc = ETIMEDOUT;

	if (fd < 0)
		return errno;
	while (rc == ETIMEDOUT && clock_now() < until) {
		struct pollfd event = {.fd = fd, .events = POLLPRI};
		struct stat st;

		if (!stat(place->path, &st) && st.st_dev != before)
			rc = 0;
		else if (waitpid(place->slowfs, NULL, WNOHANG) == place->slowfs)
			rc = ECHILD;
		else
			poll(&event, 1, 100);
	}
	if (rc == ECHILD)
		place->slowfs = 0;
	close(fd);
	return rc;
}

int place_slow(struct place *place, const char *directory, const struct slowfs_settings *settings)
{
	const char *tmp = getenv("TMPDIR");
	struct stat st;
	int rc = 0;

	memset(place, 0, sizeof(*place));
	place->slow = true;
	if (mkdir(directory, 0777) && errno != EEXIST)
		return errno;
	if (!realpath(directory, place->backing))
		return errno;
	snprintf(place->path, sizeof(place->path), "%s/lmdbio-slowfs-XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(place->path) || stat(place->path, &st))
		return errno;
	fflush(NULL);
	place->slowfs = fork();
	if (place->slowfs == 0)
		slowfs_exec(place, settings);
	if (place->slowfs < 0)
		rc = errno;
	if (!rc)
		rc = mount_wait(place, st.st_dev);
	if (rc) {
		fprintf(stderr, "bench_figures: %s: no mount\n", settings->program);
		place_close(place);
	}
	return rc;
}

void place_close(struct place *place)
{
	if (!place->slow)
		return;
	if (place->slowfs > 0) {
		kill(place->slowfs, SIGTERM);
		waitpid(place->slowfs, NULL, 0);
	}
	rmdir(place->path);
	place->slow = false;
}

static int slowfs_control(const struct place *place, const char *command)
{
	char path[PATH_MAX + 32];
	ssize_t wrote;
	int fd, rc = 0;

	snprintf(path, sizeof(path), "%s/.slowfs/control", place->path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	wrote = write(fd, command, strlen(command));
	if (wrote != (ssize_t)strlen(command))
		rc = wrote < 0 ? errno : EIO;
	close(fd);
	return rc;
}

/* Returns the reads by the disk below a plain directory, for all programs; 0: the disk is
 * unknown. */
static uint64_t disk_reads(const struct place *place)
{
	char path[64];
	uint64_t reads = 0;
	struct stat st;
	FILE *stat_file;

	if (stat(place->path, &st))
		return 0;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", major(st.st_dev),
		 minor(st.st_dev));
	stat_file = fopen(path, "re");
	if (!stat_file)
		return 0;
	if (fscanf(stat_file, "%" SCNu64, &reads) != 1)
		reads = 0;
	fclose(stat_file);
	return reads;
}

int place_counters(const struct place *place, uint64_t *requests, uint64_t *bytes)
{
	char path[PATH_MAX + 32], line[PATH_MAX];
	unsigned found = 0;
	FILE *stats;

	*requests = *bytes = 0;
	if (!place->slow) {
		*requests = disk_reads(place) - place->disk_reads;
		return 0;
	}
	snprintf(path, sizeof(path), "%s/.slowfs/stats", place->path);
	stats = fopen(path, "re");
	if (!stats)
		return errno;
	while (fgets(line, sizeof(line), stats)) {
		found += sscanf(line, "requests %" SCNu64, requests) == 1;
		found += sscanf(line, "bytes %" SCNu64, bytes) == 1;
	}
	fclose(stats);
	return found == 2 ? 0 : EIO;
}

void place_file(const struct place *place, const struct data *data, char path[PATH_MAX])
{
	if (snprintf(path, PATH_MAX, "%s/%s/data.mdb", place->path, data->name) >= PATH_MAX)
		path[0] = 0;
}

/* Returns the part of an open file that is in the page cache, from 0 to 1. */
static double file_resident(int fd)
{
	uint64_t bytes;
	struct stat st;

	if (fstat(fd, &st) || st.st_size == 0 || bench_cache_resident(fd, &bytes))
		return 0;
	return (double)bytes / (double)st.st_size;
}

enum { FORGET_TRIES = 50, FORGET_MS = 10 };

/* Dropping the file's own pages is usually enough, and does not affect the rest of the machine. All
 * caches are dropped if that did not work, or on request. */
static int file_forget(struct place *place, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	double left;

	if (fd < 0)
		return errno;
	bench_cache_forget(fd);
	left = file_resident(fd);
	if (place->drop_caches || left > 0.01) {
		rc = bench_cache_drop_all();
		left = file_resident(fd);
		/* slowfs maps each file that its mount has used, and a mapped page stays. It takes
		 * the kernel some time to tell slowfs that the mount has forgotten a file. */
		for (unsigned tries = 0; tries < FORGET_TRIES && left > 0.01; tries++) {
			poll(NULL, 0, FORGET_MS);
			bench_cache_forget(fd);
			left = file_resident(fd);
		}
		if (left > 0.01 && !place->complained)
			fprintf(stderr,
				"bench_figures: cold runs find %.0f %% of %s in memory: %s\n",
				100 * left, path, rc ? strerror(rc) : "another program uses it");
		place->complained |= left > 0.01;
	}
	close(fd);
	return 0;
}

int place_reset(struct place *place)
{
	if (place->slow)
		return slowfs_control(place, "reset\n");
	place->disk_reads = disk_reads(place);
	return 0;
}

int place_prepare(struct place *place, const struct data *data, enum state state)
{
	char path[PATH_MAX], backing[PATH_MAX + 80];
	struct stat st;
	int rc = 0;

	place_file(place, data, path);
	if (state == STATE_WARM || state == STATE_HOT) {
		rc = bench_cache_fill(path, 0);
	} else if (place->slow) {
		snprintf(backing, sizeof(backing), "%s/%s/data.mdb", place->backing, data->name);
		rc = bench_cache_fill(backing, 0);
		if (!rc)
			rc = slowfs_control(place, "drop\n");
	} else {
		rc = file_forget(place, path);
	}
	if (state == STATE_COLD && !stat(path, &st))
		bench_cache_touch_memory((uint64_t)st.st_size);
	return rc ? rc : place_reset(place);
}
