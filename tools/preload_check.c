/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges whether a preloaded library reaches a program, and says why not. */
#include "config.h"
#include "preload_check.h"

#include "elf_inspect.h"
#include "loader_trace.h"
#include "program_start.h"
#include "util/settings.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <paths.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* LMDB in a program's files, as far as it was seen. The paths are the first file of each sort. */
struct findings {
	const char *library;
	char calls[PATH_MAX];       /* the loader looks up its mdb_env_open */
	char later_calls[PATH_MAX]; /* the same, built for LMDB 1.0 */
	char defines[PATH_MAX];     /* exports mdb_env_open and binds its own calls to that */
	char carries[PATH_MAX];	  /* has LMDB's version text */
	char version_1[PATH_MAX]; /* LMDB 1.0 */
	char beside[PATH_MAX];    /* an LMDB library of another name than the drop-in's */
	char missing[PATH_MAX];	  /* a library that the loader does not find */
	char core[PATH_MAX];      /* the library under the drop-in, with the built-in original */
	bool loaded;		  /* the loader takes the drop-in */
	bool later;               /* ... also for programs built for LMDB 1.0 */
	bool reaches_out;
};

static enum preload_verdict say(enum preload_verdict verdict, const char *program,
				const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum preload_verdict say(enum preload_verdict verdict, const char *program,
				const char *format, ...)
{
	static const char *const words[] = {
		[PRELOAD_WORKS] = "takes effect",
		[PRELOAD_FAILS] = "does not take effect",
		[PRELOAD_UNKNOWN] = "not known",
	};
	va_list arguments;

	printf("%s: %s: ", program, words[verdict]);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	return verdict;
}

/* Returns the property for which the kernel asks the loader for secure mode, or NULL. In this mode,
 * for files that change the process's identity, the loader ignores LD_PRELOAD with a slash. */
static const char *privilege_of(const char *path)
{
	struct statvfs mount;
	struct stat status;

	if (stat(path, &status) || (!statvfs(path, &mount) && (mount.f_flag & ST_NOSUID)))
		return NULL;
	if ((status.st_mode & S_ISUID) && status.st_uid != getuid())
		return "it is set-uid";
	if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) && status.st_gid != getgid())
		return "it is set-gid";
	if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		return "it has file capabilities";
	return NULL;
}

static void finding_note(char *where, const char *path)
{
	if (!*where)
		snprintf(where, PATH_MAX, "%s", path);
}

static void file_note(const char *path, void *context)
{
	struct findings *findings = context;
	const char *base = basename(path);
	struct elf_facts facts;

	if (!strcmp(path, findings->library)) {
		findings->loaded = true;
		return;
	}
	if (!strcmp(base, "liblmdbio-core-" PACKAGE_VERSION ".so")) {
		finding_note(findings->core, path);
		return;
	}
	if (elf_inspect(path, &facts))
		memset(&facts, 0, sizeof(facts));
	if (!strncmp(base, "liblmdb.so.1", 12) && facts.defines_lmdbio) {
		findings->later = true;
		return;
	}
	if (!strncmp(base, "liblmdb.so.1", 12))
		finding_note(findings->version_1, path);
	if (facts.calls_lmdb)
		finding_note(facts.needs_lmdb_1 ? findings->later_calls : findings->calls, path);
	else if (facts.defines_lmdb && strncmp(base, "liblmdb.so", 10))
		finding_note(findings->defines, path);
	else if (facts.carries_lmdb && strncmp(base, "liblmdb.so", 10))
		finding_note(findings->carries, path);
	if (facts.defines_lmdb && !strncmp(base, "liblmdb.so", 10))
		finding_note(findings->beside, path);
	/* libc itself consists of such functions; the module that calls them counts. */
	if (strncmp(base, "libc.so", 7) && strncmp(base, "ld-linux", 8))
		findings->reaches_out |= facts.reaches_out;
}

static void missing_note(const char *name, void *context)
{
	finding_note(((struct findings *)context)->missing, name);
}

/* Returns whether lmdbio works with an LMDB of this version (lib/origin/origin_find.c). */
static bool is_understood(const char *version)
{
	unsigned major, minor, patch;

	return sscanf(version, "%u.%u.%u", &major, &minor, &patch) == 3 && major == 0 &&
	       minor == 9 && patch >= 17 && patch < 70;
}

/* Says how a program with such an LMDB inside treats files of either format. */
static const char later_does[] =
	"that LMDB reads and writes data files of LMDB 1.0, and refuses those of LMDB 0.9 "
	"(MDB_INVALID)";

static bool is_later(const char *version)
{
	return strtoul(version, NULL, 10) >= 1;
}

/* Says what to do about an LMDB that a preloaded library cannot reach. */
static const char *remedy_of(const char *path, const char *version)
{
	const char *base = basename(path);

	if (is_later(version))
		return ": link it with liblmdb.so.1 instead";
	/* The two bindings of py-lmdb. */
	if ((!strncmp(base, "cpython.", 8) && strstr(path, "/lmdb/")) ||
	    !strncmp(base, "lmdb_cffi.", 10))
		return ": build it with the system's LMDB (LMDB_FORCE_SYSTEM=1 pip install "
		       "--force-reinstall --no-cache-dir --no-binary lmdb lmdb)";
	return ": link it with liblmdb.so.0 instead";
}

/* Describes files with an LMDB that a preloaded library does not reach; "" without any. */
static bool hidden_describe(const struct findings *findings, char *text, size_t size)
{
	const char *path = *findings->defines ? findings->defines : findings->carries;
	char version[24] = "";
	struct elf_facts facts;

	*text = 0;
	if (!*path || elf_inspect(path, &facts))
		return false;
	if (*facts.version)
		snprintf(version, sizeof(version), " (%s)", facts.version);
	snprintf(text, size,
		 *findings->defines ? "%s exports an LMDB of its own%s and is bound to that "
				      "(-Bsymbolic or the program itself)%s%s%s"
				    : "%s has LMDB linked into it%s, hidden or static%s%s%s",
		 path, version, remedy_of(path, facts.version), is_later(facts.version) ? "; " : "",
		 is_later(facts.version) ? later_does : "");
	return true;
}

/* Judges a program built for LMDB 1.0. It needs no original of that version. */
static enum preload_verdict later_judge(const char *program, const char *file, const char *how)
{
	const struct settings *settings = settings_get();
	const char *original = settings->later ? settings->later : LATER_LIBRARY;
	struct elf_facts facts;

	if (!*original || elf_inspect(original, &facts) || strncmp(facts.version, "1.", 2) ||
	    facts.defines_lmdbio)
		return say(PRELOAD_WORKS, program,
			   "%s %s and was built for LMDB 1.0; it only reads, as there is no LMDB 1.0 "
			   "here that could write (LMDBIO_LMDB1 names one)",
			   file, how);
	return say(PRELOAD_WORKS, program,
		   "%s %s and was built for LMDB 1.0; LMDB %s of %s writes its data", file, how,
		   facts.version, original);
}

/* Judges a file whose calls reach lmdbio. `how` says in which way, `but` is a further remark. The
 * verdict names the original that serves the calls. */
static enum preload_verdict reached_judge(const char *program, const struct findings *findings,
					  const char *file, const char *how, const char *but)
{
	const char *original = findings->core, *place = " inside lmdbio";
	struct elf_facts facts, beside;

	if (elf_inspect(file, &facts))
		return say(PRELOAD_UNKNOWN, program, "%s cannot be read", file);
	if (facts.defines_lmdb && !is_understood(facts.version))
		return say(PRELOAD_FAILS, program,
			   "%s carries LMDB %s, which lmdbio leaves to itself: start the program "
			   "without lmdbio%s%s",
			   file, facts.version, is_later(facts.version) ? "; " : "",
			   is_later(facts.version) ? later_does : "");
	if (facts.needs_lmdb_1 && findings->later)
		return later_judge(program, file, how);
	if (facts.defines_lmdb)
		return say(PRELOAD_WORKS, program,
			   "%s %s; its own LMDB %s opens and writes its data%s", file, how,
			   facts.version, but);
	if (*findings->beside)
		original = place = findings->beside;
	if (elf_inspect(original, &beside))
		*beside.version = 0;
	return say(PRELOAD_WORKS, program, "%s %s; LMDB %s%s%s opens and writes its data%s", file,
		   how, beside.version, *findings->beside ? " of " : "", place, but);
}

static enum preload_verdict findings_judge(const char *program, const struct findings *findings)
{
	char hidden[PATH_MAX + 256];

	if (*findings->missing)
		return say(PRELOAD_FAILS, program, "the dynamic loader does not find %s",
			   findings->missing);
	if (!findings->loaded)
		return say(PRELOAD_FAILS, program, "the dynamic loader does not take %s",
			   findings->library);
	if (*findings->version_1)
		return say(PRELOAD_FAILS, program,
			   "it was built for LMDB 1.0 (%s), whose place only lmdbio's own "
			   "liblmdb.so.1 takes: leave --library out, or start it without lmdbio",
			   findings->version_1);
	if (*findings->later_calls && findings->later)
		return later_judge(program, findings->later_calls, "looks for LMDB by name");
	if (*findings->calls)
		return reached_judge(program, findings, findings->calls, "looks for LMDB by name",
				     "");
	if (hidden_describe(findings, hidden, sizeof(hidden)))
		return say(PRELOAD_FAILS, program, "%s", hidden);
	if (findings->reaches_out)
		return say(PRELOAD_UNKNOWN, program,
			   "neither it nor its libraries use LMDB, but it can "
			   "load libraries or start programs: --check=run tells by running it");
	return say(PRELOAD_FAILS, program, "neither it nor its libraries use LMDB");
}

/* Finds the interpreter of a script: the path behind "#!", for env(1) the program that env would
 * look up, and the shell for a file that the kernel does not know (execvp(3)). Returns 1 if `path`
 * is a script, 0 if not, -1 if its first line makes no sense. */
static int script_interpreter(const char *path, char *interpreter)
{
	char line[PATH_MAX];
	char *word, *rest = NULL;
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(line, 1, sizeof(line) - 1, file) : 0;

	if (file)
		fclose(file);
	line[n] = 0;
	if (!n || !strncmp(line, ELFMAG, SELFMAG))
		return 0;
	if (strncmp(line, "#!", 2)) {
		snprintf(interpreter, PATH_MAX, "%s", _PATH_BSHELL);
		return 1;
	}
	line[strcspn(line, "\n")] = 0;
	word = strtok_r(line + 2, " \t", &rest);
	if (!word)
		return -1;
	snprintf(interpreter, PATH_MAX, "%s", word);
	if (!strcmp(basename(word), "env")) {
		do
			word = strtok_r(NULL, " \t", &rest);
		while (word && (*word == '-' || strchr(word, '=')));
		if (!word || program_find(word, interpreter))
			return -1;
	}
	return 1;
}

static enum preload_verdict loader_judge(const char *program, const char *file, const char *library,
					 const char *preload)
{
	struct findings findings = {.library = library};
	int rc;

	file_note(file, &findings);
	rc = loader_list(file, preload, file_note, missing_note, &findings);
	if (rc)
		return say(PRELOAD_UNKNOWN, program,
			   "the dynamic loader does not list its libraries: %s",
			   rc < 0 ? "it refuses the file" : strerror(rc));
	return findings_judge(program, &findings);
}

enum preload_verdict preload_check(const char *program, const char *library, const char *preload)
{
	char file[PATH_MAX], next[PATH_MAX];
	struct elf_facts facts, ours;
	const char *privilege;
	int rc = 0;

	snprintf(file, sizeof(file), "%s", program);
	for (int depth = 0; depth < 5 && (rc = script_interpreter(file, next)) > 0; depth++) {
		rc = program_find(next, file);
		if (rc)
			return say(PRELOAD_FAILS, program, "its interpreter %s: %s", next,
				   strerror(rc));
	}
	if (rc)
		return say(PRELOAD_FAILS, program, "its interpreter is not found");
	privilege = privilege_of(file);
	if (privilege)
		return say(PRELOAD_FAILS, program,
			   "%s, and the dynamic loader preloads nothing there", privilege);
	rc = elf_inspect(file, &facts);
	if (rc)
		return say(PRELOAD_UNKNOWN, program, "it cannot be read: %s", strerror(rc));
	rc = elf_inspect(library, &ours);
	if (rc || ours.kind != ELF_DYNAMIC)
		return say(PRELOAD_UNKNOWN, program, "%s is no library for this machine", library);
	if (facts.kind == ELF_NOT)
		return say(PRELOAD_FAILS, program, "it is neither an ELF program nor a script");
	if (facts.kind == ELF_FOREIGN)
		return say(PRELOAD_FAILS, program, "it is for another kind of machine than lmdbio");
	if (facts.kind == ELF_STATIC || !*facts.loader)
		return say(PRELOAD_FAILS, program, "it is statically linked%s",
			   facts.carries_lmdb ? ", LMDB included" : "");
	if (strcmp(facts.loader, loader_path()))
		return say(PRELOAD_FAILS, program, "its dynamic loader is %s, lmdbio's is %s",
			   facts.loader, loader_path());
	return loader_judge(program, file, library, preload);
}

/* Replaces the name by which a program was called, as the loader gives it, by the program's file. */
static void caller_find(char caller[PATH_MAX])
{
	char found[PATH_MAX];

	if (!strchr(caller, '/') && !program_find(caller, found))
		snprintf(caller, PATH_MAX, "%s", found);
}

enum preload_verdict preload_check_run(const char *program, char *const *arguments,
				       const char *library)
{
	struct findings findings = {.library = library};
	struct loader_bindings bindings = {.symbol = "mdb_env_open", .library = library};
	char hidden[PATH_MAX + 256], but[PATH_MAX + 264] = "";
	int rc = loader_run(program, arguments, &bindings, file_note, &findings);

	if (rc && access(loader_traces_directory(), W_OK | X_OK))
		return say(PRELOAD_UNKNOWN, program,
			   "its traces cannot be written to %s (%s): set TMPDIR to a directory "
			   "that you may write to",
			   loader_traces_directory(), strerror(rc));
	if (rc)
		return say(PRELOAD_UNKNOWN, program, "it could not be run and traced: %s",
			   strerror(rc));
	caller_find(bindings.caller);
	if (hidden_describe(&findings, hidden, sizeof(hidden)))
		snprintf(but, sizeof(but), "; but %s", hidden);
	if (bindings.to_library)
		return reached_judge(program, &findings, bindings.caller, "was bound to lmdbio",
				     but);
	if (*bindings.elsewhere)
		return say(PRELOAD_FAILS, program, "%s was bound to %s", bindings.caller,
			   bindings.elsewhere);
	if (*hidden)
		return say(PRELOAD_FAILS, program, "%s", hidden);
	if (!findings.loaded)
		return say(PRELOAD_FAILS, program,
			   "lmdbio was not loaded (static, set-uid, or the "
			   "dynamic loader does not take it)");
	return say(PRELOAD_FAILS, program, "it ended without looking for LMDB");
}
