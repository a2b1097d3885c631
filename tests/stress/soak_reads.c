/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gets, steps of cursors and their judgement, for the readers of the soak. */
#include "soak_reads.h"

#include <errno.h>
#include <lmdbio.h>
#include <stdarg.h>
#include <stdio.h>

enum {
	KEPT = 8,	   /* values looked at once more before the transaction ends */
	WRONG_EACH = 9999, /* values, where the reader is wrong on purpose */
};

bool soak_goes_on(const struct soak_reader *reader)
{
	return !reader->board->stop && !reader->slot->wrong;
}

void soak_complain(struct soak_reader *reader, const char *format, ...)
{
	struct soak_slot *slot = reader->slot;
	va_list list;

	chance_pause();
	if (atomic_fetch_add(&slot->wrong, 1) == 0) {
		va_start(list, format);
		vsnprintf(slot->complaint, sizeof(slot->complaint), format, list);
		va_end(list);
	}
	chance_go_on();
}

bool soak_is_code(int rc, uint64_t mark)
{
	return (rc == EIO || rc == ENOMEM || rc == EMFILE || rc == EAGAIN || rc == ENOSPC) &&
	       chance_failed() > mark;
}

int soak_make(struct soak_reading *reading, struct soak_call *call)
{
	struct soak_reader *reader = reading->reader;
	int rc = call->make(reading, call);

	if (!rc || rc == MDB_NOTFOUND)
		return rc;
	if (!soak_is_code(rc, reading->mark)) {
		soak_complain(reader, "%s of record %u says %d (%s) without a fault", call->name,
			      call->record, rc, mdb_strerror(rc));
		return rc;
	}
	(void)atomic_fetch_add(&reader->slot->codes, 1);
	chance_pause();
	call->again = true;
	rc = call->make(reading, call);
	chance_go_on();
	if (rc && rc != MDB_NOTFOUND)
		soak_complain(reader, "%s of record %u says %d (%s) when the fault is over",
			      call->name, call->record, rc, mdb_strerror(rc));
	return rc;
}

bool soak_look(struct soak_reading *reading, const struct soak_call *call)
{
	struct soak_reader *reader = reading->reader;
	uint64_t version = soak_version(call->record, reading->id);
	struct soak_found found = {0};

	if (atomic_fetch_add(&reader->slot->progress, 1) % WRONG_EACH == 1 && reader->fault == 'b')
		version++;
	if (soak_is_sound(&reader->data, &call->key, &call->value, &found) &&
	    found.record == call->record && found.version == version &&
	    found.generation == reader->generation)
		return true;
	soak_complain(reader,
		      "%s of record %u, version %llu in snapshot %llu, generation %llu: "
		      "found record %u, version %llu, generation %llu, %zu bytes",
		      call->name, call->record, (unsigned long long)version,
		      (unsigned long long)reading->id, (unsigned long long)reader->generation,
		      found.record, (unsigned long long)found.version,
		      (unsigned long long)found.generation, call->value.mv_size);
	return false;
}

static int make_begin(struct soak_reading *reading, struct soak_call *call)
{
	(void)call;
	return mdb_txn_begin(reading->reader->env, NULL, MDB_RDONLY, &reading->txn);
}

static int make_cursor(struct soak_reading *reading, struct soak_call *call)
{
	(void)call;
	return mdb_cursor_open(reading->txn, reading->reader->dbi, &reading->cursor);
}

int soak_begin(struct soak_reading *reading)
{
	struct soak_call begin = {.name = "mdb_txn_begin", .make = make_begin};
	struct soak_call cursor = {.name = "mdb_cursor_open", .make = make_cursor};
	int rc;

	reading->txn = NULL;
	reading->cursor = NULL;
	reading->mark = chance_failed();
	rc = soak_make(reading, &begin);
	if (rc)
		return rc;
	reading->id = mdb_txn_id(reading->txn);
	rc = soak_make(reading, &cursor);
	if (rc)
		soak_end(reading);
	return rc;
}

void soak_end(struct soak_reading *reading)
{
	if (reading->cursor)
		mdb_cursor_close(reading->cursor);
	if (reading->txn)
		mdb_txn_abort(reading->txn);
	reading->cursor = NULL;
	reading->txn = NULL;
}

static int make_get(struct soak_reading *reading, struct soak_call *call)
{
	call->key = soak_key(&call->text, call->record);
	return mdb_get(reading->txn, reading->reader->dbi, &call->key, &call->value);
}

static int make_number(struct soak_reading *reading, struct soak_call *call)
{
	return lmdbio_get_record(reading->txn, reading->reader->dbi, call->record, &call->key,
				 &call->value);
}

/* The code that a call has ended with, as all of these return it. */
static int judged(struct soak_reading *reading, const struct soak_call *call, int rc)
{
	if (rc == MDB_NOTFOUND)
		soak_complain(reading->reader, "%s does not find record %u in snapshot %llu",
			      call->name, call->record, (unsigned long long)reading->id);
	return rc ? rc : soak_look(reading, call) ? 0 : EIO;
}

int soak_get(struct soak_reading *reading, uint32_t record)
{
	struct soak_call call = {.name = "mdb_get", .make = make_get, .record = record};

	return judged(reading, &call, soak_make(reading, &call));
}

int soak_get_by_number(struct soak_reading *reading, uint32_t record)
{
	struct soak_call call = {
		.name = "lmdbio_get_record", .make = make_number, .record = record};

	return judged(reading, &call, soak_make(reading, &call));
}

int soak_get_some(struct soak_reading *reading, unsigned n)
{
	struct soak_call kept[KEPT];
	unsigned count = 0;
	int rc = 0;

	for (unsigned i = 0; i < n && !rc && soak_goes_on(reading->reader); i++) {
		struct soak_call *call = &kept[random_below(reading->random, KEPT)];

		if (count < KEPT)
			call = &kept[count++];
		*call = (struct soak_call){
			.name = "mdb_get",
			.make = make_get,
			.record = (uint32_t)random_below(reading->random,
							 reading->reader->data.records),
		};
		rc = judged(reading, call, soak_make(reading, call));
	}
	for (unsigned i = 0; i < count && !rc; i++) {
		kept[i].name = "a value that was kept";
		rc = soak_look(reading, &kept[i]) ? 0 : EIO;
	}
	return rc;
}

/* A step that said a code may have left the cursor anywhere. */
static int make_step(struct soak_reading *reading, struct soak_call *call)
{
	if (!call->again && call->op != MDB_SET_KEY)
		return mdb_cursor_get(reading->cursor, &call->key, &call->value, call->op);
	call->key = soak_key(&call->text, call->record);
	return mdb_cursor_get(reading->cursor, &call->key, &call->value, MDB_SET_KEY);
}

int soak_walk(struct soak_reading *reading, unsigned n)
{
	uint32_t records = reading->reader->data.records;
	bool back = random_percent(reading->random, 30);
	struct soak_call call = {.name = "mdb_cursor_get", .make = make_step, .op = MDB_SET_KEY};
	int rc = 0;

	call.record = (uint32_t)random_below(reading->random, records);
	if (random_percent(reading->random, 20)) {
		call.record = back ? records - 1 : 0;
		call.op = back ? MDB_LAST : MDB_FIRST;
	}
	for (unsigned i = 0; i < n && !rc && soak_goes_on(reading->reader); i++) {
		rc = judged(reading, &call, soak_make(reading, &call));
		if (call.record == (back ? 0 : records - 1))
			break;
		call.record += back ? UINT32_MAX : 1;
		call.op = back ? MDB_PREV : MDB_NEXT;
		call.again = false;
	}
	return rc;
}
