/* SPDX-License-Identifier: OLDAP-2.8 */
/* Removes a source only if it is still the converted file and no running program has it open. */
#include "convert_remove.h"
#include "convert_in_use.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Reports a return code of in_use_look(). */
static int in_use_tell(const struct source *source, int rc)
{
	if (rc == EBUSY)
		return convert_refuse(source->file,
				      "a program has it open: end the program, or convert "
				      "without --rm");
	return rc ? convert_fail(source->lock, rc) : 0;
}

/* Judges the source's names: --rm removes a name, and a link's name is not the data's. Opening the
 * source reports a missing file. */
static int names_judge(const struct source *source)
{
	struct stat st;

	if (!lstat(source->file, &st) && S_ISLNK(st.st_mode))
		return convert_refuse(source->file,
				      "it is a symbolic link, which --rm does not follow: "
				      "name the file that it leads to, or convert "
				      "without --rm");
	return source->form == FORM_LMDB ? in_use_tell(source, in_use_look(source->file)) : 0;
}

int remove_judge(const struct convert *convert)
{
	struct source source;
	int rc = source_name(&source, convert->sources[0], convert->from, convert->no_subdir);

	rc = rc ? convert_fail(convert->sources[0], rc) : names_judge(&source);
	source_close(&source);
	return rc;
}

/* Reports why a source stays that has been converted. */
static int removal_fail(const struct source *source, int rc)
{
	return convert_refuse(source->file,
			      "it cannot be removed (%s): the target is whole and verified, "
			      "remove this file yourself",
			      strerror(rc));
}

/* Removes the source if it is unchanged. A writer's last commit is in the file before the writer
 * releases its lock, so this checks while no program can open the environment. */
static int unchanged_remove(const struct source *source)
{
	if (!source_is_unchanged(source))
		return convert_refuse(source->file,
				      "it was written to meanwhile, and is not removed");
	if (unlink(source->file))
		return removal_fail(source, errno);
	if (source->lock)
		(void)unlink(source->lock);
	return 0;
}

int remove_source(struct source *source, int target_fd)
{
	int held[IN_USE_LOCKS], rc;
	struct stat st, target;

	if (lstat(source->file, &st) || fstat(target_fd, &target))
		return convert_fail(source->file, errno);
	if (is_same(&st, &target))
		return 0;
	if (!is_same(&st, &source->st))
		return convert_refuse(source->file,
				      "another file has its name meanwhile, and is not removed");
	if (source->form != FORM_LMDB)
		return unchanged_remove(source);
	source_let_go(source);
	rc = in_use_prevent(source->file, held);
	if (rc && rc != EBUSY)
		rc = removal_fail(source, rc);
	else
		rc = rc ? in_use_tell(source, rc) : unchanged_remove(source);
	in_use_allow(held);
	return rc;
}
