/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how an environment is opened, asked and copied on both sides. */
#include "copied_files.h"
#include "operation_txn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void env_path(const struct run *run, int side, char *path, size_t room)
{
	const char *file = run->database->container && side == 1 ? "/data.mdb.zst" : "/data.mdb";

	snprintf(path, room, "%s%s", run->database->directory[side],
		 run->sequence->env_flags & MDB_NOSUBDIR ? file : "");
}

bool run_open(struct run *run)
{
	unsigned tables = run->database->plan.table_count;
	char path[1100];
	bool agree = true;
	MDB_dbi dbi[2];
	int rc[2];

	for (int side = 0; side < 2; side++) {
		const struct library *library = run->library[side];

		rc[side] = library->mdb_env_create(&run->env[side]);
		if (rc[side] == 0)
			rc[side] = library->mdb_env_set_maxdbs(run->env[side],
							       run->sequence->most_dbs);
		if (rc[side] == 0)
			rc[side] = library->mdb_env_set_maxreaders(run->env[side], 20);
		env_path(run, side, path, sizeof path);
		if (rc[side] == 0)
			rc[side] = library->mdb_env_open(
				run->env[side], path, MDB_RDONLY | run->sequence->env_flags, 0644);
	}
	if (!run_codes_agree(run, "env_open", rc))
		return false;
	if (rc[0] != 0)
		return run_differs(run, "env_open: both fail with %d", rc[0]);
	for (unsigned t = 0; t < run->tables; t++)
		run->table[t] = (struct table_state){.dbi = 900 + t, .owner = -1};
	run->table[tables] = (struct table_state){.dbi = 0, .open = true, .owner = -1};
	for (int i = 0; i < CURSOR_SLOTS; i++)
		run->cursor[i].txn = -1;

	if (!run_txn(run, 0, &agree))
		return agree && run_differs(run, "txn_begin: both refuse");
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_dbi_open(run->txn[0].side[side], NULL, 0,
							    &dbi[side]);
	if (!run_codes_agree(run, "dbi_open of the main database", rc))
		return false;
	for (unsigned t = 0; t < tables; t++)
		if (!txn_open_table(run, 0, t, 0))
			return false;
	return txn_end(run, 0, TXN_COMMIT);
}

bool run_close(struct run *run)
{
	bool agree = txn_end_all(run);

	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < CURSOR_SLOTS; i++)
			if (run->cursor[i].side[side])
				run->library[side]->mdb_cursor_close(run->cursor[i].side[side]);
		run->library[side]->mdb_env_close(run->env[side]);
	}
	return agree;
}

struct readers {
	unsigned active, lines;
	char other[80];
};

/* Lines of slots that hold a snapshot end with its number, those of idle ones with "-". */
static int count_reader(const char *line, void *context)
{
	struct readers *readers = context;
	size_t length = strlen(line);

	readers->lines++;
	if (length > 2 && line[length - 2] >= '0' && line[length - 2] <= '9')
		readers->active++;
	if (line[0] == '(')
		snprintf(readers->other, sizeof readers->other, "%s", line);
	return 0;
}

static bool run_readers(struct run *run)
{
	struct readers readers[2];
	int rc[2], dead[2] = {5, 5};

	memset(readers, 0, sizeof readers);
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_reader_list(run->env[side], count_reader,
							       &readers[side]);
	if (!run_codes_agree(run, "reader_list", rc))
		return false;
	if (readers[0].active != readers[1].active ||
	    strcmp(readers[0].other, readers[1].other) != 0)
		return run_differs(run, "reader_list: the original lists %u readers%s, %s %u%s",
				   readers[0].active, readers[0].other, run->library[1]->title,
				   readers[1].active, readers[1].other);
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_reader_check(run->env[side], &dead[side]);
	if (!run_codes_agree(run, "reader_check", rc))
		return false;
	if (dead[0] != dead[1])
		return run_differs(run, "reader_check: the original clears %d, %s %d", dead[0],
				   run->library[1]->title, dead[1]);
	return true;
}

static bool run_env_info(struct run *run)
{
	/* without MDB_NOTLS a thread has one slot in the original, whatever its transactions do */
	bool one_slot_a_thread = !(run->sequence->env_flags & (MDB_NOTLS | MDB_NOLOCK));
	MDB_envinfo info[2];
	MDB_stat stat[2];
	int rc[2];

	memset(info, 0, sizeof info);
	memset(stat, 0, sizeof stat);
	for (int side = 0; side < 2; side++) {
		rc[side] = run->library[side]->mdb_env_info(run->env[side], &info[side]);
		if (one_slot_a_thread)
			info[side].me_numreaders = 0;
	}
	if (!run_codes_agree(run, "env_info", rc))
		return false;
	if (run->database->later)
		info[1].me_mapsize = info[0].me_mapsize;
	if (memcmp(&info[0], &info[1], sizeof info[0]) != 0)
		return run_differs(run,
				   "env_info: the original has map %zu, page %zu, txn %zu, readers "
				   "%u/%u, %s %zu, %zu, %zu, %u/%u",
				   info[0].me_mapsize, info[0].me_last_pgno, info[0].me_last_txnid,
				   info[0].me_numreaders, info[0].me_maxreaders,
				   run->library[1]->title, info[1].me_mapsize, info[1].me_last_pgno,
				   info[1].me_last_txnid, info[1].me_numreaders,
				   info[1].me_maxreaders);
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_env_stat(run->env[side], &stat[side]);
	if (!run_codes_agree(run, "env_stat", rc))
		return false;
	if (run->database->later)
		stat[1].ms_psize = stat[0].ms_psize;
	if (memcmp(&stat[0], &stat[1], sizeof stat[0]) != 0)
		return run_differs(run, "env_stat: the original has %zu entries, %s %zu",
				   stat[0].ms_entries, run->library[1]->title, stat[1].ms_entries);
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_env_stat(NULL, &stat[side]);
	return run_codes_agree(run, "env_stat of NULL", rc);
}

static bool run_env_facts(struct run *run)
{
	unsigned flags[2] = {0, 0}, readers[2] = {0, 0};
	const char *path[2] = {"", ""};
	char expected[1100];
	mdb_filehandle_t fd;
	int rc[2];

	for (int side = 0; side < 2; side++) {
		const struct library *library = run->library[side];

		rc[side] = library->mdb_env_get_flags(run->env[side], &flags[side]);
		rc[side] = rc[side] * 100 +
			   library->mdb_env_get_maxreaders(run->env[side], &readers[side]);
		rc[side] = rc[side] * 100 + library->mdb_env_get_path(run->env[side], &path[side]);
		rc[side] = rc[side] * 100 + library->mdb_env_get_fd(run->env[side], &fd);
		rc[side] = rc[side] * 100 + (fcntl(fd, F_GETFD) < 0);
		env_path(run, side, expected, sizeof expected);
		if (strcmp(path[side], expected) != 0)
			return run_differs(run, "env_get_path: %s says %s",
					   run->library[side]->title, path[side]);
	}
	if (!run_codes_agree(run, "env_get_flags, maxreaders, path, fd", rc))
		return false;
	if (flags[0] != flags[1] || readers[0] != readers[1])
		return run_differs(
			run, "env_get_flags, maxreaders: the original has %#x, %u, %s %#x, %u",
			flags[0], readers[0], run->library[1]->title, flags[1], readers[1]);
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_env_get_maxkeysize(run->env[side]);
	/* LMDB 1.0 has longer keys */
	return (run->database->later || run_codes_agree(run, "env_get_maxkeysize", rc)) &&
	       run_env_info(run) && run_readers(run);
}

static bool run_env_set(struct run *run, const struct read_operation *operation)
{
	static const unsigned flags[] = {MDB_NOSYNC, MDB_NOMETASYNC, MDB_NOMEMINIT, MDB_RDONLY,
					 0x8};
	char path[1100];
	int rc[2];

	for (int side = 0; side < 2; side++) {
		const struct library *library = run->library[side];
		MDB_env *env = run->env[side];

		switch (operation->variant % 6) {
		case 0:
			rc[side] = library->mdb_env_set_maxreaders(env, 10);
			break;
		case 1:
			rc[side] = library->mdb_env_set_maxdbs(env, 10);
			break;
		case 2:
			env_path(run, side, path, sizeof path);
			rc[side] = library->mdb_env_open(env, path, MDB_RDONLY, 0);
			break;
		case 3:
			rc[side] = library->mdb_env_sync(env, operation->variant / 6 % 2);
			break;
		case 4:
			rc[side] =
				library->mdb_env_set_flags(env, flags[operation->variant / 6 % 5],
							   operation->variant / 30 % 2);
			break;
		default:
			rc[side] = library->mdb_env_set_userctx(env, run);
			if (library->mdb_env_get_userctx(env) != run)
				rc[side] = -1;
			break;
		}
	}
	return run_codes_agree(run, "env_set_*, env_open again, env_sync", rc);
}

static bool run_mapsize(struct run *run, const struct read_operation *operation)
{
	static const size_t sizes[] = {0, 1, 1 << 20, (1 << 30) + 1, (size_t)3 << 29, 12345678};
	int rc[2];

	if (!txn_end_all(run)) /* lmdb.h: only without active transactions */
		return false;
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_env_set_mapsize(run->env[side],
								   sizes[operation->variant % 6]);
	return run_codes_agree(run, "env_set_mapsize", rc) && run_env_info(run);
}

static bool run_copy(struct run *run, const struct read_operation *operation)
{
	unsigned flags = operation->variant % 2 ? MDB_CP_COMPACT : 0,
		 way = operation->variant / 2 % 3;
	bool to_file = run->sequence->env_flags & MDB_NOSUBDIR;
	char directory[2][1100], path[2][1200];
	size_t at;
	bool agree;
	int rc[2], fd;

	if (run->database->file_size > 6 << 20 || run->database->later)
		return true;
	for (int side = 0; side < 2; side++) {
		const struct library *library = run->library[side];

		snprintf(directory[side], sizeof directory[side], "%s/copy%llu",
			 run->database->directory[side], (unsigned long long)run->sequence->number);
		snprintf(path[side], sizeof path[side], "%.1099s/data.mdb", directory[side]);
		mkdir(directory[side], 0755);
		if (way == 0) {
			fd = open(path[side], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
			rc[side] = library->mdb_env_copyfd2(run->env[side], fd, flags);
			close(fd);
		} else {
			rc[side] = library->mdb_env_copy2(
				run->env[side], to_file ? path[side] : directory[side], flags);
		}
		if (way == 2) /* onto the copy that is there now */
			rc[side] = rc[side] * 1000 +
				   library->mdb_env_copy(run->env[side],
							 to_file ? path[side] : directory[side]);
	}
	agree = run_codes_agree(run, "env_copy", rc);
	if (agree && (rc[0] == 0 || way == 2) && access(path[0], F_OK) == 0 &&
	    !copied_files_agree(path[0], path[1], flags != 0, &at))
		agree = run_differs(run, "env_copy: the files differ at byte %zu", at);
	for (int side = 0; side < 2; side++) {
		unlink(path[side]);
		rmdir(directory[side]);
	}
	return agree;
}

bool operation_env_run(struct run *run, const struct read_operation *operation)
{
	switch (operation->kind) {
	case OPERATION_ENV_FACTS:
		return run_env_facts(run);
	case OPERATION_ENV_SET:
		return run_env_set(run, operation);
	case OPERATION_ENV_MAPSIZE:
		return run_mapsize(run, operation);
	case OPERATION_ENV_COPY:
		return run_copy(run, operation);
	default:
		return operation_txn_run(run, operation);
	}
}
