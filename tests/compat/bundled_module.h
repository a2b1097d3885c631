/* SPDX-License-Identifier: OLDAP-2.8 */
/* What an extension module of the test of bundled LMDBs does. */
#ifndef LMDBIO_TESTS_BUNDLED_MODULE_H
#define LMDBIO_TESTS_BUNDLED_MODULE_H

#include <lmdb.h>
#include <stdio.h>

void module_version(void);
/* `path` is the data file. */
MDB_env *module_open(const char *path, unsigned flags);
void module_write(MDB_env *env);
void module_read(MDB_env *env);
/* Copies in each way, to the files PATH0, PATH1 ... */
void module_copy(MDB_env *env, const char *path);
void module_state(MDB_env *env);
void module_close(MDB_env *env);
/* How often its own LMDB has opened and copied, on standard error; nothing if it has none. */
void module_counts(void);

#endif
