/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges whether a file is lmdbio's library, fit for preloading, or an LMDB 1.0. */
#include "drop_in.h"

#include "elf_inspect.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns why the dynamic loader would refuse the file in words of its own, or load it without
 * effect; NULL: no reason. */
static const char *content_fault(const struct elf_facts *facts)
{
	switch (facts->kind) {
	case ELF_NOT:
		return "this is no library";
	case ELF_FOREIGN:
		return "this is a library for another kind of machine";
	case ELF_STATIC:
		return "this is no library that can be preloaded";
	case ELF_DYNAMIC:
		break;
	}
	return *facts->loader ? "this is a program, no library" : NULL;
}

static const char *drop_in_fault(const struct elf_facts *facts)
{
	const char *fault = content_fault(facts);

	if (fault || facts->defines_lmdbio)
		return fault;
	return facts->defines_lmdb ? "this is the original LMDB, and not lmdbio"
				   : "this is another library than lmdbio's liblmdb.so.0";
}

int drop_in_judge(const struct tool *tool, const char *option, char *path)
{
	char resolved[PATH_MAX];
	struct elf_facts facts;
	const char *fault;
	int rc = 0;

	if (!realpath(path, resolved) || access(resolved, R_OK))
		rc = errno;
	if (!rc)
		rc = elf_inspect(resolved, &facts);
	fault = rc ? strerror(rc) : drop_in_fault(&facts);
	if (fault) {
		tool_complain(tool, "%s: %s: %s names another", path, fault, option);
		return TOOL_FAILED;
	}
	/* Keep the user's file name: the loader compares a library's file name. */
	if (*path != '/')
		strcpy(path, resolved);
	if (strpbrk(path, " :$\n\t")) {
		tool_complain(tool,
			      "%s: LD_PRELOAD cannot hold a path with a space, colon or "
			      "dollar sign: move the library, or make a link to it",
			      path);
		return TOOL_FAILED;
	}
	return 0;
}

static const char *lmdb_1_fault(const struct elf_facts *facts)
{
	const char *fault = content_fault(facts);

	if (fault)
		return fault;
	if (facts->defines_lmdbio)
		return "this is lmdbio, and not the original LMDB";
	if (!facts->defines_lmdb)
		return "this is another library than LMDB's";
	return *facts->version && strncmp(facts->version, "1.", 2) ? "this is not LMDB 1.0" : NULL;
}

int lmdb_1_judge(const struct tool *tool, const char *option, const char *path)
{
	struct elf_facts facts;
	int rc = elf_inspect(path, &facts);
	const char *fault = rc ? strerror(rc) : lmdb_1_fault(&facts);

	if (!fault)
		return 0;
	tool_complain(tool, "%s: %s: %s names another", path, fault, option);
	return TOOL_FAILED;
}
