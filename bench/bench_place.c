/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: the mount of slowfs and the kernel's page cache. */
#include "bench_place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

enum { MOUNT_SECONDS = 10, READ_SIZE = 1 << 20 };

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

	/* Whatever becomes of this process, the mount and its folder go with it. */
	snprintf(options, sizeof(options), "transient,latency=%u,bandwidth=%u", settings->latency,
		 settings->bandwidth);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() == 1)
		_exit(127);
	execl(settings->program, settings->program, "-f", "-o", options, place->backing,
	      place->path, (char *)NULL);
	fprintf(stderr, "lmdbio-bench: %s: %s\n", settings->program, strerror(errno));
	_exit(127);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The kernel tells of every change in the table of mounts. */
static int mount_wait(struct place *place, dev_t before)
{
	int64_t until = now_ms() + MOUNT_SECONDS * 1000;
	int fd = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC), rc = ETIMEDOUT;

	if (fd < 0)
		return errno;
	while (rc == ETIMEDOUT && now_ms() < until) {
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
		fprintf(stderr, "lmdbio-bench: %s: no mount\n", settings->program);
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

int place_counters(const struct place *place, uint64_t *requests, uint64_t *bytes)
{
	char path[PATH_MAX + 32], line[PATH_MAX];
	unsigned found = 0;
	FILE *stats;

	*requests = *bytes = 0;
	if (!place->slow)
		return 0;
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

static int file_read_all(const char *path)
{
	char *buffer = malloc(READ_SIZE);
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	ssize_t n = 1;

	if (fd < 0 || !buffer)
		rc = fd < 0 ? errno : ENOMEM;
	while (!rc && n > 0) {
		n = read(fd, buffer, READ_SIZE);
		if (n < 0)
			rc = errno;
	}
	if (fd >= 0)
		close(fd);
	free(buffer);
	return rc;
}

/* Pages of the file that are in the page cache, as a part of all. */
static double file_resident(int fd)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages, here = 0;
	unsigned char *map;
	struct stat st;
	void *at;

	if (fstat(fd, &st) || st.st_size == 0)
		return 0;
	pages = ((size_t)st.st_size + page - 1) / page;
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	map = malloc(pages);
	if (at != MAP_FAILED && map && !mincore(at, (size_t)st.st_size, map))
		for (size_t i = 0; i < pages; i++)
			here += map[i] & 1;
	if (at != MAP_FAILED)
		munmap(at, (size_t)st.st_size);
	free(map);
	return (double)here / (double)pages;
}

static int drop_all_caches(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return errno;
	rc = write(fd, "3\n", 2) == 2 ? 0 : errno;
	close(fd);
	return rc;
}

/* The file's own pages suffice, and leave the rest of the machine alone; the whole machine's are
 * for when that did not work, or was asked for. */
static int file_forget(struct place *place, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	double left;

	if (fd < 0)
		return errno;
	if (fdatasync(fd) == 0)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	left = file_resident(fd);
	if (place->drop_caches || left > 0.01) {
		rc = drop_all_caches();
		left = file_resident(fd);
		if (rc && !place->complained)
			fprintf(stderr,
				"lmdbio-bench: cold runs find %.0f %% of %s in memory: %s\n",
				100 * left, path, strerror(rc));
		place->complained |= rc != 0;
	}
	close(fd);
	return 0;
}

/* Memory for all of a file, in use until just now. A virtual machine's host may take back what has
 * long been free, and giving it again took 1.7 to 6 ms a MiB here: whoever came first after a pause
 * would pay for that, the original or lmdbio. In huge pages, which come from the large pieces of
 * memory; single ones come from what is left of others, whose large pieces stay as they were. */
static void memory_touch(const char *path)
{
	struct stat st;
	void *at;

	if (stat(path, &st) || st.st_size <= 0)
		return;
	at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		  0);
	if (at == MAP_FAILED)
		return;
	(void)madvise(at, (size_t)st.st_size, MADV_HUGEPAGE);
	(void)madvise(at, (size_t)st.st_size, MADV_POPULATE_WRITE);
	munmap(at, (size_t)st.st_size);
}

int place_reset(struct place *place)
{
	return place->slow ? slowfs_control(place, "reset\n") : 0;
}

int place_prepare(struct place *place, const struct data *data, enum state state)
{
	char path[PATH_MAX], backing[PATH_MAX + 80];
	int rc = 0;

	place_file(place, data, path);
	if (state == STATE_WARM || state == STATE_HOT) {
		rc = file_read_all(path);
	} else if (place->slow) {
		snprintf(backing, sizeof(backing), "%s/%s/data.mdb", place->backing, data->name);
		rc = file_read_all(backing);
		if (!rc)
			rc = slowfs_control(place, "drop\n");
	} else {
		rc = file_forget(place, path);
	}
	if (state == STATE_COLD)
		memory_touch(path);
	return rc ? rc : place_reset(place);
}
