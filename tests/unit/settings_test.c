/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which settings are read from the environment, and what the library reports about a value
 * that makes no sense. */
#include "util/settings.h"

#include "child_said.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SAID = 4096 };

/* The child's standard error has the complaints, then this line. */
static void print_settings(void)
{
	const struct settings *s = settings_get();

	dprintf(STDERR_FILENO,
		"io=%s store=%s memory=%" PRIu64 ",%u node=%s share=%d prefetch=%d stats=%d,%s "
		"staged=%s around=%s patience=%u%s\n",
		s->io, s->store, s->memory.bytes, s->memory.percent, s->node ? s->node : "-",
		s->share, s->prefetch, (int)s->stats.how, s->stats.file ? s->stats.file : "-",
		s->staged ? s->staged : "-", s->around, s->patience, s->verbose ? " verbose" : "");
}

#define DEFAULTS                                                                                   \
	"io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "              \
	"around=auto patience=1\n"

static void settings_without_variables_are_the_defaults(void **state)
{
	char said[SAID];

	(void)state;
	child_run(print_settings, said, sizeof(said));
	assert_string_equal(said, DEFAULTS);
}

struct variable_case {
	const char *name, *value, *line;
};

static void settings_with_sound_values_take_them(void **state)
{
	static const struct variable_case cases[] = {
		{"LMDBIO_IO", "direct",
		 "io=direct store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_IO", "PREAD",
		 "io=pread store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_STORE", "cache",
		 "io=auto store=cache memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_STORE", "arena",
		 "io=auto store=arena memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_MEMORY", "64M",
		 "io=auto store=auto memory=67108864,0 node=- share=1 prefetch=1 stats=0,- "
		 "staged=- around=auto patience=1\n"},
		{"LMDBIO_MEMORY", "1048576",
		 "io=auto store=auto memory=1048576,0 node=- share=1 prefetch=1 stats=0,- "
		 "staged=- around=auto patience=1\n"},
		{"LMDBIO_MEMORY", "30%",
		 "io=auto store=auto memory=0,30 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_NODE", "node 7",
		 "io=auto store=auto memory=0,0 node=node 7 share=1 prefetch=1 stats=0,- "
		 "staged=- around=auto patience=1\n"},
		{"LMDBIO_SHARE", "0",
		 "io=auto store=auto memory=0,0 node=- share=0 prefetch=1 stats=0,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_PREFETCH", "off",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=0 stats=0,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_PATIENCE", "1000",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=auto patience=1000\n"},
		{"LMDBIO_AROUND", "1",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=1 patience=1\n"},
		{"LMDBIO_AROUND", "off",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=0 patience=1\n"},
		{"LMDBIO_AROUND", "True",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=1 patience=1\n"},
		{"LMDBIO_AROUND", "AUTO", DEFAULTS},
		{"LMDBIO_STATS", "yes",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=1,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_STATS", "json",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=2,- staged=- "
		 "around=auto patience=1\n"},
		{"LMDBIO_STATS", "/tmp/%h.%p%%",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=3,/tmp/%h.%p%% "
		 "staged=- around=auto patience=1\n"},
		{"LMDBIO_STAGED", "/proc/../proc",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- "
		 "staged=/proc around=auto patience=1\n"},
		{"LMDBIO_MEMORY", "auto", DEFAULTS},
		{"LMDBIO_VERBOSE", "1",
		 "io=auto store=auto memory=0,0 node=- share=1 prefetch=1 stats=0,- staged=- "
		 "around=auto patience=1 verbose\n"},
		{"LMDBIO_VERBOSE", "0", DEFAULTS},
		{"LMDBIO_VERBOSE", "", DEFAULTS},
		{"LMDBIO_DISABLE", "", DEFAULTS},
		{"LMDBIO_IO", "", DEFAULTS},
		{"LMDBIO_STORE", "", DEFAULTS},
		{"LMDBIO_MEMORY", "", DEFAULTS},
		{"LMDBIO_NODE", "", DEFAULTS},
		{"LMDBIO_SHARE", "", DEFAULTS},
		{"LMDBIO_PREFETCH", "", DEFAULTS},
		{"LMDBIO_AROUND", "", DEFAULTS},
		{"LMDBIO_PATIENCE", "", DEFAULTS},
		{"LMDBIO_STATS", "", DEFAULTS},
		{"LMDBIO_STAGED", "", DEFAULTS},
	};
	char said[SAID];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv(cases[i].name, cases[i].value, 1);
		child_run(print_settings, said, sizeof(said));
		unsetenv(cases[i].name);
		assert_string_equal(said, cases[i].line);
	}
}

static void settings_with_a_bad_value_say_so_and_keep_the_default(void **state)
{
	static const struct variable_case cases[] = {
		{"LMDBIO_IO", "fast", "auto, pread or direct"},
		{"LMDBIO_STORE", "ram", "auto, cache or arena"},
		{"LMDBIO_MEMORY", "lots", "a size of 1M or more"},
		{"LMDBIO_MEMORY", "64", "a size of 1M or more"},
		{"LMDBIO_MEMORY", "1048575", "a size of 1M or more"},
		{"LMDBIO_MEMORY", "0%", "1% to 100%"},
		{"LMDBIO_MEMORY", "101%", "1% to 100%"},
		{"LMDBIO_MEMORY", "-5%", "1% to 100%"},
		{"LMDBIO_MEMORY", "5%%", "1% to 100%"},
		{"LMDBIO_NODE", "a\tb", "control character"},
		{"LMDBIO_VERBOSE", "2", "0 or 1"},
		{"LMDBIO_SHARE", "perhaps", "0 or 1"},
		{"LMDBIO_PATIENCE", "0", "a number from 1 to 1000"},
		{"LMDBIO_PATIENCE", "1001", "a number from 1 to 1000"},
		{"LMDBIO_PATIENCE", "3s", "a number from 1 to 1000"},
		{"LMDBIO_AROUND", "2", "auto, 0 or 1"},
		{"LMDBIO_PREFETCH", "2", "0 or 1"},
		{"LMDBIO_STAGED", "/proc/nothing", "a directory that is there"},
		{"LMDBIO_STAGED", "/proc/version", "a directory that is there"},
		{"LMDBIO_STATS", "2", "a file name"},
		{"LMDBIO_STATS", "/tmp/%q", "a file name"},
		{"LMDBIO_STATS", "/tmp/x%", "a file name"},
	};
	char said[SAID], first[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv(cases[i].name, cases[i].value, 1);
		child_run(print_settings, said, sizeof(said));
		unsetenv(cases[i].name);
		snprintf(first, sizeof(first), "lmdbio: %s=%s: wants ", cases[i].name,
			 cases[i].value);
		assert_int_equal(child_lines(said), 2);
		assert_ptr_equal(strstr(said, first), said);
		assert_non_null(strstr(said, cases[i].line));
		assert_string_equal(strchr(said, '\n') + 1, DEFAULTS);
	}
}

static void settings_with_a_node_of_any_length_keep_the_limit(void **state)
{
	char node[SETTINGS_NODE_LONGEST + 2], said[SAID];

	(void)state;
	memset(node, 'n', sizeof(node));
	node[sizeof(node) - 1] = 0;
	setenv("LMDBIO_NODE", node, 1);
	child_run(print_settings, said, sizeof(said));
	assert_non_null(strstr(said, "node=-"));
	setenv("LMDBIO_NODE", node + 1, 1);
	child_run(print_settings, said, sizeof(said));
	unsetenv("LMDBIO_NODE");
	assert_int_equal(child_lines(said), 1);
	assert_non_null(strstr(said, node + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_without_variables_are_the_defaults),
		cmocka_unit_test(settings_with_sound_values_take_them),
		cmocka_unit_test(settings_with_a_bad_value_say_so_and_keep_the_default),
		cmocka_unit_test(settings_with_a_node_of_any_length_keep_the_limit),
	};

	return cmocka_run_group_tests(tests, child_environment_clear, NULL);
}
