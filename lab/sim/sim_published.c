/* SPDX-License-Identifier: OLDAP-2.8 */
/* Holds the published times of LMDBIO's papers, and the numbers of their clusters.
 *
 * Times and their parts are the values inside the charts of the posters' slides (ICPP 2018: charts
 * 1, 5 and 6; EuroMPI/USA 2017: charts 2, 6 and 7). TOPC's figures 3 and 24, and ICPADS' figure 8,
 * show the same.
 *
 * Seven numbers were fitted by hand on the plot of Bebop, each to one point with the others in
 * view. Blues uses the same, except `storage`, fitted on LMM at 512 processes.
 *   wakeup     LMDB at 36 processes, one node
 *   storage    LMDB at 9,216
 *   spread     LMM at 9,216
 *   turn       DM at 9,216
 *   skew       COAL at 36, where storage hardly matters
 *   disks      STAG at 9,216: their rate together
 *   seek       COAL at 9,216
 */
#include "sim_papers.h"

#include <string.h>

#define MB  1e6
#define GB  1e9
#define MIB 1048576

static const struct papers_cluster bebop = {
	.name = "Bebop",
	.cores = 36,                                           /* TOPC 3.1 */
	.memory = 2500000000u,                                 /* TOPC 4.5 */
	.fault = 4096 / (520.75 * MB),                         /* TOPC fig. 8: mmap, 4 KiB */
	.wakeup = 8.8e-6,                                      /* fitted */
	.window = MIB,                                         /* a block */
	.storage = 5.3 * GB,                                   /* fitted */
	.pread = {1226 * MB, 1845 * MB, 2433 * MB, 2658 * MB}, /* TOPC fig. 8 */
	.disks = 30,                                           /* fitted */
	.disk_rate = 150 * MB,                                 /* assumed: usual at 7,200 rpm */
	.seek = 10e-3,        /* fitted; usual: 8 to 13 with half a turn */
	.block = MIB,         /* assumed: not published */
	.skew = 0.10,         /* fitted */
	.spread = 0.12,       /* fitted */
	.network = 12.5 * GB, /* Omni-Path 100 */
	.hop = 2e-6,          /* Omni-Path: MPI's latency is about 1 us */
	.turn = 0.85e-3,      /* fitted */
	.server = 2 * GB,     /* measured: doc/papers.md */
	.step = 1e-7,         /* measured here: 130 instructions and a cache miss */
};

static const struct papers_cluster blues = {
	.name = "Blues",
	.cores = 16, /* HPCC V.A */
	.memory = 2500000000u,
	.fault = 4096 / (17.2e9 / 39.35), /* EuroMPI chart 2: reading by one process */
	.wakeup = 8.8e-6,
	.window = MIB,
	.storage = 1.05 * GB, /* fitted */
	.pread = {1226 * MB, 1845 * MB, 2433 * MB, 2658 * MB},
	.disks = 30,
	.disk_rate = 150 * MB,
	.seek = 10e-3,
	.block = MIB,
	.skew = 0.10,
	.spread = 0.12,
	.network = 3.2 * GB, /* QDR InfiniBand */
	.hop = 2e-6,
	.turn = 0.85e-3,
	.server = 2 * GB,
	.step = 1e-7,
};

static const struct papers_plot
	plots[] =
		{
			{
				.name = "bebop",
				.title = "CIFAR10-Large on Bebop, strong scaling",
				.source = "TOPC fig. 24, ICPP 2018 charts 1, 5 and 7",
				.cluster = &bebop,
				.draws_factors = true,
				.batch = 18432,
				.records = 512 * 18432,
				.value_pages = 1,
				.leaf_records = 153,
				.n = 14,
				.processes = {1, 2, 4, 8, 16, 36, 72, 144, 288, 576, 1152, 2304,
					      4608, 9216},
				.computing = {{12054.44, 14089.2, 89.88},
					      {6019.98, 7006.73, 46.87},
					      {3127.37, 3508.76, 25.51},
					      {1651.55, 1945.09, 14.42},
					      {910.31, 1093.58, 7.75},
					      {420.48, 495.46, 4.18},
					      {206.60, 255.77, 2.33},
					      {104.63, 126.34, 1.55},
					      {53.02, 62.77, 1.24},
					      {27.30, 31.31, 1.18},
					      {17.23, 15.66, 1.21},
					      {8.14, 7.97, 1.29},
					      {5.45, 4.03, 1.53},
					      {5.57, 2.08, 9.11}},
				.published =
					{
						[PAPERS_LMDB] = {26233.13, 13526.60, 7301.75,
								 4624.94, 3756.37, 5107.05, 2054.09,
								 924.88, 547.26, 390.60, 382.59,
								 517.67, 955.67, 1878.21},
						[PAPERS_LMM] = {26233.13, 13076.97, 6733.36,
								3825.27, 2238.62, 1140.30,
								621.60, 356.51, 260.20, 244.45, 336.96, 585.47, 1207.41,
								2554.46},
						[PAPERS_DM] = {26233.13, 13174.55, 6646.73, 3800.54,
							       2217.83, 1143.36,
							       617.48, 332.60, 189.30, 121.33, 90.32, 65.30, 103.74, 241.59},
						[PAPERS_DIO] = {26162.30, 13160.98, 6667.91,
								3703.03, 2201.09, 1117.93,
								584.46, 318.37, 178.73, 111.80, 85.75, 66.43,
								61.43, 61.20},
						[PAPERS_PROV] = {26172.60, 13179.45, 6740.44,
								 3732.10, 2199.66, 1110.87,
								 601.09, 310.48, 170.77, 99.23,
								 75.16, 54.89, 53.00, 60.81},
						[PAPERS_COAL] = {26188.17, 13184.85, 6706.40,
								 3736.08, 2186.60, 1105.51,
								 586.94, 342.31, 151.29, 101.77, 50.28,
								 48.32, 41.12, 43.35},
						[PAPERS_STAG] = {26188.17, 13184.85,
								 6706.40, 3736.08, 2186.60, 1105.51, 586.94, 342.31, 151.29, 84.07,
								 49.40, 33.33, 25.87, 29.16},
					},
			},
			{
				.name = "blues",
				.title = "CIFAR10-Large on Blues, strong scaling",
				.source =
					"TOPC fig. 23a, ICPADS fig. 8, EuroMPI 2017 charts 2 and 7",
				.cluster = &blues,
				.batch = 4096,
				.records = 1024 * 4096,
				.value_pages = 1,
				.leaf_records = 153,
				.n = 10,
				.processes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
				.computing = {{9095.55, 11709.60, 47.10},
					      {4508.04, 5822.56, 23.86},
					      {2311.43, 2931.51, 12.49},
					      {1196.26, 1525.64, 6.91},
					      {626.17, 810.00, 4.33},
					      {321.46, 405.36, 3.38},
					      {167.69, 203.85, 7.66},
					      {85.33, 102.09, 19.07},
					      {43.49, 51.41, 29.94},
					      {23.05, 26.19, 46.07}},
				.published =
					{
						[PAPERS_LMDB] = {20855.0, 10922.5, 6274.27, 4493.65,
								 2580.77, 1135.0, 1072.04, 743.985,
								 738.797, 816.401},
						[PAPERS_LMM] = {20924.5, 10379.6, 5330.85, 2772.63,
								1548.77, 850.203, 611.136, 439.734,
								521.711, 676.626},
						[PAPERS_DM] = {22007.0, 10983.8, 5605.01, 2922.13,
							       1506.0, 808.577, 470.41, 337.014,
							       278.806, 578.504},
					},
			},
};

static const struct papers_miss misses[] = {
	{"bebop", PAPERS_COAL, 144, 144,
	 "published COAL takes a tenth longer than PROV here, and at most 3 % elsewhere"},
	{"bebop", PAPERS_STAG, 144, 144, "below 576 processes the published STAG is COAL"},
	{"bebop", PAPERS_COAL, 4608, 4608,
	 "published reading takes 24 to 31 s at each scale from 2,304 on, modelled 17 to 21"},
	{"blues", PAPERS_LMDB, 8, 8,
	 "published reading takes 1,589 s with 8 processes on a node, and 946 with 16"},
	{"blues", PAPERS_LMDB, 64, 256,
	 "published reading takes 258 s on 2 nodes, and 459 on 4 that have half as much to read"},
	{"blues", PAPERS_DM, 512, 512, "the published time doubles from 256 processes to 512"},
};

const struct papers_plot *papers_plots(size_t *n)
{
	*n = sizeof(plots) / sizeof(*plots);
	return plots;
}

const struct papers_miss *papers_misses(size_t *n)
{
	*n = sizeof(misses) / sizeof(*misses);
	return misses;
}

const char *papers_way_name(enum papers_way way)
{
	static const char *const names[PAPERS_ALL] = {
		[PAPERS_LMDB] = "LMDB", [PAPERS_LMM] = "LMM",     [PAPERS_DM] = "DM",
		[PAPERS_DIO] = "DIO",   [PAPERS_PROV] = "PROV",   [PAPERS_COAL] = "COAL",
		[PAPERS_STAG] = "STAG", [PAPERS_OURS] = "lmdbio",
	};

	return names[way];
}

const char *papers_miss_of(const struct papers_plot *plot, enum papers_way way, uint32_t processes)
{
	for (size_t i = 0; i < sizeof(misses) / sizeof(*misses); i++)
		if (!strcmp(misses[i].plot, plot->name) && misses[i].way == way &&
		    misses[i].from <= processes && processes <= misses[i].to)
			return misses[i].reason;
	return NULL;
}
