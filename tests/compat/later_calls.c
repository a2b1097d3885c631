/* SPDX-License-Identifier: OLDAP-2.8 */
/* A program that was built for LMDB 1.0, and calls the functions that LMDB 0.9 does not have.
 * usage: later_calls PART PATH [FILE]
 * It prints what the functions return; the stand-in for an LMDB 1.0 prints what it is called with. */
#include "later_said.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lists of page numbers, which LMDB 1.0 exports and has no header for. */
struct pair {
	size_t id;
	void *pointer;
};

struct triple {
	size_t id;
	void *pointer, *plain;
	unsigned pages;
	unsigned short users, used;
};

unsigned mdb_midl_search(size_t *ids, size_t id);
size_t *mdb_midl_alloc(int num);
void mdb_midl_free(size_t *ids);
int mdb_midl_append(size_t **idp, size_t id);
void mdb_midl_sort(size_t *ids);
unsigned mdb_mid2l_search(void *ids, size_t id);
int mdb_mid2l_insert(void *ids, void *id);

static const char *path, *file;

static MDB_env *create(void)
{
	MDB_env *env;

	must("create", mdb_env_create(&env));
	return env;
}

static int crypt_nothing(const MDB_val *source, MDB_val *result, const MDB_val *key, int encrypt)
{
	(void)key, (void)encrypt;
	memcpy(result->mv_data, source->mv_data, source->mv_size);
	return 0;
}

static void sum_nothing(const MDB_val *source, MDB_val *result, const MDB_val *key)
{
	(void)source, (void)key;
	memset(result->mv_data, 0, result->mv_size);
}

/* All of them, on handles of an environment that is open for writing. */
static void run_writing(void)
{
	MDB_val key = {16, (void *)(uintptr_t) "16 bytes of key."};
	MDB_env *env = create();
	MDB_cursor *cursor;
	unsigned bits = 0;
	MDB_txn *txn;
	MDB_dbi dbi;

	say("page size", mdb_env_set_pagesize(env, 8192));
	say("encryption", mdb_env_set_encrypt(env, crypt_nothing, &key, 12));
	say("checksum", mdb_env_set_checksum(env, sum_nothing, 8));
	must("open", mdb_env_open(env, path, 0, 0644));
	say("dump to a descriptor", mdb_env_incr_dumpfd(env, 77, 41));
	say("dump", mdb_env_incr_dump(env, "dumped", 42));
	say("load", mdb_env_incr_loadfd(env, 78));
	say("rollback", mdb_env_rollback(env, 43));
	say("sync", mdb_env_sync0(env, 1, 44));
	must("begin", mdb_txn_begin(env, NULL, 0, &txn));
	say("flags", mdb_txn_flags(txn, &bits));
	printf("%x\n", bits);
	must("dbi", mdb_dbi_open(txn, NULL, 0, &dbi));
	must("cursor", mdb_cursor_open(txn, dbi, &cursor));
	say("at a database", mdb_cursor_is_db(cursor));
	mdb_cursor_close(cursor);
	say("prepare", mdb_txn_prepare(txn));
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

static void run_reading(void)
{
	MDB_env *env = create();
	MDB_txn *txn;
	int fd;

	say("rollback before opening", mdb_env_rollback(env, 1));
	say("dump before opening", mdb_env_incr_dumpfd(env, 1, 0));
	must("open", mdb_env_open(env, path, MDB_RDONLY, 0));
	say("load", mdb_env_incr_loadfd(env, 0));
	say("rollback", mdb_env_rollback(env, 1));
	fd = open("dump.fd", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	say("dump to a descriptor", mdb_env_incr_dumpfd(env, fd, 0));
	close(fd);
	say("dump", mdb_env_incr_dump(env, "dump", 0));
	say("dump onto a file", mdb_env_incr_dump(env, "dump.fd", 0) != 0);
	say("dump of nothing new", mdb_env_incr_dump(env, "dump.none", SIZE_MAX));
	must("begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	say("prepare", mdb_txn_prepare(txn));
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* Handles that are NULL, and ones that no library has given. */
static void run_strange(void)
{
	static uint64_t memory[64];
	MDB_val key = {8, memory};
	unsigned bits;

	for (int given = 0; given < 2; given++) {
		void *handle = given ? memory : NULL;

		say("dump to a descriptor", mdb_env_incr_dumpfd(handle, 1, 0));
		say("dump", mdb_env_incr_dump(handle, "strange", 0));
		say("load", mdb_env_incr_loadfd(handle, 0));
		say("rollback", mdb_env_rollback(handle, 1));
		say("sync", mdb_env_sync0(handle, 1, 1));
		say("page size", mdb_env_set_pagesize(handle, 4096));
		say("encryption", mdb_env_set_encrypt(handle, crypt_nothing, &key, 0));
		say("checksum", mdb_env_set_checksum(handle, sum_nothing, 8));
		say("flags", mdb_txn_flags(handle, &bits));
		say("prepare", mdb_txn_prepare(handle));
		say("at a database", mdb_cursor_is_db(handle));
	}
}

/* Handles of a program for LMDB 0.9: a library `file` opens the environment. */
static void run_earlier(void)
{
	void *library = dlopen(file, RTLD_NOW);
	MDB_env *(*open_writing)(const char *) =
		library ? (MDB_env * (*)(const char *)) dlsym(library, "open_writing") : NULL;
	MDB_txn *(*begin)(MDB_env *, unsigned) =
		library ? (MDB_txn * (*)(MDB_env *, unsigned)) dlsym(library, "begin") : NULL;
	MDB_env *env;

	if (!open_writing || !begin)
		exit(1);
	env = open_writing(path);
	say("dump to a descriptor", mdb_env_incr_dumpfd(env, 1, 0));
	say("dump", mdb_env_incr_dump(env, "earlier", 0));
	say("load", mdb_env_incr_loadfd(env, 0));
	say("rollback", mdb_env_rollback(env, 1));
	for (int reading = 0; reading < 2; reading++) {
		MDB_txn *txn = begin(env, reading ? MDB_RDONLY : 0);
		unsigned bits = 0xff;

		say("flags", mdb_txn_flags(txn, &bits));
		printf("%x\n", bits);
		say("prepare", mdb_txn_prepare(txn));
		mdb_txn_abort(txn);
	}
	mdb_env_close(env);
}

/* A module `file` with functions for pages. */
static void run_module(void)
{
	MDB_crypto_funcs *functions = NULL, changed;
	char *message = NULL;
	MDB_env *env = create();
	void *module = mdb_modload(file, "no_such_function", &functions, &message);

	printf("%d: %s\n", module != NULL, message);
	module = mdb_modload(file, NULL, &functions, &message);
	if (!module)
		exit(1);
	printf("key %d\n", functions->mcf_keysize);
	mdb_modsetup(env, functions, "passphrase");
	changed = *functions;
	changed.mcf_str2key = NULL;
	mdb_modsetup(env, &changed, "passphrase");
	mdb_modsetup(env, &changed, "a passphrase longer than a key");
	puts("none of these encrypts");
	fflush(stdout);
	mdb_modsetup(env, &changed, NULL);
	changed.mcf_keysize = 1 << 20;
	mdb_modsetup(env, &changed, "passphrase");
	changed.mcf_encfunc = NULL;
	changed.mcf_sumfunc = NULL;
	mdb_modsetup(env, &changed, "passphrase");
	mdb_env_close(env);
	mdb_modunload(module);
	printf("loaded %d\n", dlopen(file, RTLD_NOW | RTLD_NOLOAD) != NULL);
	/* By another name. */
	module = mdb_modload(file, "hooks_of_another_name", &functions, &message);
	printf("key %d\n", module ? functions->mcf_keysize : -1);
}

static void list_pairs(void)
{
	enum { PAIRS = 1000 };
	struct pair *list = mdb_mid2l_alloc(3);
	struct pair *before = list;
	unsigned wrong = 0;

	printf("an empty list: %zu\n", list->id);
	say("room for three", mdb_mid2l_need((void **)&list, 3));
	printf("moved %d\n", list != before);
	for (unsigned i = 0; i < PAIRS; i++) {
		struct pair pair = {i * 7919u % 100003u + 1, &list};

		wrong += mdb_mid2l_need((void **)&list, 1) != 0;
		wrong += mdb_mid2l_insert(list, &pair) != 0;
	}
	for (unsigned i = 2; i <= PAIRS; i++)
		wrong += list[i - 1].id >= list[i].id || list[i].pointer != &list;
	printf("pairs %zu, wrong %u, place %u\n", list->id, wrong,
	       mdb_mid2l_search(list, list[500].id));
	mdb_mid2l_free(list);
	mdb_mid2l_free(NULL);
}

static void list_triples(void)
{
	static const size_t ids[] = {50, 10, 30, 20, 40};
	struct triple list[8] = {{0, NULL, NULL, 0, 0, 0}};

	printf("place in an empty list: %u\n", mdb_mid3l_search(list, 5));
	for (unsigned i = 0; i < 5; i++) {
		struct triple triple = {ids[i], &list[i], list, i, 1, 2};

		say("insert", mdb_mid3l_insert(list, &triple));
		triple.pages = 99;
		say("insert once more", mdb_mid3l_insert(list, &triple));
	}
	for (unsigned i = 1; i <= list[0].id; i++)
		printf("%zu %u %d\n", list[i].id, list[i].pages,
		       list[i].pointer == &list[list[i].pages] && list[i].plain == list);
	printf("places %u %u %u\n", mdb_mid3l_search(list, 10), mdb_mid3l_search(list, 31),
	       mdb_mid3l_search(list, 51));
}

static void run_lists(void)
{
	size_t *list = mdb_midl_alloc(2);

	list_pairs();
	list_triples();
	for (size_t id = 10; id <= 50; id += 10)
		say("append", mdb_midl_append(&list, id));
	mdb_midl_sort(list); /* the largest first */
	printf("places %u %u\n", mdb_midl_search(list, 40), mdb_midl_search(list, 15));
	mdb_midl_free(list);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"writing", run_writing}, {"reading", run_reading}, {"strange", run_strange},
		     {"earlier", run_earlier}, {"module", run_module},   {"lists", run_lists}};

	if (argc < 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0); /* both streams may go into one file */
	path = argv[2];
	file = argc > 3 ? argv[3] : "";
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strcmp(argv[1], parts[i].name)) {
			parts[i].run();
			return 0;
		}
	return 2;
}
