/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads an ELF file's use of LMDB from its contents, without running it. */
#ifndef LMDBIO_TOOLS_ELF_INSPECT_H
#define LMDBIO_TOOLS_ELF_INSPECT_H

#include <limits.h>
#include <stdbool.h>

enum elf_kind {
	ELF_NOT,     /* no ELF file, or one that contradicts itself */
	ELF_FOREIGN, /* for another machine, word size or byte order than this program's */
	ELF_STATIC,  /* no dynamic section, or a program that names no dynamic loader */
	ELF_DYNAMIC,
};

struct elf_facts {
	enum elf_kind kind;
	char loader[PATH_MAX]; /* a program's dynamic loader; empty for a library */
	bool calls_lmdb;       /* the dynamic loader looks up mdb_env_open for it */
	bool needs_lmdb_1;     /* it was linked with liblmdb.so.1, LMDB 1.0's library */
	bool defines_lmdb;     /* it exports an mdb_env_open of its own */
	bool defines_lmdbio;   /* it exports an lmdbio_version: it is lmdbio's library */
	bool carries_lmdb;     /* LMDB's version text is in it ... */
	char version[16];      /* ... which says "0.9.35"; else empty */
	bool reaches_out;      /* it can load libraries or start programs later */
};

/* Reads the file and distrusts every offset in it. Returns 0, or an errno if it cannot be read. */
int elf_inspect(const char *path, struct elf_facts *facts);

#endif
