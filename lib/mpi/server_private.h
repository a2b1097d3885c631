/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the files of the node's server share. One thread owns all of it.
 *
 * The way of a chunk: a member wishes (or a peer asks) -> server_want() queues a load -> the load
 * starts when a buffer is free -> bytes land in the buffer -> they are put into the arena and sent
 * to the peers that have asked. A load reads storage (or the local disk, where the chunk was
 * staged) if this node owns the chunk. Otherwise it asks the owner, or the node that stands in for
 * an owner that is late (server_turns.c). */
#ifndef LMDBIO_MPI_SERVER_PRIVATE_H
#define LMDBIO_MPI_SERVER_PRIVATE_H

#include "arena/arena.h"
#include "io/io.h"
#include "mpi/answer_pace.h"
#include "mpi/chunk_spread.h"
#include "mpi/exchange_wire.h"
#include "mpi/mpi_job.h"
#include "mpi/part_file.h"

#include <mpi.h>

enum {
	/* Two bounds: with a single bound, two nodes could each wait for the other with all their
	 * buffers. */
	SERVER_READS = 16, /* of storage, in flight */
	SERVER_ASKS = 16,  /* of peers */
	SERVER_BUCKETS = 1024,
	SERVER_PATH = 4096,
};

struct server_counts {
	uint64_t read_requests, read_bytes; /* from storage */
	uint64_t local_bytes;               /* from the part on the local disk */
	uint64_t missed; /* own chunks that were not there, although a part should be */
	uint64_t asked_bytes, answered_bytes;
	uint64_t placed_bytes; /* of all these bytes: straight into huge pages */
	uint64_t alone;   /* read here because the owner did not answer */
	uint64_t refused; /* wishes without room, or whose read failed */
};

/* One data set in one snapshot, as this node sees it. */
struct server_set {
	struct server_set *next;
	char *path;
	int fd;
	struct io file, data;  /* the file; the data in a container, which is read through `file` */
	struct io local;       /* reads the part */
	struct part_file part; /* on the node's local disk, or none */
	bool staged;           /* LMDBIO_STAGED is set: there should be a part */
	bool part_failed, part_told;
	bool packed;
	struct arena *arena;
	struct identity identity;
	struct identity original;   /* the file's: a container's, if the data is in one */
	struct chunk_spread spread; /* which node has which chunk, the same on all nodes */
	uint64_t *sums;             /* of chunks that were sent, as exchange_sum(); 0: not known */
	bool lasting;       /* was named when the server began: it is kept, used or not */
	int failed;         /* errno of the first read that failed, or 0 */
	uint64_t next_own;  /* the next chunk to bring without a wish, owned here or not */
	bool serving;       /* this server takes the members' wishes */
	unsigned clients;   /* connections of members */
	unsigned loads;
	uint64_t used_at;    /* ns: when any process last used the set */
	uint64_t looked_at;  /* ns: when the unused set's file was last looked at */
	uint64_t beat_at;    /* ns */
	uint64_t full_until; /* ns: until then no room is looked for */
	struct server_counts counts;
};

/* Memory of a chunk's size, for a read or an answer and the sends out of it. */
struct server_buffer {
	struct server_buffer *next;
	uint8_t *bytes;
	unsigned users;
	bool for_read; /* for a read of storage */
};

/* Another node that waits for a chunk. */
struct server_ask {
	struct server_ask *next;
	struct exchange_debt debt;
};

struct server_load {
	struct server_load *chained; /* the next in its bucket */
	struct server_load *next;    /* the next in its queue, or among loads under way */
	struct server_set *set;
	uint64_t chunk;
	bool queued; /* not under way */
	bool urgent;
	bool alone;        /* other nodes were asked in vain */
	bool local;        /* reads the part */
	bool buffered;     /* the bytes have come, to the buffer */
	uint64_t began;    /* ns: when the wish came, then when the question or read began */
	uint64_t reserved; /* blocks of the arena that are reserved */
	struct server_buffer *buffer;
	uint8_t *
		place; /* claimed memory of the arena for the bytes; NULL: the buffer is for them */
	struct io_request request;
	struct chunk_order order;
	unsigned passed; /* nodes of the order that do not answer */
	unsigned turn;   /* turn of `source` */
	unsigned late;   /* its questions that were late */
	int source;      /* the node that the chunk comes from */
	struct server_ask *asks;
};

struct server_queue {
	struct server_load *first, **last;
};

/* Memory that MPI may read: a buffer, or (set not NULL) the pinned chunk of an arena. */
struct server_hold {
	struct server_hold *next;
	struct server_buffer *buffer;
	struct server_set *set;
	uint64_t chunk;
};

struct server_client {
	struct server_client *next;
	int fd;
	struct server_set *set; /* NULL before its hello */
	bool waits;             /* for the end of the server */
};

struct server {
	struct server *left; /* the next server whose memory MPI may still use */
	const char *node;
	struct mpi_place place;
	MPI_Comm comm; /* of the servers; MPI_COMM_NULL if there is one node */
	int epoll, listener;
	bool filling; /* the named sets are being brought; none is given up */
	bool ending;  /* the server takes no wishes any more */
	bool stopped; /* the server was told to end, or a peer said that it ends */
	bool starved; /* a program or a set lacked descriptors, and no set was given up since */
	int unopened; /* the first error of opening a named set, or 0 */
	struct server_client *clients;
	struct server_set *sets;
	struct server_load *buckets[SERVER_BUCKETS];
	struct server_queue urgent, ahead; /* loads that are not started */
	struct server_load *under_way;
	struct server_hold *holds;
	struct server_buffer *spare; /* buffers not in use */
	unsigned reads, asks;        /* buffers in use */
	struct wire wire;            /* open if there is a communicator */
	struct answer_pace pace;     /* likewise */
};

/* server_sets.c */
/* Finds or makes the set of a member's descriptor, which it takes in any case. Returns 0 or an
 * errno. */
int server_set_join(struct server *server, int fd, const struct identity *identity,
		    struct server_set **set);
/* Finds or opens the set that a peer names, by the job form of its identity. Returns NULL if this
 * node has no such set. */
struct server_set *server_set_find(struct server *server, const char *path,
				   const struct identity *identity);
/* Opens a set by its path, to bring and keep it. Returns 0 or an errno. */
int server_set_open(struct server *server, const char *path);
/* Whether the file is still what it was when the set was made. */
bool server_set_holds(const struct server_set *set);
void server_sets_close(struct server *server);
/* Writes a line of text about each set; if `size` does not hold all lines, a last line has the
 * number of those that are missing. Returns the length. */
size_t server_sets_report(const struct server *server, char *text, size_t size);
/* The same as a table with a head line. */
size_t server_sets_table(const struct server *server, char *text, size_t size);
/* Returns a hash of which sets were named when the server began, the same on nodes that see the same
 * files. */
uint64_t server_sets_hash(const struct server *server);
/* About this node's parts of the sets that were named when the server began. _fit: whether there is
 * room for them (0 or ENOSPC). _failed: the errno of a read that has failed, or 0. _are_brought:
 * whether all chunks have been asked for and none is on its way. _lack: why a chunk is not in
 * memory (0, a read's errno or ENOSPC). */
int server_sets_fit(const struct server *server);
int server_sets_failed(const struct server *server);
bool server_sets_are_brought(const struct server *server);
int server_sets_lack(const struct server *server);
/* Gives up sets that no process has used for long, when all sets together are more than the budget,
 * or descriptors were short, or the file was changed or deleted. */
void server_sets_trim(struct server *server);
/* Notes that a set could not be opened. If descriptors are short, unused sets are given up. */
void server_sets_starve(struct server *server);
uint64_t server_chunk_length(const struct server_set *set, uint64_t chunk); /* in whole blocks */
int server_owner(const struct server_set *set, uint64_t chunk);

/* server_parts.c */
/* Opens the set's part, if there is one. */
void server_part_open(const struct server *server, struct server_set *set);
bool server_part_has(const struct server_set *set, uint64_t chunk);
/* Whether a read of one chunk from the part has brought what was staged. If not, the caller reads
 * storage. */
bool server_part_came(struct server_set *set, const struct io_request *request);
void server_part_close(struct server_set *set);

/* server_loads.c */
struct server_load *server_want(struct server *server, struct server_set *set, uint64_t chunk,
				bool urgent);
bool server_loads_step(struct server *server, uint64_t now); /* whether anything was done */
bool server_is_idle(const struct server *server);
/* Returns how many blocks of a chunk are not in the arena. */
uint64_t server_missing(const struct server_set *set, uint64_t chunk);
/* Returns a buffer for a chunk, or NULL without memory. The buffer that was given back last comes
 * first, because its pages are in memory. */
struct server_buffer *server_buffer_take(struct server *server);
void server_buffer_release(struct server *server, struct server_buffer *buffer);
/* A question has brought a chunk whose sum is right to the load's buffer. */
void server_load_asked(struct server *server, struct server_load *load);
/* A question has brought nothing, and the load has no buffer any more. The chunk comes from the
 * next node of its order, or (`alone`) this node reads it. */
void server_load_pass(struct server *server, struct server_load *load, bool alone);

/* server_turns.c: which node a chunk comes from when its owner does not answer, or is slow. */
enum load_way { COMES_FROM_STORAGE, COMES_FROM_PEER, COMES_LATER };
/* Sets the load's turn and source. COMES_LATER: that node has as many questions as it may have. */
enum load_way server_turn(struct server *server, struct server_load *load);
/* A peer asks for a chunk, and says that the first `passed` nodes of its order do not answer. */
void server_turns_believe(const struct server *server, struct server_load *load, unsigned passed);

/* server_peers.c */
int server_peers_open(struct server *server, MPI_Comm comm);
bool server_peers_step(struct server *server, uint64_t now);
/* Whether bytes of a set are on their way to or from a peer. */
bool server_peers_use(const struct server *server, const struct server_set *set);
/* Tells all peers that this server ends. */
void server_stop_peers(struct server *server);
/* Asks no more. Returns whether no server asks any more and all answers are sent. */
bool server_peers_are_over(struct server *server);
/* Asks the load's source. Then the load lands, or passes its source. Returns false if it cannot be
 * asked. */
bool server_ask(struct server *server, struct server_load *load);
/* Asks the load's source to learn its pace. No load waits for the answer. */
void server_probe(struct server *server, const struct server_load *load);
/* Loads whose questions are late pass their source; the questions stay open. Returns whether there
 * were any. */
bool server_questions_late(struct server *server, uint64_t now);
void server_answer_all(struct server *server, struct server_load *load, int error);
/* Answers out of the arena. Returns false if the whole chunk is not there. */
bool server_answer_there(struct server *server, struct server_load *load);

/* server_door.c */
int server_door_open(struct server *server);
void server_door_step(struct server *server);
void server_door_close(struct server *server);

#endif
