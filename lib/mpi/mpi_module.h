/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what a program without MPI asks of the module that has it.
 *
 * MPI lives in liblmdbio-mpi.so alone. A tool finds it by module_load() and calls the functions of
 * its one table; no type of <mpi.h> is seen here, so that a file that includes this needs no MPI.
 */
#ifndef LMDBIO_MPI_MPI_MODULE_H
#define LMDBIO_MPI_MPI_MODULE_H

#include <lmdbio_stage.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the table below: a tool and its module come from one build. */
enum { MPI_MODULE_VERSION = 8 };
#define MPI_MODULE_SYMBOL "lmdbio_mpi_module"

/* A process's place in the job. Ranks are of one node when they can meet: on one machine, in the
 * same namespaces of network and process ids. MPICH is asked (MPI_COMM_TYPE_SHARED) only where it
 * makes several nodes of one machine, as MPIR_CVAR_NUM_CLIQUES says. */
struct mpi_place {
	int rank, ranks;           /* in the job */
	int node, nodes;           /* nodes are numbered in the order of their lowest rank */
	int node_rank, node_ranks; /* in the node; 0 is the lowest rank of it */
};

/* What a process does besides serving its node. */
struct mpi_work {
	const char *node; /* LMDBIO_NODE of the node's programs, "": not set; NULL: serve_begin() finds it */
	int fd;           /* when it can be read, there is something to look at */
	/* Looks, without waiting. Returns true when this process's work is over; it is called on. */
	bool (*look)(void *context);
	void *context;
	bool looks_often;         /* look() has more to see than `fd` tells */
	bool together;            /* the work of all is over when one's is */
	const char *const *paths; /* data sets to bring at once, and to keep; NULL-terminated, or NULL */
	bool fills;               /* serve_fill() follows, and tells what became of them */
};

/* What ranks that make one file together ask of each other. Every function is collective: all ranks
 * call it, in the same order. They return 0 or an errno, which ranks may differ in if nothing else
 * is said. */
struct mpi_sharing {
	/* The number of the lowest rank that has one which is not 0, the same on all. */
	int (*agree)(int status);
	/* What rank 0 has there becomes all ranks'. */
	int (*tell)(void *bytes, size_t length);
	/* The sums of the lengths of the ranks before, and of all. */
	int (*place)(uint64_t length, uint64_t *before, uint64_t *all);
	/* All ranks' bytes, behind each other, in rank 0's *all, which is malloc()ed; NULL
	 * elsewhere. At most 2 GiB in all. The same code on all. */
	int (*collect)(const void *bytes, size_t length, void **all, size_t *total);
	/* Opens a file that is there, for writing; one at a time. */
	int (*open)(const char *path);
	/* Each rank its bytes; ranges do not overlap and rise with the rank. */
	int (*write)(const void *bytes, size_t length, uint64_t offset);
	/* What was written is on the disk then. Nothing is open: 0. */
	int (*close)(void);
};

struct mpi_module {
	unsigned version;
	const char *release; /* lmdbio's, which must be the tool's own */

	/* Starts MPI in this process, which must not have done so, with all errors returned, and
	 * tells its place. `threads`: MPI_THREAD_MULTIPLE is needed. Every rank of the job calls it
	 * once. Returns 0; ENOTSUP: MPI has less than the threads that are needed; EMFILE: too few
	 * descriptors are left for MPI; else as mpi_error_code(). */
	int (*begin)(bool threads, struct mpi_place *place);

	/* Whether this MPI speaks PMI's version 1 with a launcher that has given it a descriptor
	 * for that, and nothing at all between begin and end. */
	bool (*is_pmi1)(void);

	/* One process of each node begins to serve it. Collective: when it returns, programs of the node
	 * find their server. Returns 0, or the errno of why this node has none of this job's
	 * (EADDRINUSE: there is another, which serves its programs); serve() is called all the same. */
	int (*serve_begin)(struct mpi_work *work);

	/* After serve_begin(): returns when each node has its part of the work's data sets in its
	 * memory, all nodes together one copy. Collective; all ranks get the same code: 0; what
	 * serve_begin() has returned somewhere; ENOSPC: a part is more than three quarters of its
	 * node's budget (of one node: than the budget), or had no room; EINTR: look() says that the
	 * work is over; an errno or an LMDB code of opening and reading. *report as
	 * lmdbio_mpi_stage() has it; serve() is called in any case. But ECONNABORTED, on one rank alone:
	 * MPI fails, and the others would wait for this rank for ever; abort() is what is left.
	 */
	int (*serve_fill)(const struct mpi_work *work, struct lmdbio_stage_report *report);

	/* Has a thread of this process serve, in an MPI session of its own, until the process ends:
	 * `first`, before the program begins MPI, whose threads are MPI_THREAD_MULTIPLE then,
	 * whatever it asks for; else when it has begun it with that. With `first` it waits for all
	 * ranks, as MPI_Init does. To be called again in the program's later calls of LMDB: there it
	 * finds MPI begun, and not ending. Returns 0 or an errno, of the first call alone. */
	int (*inside)(bool first);

	/* Serves, or only waits, until the work of every process of the job is over. Collective. Returns 0, or EIO:
	 * MPI fails, and the others would wait for this rank for ever; abort() is what is left. */
	int (*serve)(const struct mpi_work *work);

	/* Ends MPI, when all ranks have called it. Returns 0 or as mpi_error_code(); ECONNABORTED:
	 * MPI fails, has not ended, and the others may wait for this rank for ever; abort() is what
	 * is left. */
	int (*end)(void);

	/* Ends every process of the job at once, this one too, with that status. */
	void (*abort)(int status);

	/* Returns when all ranks have called it, and takes next to no processor until then. 0 or
	 * EIO. */
	int (*gather)(void);

	/* lmdbio_mpi_stage() over the job, between begin and end. */
	int (*stage)(const char *path, const struct lmdbio_stage_options *options);
	/* What LMDBIO_NODE must be for a program to find what is held; "": as it is. The hold's. */
	const char *(*stage_node)(const struct lmdbio_stage_hold *hold);
	void (*stage_release)(struct lmdbio_stage_hold *hold);

	/* For a conversion, between begin and end. */
	const struct mpi_sharing *sharing;
};

#endif
