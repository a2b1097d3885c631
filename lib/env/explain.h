/* SPDX-License-Identifier: OLDAP-2.8 */
/* Explains to a person why a data set cannot be opened. */
#ifndef LMDBIO_ENV_EXPLAIN_H
#define LMDBIO_ENV_EXPLAIN_H

/* After env_open() of `path` with `flags` has failed with `rc`: looks at the files and returns one
 * line without a full stop, "FILE: what is wrong: what to do", which names the file that is to
 * blame. The caller frees it. NULL: no memory. */
char *env_explain(const char *path, unsigned flags, int rc);

#endif
