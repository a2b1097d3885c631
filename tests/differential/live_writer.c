/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how the writing process keeps all values at its transaction's id. */
#include "live_writer.h"
#include "later_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
	enum live_command command;
	unsigned count;
};

/* The LMDB that writes. */
static const struct library *call = &library_original;

struct writing {
	struct later_writer *later; /* writes in its place, or NULL */
	MDB_env *env;
	MDB_dbi main, dups, growth;
	uint64_t grown; /* records of "growth" */
	size_t map_size;
	uint64_t last;
};

static int put_value(MDB_txn *txn, MDB_dbi dbi, const char *name, uint32_t number, uint32_t size)
{
	static unsigned char bytes[LIVE_GROWTH_SIZE];
	struct live_value head = {call->mdb_txn_id(txn), number, size};
	MDB_val key, value = {size, bytes};
	char text[32];

	key = (MDB_val){(size_t)snprintf(text, sizeof text, "%s%06u", name, number), text};
	memset(bytes, live_fill(head.txn, number), size);
	memcpy(bytes, &head, sizeof head);
	return call->mdb_put(txn, dbi, &key, &value, 0);
}

static int put_dups(MDB_txn *txn, MDB_dbi dbi, uint32_t number)
{
	MDB_val key = {sizeof number, &number}, value;
	int rc = call->mdb_del(txn, dbi, &key, NULL);

	if (rc == MDB_NOTFOUND)
		rc = 0;
	for (unsigned j = 0; j < live_dups(number) && rc == 0; j++) {
		uint64_t item = call->mdb_txn_id(txn) << 16 | j;

		value = (MDB_val){sizeof item, &item};
		rc = call->mdb_put(txn, dbi, &key, &value, 0);
	}
	return rc;
}

/* One transaction that rewrites everything and adds `more` records to "growth". */
static int write_by_lmdb(struct writing *writing, unsigned more)
{
	uint64_t grown = writing->grown;
	struct live_count count;
	MDB_val key = {12, (void *)(uintptr_t) "growth-count"}, value = {sizeof count, &count};
	MDB_txn *txn;
	int rc = call->mdb_txn_begin(writing->env, NULL, 0, &txn);

	if (rc != 0)
		return rc;
	for (uint32_t k = 0; k < LIVE_KEYS && rc == 0; k++) {
		uint64_t varied = (call->mdb_txn_id(txn) * 2654435761u + k * 40503u) % 9973;

		rc = put_value(txn, writing->main, "key", k,
			       (uint32_t)(sizeof(struct live_value) +
					  (k % 3 ? varied % 300 : 3000 + varied)));
	}
	for (uint32_t k = 0; k < LIVE_DUP_KEYS && rc == 0; k++)
		rc = put_dups(txn, writing->dups, k);
	for (; more > 0 && rc == 0; more--)
		rc = put_value(txn, writing->growth, "growth", (uint32_t)grown++, LIVE_GROWTH_SIZE);
	count = (struct live_count){call->mdb_txn_id(txn), grown};
	if (rc == 0)
		rc = call->mdb_put(txn, writing->main, &key, &value, 0);
	if (rc != 0) {
		call->mdb_txn_abort(txn);
		return rc;
	}
	writing->last = count.txn;
	rc = call->mdb_txn_commit(txn);
	if (rc == 0)
		writing->grown = grown;
	return rc;
}

static int write_once(struct writing *writing, unsigned more)
{
	return writing->later ? later_writer_write(writing->later, more)
			      : write_by_lmdb(writing, more);
}

static int enlarge(struct writing *writing)
{
	writing->map_size *= 2;
	if (writing->later)
		return later_writer_enlarge(writing->later, writing->map_size);
	return call->mdb_env_set_mapsize(writing->env, writing->map_size);
}

/* A held snapshot keeps old pages: the map may become too small in an ordinary transaction too. */
static int write_surely(struct writing *writing, unsigned more)
{
	int rc = write_once(writing, more);

	while (rc == MDB_MAP_FULL && (rc = enlarge(writing)) == 0)
		rc = write_once(writing, more);
	return rc;
}

static int tell(const struct writing *writing, struct live_answer *answer)
{
	MDB_envinfo info;
	int rc;

	if (writing->later) {
		later_writer_state(writing->later, answer);
		return 0;
	}
	rc = call->mdb_env_info(writing->env, &info);
	if (rc == 0) {
		answer->txn = writing->last;
		answer->last_page = info.me_last_pgno;
		answer->map_size = info.me_mapsize;
	}
	return rc;
}

static int grow(struct writing *writing)
{
	size_t before = writing->map_size;
	struct live_answer answer;
	int rc = 0;

	/* on, until pages stand behind the old end of the map */
	do {
		rc = write_surely(writing, 60);
		if (rc == 0)
			rc = tell(writing, &answer);
	} while (rc == 0 && (answer.last_page + 1) * 4096 <= before);
	return rc;
}

static bool read_all(int fd, void *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = read(fd, (char *)bytes + done, size - done);

		if (got <= 0 && !(got < 0 && errno == EINTR))
			return false;
		done += got > 0 ? (size_t)got : 0;
	}
	return true;
}

static int open_writing(struct writing *writing, enum live_kind kind, const char *directory,
			unsigned flags)
{
	MDB_txn *txn = NULL;
	int rc;

	if (kind == LIVE_LATER) {
		rc = later_writer_open(&writing->later, directory, flags, writing->map_size);
		return rc == 0 ? write_surely(writing, 1) : rc;
	}
	rc = call->mdb_env_create(&writing->env);

	if (rc == 0)
		rc = call->mdb_env_set_maxdbs(writing->env, 4);
	if (rc == 0)
		rc = call->mdb_env_set_mapsize(writing->env, writing->map_size);
	if (rc == 0)
		rc = call->mdb_env_open(writing->env, directory, flags, 0644);
	if (rc == 0)
		rc = call->mdb_txn_begin(writing->env, NULL, 0, &txn);
	if (rc == 0)
		rc = call->mdb_dbi_open(txn, NULL, 0, &writing->main);
	if (rc == 0)
		rc = call->mdb_dbi_open(txn, "dups",
					      MDB_CREATE | MDB_INTEGERKEY | MDB_DUPSORT |
						      MDB_DUPFIXED | MDB_INTEGERDUP,
					      &writing->dups);
	if (rc == 0)
		rc = call->mdb_dbi_open(txn, "growth", MDB_CREATE, &writing->growth);
	if (rc == 0)
		rc = call->mdb_txn_commit(txn);
	return rc == 0 ? write_surely(writing, 1) : rc;
}

static int run_until_asked(struct writing *writing, int from)
{
	struct pollfd ready = {.fd = from, .events = POLLIN};
	int rc = 0;

	while (rc == 0 && poll(&ready, 1, 0) == 0)
		rc = write_surely(writing, 0);
	return rc;
}

/* The process itself: reads commands until there are no more. */
static int serve(struct writing *writing, int rc, int from, int to)
{
	struct request request;

	while (read_all(from, &request, sizeof request)) {
		struct live_answer answer;

		memset(&answer, 0, sizeof answer);
		for (unsigned i = 0; request.command == LIVE_COMMIT && i < request.count && rc == 0;
		     i++)
			rc = write_surely(writing, 0);
		if (request.command == LIVE_GROW && rc == 0)
			rc = grow(writing);
		if (request.command == LIVE_CHECK && writing->later)
			answer.dead = later_writer_check(writing->later);
		if (rc == 0)
			rc = tell(writing, &answer);
		answer.rc = rc;
		if (write(to, &answer, sizeof answer) != (ssize_t)sizeof answer)
			break;
		if (request.command == LIVE_RUN && rc == 0)
			rc = run_until_asked(writing, from);
		if (request.command == LIVE_END)
			break;
	}
	if (writing->later)
		later_writer_close(writing->later);
	else
		call->mdb_env_close(writing->env);
	return rc == 0 ? 0 : 1;
}

int live_writer_start(struct live_writer *writer, enum live_kind kind,
		      const struct library *library, const char *directory, unsigned flags,
		      size_t map_size)
{
	struct writing writing = {.map_size = map_size};
	int there[2], back[2];

	if (pipe2(there, O_CLOEXEC) != 0)
		return errno;
	if (pipe2(back, O_CLOEXEC) != 0) {
		close(there[0]);
		close(there[1]);
		return errno;
	}
	fflush(stdout);
	writer->process = fork();
	if (writer->process == 0) {
		close(there[1]); /* so that the end of the parent is the end of the commands */
		close(back[0]);
		if (kind == LIVE_LOADED)
			call = library;
		_exit(serve(&writing, open_writing(&writing, kind, directory, flags), there[0],
			    back[1]));
	}
	close(there[0]);
	close(back[1]);
	writer->to = there[1];
	writer->from = back[0];
	return writer->process < 0 ? errno : 0;
}

int live_writer_ask(struct live_writer *writer, enum live_command command, unsigned count,
		    struct live_answer *answer)
{
	struct request request;

	memset(&request, 0, sizeof request);
	request.command = command;
	request.count = count;
	if (write(writer->to, &request, sizeof request) != (ssize_t)sizeof request ||
	    !read_all(writer->from, answer, sizeof *answer))
		return EPIPE;
	return answer->rc;
}

int live_writer_wait(struct live_writer *writer)
{
	int status;

	close(writer->to);
	close(writer->from);
	return waitpid(writer->process, &status, 0) == writer->process ? status : 0;
}

int live_writer_end(struct live_writer *writer)
{
	struct live_answer answer;
	int rc = live_writer_ask(writer, LIVE_END, 0, &answer), status = live_writer_wait(writer);

	return rc != 0 ? rc : status == 0 ? 0 : EIO;
}
