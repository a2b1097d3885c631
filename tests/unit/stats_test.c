/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the counters report, to which reader, and when they report nothing. */
#include "util/stats.h"

#include "child_said.h"
#include "util/clock.h"

#include <lmdbio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the headers above. */
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void count_something(void)
{
	stats_add(STATS_STORAGE_REQUESTS, 3);
	stats_add(STATS_STORAGE_BYTES, 3 << 20);
	stats_add(STATS_WAIT_NS, 1500000000);
}

static void count_nothing(void)
{
}

/* --- counting -------------------------------------------------------------------------------- */

static void *count_many(void *unused)
{
	for (int i = 0; i < 100000; i++)
		stats_add(STATS_EVICTIONS, 2);
	return unused;
}

static void counters_of_several_threads_add_up(void **state)
{
	uint64_t before = stats_get(STATS_EVICTIONS);
	pthread_t threads[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_many, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_true(stats_get(STATS_EVICTIONS) - before == 600000);
	assert_true(stats_any());
}

static void counters_after_fork_start_from_zero(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	stats_add(STATS_FALLBACKS, 5);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(stats_any());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(stats_get(STATS_FALLBACKS) >= 5);
}

/* A program that serves its node: its own waits are a part of its own time. */
static bool counts_its_own_time(void)
{
	struct stats_sum sum;

	stats_serve();
	stats_sum_own(&sum);
	if (sum.elapsed_ns)
		return false;
	stats_opened();
	stats_waited(clock_now());
	stats_sum_own(&sum);
	return sum.elapsed_ns && sum.of_ns >= sum.elapsed_ns && sum.processes == 1;
}

static void server_that_opens_a_data_set_is_a_program(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid)
		_exit(!counts_its_own_time());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* --- the API --------------------------------------------------------------------------------- */

static void stats_call_with_full_size_fills_all(void **state)
{
	struct lmdbio_stats stats = {.size = sizeof(stats)};

	(void)state;
	stats_add(STATS_STORAGE_REQUESTS, 11);
	stats_add(STATS_FALLBACKS, 13);
	assert_int_equal(lmdbio_stats(&stats), 0);
	assert_true(stats.size == sizeof(stats));
	assert_true(stats.storage_requests == stats_get(STATS_STORAGE_REQUESTS));
	assert_true(stats.fallbacks == stats_get(STATS_FALLBACKS));
	assert_true(stats.huge_bytes == stats_get(STATS_HUGE_BYTES));
	assert_true(stats.storage_requests >= 11 && stats.fallbacks >= 13);
}

static void stats_call_with_smaller_size_leaves_the_rest(void **state)
{
	struct lmdbio_stats stats;

	(void)state;
	stats_add(STATS_STORAGE_BYTES, 1);
	memset(&stats, 0xa5, sizeof(stats));
	stats.size = offsetof(struct lmdbio_stats, storage_bytes);
	assert_int_equal(lmdbio_stats(&stats), 0);
	assert_true(stats.size == offsetof(struct lmdbio_stats, storage_bytes));
	assert_true(stats.storage_requests == stats_get(STATS_STORAGE_REQUESTS));
	assert_true(stats.storage_bytes == UINT64_C(0xa5a5a5a5a5a5a5a5));
}

static void stats_call_with_larger_size_says_what_is_known(void **state)
{
	struct {
		struct lmdbio_stats known;
		uint64_t later;
	} stats = {.known.size = sizeof(stats), .later = 77};

	(void)state;
	assert_int_equal(lmdbio_stats(&stats.known), 0);
	assert_true(stats.known.size == sizeof(struct lmdbio_stats));
	assert_true(stats.later == 77);
}

static void stats_call_without_size_fails(void **state)
{
	struct lmdbio_stats stats = {.size = 0};

	(void)state;
	assert_int_equal(lmdbio_stats(NULL), EINVAL);
	assert_int_equal(lmdbio_stats(&stats), EINVAL);
	stats.size = sizeof(stats.size) - 1;
	assert_int_equal(lmdbio_stats(&stats), EINVAL);
}

/* --- the report ------------------------------------------------------------------------------ */

/* Runs the library's destructor in a child with LMDBIO_STATS=`value`. */
static void end_under(const char *value, void (*body)(void), char *said, size_t size)
{
	if (value)
		setenv("LMDBIO_STATS", value, 1);
	child_run(body, said, size);
	unsetenv("LMDBIO_STATS");
}

static void end_without_the_setting_is_silent(void **state)
{
	char said[STATS_REPORT];

	(void)state;
	end_under(NULL, count_something, said, sizeof(said));
	assert_string_equal(said, "");
	end_under("0", count_something, said, sizeof(said));
	assert_string_equal(said, "");
	end_under("", count_something, said, sizeof(said));
	assert_string_equal(said, "");
}

static void end_with_nothing_counted_is_silent(void **state)
{
	char said[STATS_REPORT];

	(void)state;
	end_under("1", count_nothing, said, sizeof(said));
	assert_string_equal(said, "");
	end_under("json", count_nothing, said, sizeof(said));
	assert_string_equal(said, "");
}

static void end_with_text_tells_lines(void **state)
{
	char said[STATS_REPORT], line[128];

	(void)state;
	end_under("1", count_something, said, sizeof(said));
	assert_ptr_equal(strstr(said, "lmdbio: I/O is your bottleneck: waited 1.500 of 1.500 s (100 %)\n"
				      "lmdbio: statistics of "),
			 said);
	assert_int_equal(child_lines(said), 2 + STATS_COUNT);
	snprintf(line, sizeof(line), "\nlmdbio:   %-30s %15d\n", "requests to storage", 3);
	assert_non_null(strstr(said, line));
	assert_non_null(strstr(said, " 3145728 bytes (3.0 MiB)\n"));
	assert_non_null(strstr(said, " 1500000000 ns (1.500 s)\n"));
	assert_non_null(strstr(said, " 0 bytes\n"));
}

static void assert_is_the_report_in_json(const char *said)
{
	assert_ptr_equal(strstr(said, "{\"schema\": \"lmdbio-stats/1\", \"verdict\": \"I/O is "), said);
	assert_int_equal(child_lines(said), 1);
	assert_string_equal(said + strlen(said) - 2, "}\n");
	assert_non_null(strstr(said, ", \"pid\": "));
	assert_non_null(strstr(said, ", \"storage_requests\": 3, \"storage_bytes\": 3145728, "));
	assert_non_null(strstr(said, ", \"wait_ns\": 1500000000, "));
	assert_non_null(strstr(said, ", \"fallbacks\": 0, \"huge_bytes\": 0, "));
	assert_non_null(strstr(said, ", \"container_chunks\": 0, \"request_sizes\": []}"));
}

static void end_with_json_tells_one_line(void **state)
{
	char said[STATS_REPORT];

	(void)state;
	end_under("json", count_something, said, sizeof(said));
	assert_is_the_report_in_json(said);
}

static void tell_twice(void)
{
	count_something();
	stats_tell(settings_get());
	stats_tell(settings_get());
}

static void report_asked_for_twice_is_told_once(void **state)
{
	char said[2 * STATS_REPORT];

	(void)state;
	end_under("json", tell_twice, said, sizeof(said));
	assert_is_the_report_in_json(said);
}

static void fork_after_counting(void)
{
	int status;
	pid_t pid;

	stats_add(STATS_WAITS, 1000);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		count_something();
		exit(0); /* reports its own counts first, because the parent waits */
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		_exit(1);
}

static void end_of_a_forked_child_tells_its_own(void **state)
{
	char said[2 * STATS_REPORT], *second;

	(void)state;
	end_under("json", fork_after_counting, said, sizeof(said));
	assert_int_equal(child_lines(said), 2);
	second = strchr(said, '\n') + 1;
	assert_non_null(strstr(second, "\"waits\": 1000,"));
	assert_non_null(strstr(second, "\"storage_requests\": 0,"));
	*second = 0;
	assert_is_the_report_in_json(said);
	assert_non_null(strstr(said, "\"waits\": 0,"));
}

static void clone_after_counting(void)
{
	int status;
	pid_t pid;

	count_something();
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		exit(0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		_exit(1);
}

static void end_of_a_bare_clone_keeps_silent_about_its_parent(void **state)
{
	char said[2 * STATS_REPORT];

	(void)state;
	end_under("json", clone_after_counting, said, sizeof(said));
	assert_is_the_report_in_json(said);
}

static void secure_process_tells_nothing(void **state)
{
	const struct settings settings = {.secure = true,
					  .stats = {SETTINGS_STATS_FILE, "/dev/null/x"}};

	(void)state;
	stats_add(STATS_WAITS, 1);
	stats_tell(&settings); /* would say that it cannot open the file */
}

static void secure_child(void)
{
	secure_process_tells_nothing(NULL);
}

static void end_of_a_secure_process_is_silent(void **state)
{
	char said[STATS_REPORT];

	(void)state;
	child_run(secure_child, said, sizeof(said));
	assert_string_equal(said, "");
}

static void report_in_a_small_buffer_is_cut(void **state)
{
	char small[64], full[STATS_REPORT];
	struct stats_report report;

	(void)state;
	stats_report_self(&report);
	for (size_t size = 1; size <= sizeof(small); size++) {
		memset(small, 'x', sizeof(small));
		assert_int_equal(stats_format_json(&report, small, size), size - 1);
		assert_int_equal(strlen(small), size - 1);
		assert_int_equal(stats_format_text(&report, small, size), size - 1);
	}
	memset(&report.sum, 0xff, sizeof(report.sum));
	report.sum.scale = STATS_SCALES - 1;
	report.whole = true;
	assert_true(stats_format_json(&report, full, sizeof(full)) < sizeof(full) / 2);
	assert_true(stats_format_text(&report, full, sizeof(full)) < sizeof(full) - 512);
}

static void report_of_an_odd_program_name_is_quoted(void **state)
{
	char name[] = "a\"b\\c\nd\xff", text[STATS_REPORT];
	const struct stats_report report = {.program = name};

	(void)state;
	stats_format_json(&report, text, sizeof(text));
	assert_non_null(strstr(text, "\"program\": \"a\\\"b\\\\c\\u000ad\\u00ff\", "));
}

/* --- the report in a file -------------------------------------------------------------------- */

static char directory[PATH_MAX];

static int directory_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(directory, sizeof(directory), "%s/lmdbio-stats.XXXXXX", tmp ? tmp : "/tmp");
	return child_environment_clear(state) || !mkdtemp(directory);
}

static int directory_teardown(void **state)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;

	(void)state;
	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	return rmdir(directory);
}

/* Asserts that it is the only file in the directory. */
static void directory_only(char *name, size_t size)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	unsigned n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (*entry->d_name == '.')
			continue;
		n++;
		snprintf(name, size, "%s", entry->d_name);
	}
	closedir(dir);
	assert_int_equal(n, 1);
}

static void file_read(const char *name, char *text, size_t size, mode_t *mode)
{
	char path[2 * PATH_MAX];
	struct stat status;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	*mode = status.st_mode & 0777;
	n = read(fd, text, size - 1);
	close(fd);
	assert_true(n >= 0);
	text[n] = 0;
}

static void end_with_a_file_writes_it_for_the_owner_alone(void **state)
{
	char value[2 * PATH_MAX], name[NAME_MAX + 1], host[256], wanted[300], said[STATS_REPORT];
	char *end;
	long pid;
	mode_t mode;

	(void)state;
	umask(0);
	snprintf(value, sizeof(value), "%s/a%%%%b-%%h-%%p.json", directory);
	end_under(value, count_something, said, sizeof(said));
	umask(022);
	assert_string_equal(said, "");
	directory_only(name, sizeof(name));
	assert_int_equal(gethostname(host, sizeof(host)), 0);
	snprintf(wanted, sizeof(wanted), "a%%b-%s-", host);
	assert_ptr_equal(strstr(name, wanted), name);
	pid = strtol(name + strlen(wanted), &end, 10);
	assert_string_equal(end, ".json");
	file_read(name, said, sizeof(said), &mode);
	assert_is_the_report_in_json(said);
	assert_int_equal(mode, 0600);
	snprintf(wanted, sizeof(wanted), ", \"pid\": %ld, ", pid);
	assert_non_null(strstr(said, wanted));
}

static void count_elsewhere(void)
{
	settings_get();
	count_something();
	if (chdir("/"))
		_exit(1);
}

static void end_with_a_relative_file_writes_where_it_began(void **state)
{
	char name[NAME_MAX + 1], said[STATS_REPORT], before[PATH_MAX];
	mode_t mode;

	(void)state;
	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(directory), 0);
	end_under("here.json", count_elsewhere, said, sizeof(said));
	assert_int_equal(chdir(before), 0);
	assert_string_equal(said, "");
	directory_only(name, sizeof(name));
	assert_string_equal(name, "here.json");
	file_read(name, said, sizeof(said), &mode);
	assert_is_the_report_in_json(said);
}

static void end_with_a_file_that_exists_leaves_it(void **state)
{
	char value[2 * PATH_MAX], said[STATS_REPORT], text[16];
	mode_t mode;
	int fd;

	(void)state;
	snprintf(value, sizeof(value), "%s/mine", directory);
	fd = open(value, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "precious", 8), 8);
	close(fd);
	end_under(value, count_something, said, sizeof(said));
	assert_int_equal(child_lines(said), 1);
	assert_non_null(strstr(said, "not overwritten"));
	file_read("mine", text, sizeof(text), &mode);
	assert_string_equal(text, "precious");
}

static void end_with_a_link_does_not_follow_it(void **state)
{
	char value[2 * PATH_MAX], target[2 * PATH_MAX], said[STATS_REPORT];

	(void)state;
	snprintf(value, sizeof(value), "%s/link", directory);
	snprintf(target, sizeof(target), "%s/target", directory);
	assert_int_equal(symlink(target, value), 0);
	end_under(value, count_something, said, sizeof(said));
	assert_int_equal(child_lines(said), 1);
	assert_int_equal(access(target, F_OK), -1);
}

static void end_with_a_file_in_no_directory_says_so(void **state)
{
	char value[2 * PATH_MAX], said[STATS_REPORT];

	(void)state;
	snprintf(value, sizeof(value), "%s/none/file", directory);
	end_under(value, count_something, said, sizeof(said));
	assert_int_equal(child_lines(said), 1);
	assert_non_null(strstr(said, strerror(ENOENT)));
	assert_non_null(strstr(said, "make the directory"));
}

static void file_name_that_does_not_fit_fails(void **state)
{
	char path[16];

	(void)state;
	assert_int_equal(stats_file_name("123456789012345", 1, path, sizeof(path)), ENAMETOOLONG);
	assert_int_equal(stats_file_name("1234567890123456789", 1, path, sizeof(path)), ENAMETOOLONG);
	assert_int_equal(stats_file_name("a%%b%", 1, path, sizeof(path)), 0);
	assert_string_equal(path, "a%b%");
}

static void file_name_has_process_and_rank(void **state)
{
	char path[64];

	(void)state;
	unsetenv("PMI_RANK");
	unsetenv("SLURM_PROCID");
	assert_int_equal(stats_file_name("%r-%p", 12, path, sizeof(path)), 0);
	assert_string_equal(path, "0-12");
	setenv("SLURM_PROCID", "../3", 1);
	assert_int_equal(stats_file_name("%r", 12, path, sizeof(path)), 0);
	assert_string_equal(path, "0");
	setenv("SLURM_PROCID", "7", 1);
	assert_int_equal(stats_file_name("%r", 12, path, sizeof(path)), 0);
	assert_string_equal(path, "7");
	unsetenv("SLURM_PROCID");
}

#define WITH_A_DIRECTORY(test)                                                                     \
	cmocka_unit_test_setup_teardown(test, directory_setup, directory_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_of_several_threads_add_up),
		cmocka_unit_test(counters_after_fork_start_from_zero),
		cmocka_unit_test(server_that_opens_a_data_set_is_a_program),
		cmocka_unit_test(stats_call_with_full_size_fills_all),
		cmocka_unit_test(stats_call_with_smaller_size_leaves_the_rest),
		cmocka_unit_test(stats_call_with_larger_size_says_what_is_known),
		cmocka_unit_test(stats_call_without_size_fails),
		cmocka_unit_test(end_without_the_setting_is_silent),
		cmocka_unit_test(end_with_nothing_counted_is_silent),
		cmocka_unit_test(end_with_text_tells_lines),
		cmocka_unit_test(end_with_json_tells_one_line),
		cmocka_unit_test(report_asked_for_twice_is_told_once),
		cmocka_unit_test(end_of_a_forked_child_tells_its_own),
		cmocka_unit_test(end_of_a_bare_clone_keeps_silent_about_its_parent),
		cmocka_unit_test(end_of_a_secure_process_is_silent),
		cmocka_unit_test(report_in_a_small_buffer_is_cut),
		cmocka_unit_test(report_of_an_odd_program_name_is_quoted),
		WITH_A_DIRECTORY(end_with_a_file_writes_it_for_the_owner_alone),
		WITH_A_DIRECTORY(end_with_a_relative_file_writes_where_it_began),
		WITH_A_DIRECTORY(end_with_a_file_that_exists_leaves_it),
		WITH_A_DIRECTORY(end_with_a_link_does_not_follow_it),
		WITH_A_DIRECTORY(end_with_a_file_in_no_directory_says_so),
		cmocka_unit_test(file_name_that_does_not_fit_fails),
		cmocka_unit_test(file_name_has_process_and_rank),
	};

	return cmocka_run_group_tests(tests, child_environment_clear, NULL);
}
