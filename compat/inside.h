/* SPDX-License-Identifier: OLDAP-2.8 */
/* Loads the module with MPI into a program that uses MPI itself. */
#ifndef LMDBIO_COMPAT_INSIDE_H
#define LMDBIO_COMPAT_INSIDE_H

/* With LMDBIO_MPI=1, at the first environment: has the module serve this node from inside the
 * program. Where that does not work a line on standard error says so; reading goes on without. */
void inside_start(void);

#endif
