/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: when the drop-in loads the module with MPI into the program. */
#ifndef LMDBIO_COMPAT_INSIDE_H
#define LMDBIO_COMPAT_INSIDE_H

/* With LMDBIO_MPI=1, at the first environment: has the module serve this node from inside the
 * program. Where that does not work a line on standard error says so; reading goes on without. */
void inside_start(void);

#endif
