/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the jobs of LMDBIO's papers: their clusters, the published times, and the model of each
 * way to read.
 *
 * The papers are S. Pumma, M. Si, W. Feng, P. Balaji: HPCC 2017, ICPADS 2017, posters of
 * EuroMPI/USA 2017 and ICPP 2018, and ACM TOPC 6(2), article 6, 2019 ("TOPC"). Computing is not
 * modelled: its seconds are the published ones. The model computes how long a batch waits for its
 * records, from faults, requests, seeks, copies and shared bandwidth. sim_published.c says where
 * each number comes from, and which seven were fitted.
 */
#ifndef LMDBIO_LAB_SIM_PAPERS_H
#define LMDBIO_LAB_SIM_PAPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAPERS_SCALES = 16 };

enum papers_way {
	PAPERS_LMDB, /* each process steps through a map of its own */
	PAPERS_LMM,  /* one process a node steps, and copies into shared memory */
	PAPERS_DM,   /* the same; the process touches only its part, at a guessed place */
	PAPERS_DIO,  /* one process finds all places first; a node reads its part by pread() */
	PAPERS_PROV, /* a formula computes the places */
	PAPERS_COAL, /* parts of many batches are one pread(), as far as memory allows */
	PAPERS_STAG, /* a group of nodes at a time */
	PAPERS_WAYS,
	PAPERS_OURS = PAPERS_WAYS, /* lmdbio-run --mpi: the same program as PAPERS_LMDB */
	PAPERS_ALL,
};

struct papers_cluster {
	const char *name;
	uint32_t cores;   /* processes of a full node */
	uint64_t memory;  /* bytes a node that COAL reads into */
	double fault;     /* seconds for a mapped page that the file system has in memory */
	double wakeup;    /* seconds that a node loses for each sleeper that a page wakes */
	uint64_t window;  /* bytes that a fault brings from storage */
	double storage;   /* bytes a second for all nodes, from the servers' memory */
	double pread[4];  /* bytes a second of a process: requests of 4, 8, 16, 32 KiB and more */
	uint32_t disks;   /* stand for all disks of the servers */
	double disk_rate; /* bytes a second of each, in order */
	double seek;      /* seconds, if a disk's next request is for another place */
	uint64_t block;   /* bytes in a row on one disk */
	double skew;      /* standard deviation of the computing of a full node's processes */
	double spread;    /* standard deviation of the nodes' times for a batch's records */
	double network;   /* bytes a second of a node, each way */
	double hop;       /* seconds for a message between nodes */
	double turn;      /* seconds for DM's cursor to get from node to node */
	double server;    /* bytes a second that lmdbio's server thread receives and copies */
	double step;      /* seconds for MDB_NEXT over a record in memory */
};

struct papers_computing {
	double forward, backward, other; /* seconds of the whole job, of an average process */
};

struct papers_plot {
	const char *name, *title, *source;
	const struct papers_cluster *cluster;
	bool draws_factors;      /* the paper draws how many times faster than LMDB, too */
	uint64_t batch, records; /* of a batch; of the job */
	uint32_t value_pages, leaf_records;
	unsigned n;
	uint32_t processes[PAPERS_SCALES];
	struct papers_computing computing[PAPERS_SCALES];
	double published[PAPERS_WAYS][PAPERS_SCALES]; /* seconds of the job; 0: not published */
};

/* A published point that the model misses by more than PAPERS_BOUND, and the reason. */
#define PAPERS_BOUND 0.25

struct papers_miss {
	const char *plot;
	enum papers_way way;
	uint32_t from, to; /* processes */
	const char *reason;
};

struct papers_time {
	double seconds;
	double computing, reading; /* reading: the part that computing does not hide */
	double bytes;              /* from storage, all nodes */
};

/* Return static tables; *n is the number of rows. */
const struct papers_plot *papers_plots(size_t *n);
const struct papers_miss *papers_misses(size_t *n);
const char *papers_way_name(enum papers_way way);
/* Returns the reason for a point beyond the bound, or NULL. */
const char *papers_miss_of(const struct papers_plot *plot, enum papers_way way, uint32_t processes);

/* Models a job of `processes` processes. Beyond the plot's last scale the batch grows with the
 * processes, two records each, and the job's records stay as many (TOPC 5.3). Returns 0, EINVAL or
 * ENOMEM. */
int papers_model(const struct papers_plot *plot, enum papers_way way, uint32_t processes,
		 struct papers_time *time);

#endif
