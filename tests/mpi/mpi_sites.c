/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides which calls of MPI fail. */
#include "config.h"
#include "mpi_sites.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct mpi_site *const __start_mpi_sites[], *const __stop_mpi_sites[];

static struct {
	bool armed, on, fired;
	const struct mpi_site *site;
	unsigned at, calls, times;
	struct {
		const char *file, *call;
		unsigned at, calls;
	} also;
} fault;

void mpi_site_arm(const struct mpi_site *site, unsigned n, bool on)
{
	sim_enter();
	fault.armed = true;
	fault.on = on;
	fault.fired = false;
	fault.site = site;
	fault.at = n;
	fault.calls = 0;
	fault.times = on ? UINT_MAX : 1;
	fault.also.call = NULL;
	sim_leave();
}

void mpi_site_arm_times(const struct mpi_site *site, unsigned n, unsigned times)
{
	mpi_site_arm(site, n, false);
	sim_enter();
	fault.times = times;
	sim_leave();
}

void mpi_site_also(const char *file, const char *call, unsigned n)
{
	sim_enter();
	fault.also.file = file;
	fault.also.call = call;
	fault.also.at = n;
	fault.also.calls = 0;
	sim_leave();
}

bool mpi_site_has_failed(void)
{
	bool fired;

	sim_enter();
	fired = fault.fired;
	sim_leave();
	return fired;
}

bool mpi_site_disarm(void)
{
	bool fired;

	sim_enter();
	fault.armed = false;
	fired = fault.fired;
	sim_leave();
	return fired;
}

const struct mpi_site *mpi_site(unsigned number)
{
	return __start_mpi_sites + number < __stop_mpi_sites ? __start_mpi_sites[number] : NULL;
}

/* Opens the list of calls that have failed in the program's last run, for sites_test.sh. It lies
 * beside the program. A forked child appends to it. */
static void failed_open(int flags, const struct mpi_site *site)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s.sites", program_invocation_name);
	fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
	if (fd < 0)
		return;
	if (site)
		dprintf(fd, "%s:%d %s %s\n", site->file, site->line, site->call,
			fault.on ? "ever" : "once");
	close(fd);
}

__attribute__((constructor)) static void failed_begin(void)
{
	failed_open(O_CREAT | O_TRUNC, NULL);
}

static bool fails_also(const struct mpi_site *site)
{
	return fault.armed && fault.also.call && !strcmp(site->call, fault.also.call) &&
	       strstr(site->file, fault.also.file) && ++fault.also.calls == fault.also.at;
}

bool mpi_site_fails(const struct mpi_site *site)
{
	if (fails_also(site))
		return true;
	if (!fault.armed || (fault.site && fault.site != site))
		return false;
	fault.calls++;
	if (fault.calls < fault.at || fault.calls - fault.at >= fault.times)
		return false;
	if (!fault.fired)
		failed_open(O_APPEND, site);
	fault.fired = true;
	return true;
}

static unsigned sweep_site(const struct mpi_sweep *sweep, const struct mpi_site *site, bool on,
			   unsigned *bad)
{
	unsigned most = sweep->most ? sweep->most(site) : UINT_MAX, runs = 0;
	const char *then = NULL;
	bool failed = true;

	for (unsigned n = 1; failed && !then && n <= most;
	     n += n < sweep->each ? 1 : n / sweep->faster) {
		then = sweep->run(site, n, on, &failed);
		runs += failed;
		if (then)
			fprintf(stderr, "%s:%d %s fails for time %u%s: %s\n", site->file,
				site->line, site->call, n, on ? " and for ever" : "", then);
	}
	*bad += then != NULL;
	return runs;
}

unsigned mpi_sites_sweep(const struct mpi_sweep *sweep, unsigned *bad)
{
	const struct mpi_site *site;
	unsigned runs = 0;

	for (unsigned i = 0; (site = mpi_site(i)); i++) {
		if (!sweep->is_met(site))
			continue;
		runs += sweep->once ? sweep_site(sweep, site, false, bad) : 0;
		runs += sweep->ever ? sweep_site(sweep, site, true, bad) : 0;
	}
	return runs;
}
