/* SPDX-License-Identifier: OLDAP-2.8 */
/* The node's server: what its files share. One thread owns all of it.
 *
 * The way of a chunk: a member wishes (or a peer asks) -> server_want() queues a load -> it is
 * started when a buffer is free, as a read of storage (or of the local disk, where it was staged)
 * where this node owns the chunk, else as a question to the owner, or to the node that stands in for
 * an owner that is late (server_turns.c) -> bytes land in the buffer -> they are put into the arena
 * and sent to the peers that have asked.
 */
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
	/* Two bounds: with one for both, two nodes could each wait for the other with all of it. */
	SERVER_READS = 16, /* of storage, in flight */
	SERVER_ASKS = 16,  /* of peers */
	SERVER_BUCKETS = 1024,
	SERVER_PATH = 4096,
};

struct server_counts {
	uint64_t read_requests, read_bytes; /* from storage */
	uint64_t local_bytes;               /* from the part on the local disk */
	uint64_t missed; /* chunks that were not had there, though they should */
	uint64_t asked_bytes, answered_bytes;
	uint64_t placed_bytes; /* of all these: straight into huge pages */
	uint64_t alone;   /* read here because the owner did not answer */
	uint64_t refused; /* wishes for which there was no room, or a read failed */
};

/* One data set in one snapshot, as this node sees it. */
struct server_set {
	struct server_set *next;
	char *path;
	int fd;
	struct io file, data; /* data: what is read; of a container it stands on `file` */
	struct io local;      /* on the part */
	struct part_file part; /* on the node's local disk, or none */
	bool staged;           /* LMDBIO_STAGED is set: there should be one */
	bool part_failed, part_told;
	bool packed;
	struct arena *arena;
	struct identity identity;
	struct identity original;   /* of the file: of a container that the data is in */
	struct chunk_spread spread; /* which node has what: all nodes agree on it */
	uint64_t *sums;             /* of chunks that were sent, as exchange_sum(); 0: not known */
	bool lasting;       /* was named when the server began: it is kept, used or not */
	int failed;         /* the errno of the first read that has failed, or 0 */
	uint64_t next_own;  /* the next chunk to be brought without a wish; those that are not owned too */
	bool serving;       /* members' wishes are ours */
	unsigned clients;   /* connections of members */
	unsigned loads;
	uint64_t used_at;    /* ns, by anybody */
	uint64_t beat_at;    /* ns */
	uint64_t full_until; /* ns: no room is looked for before */
	struct server_counts counts;
};

/* Memory of a chunk's size, for a read or an answer and the sends out of it. */
struct server_buffer {
	struct server_buffer *next;
	uint8_t *bytes;
	unsigned users;
	bool for_read; /* of storage */
};

/* Another node that waits for a chunk. */
struct server_ask {
	struct server_ask *next;
	struct exchange_debt debt;
};

struct server_load {
	struct server_load *chained; /* in its bucket */
	struct server_load *next;    /* in its queue, or among those under way */
	struct server_set *set;
	uint64_t chunk;
	bool queued; /* not under way */
	bool urgent;
	bool alone; /* other nodes have been asked in vain */
	bool local; /* is read from the part */
	bool buffered;     /* the bytes have come, to the buffer */
	uint64_t began;    /* of the wish, then of the question; ns */
	uint64_t reserved; /* blocks of the arena */
	struct server_buffer *buffer;
	uint8_t *
		place; /* claimed memory of the arena that the bytes come to, or NULL: the buffer */
	struct io_request request;
	struct chunk_order order;
	unsigned passed; /* nodes of the order that do not answer */
	unsigned turn;   /* of the node that it comes from */
	unsigned late;   /* questions that were late */
	int source;      /* that node */
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
	bool waits;             /* for the end */
};

struct server {
	struct server *left; /* the next of those that have broken off */
	const char *node;
	struct mpi_place place;
	MPI_Comm comm; /* the servers; MPI_COMM_NULL where there is one node */
	int epoll, listener;
	bool ending; /* no wish is taken any more */
	bool stopped; /* it was told to end, or a peer told it that it ends */
	bool starved; /* descriptors were short for a program or a set, and no set has been given up since */
	int unopened; /* why the first named set that could not be opened was not */
	struct server_client *clients;
	struct server_set *sets;
	struct server_load *buckets[SERVER_BUCKETS];
	struct server_queue urgent, ahead; /* not started */
	struct server_load *under_way;
	struct server_hold *holds;
	struct server_buffer *spare; /* buffers not in use */
	unsigned reads, asks;        /* buffers in use */
	struct wire wire;            /* open where there is a communicator */
	struct answer_pace pace;     /* likewise */
};

/* server_sets.c */
/* The set behind a member's descriptor, which is taken in any case; 0 or an errno. */
int server_set_join(struct server *server, int fd, const struct identity *identity,
		    struct server_set **set);
/* The set that a peer means, by the job form of its identity. NULL: there is none such here. */
struct server_set *server_set_find(struct server *server, const char *path,
				   const struct identity *identity);
/* Opens a set by its path, to be brought and kept; 0 or an errno. */
int server_set_open(struct server *server, const char *path);
/* Whether the file still is what it was when the set was made. */
bool server_set_holds(const struct server_set *set);
void server_sets_close(struct server *server);
/* What became of each set, as lines of text. Returns the length, cut to what `size` holds. */
size_t server_sets_report(const struct server *server, char *text, size_t size);
/* The same as a table with a head line. */
size_t server_sets_table(const struct server *server, char *text, size_t size);
/* Of the sets that were named when the server began, and of what this node has of them: whether
 * there is room for that (0 or ENOSPC); whether a read has failed (its errno, or 0); whether all
 * has been asked for and nothing is on its way; why it is not in memory (0, a read's errno or
 * ENOSPC). */
int server_sets_fit(const struct server *server);
int server_sets_failed(const struct server *server);
bool server_sets_are_brought(const struct server *server);
int server_sets_lack(const struct server *server);
/* Gives up sets that no process has used for long, when all together are more than the budget, or descriptors were short. */
void server_sets_trim(struct server *server);
/* A set cannot be opened. If descriptors are short, sets that no process uses are to be given up for it. */
void server_sets_starve(struct server *server);
uint64_t server_chunk_length(const struct server_set *set, uint64_t chunk); /* in whole blocks */
int server_owner(const struct server_set *set, uint64_t chunk);

/* server_parts.c */
/* Opens the set's part, where it has one. */
void server_part_open(const struct server *server, struct server_set *set);
bool server_part_has(const struct server_set *set, uint64_t chunk);
/* Whether a read from the part, of one chunk, has brought what was staged; else storage is to be
 * asked. */
bool server_part_came(struct server_set *set, const struct io_request *request);
void server_part_close(struct server_set *set);

/* server_loads.c */
struct server_load *server_want(struct server *server, struct server_set *set, uint64_t chunk,
				bool urgent);
bool server_loads_step(struct server *server, uint64_t now); /* whether anything was done */
bool server_is_idle(const struct server *server);
/* A buffer of a chunk, or NULL without memory. The one that was given back last comes first: its pages are there. */
struct server_buffer *server_buffer_take(struct server *server);
void server_buffer_release(struct server *server, struct server_buffer *buffer);
/* A question has brought a chunk whose sum is right to the load's buffer. */
void server_load_asked(struct server *server, struct server_load *load);
/* A question has brought nothing; the load has no buffer any more. It comes from the next node of its order, or
 * (`alone`) is read here. */
void server_load_pass(struct server *server, struct server_load *load, bool alone);

/* server_turns.c: which node a chunk comes from when its owner does not answer, or is slow. */
enum load_way { COMES_FROM_STORAGE, COMES_FROM_PEER, COMES_LATER };
/* Sets the load's turn and source. COMES_LATER: the node has as many questions as it may have. */
enum load_way server_turn(struct server *server, struct server_load *load);
/* A peer asks for a chunk, of whose order it has passed so many nodes. */
void server_turns_believe(const struct server *server, struct server_load *load, unsigned passed);

/* server_peers.c */
int server_peers_open(struct server *server, MPI_Comm comm);
bool server_peers_step(struct server *server, uint64_t now);
/* Whether bytes of a set are on their way to or from a peer. */
bool server_peers_use(const struct server *server, const struct server_set *set);
/* Tells all peers that this server ends. */
void server_stop_peers(struct server *server);
/* Asks no more: whether no server does, and all answers are sent. */
bool server_peers_are_over(struct server *server);
/* Asks the load's source: then the load lands, or passes it. false: it cannot be asked. */
bool server_ask(struct server *server, struct server_load *load);
/* Asks the load's source to learn its pace: nothing waits for the answer. */
void server_probe(struct server *server, const struct server_load *load);
/* Loads whose questions are late pass their source; the questions stay open. Returns whether there were any. */
bool server_questions_late(struct server *server, uint64_t now);
void server_answer_all(struct server *server, struct server_load *load, int error);
/* Answers out of the arena, where the whole chunk is. false: it is not. */
bool server_answer_there(struct server *server, struct server_load *load);

/* server_door.c */
int server_door_open(struct server *server);
void server_door_step(struct server *server);
void server_door_close(struct server *server);

#endif
