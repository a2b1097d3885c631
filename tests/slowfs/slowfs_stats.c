/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts reads, in total and for each file, and logs them. */
#include "slowfs_stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t stats_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void slowfs_stats_init(struct slowfs_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	pthread_mutex_init(&stats->lock, NULL);
	atomic_store(&stats->reset_us, stats_now_us());
}

struct slowfs_file *slowfs_stats_file(struct slowfs_stats *stats, const char *path)
{
	struct slowfs_file *file;

	pthread_mutex_lock(&stats->lock);
	for (file = stats->files; file != NULL; file = file->next) {
		if (strcmp(file->path, path) == 0)
			goto out;
	}
	file = calloc(1, sizeof(*file) + strlen(path) + 1);
	if (file == NULL)
		goto out;
	strcpy(file->path, path);
	file->next = stats->files;
	stats->files = file;
out:
	pthread_mutex_unlock(&stats->lock);
	return file;
}

static unsigned int hist_row(uint64_t asked)
{
	unsigned int row = 0;

	while (row < SLOWFS_HIST_ROWS - 1 && (UINT64_C(1) << row) < asked)
		row++;
	return row;
}

static void counters_add(struct slowfs_counters *counters, const struct slowfs_read *read)
{
	atomic_fetch_add(&counters->requests, 1);
	atomic_fetch_add(&counters->asked, read->asked);
	atomic_fetch_add(&counters->bytes, read->served);
	atomic_fetch_add(&counters->failed, read->error != 0);
	atomic_fetch_add(&counters->shortened, read->shortened);
	atomic_fetch_add(&counters->hist[hist_row(read->asked)], 1);
}

static void counters_reset(struct slowfs_counters *counters)
{
	atomic_store(&counters->requests, 0);
	atomic_store(&counters->asked, 0);
	atomic_store(&counters->bytes, 0);
	atomic_store(&counters->failed, 0);
	atomic_store(&counters->shortened, 0);
	for (unsigned int i = 0; i < SLOWFS_HIST_ROWS; i++)
		atomic_store(&counters->hist[i], 0);
}

static void counters_print(struct slowfs_counters *counters, const char *prefix, FILE *out)
{
	fprintf(out, "%srequests %" PRIuFAST64 "\n", prefix, atomic_load(&counters->requests));
	fprintf(out, "%sbytes_asked %" PRIuFAST64 "\n", prefix, atomic_load(&counters->asked));
	fprintf(out, "%sbytes %" PRIuFAST64 "\n", prefix, atomic_load(&counters->bytes));
	fprintf(out, "%sfailed %" PRIuFAST64 "\n", prefix, atomic_load(&counters->failed));
	fprintf(out, "%sshortened %" PRIuFAST64 "\n", prefix, atomic_load(&counters->shortened));
	for (unsigned int i = 0; i < SLOWFS_HIST_ROWS; i++) {
		uint64_t count = atomic_load(&counters->hist[i]);

		if (count > 0)
			fprintf(out, "%shist_%ju %ju\n", prefix, (uintmax_t)(UINT64_C(1) << i),
				(uintmax_t)count);
	}
}

static void raise_to(atomic_uint_fast64_t *most, uint_fast64_t value)
{
	uint_fast64_t max = atomic_load(most);

	while (max < value && !atomic_compare_exchange_weak(most, &max, value))
		continue;
}

void slowfs_stats_begin(struct slowfs_stats *stats, struct slowfs_read *read)
{
	raise_to(&stats->inflight_max, atomic_fetch_add(&stats->inflight, 1) + 1);
	read->microseconds = stats_now_us() - atomic_load(&stats->reset_us);
}

void slowfs_stats_end(struct slowfs_stats *stats, const struct slowfs_read *read)
{
	atomic_fetch_sub(&stats->inflight, 1);
	atomic_fetch_add(&stats->delay_us, (read->delay_ns + 999) / 1000);
	raise_to(&stats->delay_max_us, (read->delay_ns + 999) / 1000);
	counters_add(&stats->total, read);
	counters_add(&read->file->counters, read);
	if (!atomic_load(&stats->logging))
		return;
	pthread_mutex_lock(&stats->lock);
	stats->log[stats->log_count++ % SLOWFS_LOG_ROWS] = *read;
	pthread_mutex_unlock(&stats->lock);
}

void slowfs_stats_reset(struct slowfs_stats *stats)
{
	pthread_mutex_lock(&stats->lock);
	counters_reset(&stats->total);
	for (struct slowfs_file *file = stats->files; file != NULL; file = file->next)
		counters_reset(&file->counters);
	atomic_store(&stats->delay_us, 0);
	atomic_store(&stats->delay_max_us, 0);
	stats->log_count = 0;
	atomic_store(&stats->inflight_max, atomic_load(&stats->inflight));
	atomic_store(&stats->reset_us, stats_now_us());
	pthread_mutex_unlock(&stats->lock);
}

int slowfs_stats_log(struct slowfs_stats *stats, bool on)
{
	int rc = 0;

	pthread_mutex_lock(&stats->lock);
	if (on && stats->log == NULL)
		stats->log = calloc(SLOWFS_LOG_ROWS, sizeof(*stats->log));
	if (on && stats->log == NULL)
		rc = ENOMEM;
	else
		atomic_store(&stats->logging, on);
	pthread_mutex_unlock(&stats->lock);
	return rc;
}

void slowfs_stats_print(struct slowfs_stats *stats, FILE *out)
{
	char prefix[4096 + 2];

	counters_print(&stats->total, "", out);
	fprintf(out, "inflight %" PRIuFAST64 "\n", atomic_load(&stats->inflight));
	fprintf(out, "inflight_max %" PRIuFAST64 "\n", atomic_load(&stats->inflight_max));
	fprintf(out, "delay_us %" PRIuFAST64 "\n", atomic_load(&stats->delay_us));
	fprintf(out, "delay_max_us %" PRIuFAST64 "\n", atomic_load(&stats->delay_max_us));
	pthread_mutex_lock(&stats->lock);
	for (struct slowfs_file *file = stats->files; file != NULL; file = file->next) {
		if (atomic_load(&file->counters.requests) == 0)
			continue;
		snprintf(prefix, sizeof(prefix), "%s:", file->path);
		counters_print(&file->counters, prefix, out);
	}
	pthread_mutex_unlock(&stats->lock);
}

void slowfs_stats_print_log(struct slowfs_stats *stats, FILE *out)
{
	uint64_t first;

	pthread_mutex_lock(&stats->lock);
	first = stats->log_count > SLOWFS_LOG_ROWS ? stats->log_count - SLOWFS_LOG_ROWS : 0;
	for (uint64_t i = first; i < stats->log_count; i++) {
		const struct slowfs_read *read = &stats->log[i % SLOWFS_LOG_ROWS];

		fprintf(out, "%ju %ju %ju %ju %d %s\n", (uintmax_t)read->microseconds,
			(uintmax_t)read->offset, (uintmax_t)read->asked, (uintmax_t)read->served,
			read->error, read->file->path);
	}
	pthread_mutex_unlock(&stats->lock);
}
