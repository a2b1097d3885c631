/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints the published tables of LMDBIO's papers beside the model's. */
#include "sim_papers_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

/* Scales beyond the papers': the last is the largest job that the simulator has nodes for. */
static const uint32_t beyond[] = {18432, 30000};

enum { SCALES_MOST = PAPERS_SCALES + sizeof(beyond) / sizeof(*beyond) };

struct modelled {
	unsigned n;
	uint32_t processes[SCALES_MOST];
	double seconds[PAPERS_ALL][SCALES_MOST];
};

static int model(const struct papers_plot *plot, struct modelled *all)
{
	int rc = 0;

	all->n = plot->n + sizeof(beyond) / sizeof(*beyond);
	for (unsigned i = 0; i < all->n; i++) {
		all->processes[i] = i < plot->n ? plot->processes[i] : beyond[i - plot->n];
		for (unsigned way = 0; !rc && way < PAPERS_ALL; way++) {
			struct papers_time time;

			rc = papers_model(plot, way, all->processes[i], &time);
			all->seconds[way][i] = time.seconds;
		}
	}
	return rc;
}

static bool is_published(const struct papers_plot *plot, unsigned way)
{
	return way < PAPERS_WAYS && plot->published[way][0] > 0;
}

/* Prints a row: published, modelled, and the deviation; a miss has a star. */
static void points_print(const struct papers_plot *plot, const struct modelled *all, unsigned i,
			 bool factor)
{
	printf("%9u", plot->processes[i]);
	for (unsigned way = factor; way < PAPERS_WAYS; way++) {
		double said = plot->published[way][i], found = all->seconds[way][i];

		if (!is_published(plot, way))
			continue;
		if (factor) {
			said = plot->published[PAPERS_LMDB][i] / said;
			found = all->seconds[PAPERS_LMDB][i] / found;
		}
		printf(factor ? " %6.2f %6.2f %+4.0f%c" : " %6.0f %6.0f %+4.0f%c", said, found,
		       100 * (found / said - 1), fabs(found / said - 1) > PAPERS_BOUND ? '*' : ' ');
	}
	putchar('\n');
}

static void head_print(const struct papers_plot *plot, bool factor)
{
	printf("processes");
	for (unsigned way = factor; way < PAPERS_WAYS; way++)
		if (is_published(plot, way))
			printf(" %19s", papers_way_name(way));
	putchar('\n');
}

/* Returns the least seconds of the papers' ways: at one scale, or of the original alone. */
static double least_at(const struct modelled *all, unsigned i)
{
	double least = all->seconds[PAPERS_LMDB][i];

	for (unsigned way = 1; way < PAPERS_WAYS; way++)
		least = fmin(least, all->seconds[way][i]);
	return least;
}

static double least_of(const struct modelled *all, enum papers_way way, unsigned n)
{
	double least = INFINITY;

	for (unsigned i = 0; i < n; i++)
		least = fmin(least, all->seconds[way][i]);
	return least;
}

static void ours_print(const struct papers_plot *plot, const struct modelled *all)
{
	double original = least_of(all, PAPERS_LMDB, plot->n),
	       ours = least_of(all, PAPERS_OURS, plot->n);

	printf("\nlmdbio under the same program, modelled\n%9s %9s %9s %9s %9s %9s\n", "processes",
	       "LMDB", "LMDBIO", "lmdbio", "x LMDB", "x LMDBIO");
	for (unsigned i = 0; i < all->n; i++)
		printf("%9u %9.0f %9.0f %9.1f %9.2f %9.2f\n", all->processes[i],
		       all->seconds[PAPERS_LMDB][i], least_at(all, i), all->seconds[PAPERS_OURS][i],
		       all->seconds[PAPERS_LMDB][i] / all->seconds[PAPERS_OURS][i],
		       least_at(all, i) / all->seconds[PAPERS_OURS][i]);
	printf("best against best: %.1f s of LMDB, %.1f s of lmdbio: %.1f\n", original, ours,
	       original / ours);
}

static int plot_print(const struct papers_plot *plot)
{
	struct modelled all;
	int rc = model(plot, &all);

	if (rc)
		return rc;
	printf("%s: %s (%s)\n", plot->name, plot->title, plot->source);
	printf("seconds published, modelled, and percent off\n");
	head_print(plot, false);
	for (unsigned i = 0; i < plot->n; i++)
		points_print(plot, &all, i, false);
	printf("\ntimes faster than LMDB, published, modelled, and percent off\n");
	head_print(plot, true);
	for (unsigned i = 0; i < plot->n; i++)
		points_print(plot, &all, i, true);
	ours_print(plot, &all);
	return 0;
}

static void misses_print(void)
{
	size_t n;
	const struct papers_miss *misses = papers_misses(&n);

	printf("* further off than %.0f percent, because:\n", 100 * PAPERS_BOUND);
	for (size_t i = 0; i < n; i++)
		printf("%s, %s, %u to %u processes: %s\n", misses[i].plot,
		       papers_way_name(misses[i].way), misses[i].from, misses[i].to,
		       misses[i].reason);
}

int papers_print(void)
{
	size_t n;
	const struct papers_plot *plots = papers_plots(&n);
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		rc = plot_print(&plots[i]);
		putchar('\n');
	}
	if (!rc)
		misses_print();
	return rc;
}

int requests_print(const struct requests_job *job)
{
	struct requests_count count;
	int rc = 0;

	printf("%-9s %12s %14s %12s\n", "way", "requests", "bytes", "waits");
	for (unsigned way = 0; !rc && way < PAPERS_ALL; way++) {
		rc = requests_count(job, way, &count);
		if (!rc)
			printf("%-9s %12.0f %14.0f %12.0f\n", papers_way_name(way), count.requests,
			       count.bytes, count.waits);
	}
	return rc;
}
