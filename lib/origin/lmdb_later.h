/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what LMDB 1.0's <lmdb.h> adds to that of 0.9, for use beside the latter.
 *
 * Programs for LMDB 1.0 are compiled with these names, numbers and types. The rest of the two
 * headers is the same for 64-bit programs: mdb_size_t is size_t, and MDB_stat and MDB_envinfo have
 * the same fields.
 */
#ifndef LMDBIO_ORIGIN_LMDB_LATER_H
#define LMDBIO_ORIGIN_LMDB_LATER_H

#include <lmdb.h>
#include <stddef.h>

/* The release of these declarations. */
enum { LATER_MAJOR = 1, LATER_MINOR = 0, LATER_PATCH = 1 };

#ifndef MDB_REMAP_CHUNKS /* the header is of LMDB 0.9 */

typedef size_t mdb_size_t;

/* Flags of an environment. */
#define MDB_ENCRYPT	 0x2000u    /* of the file: its pages are encrypted */
#define MDB_PREVSNAPSHOT 0x2000000u /* read the snapshot before the newest one */
#define MDB_REMAP_CHUNKS 0x4000000u /* the file is mapped piece by piece */

/* Return codes. LMDB 0.9's end with MDB_BAD_DBI. */
#define MDB_PROBLEM	   (-30779)
#define MDB_BAD_CHECKSUM   (-30778)
#define MDB_CRYPTO_FAIL	   (-30777)
#define MDB_ENV_ENCRYPTION (-30776)
#define MDB_TXN_PENDING	   (-30775)
#define MDB_CANT_ROLLBACK  (-30774)
#define MDB_DBIS_BUSY	   (-30773)
#define MDB_SHORT_WRITE	   (-30772)
#define MDB_ENV_BUSY	   (-30771)
#define MDB_IS_READONLY	   (-30770)
#define MDB_ADDR_BUSY	   (-30769)

/* Transforms a page. `key` has three values; `encrypt` is 0 to decrypt. */
typedef int MDB_enc_func(const MDB_val *source, MDB_val *result, const MDB_val *key, int encrypt);
/* Sums up a page; `key` is NULL where the pages are not encrypted. */
typedef void MDB_sum_func(const MDB_val *source, MDB_val *result, const MDB_val *key);
typedef int MDB_str2key_func(const char *passphrase, MDB_val *key);

/* Describes a module's functions for pages. */
typedef struct MDB_crypto_funcs {
	MDB_str2key_func *mcf_str2key;
	MDB_enc_func *mcf_encfunc;
	MDB_sum_func *mcf_sumfunc;
	int mcf_keysize;  /* bytes of a key */
	int mcf_esumsize; /* ... of an encrypted page's authentication */
	int mcf_sumsize;  /* ... of a checksum */
} MDB_crypto_funcs;

typedef MDB_crypto_funcs *MDB_crypto_hooks(void);

#endif

/* LMDB 1.0's functions, beside those of origin_functions.def. */
#define F(result, name, parameters, arguments) result name parameters;
#define P(name, parameters, arguments)	       void name parameters;
#include "origin/later_functions.def"
#undef F
#undef P

#endif
