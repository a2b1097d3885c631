/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says when a file is mapped anew. */
#include "slowfs_map.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

#define MAP_PAGE UINT64_C(4096)

void slowfs_map_init(struct slowfs_map *map)
{
	*map = (struct slowfs_map){.lock = PTHREAD_RWLOCK_INITIALIZER};
}

void slowfs_map_destroy(struct slowfs_map *map)
{
	if (map->base != NULL)
		munmap(map->base, map->length);
	pthread_rwlock_destroy(&map->lock);
}

/* Returns 0 or errno. */
static int map_anew(struct slowfs_map *map, int fd, size_t length)
{
	int rc = 0;
	char *base;

	pthread_rwlock_wrlock(&map->lock);
	base = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		rc = errno;
	} else {
		if (map->base != NULL)
			munmap(map->base, map->length);
		map->base = base;
		map->length = length;
	}
	pthread_rwlock_unlock(&map->lock);
	return rc;
}

/* Not left to the kernel's copy, because what follows is modelled time. Returns 0 or errno. */
static int map_populate(const struct slowfs_map *map, uint64_t offset, uint64_t length)
{
	uint64_t before = offset % MAP_PAGE;

	if (length == 0 ||
	    madvise(map->base + offset - before, length + before, MADV_POPULATE_READ) == 0)
		return 0;
	if (errno == EINVAL) /* an older kernel: the copy's faults do it */
		return 0;
	return errno == EFAULT ? EIO : errno;
}

int slowfs_map_hold(struct slowfs_map *map, int fd, uint64_t offset, size_t size,
		    const char **bytes, uint64_t *served)
{
	struct stat st;
	uint64_t length;
	int rc;

	*served = 0;
	if (fstat(fd, &st) != 0)
		return errno;
	length = offset < (uint64_t)st.st_size ? (uint64_t)st.st_size - offset : 0;
	if (length > size)
		length = size;
	pthread_rwlock_rdlock(&map->lock);
	while (length > 0 && offset + length > map->length) {
		pthread_rwlock_unlock(&map->lock);
		rc = map_anew(map, fd, (size_t)st.st_size);
		if (rc != 0)
			return rc;
		pthread_rwlock_rdlock(&map->lock);
	}
	rc = map_populate(map, offset, length);
	if (rc != 0) {
		pthread_rwlock_unlock(&map->lock);
		return rc;
	}
	*bytes = length > 0 ? map->base + offset : NULL;
	*served = length;
	return 0;
}

void slowfs_map_release(struct slowfs_map *map)
{
	pthread_rwlock_unlock(&map->lock);
}
