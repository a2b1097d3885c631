/* SPDX-License-Identifier: OLDAP-2.8 */
/* Draws a plot of LMDBIO's papers as SVG: points as published, lines as modelled. */
#include "sim_papers_report.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 760, HEIGHT = 520, LEFT = 70, RIGHT = 110, TOP = 40, BOTTOM = 50 };

static const char *const colours[PAPERS_ALL] = {
	"#000000", "#888888", "#9467bd", "#8c564b", "#2ca02c", "#ff7f0e", "#1f77b4", "#d62728",
};

/* The drawn part of the plane; both axes are logarithmic. */
struct frame {
	double x0, x1, y0, y1;
};

static double across(const struct frame *frame, double x)
{
	return LEFT + (WIDTH - LEFT - RIGHT) * log(x / frame->x0) / log(frame->x1 / frame->x0);
}

static double down(const struct frame *frame, double y)
{
	return HEIGHT - BOTTOM -
	       (HEIGHT - TOP - BOTTOM) * log(y / frame->y0) / log(frame->y1 / frame->y0);
}

static void axes_draw(const struct papers_plot *plot, const struct frame *frame)
{
	printf("<text x=\"%d\" y=\"20\" font-size=\"14\">%s: points published, lines "
	       "modelled</text>\n",
	       LEFT, plot->title);
	int lines = (int)lround(log10(frame->y1 / frame->y0));

	for (int i = 0; i <= lines; i++) {
		double y = frame->y0 * pow(10, i), at = down(frame, y);

		printf("<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
		       LEFT, WIDTH - RIGHT, at, at);
		printf("<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f s</text>\n", LEFT - 6,
		       at + 4, y);
	}
	for (unsigned i = 0; i < plot->n; i++)
		printf("<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%u</text>\n",
		       across(frame, plot->processes[i]), HEIGHT - BOTTOM + 16, plot->processes[i]);
	printf("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">processes</text>\n",
	       (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
}

static int way_draw(const struct papers_plot *plot, unsigned way, const struct frame *frame)
{
	struct papers_time time = {0};
	int rc = 0;

	printf("<g stroke=\"%s\" fill=\"%s\">\n<polyline fill=\"none\" stroke-width=\"1.5\" "
	       "points=\"",
	       colours[way], colours[way]);
	for (unsigned i = 0; !rc && i < plot->n; i++) {
		rc = papers_model(plot, way, plot->processes[i], &time);
		printf("%s%.1f,%.1f", i ? " " : "", across(frame, plot->processes[i]),
		       down(frame, time.seconds));
	}
	printf("\"/>\n");
	for (unsigned i = 0; way < PAPERS_WAYS && i < plot->n; i++)
		if (plot->published[way][i] > 0)
			printf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n",
			       across(frame, plot->processes[i]),
			       down(frame, plot->published[way][i]));
	printf("<text x=\"%d\" y=\"%d\" stroke=\"none\">%s</text>\n</g>\n", WIDTH - RIGHT + 14,
	       TOP + 16 + 20 * (int)way, papers_way_name(way));
	return rc;
}

int papers_draw(const struct papers_plot *plot)
{
	struct frame frame = {plot->processes[0], plot->processes[plot->n - 1], 10, 100000};
	int rc = 0;

	printf("<!-- SPDX-License-Identifier: OLDAP-2.8 -->\n"
	       "<!-- Drawn by lmdbio-sim, its plot %s -->\n"
	       "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
	       "font-family=\"sans-serif\" "
	       "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
	       plot->name, WIDTH, HEIGHT);
	axes_draw(plot, &frame);
	for (unsigned way = 0; !rc && way < PAPERS_ALL; way++)
		if (way == PAPERS_OURS || plot->published[way][0] > 0)
			rc = way_draw(plot, way, &frame);
	printf("</svg>\n");
	return rc;
}
