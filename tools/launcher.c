/* What only this file knows: by which variables and descriptors a launcher's process reaches it. */
#include "config.h"
#include "launcher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Whether a variable is this process's door to its launcher. The program's rank and their number
 * stay: many a program divides its work by them. */
static bool is_of_launcher(const char *entry)
{
	static const char *const doors[] = {
		"PMI_FD=",     "PMI_PORT=",      "PMI_ID=",          "PMI_SPAWNED=",
		"PMI2_",       "PMIX_",          "HYDI_CONTROL_FD=", "SLURM_PMI_FD=",
		"SLURM_PMIX",  "SLURM_PMI2_",
	};

	for (size_t i = 0; i < sizeof(doors) / sizeof(*doors); i++)
		if (!strncmp(entry, doors[i], strlen(doors[i])))
			return true;
	return false;
}

void launcher_forget(void)
{
	static const char *const descriptors[] = {"PMI_FD", "HYDI_CONTROL_FD"};
	char **kept = environ;

	for (size_t i = 0; i < sizeof(descriptors) / sizeof(*descriptors); i++) {
		const char *number = getenv(descriptors[i]);

		if (number && atoi(number) > STDERR_FILENO)
			close(atoi(number));
	}
	for (char **entry = environ; *entry; entry++)
		if (!is_of_launcher(*entry))
			*kept++ = *entry;
	*kept = NULL;
}
