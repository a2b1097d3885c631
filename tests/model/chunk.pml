/* SPDX-License-Identifier: OLDAP-2.8 */
/* Claims, pins, publishing, eviction, accounts and burials of one chunk, of processes that may be killed
 * before any step.
 *
 * As lib/arena/arena_rows.c, arena_blocks.c and arena_memory.c: the names are the same. A row's lock is the
 * kernel's: it goes with its holder. FAULT=n puts a fault in, which a run must find:
 *   1  a process that has pinned does not look whether the chunk is being evicted
 *   2  a process that evicts does not look for pins after it has said so
 *   3  blocks are published before they are filled
 *   4  a row is free before its death is told (doubt)
 *   5  a process buries without the row's lock
 *   6  a mark to keep is set before it is counted
 *   7  a burial throws away what the dead process was only about to evict */
#ifndef FAULT
#define FAULT 0
#endif
#ifndef KILLS
#define KILLS 2
#endif
#ifndef KEEPS
#define KEEPS 0 /* 1: the second process marks the chunk to be kept */
#endif
#define PROCESSES 3
#define ROWS      3
#define NONE      255
#define EMPTY     0
#define PART      1
#define FULL      2

byte lock_of[ROWS] = NONE; /* the process that has a row's lock */
bool used[ROWS];           /* the row is one that a process has, or has died with */
bool pinned[ROWS];
byte claims[ROWS];
byte reserved[ROWS];
byte counting = 0; /* processes between the two halves of a change of the accounts */

byte owner = NONE; /* of the claim: a row */
bool evicting;
bool emptying;
bool published;
bool kept;
byte memory = EMPTY;

byte total;      /* head->used */
byte kept_count; /* head->kept */
bool doubt;

byte kills = KILLS;
byte filling; /* processes that fill the chunk and live: one at the most */
byte ended;

/* Before each step. */
#define STEP if :: kills > 0 -> atomic { kills--; goto killed } :: skip fi

/* What the kernel tells: a row that a process buries has a lock, too. */
#define LIVES(row) (lock_of[row] != NONE)
#define PINNED     (pinned[0] || pinned[1] || pinned[2])

/* Only the lock's holder is here. `dead` has no process. */
inline row_clear(dead)
{
	if
	:: claims[dead] > 0 ->
		if
		:: owner == dead ->
			if
#if FAULT == 7
			:: evicting ->
#else
			:: emptying ->
#endif
				STEP; d_step { published = false }
				STEP; d_step { memory = EMPTY }
				STEP; if :: kept -> d_step { kept = false } STEP; d_step { kept_count-- } :: else fi
			:: !evicting && !published ->
				STEP; d_step { memory = EMPTY }
			:: else
			fi;
			STEP; d_step { owner = NONE; evicting = false; emptying = false }
			STEP; d_step { claims[dead]-- }
		:: else
		fi
	:: else
	fi;
	STEP; d_step { pinned[dead] = false }
	STEP; d_step { claims[dead] = 0 }
	counting++; mine_counts = true;
	STEP;
	d_step { given = reserved[dead]; reserved[dead] = 0 }
	STEP;
	d_step { total = total - given; given = 0 }
	counting--; mine_counts = false
}

inline row_bury(dead)
{
	row_clear(dead);
#if FAULT == 4
	STEP; used[dead] = false;
	STEP; doubt = true
#else
	STEP; doubt = true;
	STEP; used[dead] = false
#endif
}

inline bury(dead)
{
	STEP;
	if
#if FAULT == 5
	:: true ->
#else
	:: atomic { lock_of[dead] == NONE -> lock_of[dead] = _pid }
#endif
		if
		:: used[dead] -> row_bury(dead)
		:: else
		fi;
		STEP;
#if FAULT == 5
		skip
#else
		lock_of[dead] = NONE
#endif
	:: else
	fi
}

/* Whether it has the claim: owner == row afterwards. */
inline claim_as(evicts)
{
	STEP; claims[row]++;
	STEP;
	if
	:: atomic { owner == NONE -> owner = row; evicting = evicts }
	:: else -> STEP; claims[row]--
	fi
}

inline claim_end()
{
	STEP; d_step { owner = NONE; evicting = false; emptying = false }
	STEP; claims[row]--
}

inline load()
{
	claim_as(false);
	if
	:: owner == row && !evicting ->
		if
		:: !published ->
			STEP; counting++; mine_counts = true;
			STEP; total++;
			STEP; reserved[row]++;
			counting--; mine_counts = false;
			atomic { filling++; fills = true; assert(filling == 1) }
#if FAULT == 3
			STEP; published = true;
#endif
			STEP; memory = PART;
			if
			:: true -> STEP; memory = FULL; d_step { filling--; fills = false }
				STEP; counting++; mine_counts = true;
				STEP; reserved[row]--;
				STEP; d_step { assert(memory == FULL); published = true }
				counting--; mine_counts = false
			:: true -> /* the read fails */
				d_step { filling--; fills = false }
				STEP; counting++; mine_counts = true;
				STEP; reserved[row]--;
				STEP; total--;
				counting--; mine_counts = false;
				STEP; if :: !published -> memory = EMPTY :: else fi
			fi
		:: else
		fi;
		claim_end()
	:: else
	fi
}

inline keep()
{
	if
	:: !kept ->
#if FAULT == 6
		STEP; kept = true;
		STEP; kept_count++
#else
		STEP; kept_count++;
		STEP; d_step { if :: kept -> kept_count-- :: else -> kept = true fi }
#endif
	:: else
	fi
}

inline evict()
{
	if
	:: !PINNED && owner == NONE ->
		claim_as(true);
		if
		:: owner == row && evicting ->
			STEP;
			if
#if FAULT == 2
			:: true ->
#else
			:: !PINNED ->
#endif
				STEP; emptying = true;
				STEP; counting++; mine_counts = true;
				STEP; d_step { given = published }
				published = false;
				STEP; memory = EMPTY;
				STEP; if :: kept -> kept = false; STEP; kept_count-- :: else fi;
				STEP; d_step { total = total - given; given = 0 }
				counting--; mine_counts = false
			:: else
			fi;
			claim_end()
		:: else
		fi
	:: else
	fi
}

/* With a pin what is published stays. */
inline use()
{
	STEP; pinned[row] = true;
	STEP;
	if
#if FAULT == 1
	:: false ->
#else
	:: evicting ->
#endif
		STEP; pinned[row] = false
	:: else ->
		if
		:: published -> STEP; assert(memory == FULL); STEP; assert(published && memory == FULL)
		:: else
		fi;
		STEP; pinned[row] = false
	fi
}

inline recount()
{
	STEP;
	if
	:: atomic { doubt && counting == 0 -> doubt = false;
		total = published + reserved[0] + reserved[1] + reserved[2] }
	:: else
	fi
}

/* What a process does once: reads, with whatever it finds; evicts or keeps; or only uses. */
#define READER  0
#define EVICTOR 1
#define USER    2

proctype process(byte role)
{
	byte row = NONE, given, other;
	bool mine_counts, fills;

	/* arena_row_take(): the first row without a lock. */
	atomic {
		if
		:: lock_of[0] == NONE -> row = 0
		:: lock_of[0] != NONE && lock_of[1] == NONE -> row = 1
		:: lock_of[0] != NONE && lock_of[1] != NONE -> row = 2
		fi;
		lock_of[row] = _pid
	}
	if :: used[row] -> row_bury(row) :: else fi;
	STEP; used[row] = true;
	if
	:: role == READER -> load(); use()
	:: role == EVICTOR && !KEEPS -> evict()
	:: role == EVICTOR && KEEPS -> keep()
	:: role == USER -> use()
	fi;
	if
	:: atomic { owner != NONE && owner != row && !LIVES(owner) -> other = owner } -> bury(other)
	:: else
	fi;
	/* It leaves. */
	row_clear(row);
	STEP; used[row] = false;
	goto gone;
killed:
	atomic {
		if :: mine_counts -> counting-- :: else fi; /* what ended has not: began tells, and the burial ends it */
		if :: fills -> filling-- :: else fi;
	}
gone:
	atomic {
		if :: lock_of[0] == _pid -> lock_of[0] = NONE :: else fi;
		if :: lock_of[1] == _pid -> lock_of[1] = NONE :: else fi;
		if :: lock_of[2] == _pid -> lock_of[2] = NONE :: else fi;
		ended++
	}
}

/* One that comes when all others have ended, and is not killed: it finds its way without a wait. */
proctype last()
{
	byte row = 0, given;
	bool mine_counts, fills;

	ended == PROCESSES;
	kills = 0;
	lock_of[0] = _pid;
	if :: used[0] -> row_bury(0) :: else fi;
	used[0] = true;
	if :: used[1] -> bury(1) :: else fi;
	if :: used[2] -> bury(2) :: else fi;
	recount();
	assert(owner == NONE && !PINNED);
	assert(!doubt && total == published);
	assert(!published || memory == FULL);
	assert(published || memory == EMPTY);
	assert(!kept || kept_count > 0); /* else what has the mark would never go */
	assert(kept_count < 200);        /* below 0 */
	evict();
	assert(!published && memory == EMPTY && total == 0);
killed:
	skip
}

init {
	atomic { run process(READER); run process(EVICTOR); run process(USER); run last() }
}
