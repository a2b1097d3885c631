/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the flat-text format of mdb_dump, which mdb_load reads. */
#include "dump_format.h"

#include <stdio.h>

enum { DUMP_PIECE = 4096 /* bytes of a key or value to convert at once */ };

static const struct {
	unsigned bit;
	const char *name;
} flag_names[] = {
	{MDB_REVERSEKEY, "reversekey"}, {MDB_DUPSORT, "dupsort"},
	{MDB_INTEGERKEY, "integerkey"}, {MDB_DUPFIXED, "dupfixed"},
	{MDB_INTEGERDUP, "integerdup"}, {MDB_REVERSEDUP, "reversedup"},
};

void dump_header(const struct dump_form *form, const struct tree_record *record,
		 const char *name)
{
	printf("VERSION=3\nformat=%s\n", form->print ? "print" : "bytevalue");
	if (name)
		printf("database=%s\n", name);
	printf("type=btree\nmapsize=%zu\n", form->info.me_mapsize);
	if (form->info.me_mapaddr)
		printf("mapaddr=%p\n", form->info.me_mapaddr);
	printf("maxreaders=%u\n", form->info.me_maxreaders);
	if (record->flags & MDB_DUPSORT)
		printf("duplicates=1\n");
	for (size_t i = 0; i < sizeof(flag_names) / sizeof(*flag_names); i++)
		if (record->flags & flag_names[i].bit)
			printf("%s=1\n", flag_names[i].name);
	printf("db_pagesize=%u\nHEADER=END\n", form->page_size);
}

void dump_bytes(const struct dump_form *form, const MDB_val *value)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *at = value->mv_data, *end = at + value->mv_size;
	char text[3 * DUMP_PIECE];

	putchar_unlocked(' ');
	while (at < end) {
		const uint8_t *stop = end - at > DUMP_PIECE ? at + DUMP_PIECE : end;
		char *out = text;

		for (; at < stop; at++) {
			if (form->print && *at >= ' ' && *at <= '~') {
				if (*at == '\\' && form->escapes)
					*out++ = '\\';
				*out++ = (char)*at;
				continue;
			}
			if (form->print)
				*out++ = '\\';
			*out++ = digits[*at >> 4];
			*out++ = digits[*at & 15];
		}
		fwrite_unlocked(text, 1, (size_t)(out - text), stdout);
	}
	putchar_unlocked('\n');
}
