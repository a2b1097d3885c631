/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows the parts of the process that directs a soak. */
#ifndef SOAK_H
#define SOAK_H

#include "random_stream.h"
#include "soak_board.h"
#include "soak_reads.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum {
	SOAK_PATH = 4096,
	SOAK_LOOK_MS = 50,          /* from one look at the readers to the next */
	SOAK_LOOKS_PATIENCE = 1200, /* looks; a running reader without progress for so long hangs */
};

struct soak_options {
	double hours;
	uint64_t rounds; /* looks with progress; 0: hours count */
	uint64_t seed;
	uint32_t records, one_in;
	bool keep;
	const char *fault; /* what readers do wrong on purpose, or NULL */
};

/* One place of a reader. */
struct soak_place {
	const struct soak_role *role;
	pid_t pid;
	bool stopped;
	uint64_t until;     /* look at which it goes on */
	uint64_t progress;  /* at the last change */
	uint64_t unchanged; /* looks since then in which it ran */
	uint64_t longest;   /* the most of them */
	uint32_t rests_seen;
};

struct soak_counts {
	uint64_t looks, started, killed, stopped, commits, replaced, writers_killed;
};

/* Numbers over time. */
struct soak_series {
	double *values;
	size_t count, room;
};

/* Of a reader at rest. */
enum soak_figure {
	SOAK_REST_ANON_KIB,
	SOAK_REST_PSS_KIB,
	SOAK_REST_DESCRIPTORS,
	SOAK_REST_MAPS,
	SOAK_REST_THREADS,
	SOAK_REST_FIGURES,
};

/* Of all readers together, as they run. */
enum soak_node_figure {
	SOAK_NODE_PSS_MIB,
	SOAK_NODE_SEGMENT_MIB,
	SOAK_NODE_SEGMENTS,
	SOAK_NODE_COUNTERS_MIB, /* tables of counters */
	SOAK_NODE_DESCRIPTORS,
	SOAK_NODE_MAPS,
	SOAK_NODE_THREADS,
	SOAK_NODE_FIGURES,
};

struct soak {
	struct soak_options options;
	struct random_stream random;
	struct soak_board *board;
	struct soak_counts counts;
	char scratch[SOAK_PATH / 2], programs[SOAK_PATH / 2];
	bool alone; /* in a network namespace of its own */
	struct soak_place places[SOAK_SLOTS];
	unsigned n_places;
	struct soak_series rests[SOAK_SLOTS][SOAK_REST_FIGURES], node[SOAK_NODE_FIGURES];
	/* The writer, and the data set that is being made. */
	pid_t writer, maker;
	int to_writer, from_writer;
	bool writer_asked, packing;
	uint64_t made;     /* generation */
	unsigned failures; /* things that were complained of */
};

void soak_fail(struct soak *soak, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- soak_sets.c: data sets, their writer and their replacement */

/* Makes all of them and starts the writer. Returns whether all went well. */
bool soak_sets_make(struct soak *soak);
/* Goes on with what is to be committed, made or renamed; at most a few calls, none waits. */
void soak_sets_step(struct soak *soak);
/* `pid` has ended. Returns whether it was the writer or a maker. */
bool soak_sets_ended(struct soak *soak, pid_t pid, int status);
/* Ends writer and maker. */
void soak_sets_end(struct soak *soak);

/* --- soak_places.c: readers */

void soak_places_start(struct soak *soak);
/* Kills, stops and continues some, starts others, and looks for those that hang. */
void soak_places_step(struct soak *soak);
/* A reader has ended by itself, or a process of a killed reader. */
void soak_places_ended(struct soak *soak, pid_t pid, int status);
/* Lets all come to their end and waits for it. */
void soak_places_end(struct soak *soak);
bool soak_place_lives_long(const struct soak_place *place);
const char *soak_place_name(const struct soak_place *place);

/* --- soak_figures.c: what readers and node have */

void soak_figures_rests(struct soak *soak);
void soak_figures_node(struct soak *soak);
/* Prints the table, and complains of each figure that is not flat. */
void soak_figures_print(struct soak *soak, FILE *out);
void soak_figures_free(struct soak *soak);

#endif
