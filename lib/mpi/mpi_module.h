/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what a program without MPI asks of the module that has it.
 *
 * Only liblmdbio-mpi.so uses MPI. A tool finds it by module_load() and calls the functions of its
 * one table. This file shows no type of <mpi.h>, so a file that includes it needs no MPI. */
#ifndef LMDBIO_MPI_MPI_MODULE_H
#define LMDBIO_MPI_MPI_MODULE_H

#include <lmdbio_stage.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of the table below: a tool and its module come from one build. */
enum { MPI_MODULE_VERSION = 8 };
#define MPI_MODULE_SYMBOL "lmdbio_mpi_module"

/* A process's place in the job. A node's ranks can meet: they are on one machine, in the same
 * namespaces of network and process ids. lmdbio asks MPICH (MPI_COMM_TYPE_SHARED) only where MPICH
 * makes several nodes of one machine, as MPIR_CVAR_NUM_CLIQUES says. */
struct mpi_place {
	int rank, ranks;           /* in the job */
	int node, nodes;           /* nodes are numbered in the order of their lowest rank */
	int node_rank, node_ranks; /* in the node; 0 is the lowest rank of it */
};

/* What a process does besides serving its node. */
struct mpi_work {
	const char *node; /* LMDBIO_NODE of the node's programs, "": not set; NULL: serve_begin() finds it */
	int fd;           /* readable when look() has something to look at */
	/* Looks, without waiting. Returns true when this process's work is over. The server still
	 * calls it then. */
	bool (*look)(void *context);
	void *context;
	bool looks_often;         /* look() sees more than `fd` tells */
	bool together;            /* the work of all processes is over when one process's is */
	const char *const *paths; /* data sets to bring at once, and to keep; NULL-terminated, or NULL */
	bool fills;               /* serve_fill() follows, and tells what became of the data sets */
};

/* How ranks write one file together. Every function is collective: all ranks call it, in the same
 * order. It returns 0 or an errno. The code may differ between ranks, unless the function says
 * otherwise. */
struct mpi_sharing {
	/* Returns on all ranks the status of the lowest rank whose status is not 0, or 0. */
	int (*agree)(int status);
	/* Copies rank 0's bytes to all ranks. */
	int (*tell)(void *bytes, size_t length);
	/* Sums the lengths of the ranks before this one, and of all ranks. */
	int (*place)(uint64_t length, uint64_t *before, uint64_t *all);
	/* Puts all ranks' bytes, behind each other, into rank 0's *all, which is malloc()ed; NULL
	 * on other ranks. At most 2 GiB in all. Returns the same code on all ranks. */
	int (*collect)(const void *bytes, size_t length, void **all, size_t *total);
	/* Opens a file that exists, for writing; one at a time. */
	int (*open)(const char *path);
	/* Each rank writes its bytes. The ranges do not overlap, and rise with the rank. */
	int (*write)(const void *bytes, size_t length, uint64_t offset);
	/* Closes the file, and has what was written on the disk. Returns 0 if no file is open. */
	int (*close)(void);
};

struct mpi_module {
	unsigned version;
	const char *release; /* lmdbio's, which must be the tool's own */

	/* Starts MPI in this process, which must not have done so, with all errors returned, and
	 * sets *place. `threads`: the caller needs MPI_THREAD_MULTIPLE. Every rank of the job calls
	 * it once. Returns 0; ENOTSUP: MPI has fewer threads than needed; EMFILE: too few
	 * descriptors are left; else as mpi_error_code(). */
	int (*begin)(bool threads, struct mpi_place *place);

	/* Whether this MPI speaks PMI's version 1 with a launcher that gave it a descriptor for
	 * that. Between begin and end MPI then says nothing to the launcher. */
	bool (*is_pmi1)(void);

	/* One process of each node begins to serve it. Collective: when it returns, programs of the
	 * node find their server. Returns 0, or the errno that says why this node has no server of
	 * this job (EADDRINUSE: another server serves its programs). The caller calls serve() in
	 * any case. */
	int (*serve_begin)(struct mpi_work *work);

	/* After serve_begin(): returns when each node has its part of the work's data sets in its
	 * memory. All nodes together have one copy. Collective. All ranks get the same code: 0;
	 * what serve_begin() has returned somewhere; ENOSPC: a part is more than three quarters of
	 * its node's budget (of one node: than the budget), or had no room; ESTALE: nodes see
	 * different files, or a file has changed meanwhile; EINTR: look() says that
	 * the work is over; an errno or an LMDB code of opening and reading. But ECONNABORTED comes
	 * on one rank alone: MPI fails, the other ranks would wait for this rank for ever, and only
	 * abort() is left. Sets *report as lmdbio_mpi_stage() does. After every other code the
	 * caller calls serve(). */
	int (*serve_fill)(const struct mpi_work *work, struct lmdbio_stage_report *report);

	/* Has a thread of this process serve, in an MPI session of its own, until the process ends.
	 * `first`: the program has not begun MPI. MPI's threads are then MPI_THREAD_MULTIPLE,
	 * whatever the program asks for, and the call waits for all ranks, as MPI_Init does.
	 * Otherwise the thread serves when the program has begun MPI with MPI_THREAD_MULTIPLE. The
	 * program's later calls of LMDB call it again, while MPI has begun and does not end.
	 * Returns 0 or an errno, which only the first call returns. */
	int (*inside)(bool first);

	/* Serves, or only waits, until the work of every process of the job is over. Collective.
	 * Returns 0, or EIO: MPI fails, the other ranks would wait for this rank for ever, and only
	 * abort() is left. */
	int (*serve)(const struct mpi_work *work);

	/* Ends MPI, when all ranks have called it. Returns 0 or as mpi_error_code(). ECONNABORTED:
	 * MPI fails and has not ended; other ranks may wait for ever, and only abort() is left. */
	int (*end)(void);

	/* Ends every process of the job at once with that status, this process too. */
	void (*abort)(int status);

	/* Returns when all ranks have called it, and takes almost no processor time. Returns 0 or
	 * EIO. */
	int (*gather)(void);

	/* lmdbio_mpi_stage() over the job, between begin and end. */
	int (*stage)(const char *path, const struct lmdbio_stage_options *options);
	/* The LMDBIO_NODE with which a program finds the held data; "": the value it has. The
	 * hold's. */
	const char *(*stage_node)(const struct lmdbio_stage_hold *hold);
	void (*stage_release)(struct lmdbio_stage_hold *hold);

	/* For a conversion, between begin and end. */
	const struct mpi_sharing *sharing;
};

#endif
