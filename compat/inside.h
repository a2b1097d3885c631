/* SPDX-License-Identifier: OLDAP-2.8 */
/* Loads the module with MPI into a program that uses MPI itself. */
#ifndef LMDBIO_COMPAT_INSIDE_H
#define LMDBIO_COMPAT_INSIDE_H

/* In calls of LMDB, with LMDBIO_MPI=1: has the module serve this node from inside the program, as
 * soon as that has begun MPI. Where that does not work a line on standard error says so; reading
 * goes on without. */
void inside_call(void);

#endif
