/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks one snapshot of what the live writers write. */
#include "snapshot_checks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int check_wrong(const char *what, uint64_t expected, uint64_t found)
{
	printf("    WRONG: %s: expected %llu, found %llu\n", what, (unsigned long long)expected,
	       (unsigned long long)found);
	return EIO;
}

int check_value(const MDB_val *value, uint64_t id, uint32_t key, bool exact)
{
	const unsigned char *bytes = value->mv_data;
	struct live_value head;

	if (value->mv_size < sizeof head)
		return check_wrong("size of a value", sizeof head, value->mv_size);
	memcpy(&head, bytes, sizeof head);
	if (exact ? head.txn != id : head.txn > id)
		return check_wrong("transaction of a value", id, head.txn);
	if (head.key != key || head.size != value->mv_size)
		return check_wrong("key number of a value", key, head.key);
	for (size_t i = sizeof head; i < value->mv_size; i++)
		if (bytes[i] != live_fill(head.txn, key))
			return check_wrong("byte of a value", live_fill(head.txn, key), bytes[i]);
	return 0;
}

static int check_main(struct reading *reading, MDB_cursor *cursor, uint64_t id, uint64_t *grown)
{
	const struct library *library = reading->library;
	struct live_count count;
	MDB_val key, value;
	uint32_t number = 0;
	char name[8] = "";
	int rc = library->mdb_cursor_get(cursor, &key, &value, MDB_FIRST);

	for (; rc == 0; rc = library->mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
		if (key.mv_size == 12 && memcmp(key.mv_data, "growth-count", 12) == 0) {
			memcpy(&count, value.mv_data, sizeof count);
			if (count.txn != id)
				return check_wrong("transaction of the count", id, count.txn);
			*grown = count.count;
		} else if (key.mv_size == 9 && memcmp(key.mv_data, "key", 3) == 0) {
			memcpy(name, (char *)key.mv_data + 3, 6);
			if (strtoul(name, NULL, 10) != number)
				return check_wrong("key", number, strtoul(name, NULL, 10));
			rc = check_value(&value, id, number++, true);
			if (rc != 0)
				return rc;
			reading->values++;
		}
	}
	if (rc != MDB_NOTFOUND)
		return rc;
	return number == LIVE_KEYS ? 0 : check_wrong("number of keys", LIVE_KEYS, number);
}

static int check_dups(struct reading *reading, MDB_cursor *cursor, uint64_t id)
{
	const struct library *library = reading->library;
	MDB_val key, value;
	uint32_t number = 0;
	int rc = library->mdb_cursor_get(cursor, &key, &value, MDB_FIRST);

	while (rc == 0) {
		uint64_t item, found = 0;

		for (; rc == 0; rc = library->mdb_cursor_get(cursor, &key, &value, MDB_NEXT_DUP)) {
			memcpy(&item, value.mv_data, sizeof item);
			if (item != (id << 16 | found))
				return check_wrong("duplicate", id << 16 | found, item);
			found++;
			reading->values++;
		}
		if (found != live_dups(number))
			return check_wrong("number of duplicates", live_dups(number), found);
		number++;
		rc = library->mdb_cursor_get(cursor, &key, &value, MDB_NEXT_NODUP);
	}
	if (rc != MDB_NOTFOUND)
		return rc;
	return number == LIVE_DUP_KEYS ? 0 : check_wrong("number of dup keys", LIVE_DUP_KEYS, number);
}

static int check_growth(struct reading *reading, MDB_txn *txn, uint64_t id, uint64_t grown)
{
	const struct library *library = reading->library;
	MDB_val key, value;
	MDB_stat stat;
	char text[32];
	int rc = library->mdb_stat(txn, reading->growth, &stat);

	if (rc == 0 && stat.ms_entries != grown)
		return check_wrong("entries of growth", grown, stat.ms_entries);
	/* the last ones lie behind the old end of the map */
	for (uint64_t i = grown > 70 ? grown - 70 : 0; i < grown && rc == 0; i++) {
		key = (MDB_val){(size_t)snprintf(text, sizeof text, "growth%06u", (unsigned)i),
				text};
		rc = library->mdb_get(txn, reading->growth, &key, &value);
		if (rc == 0)
			rc = check_value(&value, id, (uint32_t)i, false);
		reading->values++;
	}
	return rc;
}

int check_snapshot(struct reading *reading, MDB_txn *txn)
{
	const struct library *library = reading->library;
	uint64_t id = library->mdb_txn_id(txn), grown = 0;
	MDB_cursor *main_cursor = NULL, *dup_cursor = NULL;
	int rc = library->mdb_cursor_open(txn, reading->main, &main_cursor);

	if (rc == 0)
		rc = check_main(reading, main_cursor, id, &grown);
	if (rc == 0)
		rc = library->mdb_cursor_open(txn, reading->dups, &dup_cursor);
	if (rc == 0)
		rc = check_dups(reading, dup_cursor, id);
	if (rc == 0)
		rc = check_growth(reading, txn, id, grown);
	if (main_cursor)
		library->mdb_cursor_close(main_cursor);
	if (dup_cursor)
		library->mdb_cursor_close(dup_cursor);
	reading->snapshots++;
	return rc;
}
