/* SPDX-License-Identifier: OLDAP-2.8 */
/* lmdbio_stage.h - how a job stages a data set in: the options and what is told of it.
 *
 * Declares everything of lmdbio_mpi_stage() that needs no <mpi.h>. Programs
 * include lmdbio_mpi.h, which includes this.
 */
#ifndef LMDBIO_STAGE_H
#define LMDBIO_STAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the bytes go. */
enum lmdbio_stage_target {
	LMDBIO_STAGE_DIRECTORY = 0, /* a copy on each node, in a local directory of it */
	LMDBIO_STAGE_SHARED = 1,    /* one copy, in a directory that all nodes see */
	LMDBIO_STAGE_MEMORY = 2,    /* a copy in each node's memory (lmdbio's arena) */
	LMDBIO_STAGE_NOWHERE = 3,   /* read and dropped: measures the reading */
	LMDBIO_STAGE_PARTS = 4      /* one copy on all nodes together, each a part of it in a local
				       directory; of a container, its data. By POSIX alone */
};

/* How a rank reads its share of the file. */
enum lmdbio_stage_reader {
	LMDBIO_STAGE_POSIX = 0,      /* by itself, as the drop-in does: O_DIRECT where that suits */
	LMDBIO_STAGE_MPIIO = 1,      /* MPI_File_read_at */
	LMDBIO_STAGE_COLLECTIVE = 2, /* MPI_File_read_at_all */
};

enum {
	LMDBIO_STAGE_BUFFER = 16 << 20,     /* bytes: the default of `buffer` */
	LMDBIO_STAGE_BUFFER_MIN = 64 << 10, /* bytes */
	LMDBIO_STAGE_BUFFER_MAX = 1 << 30,  /* bytes */
	LMDBIO_STAGE_MEASURED = -1          /* for `group` */
};

/* What came of it; the same on all ranks. Later versions add fields at the end. */
struct lmdbio_stage_report {
	uint64_t size;        /* bytes; set to sizeof(struct lmdbio_stage_report) before the call */
	uint64_t file_bytes;  /* bytes of the data file, of the container, or of the data in it */
	uint64_t read_bytes;  /* bytes that the ranks asked of storage, all together */
	uint64_t read_calls;  /* in so many reads */
	uint64_t moved_bytes; /* bytes that went from node to node */
	uint64_t wall_ns;     /* nanoseconds from the first read to the end */
	uint64_t
		slowest_ns; /* nanoseconds that the rank waited for its reads that waited longest */
	uint64_t average_ns; /* the same, of all ranks; imbalance is slowest_ns / average_ns */
	uint64_t group;      /* ranks that read at the same time (in the end) */
	uint64_t ranks, nodes;
	uint64_t nodes_before; /* nodes that had the copy already */
	uint64_t failed_rank;  /* if the call failed: the lowest rank on which it did */
};

/* Memory of the node that stays filled. */
struct lmdbio_stage_hold;

/* What lmdbio_mpi_stage() is told. All ranks give the same, but for `directory` and what is said of
 * progress, report and hold. Fields that are 0 or NULL have their defaults, so clear it and set
 * `size`. Later versions add fields at the end. */
struct lmdbio_stage_options {
	size_t size; /* sizeof(struct lmdbio_stage_options) */
	enum lmdbio_stage_target target;
	enum lmdbio_stage_reader reader;

	/* For LMDBIO_STAGE_DIRECTORY, _SHARED and _PARTS: below it a directory is made whose name
	 * tells which data set and which state of it this is. LMDBIO_STAGED=DIRECTORY has programs
	 * find it; parts are found by the nodes' servers (lmdbio-run --mpi, lmdbio-serve). Each
	 * node may have another directory. */
	const char *directory;

	/* "key=value,key=value" for MPI-IO, beyond ROMIO's own defaults. romio_cb_read=enable makes
	 * ranks read for each other; then a read that fails leaves the other ranks waiting for
	 * ever, inside of ROMIO. */
	const char *hints;

	uint64_t buffer; /* bytes that a rank reads at a time; its memory is three times that */
	uint64_t memory; /* bytes: budget of the node's memory; 0: as LMDBIO_MEMORY says */

	/* Ranks that read at the same time, the others waiting their turn. 0: all.
	 * LMDBIO_STAGE_MEASURED: begin with all, halve as long as that is faster. With
	 * LMDBIO_STAGE_COLLECTIVE all must read at the same time. */
	int group;

	/* Called on each rank after each step with the bytes that the job has behind it, or, with
	 * LMDBIO_STAGE_PARTS, its node: `all` is 0 where that has its part already, or none. What
	 * it returns, if not 0, ends the staging on all ranks and is their return code (an errno).
	 * NULL: not called. */
	int (*progress)(void *argument, uint64_t done, uint64_t all);
	void *progress_argument;

	struct lmdbio_stage_report *report; /* NULL: not wanted */

	/* For LMDBIO_STAGE_MEMORY, on all ranks: set to what lmdbio_mpi_stage_release() takes. The
	 * bytes stay in a node's memory until all its ranks have called that, or have ended. */
	struct lmdbio_stage_hold **hold;
};

#ifdef __cplusplus
}
#endif

#endif
