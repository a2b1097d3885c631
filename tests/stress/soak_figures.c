/* SPDX-License-Identifier: OLDAP-2.8 */
/* Figures of a soak: collects them, and compares the first quarter of the time with the last. */
#include "soak.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	SEGMENTS_MOST = 256,
	FEWEST = 8,          /* samples; of fewer there are no quarters */
	JUDGED_LOOKS = 1000, /* a shorter soak is all warming up */
	WARM_PART = 10,      /* of the samples, one in so many belongs to warming up */
};

/* How figures grow that have nothing to do with a leak: buffers of each thread that reads, heaps of
 * the C library, which keeps what is free. */

struct judged {
	const char *name;
	double factor, slack; /* last <= first * factor + slack, of the means */
};

static const struct judged rest_figures[SOAK_REST_FIGURES] = {
	[SOAK_REST_ANON_KIB] = {"memory KiB", 1.15, 4096},
	[SOAK_REST_PSS_KIB] = {"PSS KiB", 1.25, 8192},
	[SOAK_REST_DESCRIPTORS] = {"descriptors", 1.0, 1},
	[SOAK_REST_MAPS] = {"maps", 1.10, 24},
	[SOAK_REST_THREADS] = {"threads", 1.0, 4},
};

static const struct judged node_figures[SOAK_NODE_FIGURES] = {
	[SOAK_NODE_PSS_MIB] = {"PSS MiB", 1.20, 8},
	[SOAK_NODE_SEGMENT_MIB] = {"segments MiB", 1.20, 8},
	[SOAK_NODE_SEGMENTS] = {"segments", 1.20, 2},
	[SOAK_NODE_COUNTERS_MIB] = {"counters MiB", 1.20, 8},
	[SOAK_NODE_DESCRIPTORS] = {"descriptors", 1.10, 16},
	[SOAK_NODE_MAPS] = {"maps", 1.20, 200},
	[SOAK_NODE_THREADS] = {"threads", 1.20, 8},
};

static void add(struct soak_series *series, double value)
{
	if (series->count == series->room) {
		size_t room = series->room ? 2 * series->room : 256;
		double *values = realloc(series->values, room * sizeof(*values));

		if (!values)
			return;
		series->values = values;
		series->room = room;
	}
	series->values[series->count++] = value;
}

/* Between two samples of a reader the director looks many times: none is missed. */
void soak_figures_rests(struct soak *soak)
{
	for (unsigned i = 0; i < soak->n_places; i++) {
		struct soak_place *place = &soak->places[i];
		struct soak_slot *slot = &soak->board->slots[i];
		uint32_t before = slot->rests;
		struct soak_rest rest = slot->rest;

		if (!soak_place_lives_long(place) || before % 2 || before == place->rests_seen ||
		    before != slot->rests)
			continue;
		place->rests_seen = before;
		add(&soak->rests[i][SOAK_REST_ANON_KIB], (double)rest.anon_kib);
		add(&soak->rests[i][SOAK_REST_PSS_KIB], (double)rest.pss_kib);
		add(&soak->rests[i][SOAK_REST_DESCRIPTORS], rest.descriptors);
		add(&soak->rests[i][SOAK_REST_MAPS], rest.maps);
		add(&soak->rests[i][SOAK_REST_THREADS], rest.threads);
	}
}

/* --- the node --------------------------------------------------------------------------------- */

struct segments {
	ino_t seen[SEGMENTS_MOST];
	unsigned count;
	double mib, counters_mib;
};

static double field_of(pid_t pid, const char *file, const char *field)
{
	size_t length = strlen(field);
	double value = 0;
	char line[256];
	FILE *lines;

	snprintf(line, sizeof(line), "/proc/%d/%s", (int)pid, file);
	lines = fopen(line, "re");
	while (lines && fgets(line, sizeof(line), lines))
		if (!strncmp(line, field, length) && line[length] == ':')
			value = strtod(line + length + 1, NULL);
	if (lines)
		fclose(lines);
	return value;
}

static double maps_of(pid_t pid)
{
	char line[1024];
	double n = 0;
	FILE *lines;

	snprintf(line, sizeof(line), "/proc/%d/maps", (int)pid);
	lines = fopen(line, "re");
	while (lines && fgets(line, sizeof(line), lines))
		n++;
	if (lines)
		fclose(lines);
	return n;
}

/* Counts descriptors, and adds the memory files among them that are new. */
static double descriptors_of(pid_t pid, struct segments *segments)
{
	struct dirent *entry;
	char path[64];
	double n = 0;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	list = opendir(path);
	while (list && (entry = readdir(list)) != NULL) {
		char to[64] = "";
		struct stat st;
		bool again = false;

		if (entry->d_name[0] == '.')
			continue;
		n++;
		if (readlinkat(dirfd(list), entry->d_name, to, sizeof(to) - 1) <= 0 ||
		    strncmp(to, "/memfd:", 7) || fstatat(dirfd(list), entry->d_name, &st, 0))
			continue;
		for (unsigned i = 0; i < segments->count; i++)
			again = again || segments->seen[i] == st.st_ino;
		if (again || segments->count == SEGMENTS_MOST)
			continue;
		segments->seen[segments->count++] = st.st_ino;
		if (strncmp(to, "/memfd:lmdbio-stats", 19))
			segments->mib += (double)st.st_blocks / 2048;
		else
			segments->counters_mib += (double)st.st_blocks / 2048;
	}
	if (list)
		closedir(list);
	return n;
}

void soak_figures_node(struct soak *soak)
{
	struct segments segments = {.count = 0};
	double pss = 0, descriptors = 0, maps = 0, threads = 0;

	for (unsigned i = 0; i < soak->n_places; i++) {
		pid_t pid = soak->places[i].pid;

		if (!pid)
			continue;
		pss += field_of(pid, "smaps_rollup", "Pss") / 1024;
		descriptors += descriptors_of(pid, &segments);
		maps += maps_of(pid);
		threads += field_of(pid, "status", "Threads");
	}
	add(&soak->node[SOAK_NODE_PSS_MIB], pss);
	add(&soak->node[SOAK_NODE_SEGMENT_MIB], segments.mib);
	add(&soak->node[SOAK_NODE_SEGMENTS], segments.count);
	add(&soak->node[SOAK_NODE_COUNTERS_MIB], segments.counters_mib);
	add(&soak->node[SOAK_NODE_DESCRIPTORS], descriptors);
	add(&soak->node[SOAK_NODE_MAPS], maps);
	add(&soak->node[SOAK_NODE_THREADS], threads);
}

/* --- judged ----------------------------------------------------------------------------------- */

static double mean(const struct soak_series *series, size_t first, size_t end)
{
	double sum = 0;

	for (size_t i = first; i < end; i++)
		sum += series->values[i];
	return sum / (double)(end - first);
}

static double most(const struct soak_series *series)
{
	double value = 0;

	for (size_t i = 0; i < series->count; i++)
		value = series->values[i] > value ? series->values[i] : value;
	return value;
}

static void judge(struct soak *soak, const char *whose, const struct judged *figure,
		  const struct soak_series *series, FILE *out)
{
	size_t warm = series->count / WARM_PART, quarter = (series->count - warm) / 4;
	const char *verdict = "-";
	double first, last, means[4];
	bool rises;

	if (series->count < FEWEST) {
		fprintf(out, "%-28s %-12s only %zu samples\n", whose, figure->name, series->count);
		return;
	}
	for (size_t q = 0; q < 4; q++)
		means[q] = mean(series, warm + q * quarter, warm + (q + 1) * quarter);
	first = means[0];
	last = means[3];
	rises = last > first * figure->factor + figure->slack;
	if (soak->counts.looks >= JUDGED_LOOKS)
		verdict = rises ? "RISES" : "flat";
	fprintf(out, "%-28s %-12s %9.1f %9.1f %9.1f %9.1f %9.1f %7zu  %s\n", whose, figure->name, first,
		means[1], means[2], last, most(series), series->count, verdict);
	if (rises && soak->counts.looks >= JUDGED_LOOKS)
		soak_fail(soak, "%s of %s: %.1f in the first quarter, %.1f in the last", figure->name,
			  whose, first, last);
}

void soak_figures_print(struct soak *soak, FILE *out)
{
	fprintf(out, "%-28s %-12s %9s %9s %9s %9s %9s %7s\n", "mean of each quarter", "", "first",
		"second", "third", "last", "most", "samples");
	for (unsigned i = 0; i < soak->n_places; i++)
		for (unsigned f = 0; f < SOAK_REST_FIGURES; f++)
			if (soak_place_lives_long(&soak->places[i]))
				judge(soak, soak_place_name(&soak->places[i]), &rest_figures[f],
				      &soak->rests[i][f], out);
	for (unsigned f = 0; f < SOAK_NODE_FIGURES; f++)
		judge(soak, "all readers together", &node_figures[f], &soak->node[f], out);
}

void soak_figures_free(struct soak *soak)
{
	for (unsigned i = 0; i < SOAK_SLOTS; i++)
		for (unsigned f = 0; f < SOAK_REST_FIGURES; f++)
			free(soak->rests[i][f].values);
	for (unsigned f = 0; f < SOAK_NODE_FIGURES; f++)
		free(soak->node[f].values);
}
