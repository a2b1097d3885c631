/* SPDX-License-Identifier: OLDAP-2.8 */
/* Holds the sizes of the data sets, and writes each set under a temporary name until it is
 * complete. */
#include "bench_data.h"

#include "bench_job.h"
#include "bench_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "img" is ImageNet as Caffe stores it (256 x 256 pixels of 3 bytes and a few bytes of protobuf),
 * "mid" a small compressed picture, "photo" a larger one, "cifar" one CIFAR-10 record, "small" a
 * value of a key-value program. */
static const struct data_set sets[] = {
	{"img", 10000, 196620, "_train/image.JPEG", 10000},
	{"cifar", 500000, 3090, "_train/image.png", 200000},
	{"mid", 160000, 12000, "", 20000},
	{"photo", 20000, 100000, "", 10000},
	{"small", 10000000, 100, "", 1000000},
	{"tiny", 1, 100, "", 1},
};

const struct data_set *data_set_find(const char *name)
{
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		if (!strcmp(sets[i].name, name))
			return &sets[i];
	return NULL;
}

static int data_file_size(struct data *data)
{
	char file[PATH_MAX + 16];
	struct stat st;

	snprintf(file, sizeof(file), "%s/data.mdb", data->path);
	if (stat(file, &st))
		return errno;
	data->file_size = (uint64_t)st.st_size;
	return 0;
}

static void remove_unfinished(const char *making)
{
	static const char *const files[] = {"data.mdb", "lock.mdb"};
	char file[PATH_MAX + 32];

	for (size_t i = 0; i < 2; i++) {
		snprintf(file, sizeof(file), "%s/%s", making, files[i]);
		unlink(file);
	}
	rmdir(making);
}

static int data_write(const struct data *data)
{
	char making[PATH_MAX + 16];
	struct bench_job job = {
		.work = WORK_MAKE,
		.path = making,
		.suffix = data->set->suffix,
		.records = data->records,
		.value_size = data->set->value_size,
	};
	struct bench_result result;
	int rc;

	snprintf(making, sizeof(making), "%s.unfinished", data->path);
	remove_unfinished(making);
	if (mkdir(making, 0777))
		return errno;
	fprintf(stderr, "making %s: %" PRIu64 " values of %" PRIu64 " bytes\n", data->path,
		data->records, data->set->value_size);
	rc = run_worker(&job, &result);
	if (!rc && rename(making, data->path))
		rc = errno;
	if (rc)
		remove_unfinished(making);
	return rc;
}

int data_make(struct data *data, const struct data_set *set, double scale, const char *directory)
{
	double records = (double)set->records * scale;
	int rc = 0;

	data->set = set;
	data->records = records < 1 ? 1 : (uint64_t)records;
	data->value_bytes = data->records * set->value_size;
	snprintf(data->name, sizeof(data->name), "%s-%" PRIu64, set->name, data->records);
	if (snprintf(data->path, sizeof(data->path), "%s/%s", directory, data->name) >=
	    (int)sizeof(data->path))
		rc = ENAMETOOLONG;
	if (!rc && mkdir(directory, 0777) && errno != EEXIST)
		rc = errno;
	if (!rc && data_file_size(data)) {
		rc = data_write(data);
		if (!rc)
			rc = data_file_size(data);
	}
	if (rc)
		fprintf(stderr, "bench_figures: %s: %s\n", data->path, strerror(rc));
	return rc;
}
