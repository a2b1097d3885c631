/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows what the processes of a soak tell each other: one file, mapped by all of them. */
#ifndef SOAK_BOARD_H
#define SOAK_BOARD_H

#include "chance_faults.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
	SOAK_SLOTS = 32,
	SOAK_SETS = 3,
};

/* What a reader is doing. */
enum soak_task {
	SOAK_OPENING,
	SOAK_GETS,
	SOAK_SCAN,
	SOAK_HINTS,
	SOAK_NUMBERS,
	SOAK_FORK,
	SOAK_THREADS,
	SOAK_LOADER,
	SOAK_HOLD,
	SOAK_REST,
	SOAK_TASKS,
};

/* What a process has while it rests: no transaction, no loader, no call on its way. */
struct soak_rest {
	uint64_t anon_kib, pss_kib; /* memory of its own; its part of what is mapped */
	uint32_t descriptors, maps, threads;
};

/* Of one reader, or of all that had this slot one after another. Counters only grow. */
struct soak_slot {
	_Atomic uint64_t progress; /* values looked at; any change says that the reader is alive */
	_Atomic uint64_t codes;    /* calls that said a documented code after a fault */
	_Atomic uint64_t wrong;    /* the first of them stands in `complaint` */
	_Atomic uint64_t tasks[SOAK_TASKS];
	struct chance_counts faults;
	_Atomic uint32_t task;  /* enum soak_task */
	_Atomic uint32_t rests; /* counted before and after `rest` is written: odd in between */
	struct soak_rest rest;
	char complaint[256];
};

struct soak_board {
	_Atomic uint32_t stop;
	/* Of the data sets that are replaced: the newest one's number before and after it came. */
	_Atomic uint64_t coming[SOAK_SETS], come[SOAK_SETS];
	struct soak_slot slots[SOAK_SLOTS];
};

#endif
