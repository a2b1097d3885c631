/* SPDX-License-Identifier: OLDAP-2.8 */
/* lmdbio_stage.h - how a job stages a data set in: the options and the report.
 *
 * Declares everything of lmdbio_mpi_stage() that needs no <mpi.h>. Programs include lmdbio_mpi.h,
 * which includes this header.
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
	LMDBIO_STAGE_DIRECTORY = 0, /* a copy on each node, in a directory on its local disk */
	LMDBIO_STAGE_SHARED = 1,    /* one copy, in a directory that all nodes see */
	LMDBIO_STAGE_MEMORY = 2,    /* a copy in each node's memory (lmdbio's arena) */
	LMDBIO_STAGE_NOWHERE = 3,   /* the bytes are read and dropped: measures the reading */
	LMDBIO_STAGE_PARTS = 4      /* one copy on all nodes together: each has a part in a local
				       directory; of a container, its data. POSIX calls only */
};

/* How a rank reads its share of the file. */
enum lmdbio_stage_reader {
	LMDBIO_STAGE_POSIX = 0,      /* POSIX calls, as in the drop-in: O_DIRECT if that suits */
	LMDBIO_STAGE_MPIIO = 1,      /* MPI_File_read_at */
	LMDBIO_STAGE_COLLECTIVE = 2, /* MPI_File_read_at_all */
};

enum {
	LMDBIO_STAGE_BUFFER = 16 << 20,     /* bytes: the default of `buffer` */
	LMDBIO_STAGE_BUFFER_MIN = 64 << 10, /* bytes */
	LMDBIO_STAGE_BUFFER_MAX = 1 << 30,  /* bytes */
	LMDBIO_STAGE_MEASURED = -1          /* for `group` */
};

/* The result of a staging; the same on all ranks. Later versions add fields at the end. */
struct lmdbio_stage_report {
	uint64_t size;        /* bytes; set to sizeof(struct lmdbio_stage_report) before the call */
	uint64_t file_bytes;  /* bytes of the data file, of the container, or of the data in it */
	uint64_t read_bytes;  /* bytes that the ranks asked of storage, all together */
	uint64_t read_calls;  /* reads that the ranks made for these bytes */
	uint64_t moved_bytes; /* bytes that went from node to node */
	uint64_t wall_ns;     /* nanoseconds from the first read to the end */
	uint64_t
		slowest_ns; /* nanoseconds waited for reads, on the rank which waited the longest */
	uint64_t average_ns; /* the mean over all ranks; imbalance is slowest_ns / average_ns */
	uint64_t group;      /* ranks that read at the same time (in the end) */
	uint64_t ranks, nodes;
	uint64_t nodes_before; /* nodes that had the copy already */
	uint64_t failed_rank;  /* if the call failed: the lowest rank on which it failed */
};

/* Memory of the node that stays filled. */
struct lmdbio_stage_hold;

/* The options of lmdbio_mpi_stage(). All ranks give the same, except `directory`, `report` and what
 * the comments on progress and hold allow. A field that is 0 or NULL means its default: clear the
 * struct and set `size`. Later versions add fields at the end. */
struct lmdbio_stage_options {
	size_t size; /* sizeof(struct lmdbio_stage_options) */
	enum lmdbio_stage_target target;
	enum lmdbio_stage_reader reader;

	/* For LMDBIO_STAGE_DIRECTORY, _SHARED and _PARTS. The staging makes a directory below this
	 * one, whose name identifies the data set and its state. Programs find a copy by
	 * LMDBIO_STAGED=DIRECTORY; the nodes' servers (lmdbio-run --mpi, lmdbio-serve) find parts.
	 * Each node may have another directory. */
	const char *directory;

	/* "key=value,key=value" for MPI-IO, beyond ROMIO's own defaults. romio_cb_read=enable makes
	 * ranks read for each other; then a read that fails leaves the other ranks waiting for
	 * ever, inside of ROMIO. */
	const char *hints;

	uint64_t buffer; /* bytes that a rank reads at a time; its memory is three times as much */
	uint64_t memory; /* bytes: budget of the node's memory; 0: as LMDBIO_MEMORY says */

	/* The number of ranks that read at the same time; the others wait for their turn. 0: all.
	 * LMDBIO_STAGE_MEASURED: begin with all, and halve the number as long as that is faster.
	 * With LMDBIO_STAGE_COLLECTIVE all must read at the same time. */
	int group;

	/* Called on each rank after each step: the job has staged `done` of `all` bytes. With
	 * LMDBIO_STAGE_PARTS these are the bytes of the rank's node; `all` is 0 if the node has its
	 * part already, or has none. A return code other than 0 (an errno) ends the staging on all
	 * ranks, and lmdbio_mpi_stage() returns it. NULL: not called. */
	int (*progress)(void *argument, uint64_t done, uint64_t all);
	void *progress_argument;

	struct lmdbio_stage_report *report; /* NULL: not wanted */

	/* For LMDBIO_STAGE_MEMORY, on all ranks: set to the hold for lmdbio_mpi_stage_release().
	 * The bytes stay in a node's memory until all its ranks have released theirs or ended. */
	struct lmdbio_stage_hold **hold;
};

#ifdef __cplusplus
}
#endif

#endif
