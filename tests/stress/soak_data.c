/* SPDX-License-Identifier: OLDAP-2.8 */
/* Derives the soak's values from seed, record, generation and commit. */
#include "soak_data.h"

#include "random_stream.h"

#include <stdio.h>
#include <string.h>

struct head {
	uint64_t generation, version;
	uint32_t record, size; /* size: bytes of the value */
};

enum {
	SMALL_LEAST = 40, /* bytes */
	SMALL_MORE = 600,
	LARGE_LEAST = 4000,
	LARGE_MORE = 8000,
	LARGE_EACH = 3, /* each third record has overflow pages */
};

uint64_t soak_version(uint32_t record, uint64_t txn)
{
	uint64_t back = (txn + SOAK_TURNS - record % SOAK_TURNS) % SOAK_TURNS;

	return txn > back + 1 ? txn - back : 1;
}

MDB_val soak_key(struct soak_key *key, uint32_t record)
{
	snprintf(key->text, sizeof(key->text), "%08u", record);
	return (MDB_val){.mv_size = 8, .mv_data = key->text};
}

static uint64_t stream_of(const struct soak_data *data, const struct head *head)
{
	return random_mix(data->seed ^ random_mix(head->generation << 32 ^ head->record) ^
			  head->version);
}

static uint32_t size_of(uint64_t stream, uint32_t record)
{
	if (record % LARGE_EACH)
		return (uint32_t)(SMALL_LEAST + stream % SMALL_MORE);
	return (uint32_t)(LARGE_LEAST + stream % LARGE_MORE);
}

/* Half of the words are zero, so that containers compress them. */
static uint64_t word_of(uint64_t stream, uint64_t i)
{
	return i % 2 ? 0 : (stream + i) * UINT64_C(0x2545f4914f6cdd1d);
}

MDB_val soak_value(const struct soak_data *data, uint32_t record, uint64_t generation,
		   uint64_t version, void *room)
{
	struct head head = {.generation = generation, .version = version, .record = record};
	uint64_t stream = stream_of(data, &head);
	char *to = room;

	head.size = size_of(stream, record);
	memcpy(to, &head, sizeof(head));
	for (size_t at = sizeof(head); at < head.size; at += sizeof(uint64_t)) {
		uint64_t word = word_of(stream, at / sizeof(word));

		memcpy(to + at, &word,
		       head.size - at < sizeof(word) ? head.size - at : sizeof(word));
	}
	return (MDB_val){.mv_size = head.size, .mv_data = room};
}

static bool number_of(const MDB_val *key, uint32_t *record)
{
	const char *text = key->mv_data;

	*record = 0;
	for (size_t i = 0; i < key->mv_size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		*record = *record * 10 + (uint32_t)(text[i] - '0');
	}
	return key->mv_size == 8;
}

bool soak_is_sound(const struct soak_data *data, const MDB_val *key, const MDB_val *value,
		   struct soak_found *found)
{
	const char *bytes = value->mv_data;
	struct head head;
	uint64_t stream;

	if (value->mv_size < sizeof(head) || !number_of(key, &found->record))
		return false;
	memcpy(&head, bytes, sizeof(head));
	found->generation = head.generation;
	found->version = head.version;
	stream = stream_of(data, &head);
	if (head.record != found->record || head.record >= data->records ||
	    head.size != value->mv_size || head.size != size_of(stream, head.record))
		return false;
	for (size_t at = sizeof(head); at < head.size; at += sizeof(uint64_t)) {
		uint64_t word = word_of(stream, at / sizeof(word));
		size_t length = head.size - at < sizeof(word) ? head.size - at : sizeof(word);

		if (memcmp(bytes + at, &word, length))
			return false;
	}
	return true;
}
