/* SPDX-License-Identifier: OLDAP-2.8 */
/* Kills or stops a process before each change to what processes share, and checks what the other
 * processes do.
 *
 * usage: arena_steps kill|stop [every N] [FILE]
 * One process, the victim, does all that an arena can do: it makes one, joins one, takes up one
 * that was left, evicts, makes huge pages, wishes and serves, buries a dead process, drops what is
 * stale and gives up a part. It ends before one change. A process that was there before and one
 * that comes later must then go on without a wait, get right bytes, and find exact accounts and
 * nothing pinned.
 * With "every" the victim ends before each N-th change of its life; otherwise at each place in the
 * source once (arena_sites.h). FILE gets a line for each place where a process has ended: file,
 * function, call, line.
 */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"

#include <err.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define ARENA_SITES_OF_OTHERS
#include "arena_sites.h"

enum {
	CHUNKS = 8,
	HELD = CHUNKS - 1,        /* the chunk that the standing process has claimed for eviction */
	READ = 8,                 /* blocks that are read of each chunk before that */
	LITTLE = 32,              /* blocks: an arena's budget */
	NODE = 3 * LITTLE,        /* blocks: the budget of all arenas */
	MUCH = 26 * ARENA_BLOCKS, /* blocks: a served arena of this size retains some */
	SITES = 512,
	LOOK_EVERY = 32, /* cases: how often to check what is left */
};

/* The data sets have the same bytes, but each arena takes them for another file. */
enum set { NEW, STOOD, LEFT, LEFT_NEWER, LARGE, LAST, HUGE_PAGES, SERVED, SETS };

/* When the victim is to end. */
struct moment {
	unsigned site, pass; /* at a place, after so many passes */
	unsigned step;       /* or at a change of the life, whatever its place */
	int signal;
};

/* Memory that all processes of the test have. */
static struct shared {
	unsigned steps;         /* changes in an undisturbed life */
	unsigned passes[SITES]; /* passes of each place in that life */
	unsigned ended[SITES];
	uint64_t keys[SETS][2], inodes[SETS];
	enum set now; /* the set that the victim uses */
	bool full;    /* the victim has pinned all of the set, or reserved its memory */
} *shared;

static struct dataset data;
static struct arena *standing;
static struct moment moment;
static unsigned step, pass, cases;
static pid_t victim;

extern struct arena_site *__start_arena_sites[], *__stop_arena_sites[];

/* --- places ----------------------------------------------------------------------------------- */

static unsigned sites_number(void)
{
	unsigned count = 0;

	for (struct arena_site **site = __start_arena_sites; site < __stop_arena_sites; site++)
		(*site)->number = ++count;
	if (count >= SITES)
		errx(1, "%u places: SITES is to be larger", count);
	return count;
}

static const struct arena_site *site_of(unsigned number)
{
	return __start_arena_sites[number - 1];
}

static void count_site(const struct arena_site *site)
{
	shared->steps++;
	shared->passes[site->number]++;
}

/* Called before each change: kills or stops the process at the moment. A stop is for the victim
 * alone, because its parent waits for it. */
static void end_at_site(const struct arena_site *site)
{
	if (moment.signal == SIGSTOP && getpid() != victim)
		return;
	step++;
	pass += site->number == moment.site;
	if (moment.step ? step != moment.step
			: site->number != moment.site || pass != moment.pass)
		return;
	site_taken = NULL;
	shared->ended[site->number]++;
	kill(getpid(), moment.signal);
}

/* --- a life ----------------------------------------------------------------------------------- */

static struct dataset set_of(enum set set)
{
	struct dataset its = data;

	its.identity.inode += (set == LEFT_NEWER ? LEFT : set) * UINT64_C(1000003);
	its.identity.snapshot += cases * 2 + (set == LEFT_NEWER);
	return its;
}

static struct arena *open_set(enum set set)
{
	struct arena_options options = {
		.budget = (set >= HUGE_PAGES ? MUCH : LITTLE) * (uint64_t)ARENA_BLOCK,
		.node_budget = (set >= HUGE_PAGES ? MUCH : NODE) * (uint64_t)ARENA_BLOCK,
		.share = true,
		.node = test_node()};
	struct dataset its = set_of(set);
	struct arena *arena;
	const char *why;
	int rc;

	if (getpid() == victim)
		shared->now = set;
	rc = arena_open(&arena, &its.identity, &options, &why);

	if (rc || why)
		fprintf(stderr, "arena_open: %s, %s\n", strerror(rc), why ? why : "shared");
	check(!rc && !why);
	memcpy(shared->keys[set], arena->key, sizeof(arena->key));
	shared->inodes[set] = arena_inode(arena);
	if (set == NEW)
		(void)arena_found(&its.identity, &options);
	return arena;
}

static void read_set(struct control *control, struct arena *arena, unsigned patience)
{
	struct reader reader;

	child_reader(&reader, arena, &data, control);
	reader.patience = patience;
	for (uint64_t chunk = 0; chunk < HELD; chunk++)
		reader_use(&reader, chunk, 0, READ);
	reader_end(&reader);
}

enum { LONG = 20000 }; /* ms: no reader goes on without the arena */

static void read_and_close(struct control *control, enum set set)
{
	struct arena *arena = open_set(set);

	read_set(control, arena, LONG);
	arena_close(arena);
}

/* Marks the chunk as one that a process waits for. */
static void await(struct arena *arena, uint64_t chunk)
{
	atomic_fetch_or(&arena_group_of(arena, chunk)->words[chunk % ARENA_GROUP], WORD_WAITERS);
}

/* A read fails, of a block that was not reserved: its bytes are dropped. */
static void fail_to_read(struct arena *arena)
{
	static uint8_t bytes[ARENA_BLOCK];
	const uint64_t block = HELD * ARENA_BLOCKS;

	check(pread(data.fd, bytes, sizeof(bytes), (off_t)block * ARENA_BLOCK) == sizeof(bytes));
	check(arena_claim(arena, HELD));
	check(!arena_fill(arena, block * ARENA_BLOCK, bytes, sizeof(bytes)));
	arena_publish(arena, block, 1);
	if (arena_reserve(arena, 2)) {
		(void)arena_fill(arena, (block + 1) * ARENA_BLOCK, bytes, sizeof(bytes));
		arena_pieces_add(arena, HELD, 1);
		await(arena, HELD);
		arena_abandon(arena, HELD, 2);
	} else {
		arena_release(arena, HELD);
	}
}

static void lack_room(struct arena *arena)
{
	shared->full = true;
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		check(arena_pin(arena, chunk));
	check(!arena_reserve(arena, LITTLE));
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		arena_unpin(arena, chunk);
	check(arena_reserve(arena, LITTLE));
	arena_unreserve(arena, LITTLE);
	shared->full = false;
}

static void serve(struct arena *arena)
{
	uint64_t chunk;
	bool urgent;

	check(!arena_serve(arena, 2, true));
	arena_keep(arena, 1);
	atomic_store(&arena->head->awaited, 1);
	arena_answer(arena, 2, true);
	(void)arena_wish(arena, 3, true);
	check(!arena_serve_sleeps(arena, true));
	while (arena_wish_next(arena, &chunk, &urgent))
		arena_answer(arena, chunk, false);
	(void)arena_serve_sleeps(arena, true);
	check(arena_wish(arena, 6, false));
	check(arena_claim(arena, 2)); /* this claim consumes the refusal */
	arena_release(arena, 2);
	arena_beat(arena);
}

static void use_stood(struct control *control)
{
	struct arena *arena = open_set(STOOD);

	arena_scanning(arena, 1, 0);
	check(!arena_front(arena, 1, true));
	check(!arena_claim(arena, HELD) && !arena_pin(arena, HELD) && !arena_wait(arena, HELD, 1));
	read_set(control, arena, LONG);
	(void)arena_wish(arena, 5, true);
	(void)arena_wish_wait(arena, 5, 1);
	arena_scanning(arena, 0, 0);
	arena_close(arena);
}

static void use_new(struct control *control)
{
	struct arena *arena = open_set(NEW), *twin;

	read_set(control, arena, LONG);
	fail_to_read(arena);
	twin = open_set(NEW);
	arena_drain(arena);
	arena_close(twin);
	lack_room(arena);
	serve(arena);
	read_set(control, arena, LONG);
	arena_evict(arena, LITTLE);
	arena_close(arena);
}

static void use_huge(struct control *control)
{
	struct arena *arena = open_set(HUGE_PAGES);

	(void)arena_may_be(ARENA_CHUNK);
	arena_prepare(arena, 0, 2);
	if (arena_claim(arena, 2)) {
		arena_prepare_claimed(arena, 2);
		arena_release(arena, 2);
	}
	read_set(control, arena, LONG);
	arena_evict(arena, ARENA_BLOCKS);
	arena_close(arena);
}

/* The reservation stands for what others would read. */
static void use_served(struct control *control)
{
	struct arena *arena = open_set(SERVED);
	uint64_t rest = arena_limit(arena) - HELD * READ;

	check(!arena_serve(arena, 0, true));
	read_set(control, arena, LONG);
	shared->full = true;
	check(arena_reserve(arena, rest));
	check(arena_reserve(arena, HELD * READ));
	arena_unreserve(arena, rest + HELD * READ);
	shared->full = false;
	arena_close(arena);
}

static void go_on_after_fork(struct control *control, struct arena *arena)
{
	arena_forked(arena);
	arena_close(arena);
	arena = open_set(LAST);
	read_set(control, arena, LONG);
	arena_close(arena);
}

/* The life from its beginning, with what a process keeps for its children. */
static void use_forked(struct control *control)
{
	struct arena *arena;
	pid_t pid;
	int ended;

	arena_keeper_end();
	arena = open_set(LAST);
	pid = fork();
	if (!pid) {
		go_on_after_fork(control, arena);
		_exit(0);
	}
	check(pid > 0);
	ended = child_wait(pid);
	check(!ended || ended == SIGKILL);
	arena_close(arena);
}

static void live(struct control *control, unsigned dry)
{
	arena_forked(standing);
	victim = getpid();
	site_taken = dry ? count_site : end_at_site;
	use_new(control);
	use_stood(control);
	read_and_close(control, LEFT);
	read_and_close(control, LEFT_NEWER);
	read_and_close(control, LAST);
	use_huge(control);
	use_served(control);
	use_forked(control);
	site_taken = NULL;
}

/* --- the others ------------------------------------------------------------------------------- */

/* Leaves what a dead process may have had in hand, and a second row with little. The next process
 * gets the first row. */
static void die_holding(struct control *control, unsigned number)
{
	struct arena *arena, *second;

	(void)number;
	arena_forked(standing);
	arena = open_set(STOOD);
	second = open_set(STOOD);
	check(arena_pin(second, 2) && arena_claim(second, 3) && arena_reserve(second, 1));
	arena_release(second, 3);
	read_set(control, arena, LONG);
	arena_scanning(arena, 1, 1);
	(void)arena_wish(arena, 4, true);
	check(arena_pin(arena, 5) && arena_claim(arena, 6) && arena_reserve(arena, 1));
	check(arena_claim_as(arena, arena_group_of(arena, 0), 0,
			     arena->row | WORD_EVICTING | WORD_EMPTYING));
	kill(getpid(), SIGKILL);
}

static void leave_some(struct control *control, unsigned number)
{
	(void)number;
	arena_forked(standing);
	read_and_close(control, LARGE);
	read_and_close(control, LEFT);
}

/* A prepared chunk may have memory without content. */
static void accounts_are_right(struct arena *arena, enum set set)
{
	uint64_t published = 0;

	(void)arena_bury_dead(arena);
	(void)arena_recount(arena);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		struct arena_group *group = arena_group_need(arena, chunk, arena->row);

		check(group);
		published += arena_published(group, chunk);
		if (set == STOOD && chunk == HELD)
			continue;
		check(arena_claim(arena, chunk));
		arena_release(arena, chunk);
	}
	check(arena_used(arena) == published * ARENA_BLOCK);
	check(set == HUGE_PAGES || arena_memory(arena) == arena_used(arena));
	check(arena_members(arena) == 1 + (set == STOOD));
	check(arena->line >= 0);
}

/* A process that comes afterwards, and opens all data sets. */
static void follow(struct control *control, unsigned number)
{
	(void)number;
	arena_forked(standing);
	for (enum set set = 0; set < SETS; set++) {
		struct arena *arena = open_set(set);

		accounts_are_right(arena, set);
		read_set(control, arena, 200);
		/* Nothing stays pinned, claimed or counted. */
		check(arena_reserve(arena, LITTLE));
		arena_unreserve(arena, LITTLE);
		arena_close(arena);
	}
}

/* Reads while another process is stopped. That process holds two chunks at most, unless it has
 * pinned all, or reserved all memory. */
static void read_beside(struct control *control, unsigned number)
{
	struct arena *arena;

	(void)number;
	arena_forked(standing);
	arena = open_set(shared->now);
	atomic_store(&control->direct, 0);
	read_set(control, arena, 10);
	check(atomic_load(&control->direct) <= 2 || shared->full);
	arena_close(arena);
	atomic_store(&control->direct, 0);
}

static void stop(struct control *control, pid_t pid)
{
	int status;
	uint64_t before = atomic_load(&control->direct);

	if (waitpid(pid, &status, WUNTRACED) < 0)
		err(1, "waitpid");
	if (!WIFSTOPPED(status)) {
		check(!status);
		return;
	}
	read_set(control, standing, 10);
	check(atomic_load(&control->direct) - before <= 2);
	check(!child_wait(child_start(control, read_beside, 0)));
	kill(pid, SIGCONT);
	check(!child_wait(pid));
	atomic_store(&control->direct, 0);
}

/* The parent of all other processes in one case. `number`: not 0, to count how often each place is
 * passed. */
static void play(struct control *control, unsigned number)
{
	int ended;
	pid_t pid;

	standing = open_set(STOOD);
	check(!arena_serve(standing, 0, true) && arena_group_need(standing, HELD, standing->row));
	check(arena_claim_as(standing, arena_group_of(standing, HELD), HELD,
			     standing->row | WORD_EVICTING));
	check(child_wait(child_start(control, die_holding, 0)) == SIGKILL);
	check(!child_wait(child_start(control, leave_some, 0)));
	pid = child_start(control, live, number);
	if (moment.signal == SIGSTOP && !number) {
		stop(control, pid);
	} else {
		ended = child_wait(pid);
		check(!ended || ended == SIGKILL);
	}
	read_set(control, standing, 200);
	check(!child_wait(child_start(control, follow, 0)));
	check(!atomic_load(&control->wrong) && !atomic_load(&control->direct));
	arena_claim_end(standing, arena_group_of(standing, HELD), HELD, standing->row);
	arena_close(standing);
}

/* --- cases ------------------------------------------------------------------------------------ */

static bool is_left(void)
{
	bool left = false;

	for (enum set set = 0; set < SETS; set++) {
		struct arena arena = {.key = {shared->keys[set][0], shared->keys[set][1]}};

		left |= names_left(&arena, false) || holders_left(shared->inodes[set]);
	}
	return left;
}

static unsigned failed;

static void run(const struct moment *when, bool dry)
{
	struct control *control = child_control();
	const struct arena_site *site = when->site ? site_of(when->site) : NULL;

	moment = *when;
	cases++;
	if (child_run_parent(control, play, dry)) {
		failed++;
		printf("NOT OK step %u, pass %u of %s:%d, %s: %s\n", when->step, when->pass,
		       site ? site->file : "", site ? site->line : 0, site ? site->function : "",
		       site ? site->call : "");
	} else if (cases % LOOK_EVERY == 0 && is_left()) {
		failed++;
		printf("NOT OK something is left before case %u\n", cases);
	}
	fflush(stdout);
}

static void told(const char *path, unsigned sites)
{
	FILE *file = fopen(path, "we");

	if (!file)
		err(1, "%s", path);
	for (unsigned i = 1; i <= sites; i++) {
		const struct arena_site *site = site_of(i);

		fprintf(file, "%s %s %s %d %s\n", site->file, site->function, site->call, site->line,
			shared->ended[i] ? "ended" : "open");
	}
	if (fclose(file))
		err(1, "%s", path);
}

int main(int argc, char **argv)
{
	unsigned sites = sites_number(), every = 0, done = 0;
	struct moment when = {.signal = SIGKILL};

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: arena_steps kill|stop N [FILE]\n"
				"N: at each N-th change of a life; 0: once at each place\n");
		return 2;
	}
	when.signal = strcmp(argv[1], "stop") ? SIGKILL : SIGSTOP;
	every = (unsigned)strtoul(argv[2], NULL, 10);
	alarm(14000);
	data = dataset_make(CHUNKS);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		err(1, "mmap");
	run(&when, true);
	for (unsigned i = 1; every ? i <= shared->steps : i <= sites; i += every ? every : 1) {
		when.site = every ? 0 : i;
		when.step = every ? i : 0;
		when.pass = 1;
		if (!every && !shared->passes[i])
			continue;
		run(&when, false);
		done++;
	}
	if (is_left()) {
		failed++;
		printf("NOT OK something is left\n");
	}
	if (argc > 3)
		told(argv[3], sites);
	dataset_close(&data);
	printf("%u places, a life of %u changes; ended at %u, %u failed\n", sites, shared->steps, done,
	       failed);
	return failed != 0;
}
