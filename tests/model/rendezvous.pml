/* SPDX-License-Identifier: OLDAP-2.8 */
/* How processes meet at one arena, or make it, when they come, leave and are killed before any step.
 *
 * As lib/arena/arena_rendezvous.c and arena_names.c. A process asks another's name first, and opens that
 * process's descriptor of the arena afterwards. FAULT=n puts a fault in, which a run must find:
 *   1  a process looks before it can be found
 *   2  a process that has made an arena does not look again
 *   3  an arena that is not settled yet is joined
 *   4  the later stamp wins against one that is not settled
 *   5  a process that has made one looks once: another passes an arena on behind its back and is killed
 * With LEAVES=1 processes leave, too. Then a run finds that two arenas may come to be: a process that has
 * asked a name opens the descriptor of one that leaves, while a third has looked at both in vain. Each has
 * right bytes; memory is used twice until one of the two has no members. */
#ifndef FAULT
#define FAULT 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef KILLS
#define KILLS 1
#endif
#define N    3
#define NONE 255

bool listens[N];
bool attached[N];
byte has[N] = NONE; /* the arena that a process's descriptor is of: its maker's number */
byte stamp[N];      /* 0: none yet */
bool settled[N];
byte clock = 1;
byte kills = KILLS;

#define STEP if :: kills > 0 -> atomic { kills--; goto killed } :: skip fi

/* All that use an arena use the same. */
#define ONE_ARENA                                                    \
	((!attached[0] || !attached[1] || has[0] == has[1]) &&       \
	 (!attached[0] || !attached[2] || has[0] == has[2]) &&       \
	 (!attached[1] || !attached[2] || has[1] == has[2]))

/* From the moment that it has the descriptor a process leads others there. One look over all others. `leader`: the process whose arena this one should use; NONE. `waits`: there is
 * an older one that is not settled. */
inline look(mine)
{
	leader = NONE;
	waits = false;
	other = 0;
	do
	:: other < N && leader == NONE && !waits ->
		STEP;
		if
		:: other != me && listens[other] -> /* it has answered */
			STEP;
			if
			:: atomic { has[other] != NONE && has[other] != me && settled[has[other]] ->
				has[me] = has[other]; leader = other }
#if FAULT == 3
			:: atomic { has[other] != NONE && has[other] != me && !settled[has[other]] ->
				has[me] = has[other]; leader = other }
#endif
#if FAULT == 4
			:: mine > 0 && has[other] != NONE && has[other] != me && !settled[has[other]] &&
			   stamp[has[other]] > mine ->
#else
			:: mine > 0 && has[other] != NONE && has[other] != me && !settled[has[other]] &&
			   stamp[has[other]] < mine ->
#endif
				waits = true
			:: else
			fi
		:: else
		fi;
		other++
	:: else -> break
	od
}

proctype process(byte me)
{
	byte leader, other, mine;
	bool waits, sure;

#if FAULT != 1
	STEP;
	listens[me] = true;
#endif
	look(0);
#if FAULT == 1
	STEP;
	listens[me] = true;
#endif
	if
	:: leader != NONE -> goto meets
	:: else
	fi;
	STEP;
	d_step { has[me] = me; stamp[me] = 0; settled[me] = false }
	STEP;
	d_step { mine = clock; clock++ }
	STEP;
	stamp[me] = mine;
#if FAULT != 2
contest:
	look(mine);
	if
	:: leader != NONE -> goto meets
	:: waits -> sure = false; goto contest
	:: else
#if FAULT != 5
		if
		:: !sure -> sure = true; goto contest
		:: else
		fi
#endif
	fi;
#endif
	STEP;
	settled[me] = true;
meets:
	STEP;
	d_step { attached[me] = true; assert(ONE_ARENA) }
	STEP;
#if !LEAVES
	goto gone;
#endif
	attached[me] = false;
	STEP;
	listens[me] = false; /* first */
	STEP;
	has[me] = NONE;
	goto gone;
killed:
	atomic { attached[me] = false; listens[me] = false; has[me] = NONE }
gone:
	skip
}

init {
	atomic { run process(0); run process(1); run process(2) }
}
