/* SPDX-License-Identifier: OLDAP-2.8 */
/* What users do with commands, a life each: what the command makes is right and it says success, or there is no target,
 * no partial file, a message and the status of a failure.
 *
 * Each command line is run once without a failure before; its target is what the others are compared with. */
#include "config.h"
#include "command_lives.h"

#include "library_calls.h"
#include "life.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 24, DAMAGED = 1, REFUSED = 2, LEFTOVERS = 8, COMMANDS_MOST = 64 };

static const struct command *current; /* of the life that was asked for last */
static int statuses[COMMANDS_MOST];   /* of the commands without a failure */
static char scratch[200];
static unsigned entries; /* of the directory, before and after each command */
static bool
	is_clean; /* this process has removed what an attempt that has ended too soon has left */

size_t command_value_make(void *bytes, uint64_t i)
{
	for (size_t at = 0; at < COMMAND_VALUE / sizeof(i); at++)
		((uint64_t *)bytes)[at] =
			at % 3 ? i : (i * COMMAND_VALUE + at) * UINT64_C(0x9e3779b97f4a7c15);
	return COMMAND_VALUE - i % 50;
}

size_t command_large_make(void *bytes, uint64_t i)
{
	for (size_t at = 0; at < COMMAND_LARGE_VALUE / sizeof(i); at++)
		((uint64_t *)bytes)[at] = i + at;
	return COMMAND_LARGE_VALUE - i % 20 * 1000;
}

void command_shell(const char *command)
{
	if (command && system(command))
		abort();
}

/* In a child. */
static void become(const struct command *command)
{
	char name[] = "lmdbio", words[300], *argv[WORDS] = {name}, *rest = words;
	int argc = 1;

	snprintf(words, sizeof(words), "%s", command->words);
	while ((argv[argc] = strsep(&rest, " ")))
		argc++;
	if (!freopen("said", "w", stderr) ||
	    !freopen(command->prints ? command->target : "/dev/null", "w", stdout))
		_exit(NOT_AGAIN);
	calls_lack(command->lacks);
	exit(command_main(argc, argv));
}

int command_run(const struct command *command)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (!child)
		become(command);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static unsigned entries_count(void)
{
	DIR *directory = opendir(".");
	unsigned n = 0;

	while (directory && readdir(directory))
		n++;
	closedir(directory);
	return n;
}

static char *file_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "r");
	char *bytes;

	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	bytes = malloc(*size + 1);
	if (!bytes || fread(bytes, 1, *size, file) != *size)
		abort();
	fclose(file);
	return bytes;
}

static void reference_name(const struct command *command, char name[300])
{
	snprintf(name, 300, "%s/references/%u", scratch, (unsigned)(command - commands));
}

static bool is_right(const struct command *command)
{
	size_t size = 0, found = 0;
	char name[300], *right, *there;
	bool equal;

	reference_name(command, name);
	right = file_read(name, &size);
	there = file_read(command->target, &found);
	equal = right && there && size == found && !memcmp(right, there, size);
	free(right);
	free(there);
	return equal;
}

static void text_show(const char *path)
{
	size_t size = 0;
	char *text = file_read(path, &size);

	if (text)
		printf("%.*s", (int)size, text);
	free(text);
}

static bool has_text(const char *path)
{
	struct stat st;

	return !stat(path, &st) && st.st_size;
}

static void target_remove(const struct command *command)
{
	char directory[300], *slash;

	if (!command->target)
		return;
	unlink(command->target);
	snprintf(directory, sizeof(directory), "%s", command->target);
	slash = strrchr(directory, '/');
	if (slash) {
		*slash = 0;
		rmdir(directory);
	}
}

static bool is_refusal(int rc)
{
	return rc == DAMAGED || rc == REFUSED;
}

/* What is wrong with a command's end, or FINE. */
static int judge_made(const struct command *command, int rc)
{
	struct stat st;

	if (command->refused ? !is_refusal(rc) : rc && (lives_strict || rc != REFUSED))
		return WRONG_CODE;
	if (!rc && command->target && !is_right(command))
		return WRONG_BYTES;
	/* What is there after a failure is whole all the same: its last calls may only make it durable. */
	if (rc && command->target && !stat(command->target, &st) && !is_right(command))
		return MISSING;
	return rc && !has_text("said") ? LEFT : FINE;
}

/* Of a command that prints, a status is as much an answer as what it prints: 1 says that the data set is damaged. */
static int judge_printed(const struct command *command, int rc)
{
	if (rc == statuses[command - commands] && is_right(command))
		return FINE;
	if (lives_strict || rc != REFUSED)
		return rc == statuses[command - commands] ? WRONG_BYTES : WRONG_CODE;
	return has_text("said") || has_text(command->target) ? FINE : LEFT;
}

static void judge(const struct command *command, int rc)
{
	int wrong = command->prints ? judge_printed(command, rc) : judge_made(command, rc);

	if (wrong != FINE) {
		text_show("said");
		if (command->prints)
			text_show(command->target);
		lives_end(wrong, command->name, rc);
	}
	lives_failed |= rc != 0;
}

static void command_live(const struct command *command)
{
	/* A name is removed only if it is known to be the file's. */
	bool removes = calls_failing() &&
		       (strstr(calls_failing(), "unlink") || strstr(calls_failing(), "fstat"));
	int rc;

	calls_spare(true);
	if (chdir(scratch) || chdir("work"))
		abort();
	if (!is_clean) {
		target_remove(command);
		command_shell(command->after);
		command_shell(command_leftovers_remove);
		is_clean = true;
	}
	command_shell(command->before);
	calls_spare(false);
	rc = command_run(command);
	calls_spare(true);
	judge(command, rc);
	target_remove(command);
	command_shell(command->after);
	/* A file that cannot be removed stays: a partial one, whose place the next attempt takes, or two of no name. */
	if (removes && entries_count() <= entries + LEFTOVERS)
		command_shell(command_leftovers_remove);
	if (entries_count() != entries) {
		text_show("said");
		command_shell("ls -la");
		lives_end(LEFT, command->name, (int)entries_count());
	}
	calls_spare(false);
}

static void live(void)
{
	command_live(current);
}

const struct life *lives_number(unsigned number)
{
	static struct life life;

	if (number >= commands_count)
		return NULL;
	current = &commands[number];
	life = (struct life){current->name, live};
	return &life;
}

static void reference_make(const struct command *command)
{
	int rc, *status = &statuses[command - commands];
	char name[300];

	command_shell(command->before);
	*status = rc = command_run(command);
	if (command->refused ? !is_refusal(rc) : rc && !(command->prints && rc == DAMAGED)) {
		printf("%s: it ends with %d\n", command->name, rc);
		text_show("said");
		exit(1);
	}
	reference_name(command, name);
	if (command->target && rename(command->target, name))
		abort();
	target_remove(command);
	command_shell(command->after);
}

void lives_begin(void)
{
	const char *base = getenv("TMPDIR");

	if (commands_count > COMMANDS_MOST)
		abort();
	snprintf(scratch, sizeof(scratch), "%.150s/lmdbio-command.XXXXXX",
		 base && *base ? base : "/tmp");
	if (!mkdtemp(scratch) || chdir(scratch) || mkdir("work", 0700) ||
	    mkdir("references", 0700) || chdir("work"))
		abort();
	setenv("TMPDIR", scratch, 1);
	command_files_make();
	command_shell("touch said");
	for (unsigned i = 0; i < commands_count; i++)
		reference_make(&commands[i]);
	entries = entries_count();
}

void lives_over(void)
{
	char command[300];

	if (chdir("/"))
		abort();
	snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
	command_shell(command);
	command_files_remove();
}
