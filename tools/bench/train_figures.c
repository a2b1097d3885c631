/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes utilisation, and the next number of accelerators to try. */
#include "train.h"

#include <math.h>
#include <string.h>

/* The models that MLPerf Storage 2.0 publishes. */
static const struct train_model models[] = {
	{"unet3d", 146600628, 7, 4, 0.9, 636000, 323000},
	{"resnet50", 114660, 400, 8, 0.9, 435000, 224000},
	{"cosmoflow", 2828486, 1, 4, 0.7, 5510, 3500},
};

const struct train_model *train_model_find(const char *name)
{
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
		if (!strcmp(models[i].name, name))
			return &models[i];
	return NULL;
}

double train_utilisation(const struct bench_result *run, uint64_t compute, unsigned accelerators)
{
	double computed = (double)run->steps * (double)compute;
	double whole = (double)(run->last_step - run->first_step) * (double)accelerators;

	return run->steps && whole > 0 ? computed / whole : 0;
}

double train_fed(unsigned accelerators, double utilisation, double wanted)
{
	return (double)accelerators * utilisation / wanted;
}

unsigned train_search_next(struct train_search *search)
{
	unsigned least = search->passed + 1, guess;

	if (!search->failed) {
		unsigned twice = search->passed ? 2 * search->passed : 1;

		if (search->passed == search->most)
			return 0;
		return twice < search->most ? twice : search->most;
	}
	if (search->failed == least)
		return 0;
	/* A guess is tried once; if it has helped little, halving goes on. */
	if (search->guess <= 0)
		return (search->passed + search->failed) / 2;
	guess = (unsigned)floor(search->guess);
	search->guess = 0;
	if (guess < least)
		return least;
	return guess < search->failed ? guess : search->failed - 1;
}

void train_search_take(struct train_search *search, unsigned accelerators, double utilisation,
		       double wanted)
{
	if (utilisation >= wanted) {
		search->passed = accelerators;
	} else {
		search->guess = search->failed ? 0 : train_fed(accelerators, utilisation, wanted);
		search->failed = accelerators;
	}
}
