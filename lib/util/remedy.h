/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what a user can do about an errno of a file. */
#ifndef LMDBIO_UTIL_REMEDY_H
#define LMDBIO_UTIL_REMEDY_H

/* What a user can do where a file could not be used for this errno, without a full stop; NULL: nothing is
 * known. */
const char *remedy_find(int rc);

#endif
