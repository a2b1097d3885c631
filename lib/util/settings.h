/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the settings that a user may make, and those in force.
 *
 * The table in settings.c is the one list of variables; lmdbio(7) repeats it and a test compares.
 */
#ifndef LMDBIO_UTIL_SETTINGS_H
#define LMDBIO_UTIL_SETTINGS_H

#include "util/checksums.h"

#include <stdbool.h>
#include <stdint.h>

enum settings_stats {
	SETTINGS_STATS_OFF,
	SETTINGS_STATS_TEXT,
	SETTINGS_STATS_JSON,
	SETTINGS_STATS_FILE,
};

struct settings {
	bool secure;	   /* set-uid or the like: nothing was read from the environment */
	bool disable;	   /* LMDBIO_DISABLE: forward everything to the original */
	bool verbose;      /* LMDBIO_VERBOSE: banner and reasons */
	const char *io;	   /* LMDBIO_IO: "auto", "pread" or "direct" */
	const char *store; /* LMDBIO_STORE: "auto", "cache" or "arena" */
	struct settings_memory {
		uint64_t bytes;	  /* 0: not set in bytes */
		unsigned percent; /* of the memory allowed, 1 to 100; 0: not set in percent */
	} memory;		  /* LMDBIO_MEMORY: as memory_budget() reads it */
	const char *node;	  /* LMDBIO_NODE, or NULL */
	const char *staged;       /* LMDBIO_STAGED: a directory, its real name, or NULL */
	const char *later;        /* LMDBIO_LMDB1: the library of an LMDB 1.0, "": none, or NULL */
	bool share;    /* LMDBIO_SHARE: keep one copy with the other processes of the node */
	bool mpi;      /* LMDBIO_MPI: serve the node's processes from inside an MPI program */
	unsigned mpi_pid;  /* LMDBIO_MPI_PID: the process as which lmdbio-run runs that program; 0:
			      none */
	unsigned patience; /* LMDBIO_PATIENCE: multiplies each bound on a wait for another process,
			      1 to SETTINGS_PATIENCE_MOST */
	bool prefetch; /* LMDBIO_PREFETCH: exact look-ahead for moving cursors */
	const char *around; /* LMDBIO_AROUND: "auto", "0" or "1": guess the next reads where values
			       are read at random */
	const struct checksum *checksum; /* LMDBIO_CHECKSUM: of pages of LMDB 1.0, or NULL */
	struct settings_output {
		enum settings_stats how;
		const char *file; /* absolute if that was possible, %h %p %r %% unexpanded */
	} stats;		  /* LMDBIO_STATS */
	const char *stats_at;     /* LMDBIO_STATS_AT: the table of the lmdbio-run that reports, as
				     stats_table_join() reads it, or NULL */
};

enum {
	SETTINGS_MEMORY_LEAST = 1 << 20,
	SETTINGS_NODE_LONGEST = 255,
	SETTINGS_PATIENCE_MOST = 1000
};

/* Returns the settings, read from the environment at the process's first call. A value that makes
 * no sense causes one line on standard error, and the default. Threads: any. Lifetime: the
 * process's. */
const struct settings *settings_get(void);

/* Returns the bound on a wait for another process or node, in any unit; `usual` is the bound
 * without LMDBIO_PATIENCE. Threads: any. */
static inline uint64_t settings_patience(uint64_t usual)
{
	return usual * settings_get()->patience;
}

/* Checks a value of a variable ("LMDBIO_IO"), for a command that sets it by a flag. Returns NULL if
 * the value is allowed, else the allowed values, as words that continue "wants". Threads: any. */
const char *settings_refuses(const char *variable, const char *value);

/* Parses a value of LMDBIO_STATS. Returns false if it makes no sense. The file's name is malloc'ed.
 * Threads: any. */
bool settings_output_parse(const char *value, struct settings_output *output);

/* Parses "123", "64k", "64M", "64MiB", "2G", "1T": bytes, in steps of 1024; "64MB": in steps of
 * 1000. Returns false, and leaves *bytes, for anything else or more than 64 bits hold. */
bool size_parse(const char *text, uint64_t *bytes);

#endif
