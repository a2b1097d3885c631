/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which calls of MPI fail. */
#include "config.h"
#include "mpi_sites.h"

#include <stddef.h>

extern const struct mpi_site *const __start_mpi_sites[], *const __stop_mpi_sites[];

static struct {
	bool armed, on, fired;
	const struct mpi_site *site;
	unsigned at, calls;
} fault;

void mpi_site_arm(const struct mpi_site *site, unsigned n, bool on)
{
	fault.armed = true;
	fault.on = on;
	fault.fired = false;
	fault.site = site;
	fault.at = n;
	fault.calls = 0;
}

bool mpi_site_disarm(void)
{
	fault.armed = false;
	return fault.fired;
}

const struct mpi_site *mpi_site(unsigned number)
{
	return __start_mpi_sites + number < __stop_mpi_sites ? __start_mpi_sites[number] : NULL;
}

bool mpi_site_fails(const struct mpi_site *site)
{
	if (!fault.armed || (fault.site && fault.site != site))
		return false;
	fault.calls++;
	if (fault.calls != fault.at && !(fault.on && fault.calls > fault.at))
		return false;
	fault.fired = true;
	return true;
}
