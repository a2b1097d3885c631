/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the results for numbers, settings and lines of text. */
#include "util/checked.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

static void checked_add_when_at_the_edge_then_fits_or_not(void **state)
{
	uint64_t sum;

	(void)state;
	assert_true(checked_add(UINT64_MAX - 1, 1, &sum));
	assert_true(sum == UINT64_MAX);
	assert_false(checked_add(UINT64_MAX, 1, &sum));
	assert_false(checked_add(1ull << 63, 1ull << 63, &sum));
	assert_true(checked_add(0, 0, &sum));
	assert_true(sum == 0);
}

static void checked_multiply_when_at_the_edge_then_fits_or_not(void **state)
{
	uint64_t product;

	(void)state;
	assert_true(checked_multiply(1ull << 32, (1ull << 32) - 1, &product));
	assert_true(product == 0xffffffff00000000);
	assert_false(checked_multiply(1ull << 32, 1ull << 32, &product));
	assert_false(checked_multiply(UINT64_MAX, 2, &product));
	assert_true(checked_multiply(UINT64_MAX, 1, &product));
	assert_true(checked_multiply(UINT64_MAX, 0, &product));
	assert_true(product == 0);
}

static void clamp_when_no_integer_holds_it_then_the_nearest_or_0(void **state)
{
	(void)state;
	assert_true(clamp_u64(0) == 0 && clamp_u64(1.9) == 1);
	assert_true(clamp_u64(-1) == 0 && clamp_u64(-1e300) == 0 && clamp_u64(NAN) == 0);
	assert_true(clamp_u64(0x1p63) == UINT64_C(1) << 63);
	assert_true(clamp_u64(0x1.fffffffffffffp63) == UINT64_MAX - 2047);
	assert_true(clamp_u64(0x1p64) == UINT64_MAX && clamp_u64(INFINITY) == UINT64_MAX);
}

static void round_up_when_on_a_multiple_then_stays(void **state)
{
	(void)state;
	assert_int_equal(round_up(0, 8), 0);
	assert_int_equal(round_up(1, 8), 8);
	assert_int_equal(round_up(8, 8), 8);
	assert_int_equal(round_up(9, 8), 16);
	assert_int_equal(round_up(4097, 4096), 8192);
	assert_int_equal(round_up(5, 1), 5);
}

static void is_power_of_two_when_each_bit_then_true_and_sums_false(void **state)
{
	(void)state;
	assert_false(is_power_of_two(0));
	for (unsigned i = 0; i < 64; i++)
		assert_true(is_power_of_two(1ull << i));
	for (unsigned i = 1; i < 64; i++)
		assert_false(is_power_of_two(1ull << i | 1));
	assert_false(is_power_of_two(UINT64_MAX));
}

static void load_and_store_when_unaligned_then_round_trip(void **state)
{
	uint8_t bytes[24];

	(void)state;
	for (unsigned at = 0; at < 8; at++) {
		memset(bytes, 0xaa, sizeof(bytes));
		store16(bytes + at, 0x1234);
		assert_int_equal(load16(bytes + at), 0x1234);
		assert_int_equal(bytes[at + 2], 0xaa);
		store32(bytes + at, 0x12345678);
		assert_int_equal(load32(bytes + at), 0x12345678);
		assert_int_equal(bytes[at + 4], 0xaa);
		store64(bytes + at, 0x123456789abcdef0);
		assert_true(load64(bytes + at) == 0x123456789abcdef0);
		assert_int_equal(bytes[at + 8], 0xaa);
	}
}

/* Runs a child process and collects its standard error; *settings is what the child has read. */
static void in_child(char *const *environment, void (*say)(void), char *text, size_t room,
		     struct settings *settings)
{
	int errors[2], values[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t child;

	assert_int_equal(pipe(errors), 0);
	assert_int_equal(pipe(values), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		dup2(errors[1], STDERR_FILENO);
		close(errors[0]);
		close(errors[1]);
		if (environment)
			environ = (char **)(uintptr_t)environment;
		if (say)
			say();
		n = settings ? write(values[1], settings_get(), sizeof(*settings)) : 0;
		_exit(n == (settings ? (ssize_t)sizeof(*settings) : 0) ? 0 : 1);
	}
	close(errors[1]);
	close(values[1]);
	while (used < room - 1 && (n = read(errors[0], text + used, room - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	if (settings)
		assert_int_equal(read(values[0], settings, sizeof(*settings)), sizeof(*settings));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(errors[0]);
	close(values[0]);
}

/* Reads one variable, "NAME=value", and returns the complaint about it. */
static struct settings read_one(const char *variable, char *text, size_t room)
{
	char *environment[] = {(char *)(uintptr_t)variable, NULL};
	struct settings settings;

	in_child(environment, NULL, text, room, &settings);
	assert_false(settings.secure);
	return settings;
}

static void settings_when_nothing_is_set_then_defaults_and_silence(void **state)
{
	char text[256];
	struct settings settings = read_one("PATH=/bin", text, sizeof(text));

	(void)state;
	assert_string_equal(text, "");
	assert_false(settings.disable);
	assert_false(settings.verbose);
}

static void settings_when_environment_is_missing_then_defaults(void **state)
{
	char text[256], *environment[] = {NULL};
	struct settings settings;

	(void)state;
	in_child(environment, NULL, text, sizeof(text), &settings);
	assert_string_equal(text, "");
	assert_false(settings.disable);
}

static void settings_when_disable_has_a_good_value_then_taken_in_silence(void **state)
{
	static const struct {
		const char *variable;
		bool disable;
	} cases[] = {
		{"LMDBIO_DISABLE=1", true},	 {"LMDBIO_DISABLE=yes", true},
		{"LMDBIO_DISABLE=True", true},	 {"LMDBIO_DISABLE=ON", true},
		{"LMDBIO_DISABLE=0", false},	 {"LMDBIO_DISABLE=no", false},
		{"LMDBIO_DISABLE=FALSE", false}, {"LMDBIO_DISABLE=off", false},
		{"LMDBIO_DISABLE=", false},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct settings settings = read_one(cases[i].variable, text, sizeof(text));

		assert_string_equal(text, "");
		assert_int_equal(settings.disable, cases[i].disable);
	}
}

static void settings_when_verbose_has_a_good_value_then_taken_in_silence(void **state)
{
	char text[256];

	(void)state;
	assert_int_equal(read_one("LMDBIO_VERBOSE=1", text, sizeof(text)).verbose, true);
	assert_string_equal(text, "");
	assert_int_equal(read_one("LMDBIO_VERBOSE=0", text, sizeof(text)).verbose, false);
	assert_string_equal(text, "");
}

static void settings_when_store_io_and_switches_have_good_values_then_taken(void **state)
{
	char text[256];

	(void)state;
	assert_string_equal(read_one("LMDBIO_IO=Direct", text, sizeof(text)).io, "direct");
	assert_string_equal(read_one("LMDBIO_IO=", text, sizeof(text)).io, "auto");
	assert_string_equal(read_one("LMDBIO_STORE=arena", text, sizeof(text)).store, "arena");
	assert_string_equal(read_one("PATH=/", text, sizeof(text)).store, "auto");
	assert_true(read_one("PATH=/", text, sizeof(text)).share);
	assert_false(read_one("LMDBIO_SHARE=no", text, sizeof(text)).share);
	assert_true(read_one("PATH=/", text, sizeof(text)).prefetch);
	assert_false(read_one("LMDBIO_PREFETCH=0", text, sizeof(text)).prefetch);
	assert_string_equal(text, "");
}

static void settings_when_memory_has_a_good_value_then_bytes_or_percent(void **state)
{
	static const struct {
		const char *variable;
		uint64_t bytes;
		unsigned percent;
	} cases[] = {
		{"LMDBIO_MEMORY=auto", 0, 0},
		{"LMDBIO_MEMORY=", 0, 0},
		{"LMDBIO_MEMORY=1048576", 1 << 20, 0},
		{"LMDBIO_MEMORY=1M", 1 << 20, 0},
		{"LMDBIO_MEMORY=2g", 2ull << 30, 0},
		{"LMDBIO_MEMORY=64MiB", 64 << 20, 0},
		{"LMDBIO_MEMORY=1%", 0, 1},
		{"LMDBIO_MEMORY=100%", 0, 100},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct settings settings = read_one(cases[i].variable, text, sizeof(text));

		assert_string_equal(text, "");
		assert_true(settings.memory.bytes == cases[i].bytes);
		assert_int_equal(settings.memory.percent, cases[i].percent);
	}
}

static void settings_when_stats_has_a_good_value_then_its_kind(void **state)
{
	static const struct {
		const char *variable;
		enum settings_stats how;
	} cases[] = {
		{"LMDBIO_STATS=", SETTINGS_STATS_OFF},
		{"LMDBIO_STATS=0", SETTINGS_STATS_OFF},
		{"LMDBIO_STATS=1", SETTINGS_STATS_TEXT},
		{"LMDBIO_STATS=JSON", SETTINGS_STATS_JSON},
		{"LMDBIO_STATS=/x/%h.%p.%%", SETTINGS_STATS_FILE},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(read_one(cases[i].variable, text, sizeof(text)).stats.how,
				 cases[i].how);
		assert_string_equal(text, "");
	}
}

static void size_parse_when_at_its_edges_then_bytes_or_false(void **state)
{
	static const char *const bad[] = {
		"",    "x",	    "-1",  "+1",   " 1",
		"1 ",  "1x",	    "1bB", "1ki",  "1iB",
		"1k1", "16777216T", "1P",  "0x10", "18446744073709551616"};
	uint64_t bytes = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (size_parse(bad[i], &bytes))
			print_error("\"%s\" was taken\n", bad[i]);
		assert_int_equal(bytes, 77);
	}
	assert_true(size_parse("0", &bytes));
	assert_int_equal(bytes, 0);
	assert_true(size_parse("3k", &bytes));
	assert_int_equal(bytes, 3072);
	assert_true(size_parse("18446744073709551615", &bytes));
	assert_true(bytes == UINT64_MAX);
	assert_true(size_parse("16777215T", &bytes));
	assert_true(bytes == 16777215ull << 40);
}

/* Exactly one line, which names the variable and its value. */
static void assert_one_line_about(const char *text, const char *variable)
{
	assert_int_equal(strncmp(text, "lmdbio: ", 8), 0);
	assert_non_null(strstr(text, variable));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void settings_when_value_makes_no_sense_then_one_line_and_the_default(void **state)
{
	static const char *const bad[] = {
		"LMDBIO_DISABLE=2",
		"LMDBIO_DISABLE=maybe",
		"LMDBIO_DISABLE= 1",
		"LMDBIO_DISABLE=1 ",
		"LMDBIO_DISABLE=-1",
		"LMDBIO_VERBOSE=maybe",
		"LMDBIO_VERBOSE=-1",
		"LMDBIO_VERBOSE=+1",
		"LMDBIO_VERBOSE= 1",
		"LMDBIO_VERBOSE=1x",
		"LMDBIO_VERBOSE=0x1",
		"LMDBIO_VERBOSE=1.0",
		"LMDBIO_VERBOSE=2",
		"LMDBIO_VERBOSE=99999999999999999999999",
		"LMDBIO_VERBOSE=4294967296",
		"LMDBIO_VERBOSE=%s%n",
		"LMDBIO_IO=mmap",
		"LMDBIO_STORE=disk",
		"LMDBIO_MEMORY=1",
		"LMDBIO_MEMORY=1023k",
		"LMDBIO_MEMORY=0%",
		"LMDBIO_MEMORY=101%",
		"LMDBIO_MEMORY=lots",
		"LMDBIO_MEMORY=-1G",
		"LMDBIO_SHARE=maybe",
		"LMDBIO_PREFETCH=7",
		"LMDBIO_STATS=2",
		"LMDBIO_STATS=/x/%d",
		"LMDBIO_STATS=/x/%",
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct settings settings = read_one(bad[i], text, sizeof(text));

		assert_one_line_about(text, bad[i]);
		assert_false(settings.disable);
		assert_false(settings.verbose);
		assert_true(settings.share && settings.prefetch);
		assert_string_equal(settings.io, "auto");
		assert_string_equal(settings.store, "auto");
		assert_true(!settings.memory.bytes && !settings.memory.percent);
		assert_int_equal(settings.stats.how, SETTINGS_STATS_OFF);
	}
}

static void settings_when_name_is_unknown_then_one_line_and_ignored(void **state)
{
	static const char *const unknown[] = {"LMDBIO_=", "LMDBIO_X=1", "LMDBIO_DISABL=1",
					      "LMDBIO_DISABLED=1", "LMDBIO_disable=1"};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		struct settings settings = read_one(unknown[i], text, sizeof(text));
		char name[32];

		snprintf(name, sizeof(name), "%.*s: ", (int)strcspn(unknown[i], "="), unknown[i]);
		assert_one_line_about(text, name);
		assert_false(settings.disable);
	}
}

static void settings_when_names_only_look_alike_then_silence(void **state)
{
	static const char *const other[] = {"LMDBIO=1",		 "XLMDBIO_DISABLE=1",
					    "lmdbio_disable=1",	 "LMDBIO_DISABLE",
					    "=LMDBIO_DISABLE=1", ""};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		assert_false(read_one(other[i], text, sizeof(text)).disable);
		assert_string_equal(text, "");
	}
}

static void settings_when_value_is_very_long_then_one_cut_line(void **state)
{
	char text[8192], variable[5000] = "LMDBIO_DISABLE=";

	(void)state;
	memset(variable + strlen(variable), 'y', sizeof(variable) - strlen(variable) - 1);
	assert_false(read_one(variable, text, sizeof(text)).disable);
	assert_one_line_about(text, "LMDBIO_DISABLE=yyyy");
	assert_true(strlen(text) <= 1024);
}

static void say_short(void)
{
	errno = ENOENT;
	log_line("%s has %d", "a", 7);
	if (errno != ENOENT)
		_exit(2);
}

static void say_nothing_much(void)
{
	log_line("%s", "");
}

static void log_line_when_short_then_prefix_and_newline_and_errno_kept(void **state)
{
	char text[256];

	(void)state;
	in_child(NULL, say_short, text, sizeof(text), NULL);
	assert_string_equal(text, "lmdbio: a has 7\n");
	in_child(NULL, say_nothing_much, text, sizeof(text), NULL);
	assert_string_equal(text, "lmdbio: \n");
}

/* Makes standard error a file or pipe that takes no byte, with fatal signals left fatal. */
static int say_in_vain(void *is_file)
{
	const struct rlimit none = {0, RLIM_INFINITY};
	int ends[2] = {-1, -1};

	if (is_file)
		ends[1] = memfd_create("full", MFD_CLOEXEC);
	else if (pipe2(ends, O_CLOEXEC) || close(ends[0]))
		return 2;
	if (setrlimit(RLIMIT_FSIZE, &none) || dup2(ends[1], STDERR_FILENO) < 0)
		return 3;
	signal(SIGXFSZ, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	say_short();
	return 0;
}

static void log_line_when_it_cannot_be_written_then_the_program_goes_on(void **state)
{
	static bool file;
	int statuses[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (!child)
			_exit(say_in_vain(i ? &file : NULL));
		assert_int_equal(waitpid(child, &statuses[i], 0), child);
		assert_int_equal(statuses[i], 0);
	}
}

static size_t long_length;

static void say_long(void)
{
	char *word = malloc(long_length + 1);

	if (!word)
		_exit(2);
	memset(word, 'x', long_length);
	word[long_length] = '\0';
	log_line("%s", word);
	free(word);
}

/* Around the length at which a line is cut, each line is whole. */
static void log_line_when_long_then_cut_at_its_room_with_a_newline(void **state)
{
	char text[8192];
	size_t longest = 0;

	(void)state;
	for (long_length = 1000; long_length < 1040; long_length++) {
		size_t n;

		in_child(NULL, say_long, text, sizeof(text), NULL);
		n = strlen(text);
		assert_int_equal(text[n - 1], '\n');
		assert_int_equal(strspn(text + 8, "x"), n - 9);
		assert_true(n - 9 <= long_length);
		assert_true(n - 9 == long_length || n == longest);
		assert_true(n <= 1024);
		longest = n;
	}
	long_length = 7000;
	in_child(NULL, say_long, text, sizeof(text), NULL);
	assert_int_equal(strlen(text), longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checked_add_when_at_the_edge_then_fits_or_not),
		cmocka_unit_test(checked_multiply_when_at_the_edge_then_fits_or_not),
		cmocka_unit_test(clamp_when_no_integer_holds_it_then_the_nearest_or_0),
		cmocka_unit_test(round_up_when_on_a_multiple_then_stays),
		cmocka_unit_test(is_power_of_two_when_each_bit_then_true_and_sums_false),
		cmocka_unit_test(load_and_store_when_unaligned_then_round_trip),
		cmocka_unit_test(settings_when_nothing_is_set_then_defaults_and_silence),
		cmocka_unit_test(settings_when_environment_is_missing_then_defaults),
		cmocka_unit_test(settings_when_disable_has_a_good_value_then_taken_in_silence),
		cmocka_unit_test(settings_when_verbose_has_a_good_value_then_taken_in_silence),
		cmocka_unit_test(settings_when_store_io_and_switches_have_good_values_then_taken),
		cmocka_unit_test(settings_when_memory_has_a_good_value_then_bytes_or_percent),
		cmocka_unit_test(settings_when_stats_has_a_good_value_then_its_kind),
		cmocka_unit_test(size_parse_when_at_its_edges_then_bytes_or_false),
		cmocka_unit_test(settings_when_value_makes_no_sense_then_one_line_and_the_default),
		cmocka_unit_test(settings_when_name_is_unknown_then_one_line_and_ignored),
		cmocka_unit_test(settings_when_names_only_look_alike_then_silence),
		cmocka_unit_test(settings_when_value_is_very_long_then_one_cut_line),
		cmocka_unit_test(log_line_when_short_then_prefix_and_newline_and_errno_kept),
		cmocka_unit_test(log_line_when_it_cannot_be_written_then_the_program_goes_on),
		cmocka_unit_test(log_line_when_long_then_cut_at_its_room_with_a_newline),
	};

	return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
