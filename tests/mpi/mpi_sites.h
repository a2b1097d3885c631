/* SPDX-License-Identifier: OLDAP-2.8 */
/* Puts a question before each call of MPI: shall it fail?
 *
 * The compiler reads this file before the sources of lib/mpi that a test is made of (-include). Each place that
 * calls MPI leaves its name in the program, so that a test can go through all of them. A call
 * that fails is not made. */
#ifndef LMDBIO_TEST_MPI_SITES_H
#define LMDBIO_TEST_MPI_SITES_H

#include <mpi.h>
#include <stdbool.h>

#include "simulated_turns.h"

struct mpi_site {
	const char *file;
	int line;
	const char *call;
};

/* Makes the n-th call from now on at a site (NULL: at any site) fail, n from 1; with `on` also all
 * calls after it. */
void mpi_site_arm(const struct mpi_site *site, unsigned n, bool on);
/* Makes the n-th call at a site fail, and those after it: `times` calls in all. */
void mpi_site_arm_times(const struct mpi_site *site, unsigned n, unsigned times);
/* To be called after mpi_site_arm(): also fails the n-th call of this name in a source whose name
 * ends so, for code that is reached only then. */
void mpi_site_also(const char *file, const char *call, unsigned n);
bool mpi_site_has_failed(void);
/* Lets no call fail any more. Returns whether one has failed. */
bool mpi_site_disarm(void);
/* Returns the program's sites, numbered from 0; NULL: there are no more. */
const struct mpi_site *mpi_site(unsigned number);

/* Describes what a test runs while the calls of each site fail. */
struct mpi_sweep {
	/* Runs with the n-th call at the site failing, as in mpi_site_arm(). Sets *failed to
	 * whether it did fail; returns what went wrong, or NULL. */
	const char *(*run)(const struct mpi_site *site, unsigned n, bool on, bool *failed);
	bool (*is_met)(const struct mpi_site *site);   /* false: the site is left out */
	unsigned (*most)(const struct mpi_site *site); /* the last n; NULL: until none fails */
	unsigned each, faster; /* n grows by 1 below `each`, and by n / faster from there on */
	bool once, ever;
};
/* Returns how many runs had a failing call, and adds to *bad the number of sites at which something
 * went wrong; prints what. */
unsigned mpi_sites_sweep(const struct mpi_sweep *sweep, unsigned *bad);

bool mpi_site_fails(const struct mpi_site *site);

/* The linker puts the section's pointers one after another. */
#define MPI_SITE(name, ...) \
	(__extension__({ \
		static const struct mpi_site site_ = {__FILE__, __LINE__, #name}; \
		static const struct mpi_site *const listed_ \
			__attribute__((section("mpi_sites"), used)) = &site_; \
		int rc_; \
		sim_enter(); \
		rc_ = mpi_site_fails(&site_) ? MPI_ERR_OTHER : name(__VA_ARGS__); \
		sim_leave(); \
		rc_; \
	}))

#define MPI_Abort(...) MPI_SITE(MPI_Abort, __VA_ARGS__)
#define MPI_Comm_create_from_group(...) MPI_SITE(MPI_Comm_create_from_group, __VA_ARGS__)
#define MPI_Comm_create_group(...) MPI_SITE(MPI_Comm_create_group, __VA_ARGS__)
#define MPI_Comm_create_keyval(...) MPI_SITE(MPI_Comm_create_keyval, __VA_ARGS__)
#define MPI_Comm_dup(...) MPI_SITE(MPI_Comm_dup, __VA_ARGS__)
#define MPI_Comm_free(...) MPI_SITE(MPI_Comm_free, __VA_ARGS__)
#define MPI_Comm_free_keyval(...) MPI_SITE(MPI_Comm_free_keyval, __VA_ARGS__)
#define MPI_Comm_group(...) MPI_SITE(MPI_Comm_group, __VA_ARGS__)
#define MPI_Comm_rank(...) MPI_SITE(MPI_Comm_rank, __VA_ARGS__)
#define MPI_Comm_set_attr(...) MPI_SITE(MPI_Comm_set_attr, __VA_ARGS__)
#define MPI_Comm_set_errhandler(...) MPI_SITE(MPI_Comm_set_errhandler, __VA_ARGS__)
#define MPI_Comm_size(...) MPI_SITE(MPI_Comm_size, __VA_ARGS__)
#define MPI_Comm_split(...) MPI_SITE(MPI_Comm_split, __VA_ARGS__)
#define MPI_Comm_split_type(...) MPI_SITE(MPI_Comm_split_type, __VA_ARGS__)
#define MPI_Error_class(...) MPI_SITE(MPI_Error_class, __VA_ARGS__)
#define MPI_Error_string(...) MPI_SITE(MPI_Error_string, __VA_ARGS__)
#define MPI_File_close(...) MPI_SITE(MPI_File_close, __VA_ARGS__)
#define MPI_File_open(...) MPI_SITE(MPI_File_open, __VA_ARGS__)
#define MPI_File_read_at(...) MPI_SITE(MPI_File_read_at, __VA_ARGS__)
#define MPI_File_read_at_all(...) MPI_SITE(MPI_File_read_at_all, __VA_ARGS__)
#define MPI_File_sync(...) MPI_SITE(MPI_File_sync, __VA_ARGS__)
#define MPI_File_write_at_all(...) MPI_SITE(MPI_File_write_at_all, __VA_ARGS__)
#define MPI_Finalize(...) MPI_SITE(MPI_Finalize, __VA_ARGS__)
#define MPI_Finalized(...) MPI_SITE(MPI_Finalized, __VA_ARGS__)
#define MPI_Gather(...) MPI_SITE(MPI_Gather, __VA_ARGS__)
#define MPI_Gatherv(...) MPI_SITE(MPI_Gatherv, __VA_ARGS__)
#define MPI_Get_address(...) MPI_SITE(MPI_Get_address, __VA_ARGS__)
#define MPI_Get_count(...) MPI_SITE(MPI_Get_count, __VA_ARGS__)
#define MPI_Get_elements_x(...) MPI_SITE(MPI_Get_elements_x, __VA_ARGS__)
#define MPI_Get_library_version(...) MPI_SITE(MPI_Get_library_version, __VA_ARGS__)
#define MPI_Group_free(...) MPI_SITE(MPI_Group_free, __VA_ARGS__)
#define MPI_Group_from_session_pset(...) MPI_SITE(MPI_Group_from_session_pset, __VA_ARGS__)
#define MPI_Group_incl(...) MPI_SITE(MPI_Group_incl, __VA_ARGS__)
#define MPI_Iallgather(...) MPI_SITE(MPI_Iallgather, __VA_ARGS__)
#define MPI_Iallreduce(...) MPI_SITE(MPI_Iallreduce, __VA_ARGS__)
#define MPI_Ibarrier(...) MPI_SITE(MPI_Ibarrier, __VA_ARGS__)
#define MPI_Ibcast(...) MPI_SITE(MPI_Ibcast, __VA_ARGS__)
#define MPI_Info_create(...) MPI_SITE(MPI_Info_create, __VA_ARGS__)
#define MPI_Info_free(...) MPI_SITE(MPI_Info_free, __VA_ARGS__)
#define MPI_Info_set(...) MPI_SITE(MPI_Info_set, __VA_ARGS__)
#define MPI_Init_thread(...) MPI_SITE(MPI_Init_thread, __VA_ARGS__)
#define MPI_Initialized(...) MPI_SITE(MPI_Initialized, __VA_ARGS__)
#define MPI_Iprobe(...) MPI_SITE(MPI_Iprobe, __VA_ARGS__)
#define MPI_Irecv(...) MPI_SITE(MPI_Irecv, __VA_ARGS__)
#define MPI_Iscan(...) MPI_SITE(MPI_Iscan, __VA_ARGS__)
#define MPI_Is_thread_main(...) MPI_SITE(MPI_Is_thread_main, __VA_ARGS__)
#define MPI_Isend(...) MPI_SITE(MPI_Isend, __VA_ARGS__)
#define MPI_Query_thread(...) MPI_SITE(MPI_Query_thread, __VA_ARGS__)
#define MPI_Recv(...) MPI_SITE(MPI_Recv, __VA_ARGS__)
#define MPI_Send(...) MPI_SITE(MPI_Send, __VA_ARGS__)
#define MPI_Session_finalize(...) MPI_SITE(MPI_Session_finalize, __VA_ARGS__)
#define MPI_Session_init(...) MPI_SITE(MPI_Session_init, __VA_ARGS__)
#define MPI_Test(...) MPI_SITE(MPI_Test, __VA_ARGS__)
#define MPI_Type_commit(...) MPI_SITE(MPI_Type_commit, __VA_ARGS__)
#define MPI_Type_create_hindexed(...) MPI_SITE(MPI_Type_create_hindexed, __VA_ARGS__)
#define MPI_Type_free(...) MPI_SITE(MPI_Type_free, __VA_ARGS__)

#endif
