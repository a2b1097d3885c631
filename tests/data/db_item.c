/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which bytes key, item and value number n of a table are. */
#include "db_make.h"
#include "random_stream.h"

#include <stdio.h>
#include <string.h>

int db_compare_keys(const MDB_val *a, const MDB_val *b)
{
	int difference;

	if (a->mv_size != b->mv_size)
		return a->mv_size < b->mv_size ? -1 : 1;
	difference = memcmp(b->mv_data, a->mv_data, a->mv_size);
	return difference < 0 ? -7 : difference > 0 ? 7 : 0;
}

int db_compare_items(const MDB_val *a, const MDB_val *b)
{
	size_t shorter = a->mv_size < b->mv_size ? a->mv_size : b->mv_size;
	int difference = memcmp(b->mv_data, a->mv_data, shorter);

	if (difference != 0)
		return difference;
	return a->mv_size < b->mv_size ? 1 : a->mv_size > b->mv_size ? -1 : 0;
}

static void fill(char *bytes, size_t size, uint64_t seed)
{
	for (size_t at = 0; at < size; at += 8) {
		uint64_t word = random_mix(seed + at);

		memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
	}
}

static size_t integer(char *bytes, size_t size, uint64_t value)
{
	uint32_t narrow = (uint32_t)value;

	if (size == 4)
		memcpy(bytes, &narrow, 4);
	else
		memcpy(bytes, &value, 8);
	return size;
}

size_t db_item_key(const struct db_plan *plan, const struct db_table *table, uint64_t k,
		   char *bytes)
{
	static const uint64_t strides[] = {1, 3, 257, 65537};
	uint64_t stride = strides[table->seed % 4];
	char number[24];
	size_t size, digits;

	if (table->key_bytes == 8 && table->seed % 3 == 0)
		stride <<= 33;
	if (table->key_bytes != 0)
		return integer(bytes, table->key_bytes, k * stride + 5);

	/* the number makes every key different; what stands around it varies */
	digits = (size_t)snprintf(number, sizeof number, "%06llu", (unsigned long long)k);
	switch (table->key_style) {
	case DB_KEYS_DECIMAL:
		memcpy(bytes, number, digits);
		return digits;
	case DB_KEYS_BYTES:
		size = 1 + random_mix(table->seed + k) % 24;
		fill(bytes, size, table->seed ^ (k << 8));
		break;
	case DB_KEYS_PREFIXED:
		size = 20 + table->seed % 60;
		memset(bytes, 'p', size);
		break;
	case DB_KEYS_LONGEST:
	default:
		size = plan->max_key - digits - (k % 16 == 3 ? 1 + k % 5 : 0);
		fill(bytes, size, table->seed ^ (k % 3 << 8));
		break;
	}
	memcpy(bytes + size, number, digits);
	return size + digits;
}

unsigned db_item_dups(const struct db_table *table, uint64_t k)
{
	uint64_t roll = random_mix(table->seed ^ (k * 31));
	unsigned count;

	if (k == table->keys / 2)
		count = table->most_dups;
	else if (roll % 10 < 4)
		count = 1;
	else if (roll % 10 < 7)
		count = 2 + (unsigned)(roll / 10 % 5);
	else if (roll % 10 < 9)
		count = 7 + (unsigned)(roll / 10 % 34);
	else
		count = 100 + (unsigned)(roll / 10 % 100);
	if (table->dup_bytes == 1 && count > 200)
		count = 200;
	return count > 0 ? count : 1;
}

size_t db_item_dup(const struct db_plan *plan, const struct db_table *table, uint64_t k, uint64_t j,
		   char *bytes)
{
	uint64_t value = j * 5 + k % 3;
	size_t size;

	if (table->flags & MDB_INTEGERDUP)
		return integer(bytes, table->dup_bytes, value << (table->dup_bytes == 8 ? 30 : 0));
	if (table->dup_bytes == 1) {
		bytes[0] = (char)(j + k % 3);
		return 1;
	}
	if (table->flags & MDB_DUPFIXED) {
		fill(bytes, table->dup_bytes, table->seed + k);
		bytes[0] = (char)(value >> 8);
		bytes[table->dup_bytes - 1] = (char)value;
		return table->dup_bytes;
	}
	/* some sets have items of the maximum size, most have small ones */
	size = 1 + random_mix(table->seed ^ (j << 20) ^ k) % 20;
	if (k % 16 == 7)
		size = plan->max_key - 6 - j % 2;
	fill(bytes, size, table->seed + k * 1000003 + j);
	size += (size_t)snprintf(bytes + size, 8, "%04x", (unsigned)(j & 0xffff));
	return size;
}

size_t db_item_value(const struct db_plan *plan, const struct db_table *table, uint64_t k,
		     unsigned version, char *bytes)
{
	uint64_t roll = random_mix(table->seed ^ (k * 77) ^ ((uint64_t)version << 40));
	size_t node_max = (((plan->page_size - 16) / 2) & ~1u) - 2;
	size_t size = roll / 100 % 41;
	char key[DB_NAME_SIZE];

	if (table->value_style == DB_VALUES_HUGE)
		size = roll % 100 < 20 ? 1000000 + roll % (DB_ITEM_SIZE - 1000000) : roll % 100000;
	else if (table->value_style == DB_VALUES_MIXED && roll % 100 < 30)
		/* around the size from which a value gets pages of its own */
		size = node_max - 8 - db_item_key(plan, table, k, key) - 4 + roll / 100 % 8;
	else if (table->value_style == DB_VALUES_MIXED && roll % 100 < 50)
		/* around the size from which those are one more */
		size = plan->page_size * (1 + roll / 100 % 3) - 16 - 3 + roll / 1000 % 6;
	else if (table->value_style == DB_VALUES_MIXED && roll % 100 < 65)
		size = roll / 100 % (3 * (size_t)plan->page_size);
	fill(bytes, size, table->seed ^ k ^ ((uint64_t)version << 32));
	return size;
}
