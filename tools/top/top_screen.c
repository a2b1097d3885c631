/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows samples of the node on a terminal, and takes keys. */
#include "top_screen.h"

#include "util/clock.h"

#include <curses.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* After curses.h; it has macros of common names. */
#include <term.h>

enum { LEAST_LINES = TOP_HEAD + 2, LEAST_COLUMNS = TOP_WIDTH / 2 };

struct screen {
	const struct tool *tool;
	struct top_sampler *sampler;
	struct top_sample sample;
	uint64_t every_ms;
	enum top_sort sort;
	size_t first; /* row at the top of the table */
	bool help, over;
};

static const char *const help_lines[] = {
	"lmdbio-top: what the processes of this user read through lmdbio on this node",
	"",
	"  q          quit",
	"  h, ?       this help, and back",
	"  s          sort by the next column",
	"  space      look now",
	"  up, down   scroll",
	"",
	"STORAGE/s: bytes asked of storage.  VALUES/s: bytes handed to the program.",
	"REQ/s: requests to storage.  QUEUE: requests in flight, ahead of need.",
	"WAIT%: what its reading threads waited.  SETS: data sets that are open.",
	"Sources: extents that programs came for, by where they were.",
};

/* --- drawing ---------------------------------------------------------------------------------- */

/* Writes a line, cut to the screen, and clears the rest of it. */
static void put(int y, const char *text, attr_t look)
{
	if (y >= LINES)
		return;
	attrset((int)look);
	mvaddnstr(y, 0, text, COLS);
	attrset(A_NORMAL);
}

/* Returns the rows that fit between the titles and the last line. */
static size_t rows_shown(void)
{
	return (size_t)(LINES - TOP_HEAD - 2);
}

static void draw_table(struct screen *screen)
{
	const struct top_sample *sample = &screen->sample;
	char line[TOP_WIDTH];
	size_t shown = rows_shown(), last;

	for (unsigned i = 0; i < TOP_HEAD; i++)
		put((int)i, top_head(sample, (double)screen->every_ms / 1e3, i, line),
		    i ? A_NORMAL : A_BOLD);
	put(TOP_HEAD, top_title(line), A_REVERSE);
	last = sample->count > shown ? sample->count - shown : 0;
	if (screen->first > last)
		screen->first = last;
	for (size_t i = 0; i < shown && screen->first + i < sample->count; i++)
		put(TOP_HEAD + 1 + (int)i, top_line(&sample->rows[screen->first + i], line),
		    A_NORMAL);
	if (!sample->count && shown)
		put(TOP_HEAD + 1,
		    "No process of yours reads through lmdbio now; lmdbio-run starts one.",
		    A_NORMAL);
	snprintf(line, sizeof(line), "sorted by %s; q quit, h help, s sort",
		 top_sort_name(screen->sort));
	put(LINES - 1, line, A_DIM);
}

/* Writes one line, or a line for each part if that is wider than the screen. */
static void draw_too_small(void)
{
	static const char whole[] = "lmdbio-top: the terminal is too small";
	static const char *const parts[] = {"too small", "lmdbio-top: the", "terminal is",
					    "too small"};

	if (COLS >= (int)sizeof(whole) - 1)
		put(0, whole, A_NORMAL);
	else if (LINES < 3)
		put(0, parts[0], A_NORMAL);
	else
		for (int i = 0; i < 3; i++)
			put(i, parts[i + 1], A_NORMAL);
}

static void draw(struct screen *screen)
{
	erase();
	if (LINES < LEAST_LINES || COLS < LEAST_COLUMNS)
		draw_too_small();
	else if (screen->help)
		for (size_t i = 0; i < sizeof(help_lines) / sizeof(*help_lines); i++)
			put((int)i, help_lines[i], i ? A_NORMAL : A_BOLD);
	else
		draw_table(screen);
	refresh();
}

/* --- keys ------------------------------------------------------------------------------------- */

static void scroll_by(struct screen *screen, long rows)
{
	if (rows < 0 && screen->first < (size_t)-rows)
		screen->first = 0;
	else
		screen->first += (size_t)rows; /* drawing limits it */
}

/* Takes a key. Returns whether to take another sample. */
static bool key_take(struct screen *screen, int key)
{
	long page = LINES > LEAST_LINES ? (long)rows_shown() : 1;

	switch (key) {
	case 'q':
	case 'Q':
		screen->over = true;
		break;
	case 'h':
	case '?':
		screen->help = !screen->help;
		break;
	case 's':
		screen->sort = (enum top_sort)((screen->sort + 1) % TOP_SORTS);
		screen->first = 0;
		top_sort(&screen->sample, screen->sort);
		break;
	case ' ':
		return true;
	case KEY_UP:
		scroll_by(screen, -1);
		break;
	case KEY_DOWN:
		scroll_by(screen, 1);
		break;
	case KEY_PPAGE:
		scroll_by(screen, -page);
		break;
	case KEY_NPAGE:
		scroll_by(screen, page);
		break;
	default: /* KEY_RESIZE: drawn anew */
		break;
	}
	return false;
}

/* Waits for keys until the next sample. */
static void keys_wait(struct screen *screen)
{
	uint64_t until = clock_now() + screen->every_ms * 1000000, now;
	bool look = false;

	while (!look && !screen->over && !tool_signal && (now = clock_now()) < until) {
		int key;

		draw(screen);
		timeout((int)((until - now) / 1000000 + 1));
		errno = 0;
		key = getch();
		if (key != ERR)
			look = key_take(screen, key);
		else if (errno && errno != EINTR && errno != EAGAIN)
			screen->over = true; /* the terminal is gone */
	}
}

/* --- the screen ------------------------------------------------------------------------------- */

static int looks_show(struct screen *screen)
{
	while (!screen->over && !tool_signal) {
		int rc = top_look(screen->sampler, &screen->sample);

		if (rc)
			return rc;
		top_sort(&screen->sample, screen->sort);
		keys_wait(screen);
	}
	return 0;
}

/* newterm() reports this too, but leaks memory. */
static bool is_terminal_known(void)
{
	bool moves;
	int found;

	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return false;
	/* The screen is drawn by moving the cursor. */
	moves = cursor_address != NULL;
	del_curterm(cur_term);
	return moves;
}

int top_screen(const struct tool *tool, struct top_sampler *sampler, uint64_t every_ms,
	       enum top_sort sort)
{
	struct screen screen = {
		.tool = tool, .sampler = sampler, .every_ms = every_ms, .sort = sort};
	const char *type = getenv("TERM");
	SCREEN *terminal;
	int rc;

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
		tool_complain(tool, "standard input and output are no terminal; --batch prints "
				    "plain text");
		return TOOL_FAILED;
	}
	terminal = is_terminal_known() ? newterm(NULL, stdout, stdin) : NULL;
	if (!terminal) {
		tool_complain(tool,
			      "TERM=%s names no terminal that is known here and has a screen; set "
			      "TERM, or print plain text with --batch",
			      type ? type : "");
		return TOOL_FAILED;
	}
	/* Take keys one at a time, without echo. */
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	rc = looks_show(&screen);
	endwin();
	delscreen(terminal);
	if (rc)
		tool_complain(tool, "%s", strerror(rc));
	return rc ? TOOL_FAILED : tool_signal ? tool_signal_status() : TOOL_OK;
}
