/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says when two copies of an environment count as the same. */
#ifndef TESTS_COPIED_FILES_H
#define TESTS_COPIED_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Compares byte by byte. In a compacted copy the unused bytes inside tree pages are left out: the
 * original (mdb_env_cwalk) writes there what malloc left in its page buffers. *at is the first byte
 * that differs. False too when a file cannot be read. */
bool copied_files_agree(const char *one, const char *other, bool compacted, size_t *at);

#endif
