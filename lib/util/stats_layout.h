/* SPDX-License-Identifier: OLDAP-2.8 */
/* Defines the layout of counters in memory that the processes of a node share.
 *
 * A table is a memfd named "lmdbio-stats": a head, then STATS_SLOTS slots of whole pages; only
 * slots that were given out use memory. lmdbio-run makes one for its program and all of the
 * program's children; a process without lmdbio-run makes one for itself and its forked children
 * when it reads (stats_settle()). A process maps its slot over stats_own (stats.h), so an add goes
 * to shared memory at no further cost, and outlives the process. The process keeps a descriptor of
 * the table open, by which /proc shows the table to other processes of the same user. It also keeps
 * the map of the whole table, as programs close descriptors that they have not opened.
 *
 * A slot's counters never go back. After the first STATS_KEPT processes, a new process gets the
 * slot of a dead one, so a program that forks workers all its life needs no more memory for them.
 * The slot's counters go on from there, and base[] is where they stood. If no such slot is found,
 * the process gets an unused slot.
 */
#ifndef LMDBIO_UTIL_STATS_LAYOUT_H
#define LMDBIO_UTIL_STATS_LAYOUT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
	STATS_VERSION = 2, /* of this layout, and of each table */
	STATS_SLOTS = 4096,
	STATS_KEPT = 256,   /* processes that are reported one by one, the dead too */
	STATS_PROGRAM = 64, /* bytes of a program's name, its final 0 included */
	STATS_SIZES = 40, /* classes of request sizes: [i] from 2^i bytes on; the last has no end */
	STATS_SPANS = 64, /* spans of time of one length, over which waits are summed */
	STATS_SCALES = 9, /* lengths of spans: 1 s, 4 s, 16 s ... 18 hours */
#if defined(__x86_64__) || defined(__i386__)
	STATS_PAGE = 4096,
#else
	STATS_PAGE = 65536, /* the largest page of any kernel of these processors */
#endif
};

/* Bytes of /proc/PID/fd/N's link. */
#define STATS_MEMFD      "lmdbio-stats"
#define STATS_MEMFD_LINK "/memfd:" STATS_MEMFD " (deleted)"

static const uint64_t stats_magic = UINT64_C(0x7374617473627664);

enum stats_counter {
	STATS_STORAGE_REQUESTS, /* reads that lmdbio asked of storage */
	STATS_STORAGE_BYTES,    /* their length; reports add the bytes that the kernel has read
				   beyond that (stats_storage_bytes()) */
	STATS_SERVED_BYTES,     /* values handed to the program */
	STATS_WAITS,            /* times the program had to wait for bytes */
	STATS_WAIT_NS,          /* for how long */
	/* Extents that the program stepped on, by what stood under them: */
	STATS_HITS_CACHE,      /* page cache, brought there ahead of need */
	STATS_HITS_ARENA_OWN,  /* arena, loaded by this process */
	STATS_HITS_ARENA_PEER, /* arena, loaded by another process */
	STATS_AT_REST,         /* the file mapping as it was */
	STATS_EVICTIONS,       /* extents given back to stay within the budget */
	STATS_POPULATE_CALLS,  /* batches of page-table entries made */
	STATS_PREFETCH_REQUESTS,
	STATS_PREFETCH_BYTES,
	STATS_PREFETCH_USED,   /* bytes of them that the program used */
	STATS_STREAMS_STARTED, /* look-ahead began */
	STATS_STREAMS_BROKEN,  /* and ended because the program went elsewhere */
	STATS_FALLBACKS,       /* times a slower way was taken because the better one failed */
	STATS_HUGE_BYTES,      /* of STATS_PREFETCH_BYTES, read straight into huge pages */
	/* Bytes of the batch loader's samples, by where they were: */
	STATS_LOADER_MEMORY_BYTES, /* the node's memory */
	STATS_LOADER_STAGE_BYTES,  /* the local disk */
	STATS_LOADER_PEER_BYTES,   /* other nodes */
	STATS_LOADER_FILE_BYTES,   /* storage */
	STATS_CONTAINER_CHUNKS,    /* chunks of containers decompressed */
	STATS_COUNT
};

struct stats {
	alignas(64) _Atomic uint64_t value;
};

/* A process: its number and start time (in clock ticks, field 22 of /proc/PID/stat) in one word, so
 * that a reused number is another process. 0: none. */
enum { STATS_PID_BITS = 22 };

static inline int64_t stats_owner_pid(uint64_t owner)
{
	return (int64_t)(owner & ((UINT64_C(1) << STATS_PID_BITS) - 1));
}

static inline uint64_t stats_owner_start(uint64_t owner)
{
	return owner >> STATS_PID_BITS;
}

enum stats_kind {
	STATS_PROGRAM_KIND, /* a program that reads */
	STATS_SERVER_KIND,  /* a node's server: lmdbio-serve, or that of lmdbio-run --mpi */
};

/* Times are CLOCK_MONOTONIC's, in nanoseconds; 0: not yet. */
struct stats_slot {
	alignas(STATS_PAGE) _Atomic uint64_t owner;
	_Atomic uint64_t kind;      /* enum stats_kind */
	_Atomic uint64_t opened_ns; /* the first environment was opened */
	_Atomic uint64_t seen_ns;   /* the process was last known to live */
	_Atomic uint64_t ended_ns;  /* the process has ended by itself */
	_Atomic uint64_t budget;    /* bytes of memory for the arenas; 0: not asked for yet */
	/* The state now, and its maximum. A slot's next process begins from 0. */
	_Atomic uint64_t environments; /* open ones that lmdbio reads */
	_Atomic uint64_t queue;        /* reads in flight, ahead of need */
	_Atomic uint64_t waiters;      /* threads that live and have waited */
	_Atomic uint64_t waiters_most;
	/* Bytes that the kernel has read from disks for the process (kernel_file.h), each plus 1:
	 * at the open of the first data set that the kernel reads into the page cache of its own
	 * accord (0: there was none), and at the last look. */
	_Atomic uint64_t kernel_since, kernel_read;
	/* Sums over the slot's former processes. */
	_Atomic uint64_t past_kernel_bytes; /* beyond what lmdbio asked for */
	_Atomic uint64_t past_processes;
	_Atomic uint64_t past_elapsed_ns; /* from the first open, of all of them */
	_Atomic uint64_t past_of_ns;      /* the same for each waiting thread (stats_sum.of_ns) */
	char program[STATS_PROGRAM];
	_Atomic uint64_t base[STATS_COUNT];
	struct stats counters[STATS_COUNT];
	/* Requests to storage by size, as the counters are. */
	_Atomic uint64_t sizes_base[STATS_SIZES];
	_Atomic uint64_t sizes[STATS_SIZES];
	/* Nanoseconds of the waits that ended in each span, from the first open on, at each scale.
	 * One scale has about as many spans as the process is old, so no ring has to be emptied. A
	 * slot's next process begins from 0. */
	_Atomic uint64_t spans[STATS_SCALES][STATS_SPANS];
};

_Static_assert(sizeof(struct stats_slot) % STATS_PAGE == 0, "a slot is whole pages");

/* The first 48 bytes are the same in each version. */
struct stats_head {
	alignas(STATS_PAGE) uint64_t magic;
	uint32_t version;
	uint32_t head_size; /* of this struct */
	uint32_t slot_size; /* of struct stats_slot */
	uint32_t slots;
	uint32_t counters; /* STATS_COUNT */
	_Atomic uint32_t told_full;
	_Atomic uint64_t looked;   /* slots looked at, in turn, for reuse */
	_Atomic uint64_t reporter; /* the owner word of an lmdbio-run that reports for all; or 0 */
	_Atomic uint64_t used;     /* slots that have had a process: the first ones */
	/* Of the former processes of all slots: the first open of an environment, and the spans
	 * from that time on. */
	_Atomic uint64_t opened_ns;
	_Atomic uint64_t past_spans[STATS_SCALES][STATS_SPANS];
};

_Static_assert(sizeof(struct stats_head) % STATS_PAGE == 0, "the head is whole pages");

/* The sums of a report and the numbers of its verdict, of a process or of all in a table. */
struct stats_sum {
	uint64_t counters[STATS_COUNT];
	uint64_t processes;  /* that have opened an environment */
	uint64_t living;     /* of them */
	uint64_t elapsed_ns; /* from the first open to the end or now, summed over the processes */
	uint64_t of_ns;      /* the same over the processes that waited, for each thread that did */
	uint64_t sizes[STATS_SIZES]; /* requests to storage by size */
	uint64_t opened_ns; /* the first open of all; 0: waits over time are not asked for */
	unsigned scale;     /* of the spans: each is 4 to that power seconds */
	uint64_t spans[STATS_SPANS]; /* waited in each, from opened_ns on */
};

#endif
