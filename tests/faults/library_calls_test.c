/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a program sees when one call of the C library, at one place of lmdbio, fails: right bytes or the code of
 * the fault; and right bytes from everything that it opens afterwards, with no descriptor lost.
 *
 * Each life of the program (life.h) is a child process. Every place that makes such a call in it fails: once, and for ever.
 * Without TESTS_LONG the test leaves out some places, and all lives behind the first six. An argument names the one
 * life to run, with all its places. */
#include "config.h"
#include "library_calls.h"
#include "life.h"

#include "env_fixture.h"

#include "util/stats.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { SHORT = 67 }; /* each costs three times as much */
#else
enum { SHORT = 29 };
#endif
enum { SECONDS = 60, SHORT_LIVES = 6 };

struct attempt {
	const struct life *life;
	const struct call_place *at; /* NULL: no call fails */
	unsigned n;
	bool on;
};

/* A process gets its table of counters (util/stats.h) when it has lived for a while: here, at a known place. */
static unsigned descriptors_count(void)
{
	stats_settle();
	return lives_descriptors();
}

/* In a child. What a process keeps all its life is made by the first life that is good. */
static int attempt_run(void *argument)
{
	const struct attempt *attempt = argument;
	bool faulty = attempt->at != NULL, fired;
	unsigned before, after;

	lives_strict = !faulty;
	calls_record(!faulty);
	(void)alarm(SECONDS);
	if (faulty)
		calls_arm(attempt->at, attempt->n, attempt->on);
	attempt->life->live();
	attempt->life->live(); /* shared memory is made when reads have shown that it is worth it */
	fired = faulty && calls_disarm();
	lives_strict = true;
	before = descriptors_count();
	attempt->life->live();
	after = descriptors_count();
	attempt->life->live();
	if (lives_descriptors() > after || (after > before && !fired))
		lives_end(DESCRIPTORS, "descriptors", (int)(lives_descriptors() - after));
	return fired || !faulty ? FINE : UNMET;
}

static int live_in_process(const struct life *life, const struct call_place *at, unsigned n,
			   bool on)
{
	struct attempt attempt = {life, at, n, on};

	fflush(NULL);
	return in_process(attempt_run, &attempt);
}

/* For library_places_test.sh: into the file that it names. */
static void tell(const struct call_place *at, bool on)
{
	const char *path = getenv("LIBRARY_CALLS_FAILED");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fprintf(file, "%lx %s %s\n", (unsigned long)at->at, at->name, on ? "ever" : "once");
	fclose(file);
}

/* For library_places_test.sh as well: the places of the file that it names, or all. */
static bool is_asked_for(const struct call_place *at)
{
	static unsigned long asked[CALL_PLACES];
	static unsigned n;
	const char *path = getenv("LIBRARY_CALLS_ONLY");
	FILE *file = path && !n ? fopen(path, "r") : NULL;
	bool found = !path;

	while (file && n < CALL_PLACES && fscanf(file, "%lx", &asked[n]) == 1)
		n++;
	if (file)
		fclose(file);
	for (unsigned i = 0; i < n && !found; i++)
		found = asked[i] == (unsigned long)at->at;
	return found;
}

struct counted {
	unsigned places, runs, bad;
};

/* A place of a life fails, once or for ever. Returns whether it was met. */
static bool place_fails(const struct life *life, const struct call_place *at, bool on,
			struct counted *counted)
{
	unsigned fine = counted->runs;
	int rc = FINE;

	for (unsigned n = 1; n <= (on ? 1u : 2u) && n <= at->calls && (rc == FINE || rc == UNMET);
	     n++) {
		rc = live_in_process(life, at, n, on);
		counted->runs += rc == FINE;
	}
	if (counted->runs > fine)
		tell(at, on);
	if (rc == FINE || rc == UNMET)
		return counted->runs > fine;
	printf("%s: %s at %lx fails%s: it ends with %d\n", life->name, at->name,
	       (unsigned long)at->at, on ? " for ever" : "", rc);
	counted->bad++;
	return false;
}

/* Whether an earlier life has made it fail both ways: its first place that did. */
static bool is_known(const struct call_place *at, const uintptr_t *known, unsigned n)
{
	while (n && known[n - 1] != at->at)
		n--;
	return n;
}

int main(int argc, char **argv)
{
	static uintptr_t known[CALL_PLACES];
	struct counted counted = {0};
	bool all = getenv("TESTS_LONG") || argc > 1;
	const struct life *life;
	unsigned knows = 0;

	lives_begin();
	for (unsigned i = 0; (life = lives_number(i)); i++) {
		const struct call_place *at;
		unsigned news = 0;

		if (argc > 1 ? strcmp(argv[1], life->name) != 0 : !all && i >= SHORT_LIVES)
			continue;
		calls_begin();
		if (live_in_process(life, NULL, 0, false) != FINE) {
			printf("%s: a life without a failure is not fine\n", life->name);
			counted.bad++;
			continue;
		}
		for (unsigned place = 0; (at = calls_place(place)); place++) {
			bool once;

			if (is_known(at, known, knows) || !is_asked_for(at) ||
			    (!all && news++ % SHORT))
				continue;
			counted.places++;
			once = place_fails(life, at, false, &counted);
			if (place_fails(life, at, true, &counted) && once)
				known[knows++] = at->at;
		}
		calls_end();
	}
	printf("%u places, %u failures\n", counted.places, counted.runs);
	lives_over();
	return counted.bad ? 1 : 0;
}
