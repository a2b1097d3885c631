/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that the n-th call to fail, whichever it is, is one clean error. */
#include "io_contract.h"

#include <errno.h>
#include <string.h>

/* What the steps of one run came to. */
struct outcome {
	unsigned failed; /* with the planned errno */
	unsigned cut;    /* the file seemed to end early, and what came is right */
	unsigned wrong;  /* anything else that is not right */
};

static void judge(struct outcome *outcome, int rc, int planned, const void *buffer,
	uint64_t offset, size_t done)
{
	if (rc)
		*(rc == planned ? &outcome->failed : &outcome->wrong) += 1;
	else if (!has_pattern(buffer, done, offset))
		outcome->wrong++;
	else if (done != bytes_there(small_file.size, offset, 4096))
		outcome->cut++;
}

/* Reads and requests. */
static struct outcome run_steps(struct io *io, int planned)
{
	static const uint64_t offsets[] = { 0, 8192 };
	struct outcome outcome = { 0 };
	struct io_request *out[3];
	size_t i, n, done;
	int rc;

	for (i = 0; i < 2; i++) {
		memset(arena, 0xee, 4096);
		rc = io_read(io, arena, 4096, offsets[i], &done);
		judge(&outcome, rc, planned, arena, offsets[i], done);
	}
	rc = submit_some(io, 3, 4096, 0, 0);
	if (rc)
		*(rc == planned ? &outcome.failed : &outcome.wrong) += 1;
	n = io_wait(io, out, 3, 3);
	if (n != (rc ? 0 : 3))
		outcome.wrong++;
	for (i = 0; i < n; i++)
		judge(&outcome, out[i]->error, planned, out[i]->buffer, out[i]->offset,
			out[i]->done);
	return outcome;
}

/* Runs the steps with the first call failing, then the second, until none is left. */
static unsigned run_plan(struct subject *s, struct io_fault plan, struct outcome *sum)
{
	struct io_fault running;
	struct outcome outcome;
	struct io io;

	memset(sum, 0, sizeof(*sum));
	for (plan.nth = 1;; plan.nth++) {
		running = plan;
		assert_int_equal(io_open_fault(&io, &s->io, &running), 0);
		outcome = run_steps(&io, plan.error);
		assert_int_equal(outcome.wrong, 0);
		if (!plan.for_ever)
			assert_true(outcome.failed + outcome.cut <= 1);
		sum->failed += outcome.failed;
		sum->cut += outcome.cut;
		if (running.failed > 0) { /* the next call after the fault works */
			memset(&running, 0, sizeof(running));
			outcome = run_steps(&io, 0);
			assert_int_equal(outcome.failed + outcome.cut + outcome.wrong, 0);
			io_close(&io);
			continue;
		}
		io_close(&io);
		assert_int_equal(running.seen, plan.nth - 1);
		return running.seen;
	}
}

static void nth_call_that_fails_is_one_error(void **state)
{
	static const int errors[] = { EIO, ESTALE, EAGAIN, ENOMEM, EBADF };
	struct io_fault plan = { .calls = IO_FAULT_READS | IO_FAULT_SUBMITS };
	struct outcome sum;
	struct subject s;
	unsigned calls;
	size_t i;

	open_subject(&s, *state, &small_file);
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		plan.error = errors[i];
		plan.for_ever = false;
		calls = run_plan(&s, plan, &sum);
		/* Five reads, a submit. */
		assert_int_equal(calls, 6);
		assert_int_equal(sum.failed, calls);
		assert_int_equal(sum.cut, 0);
		plan.for_ever = true;
		(void)run_plan(&s, plan, &sum);
		assert_true(sum.failed > calls);
	}
	close_subject(&s);
}

static void nth_read_that_is_interrupted_is_healed(void **state)
{
	struct io_fault plan = { .calls = IO_FAULT_READS, .error = EINTR };
	struct outcome sum;
	struct subject s;

	open_subject(&s, *state, &small_file);
	assert_int_equal(run_plan(&s, plan, &sum), 5);
	assert_int_equal(sum.failed + sum.cut, 0);
	close_subject(&s);
}

static void nth_read_that_is_short_is_healed(void **state)
{
	static const size_t cuts[] = { 1, 7, 512, 1808 };
	struct io_fault plan = { .calls = IO_FAULT_READS };
	struct outcome sum;
	struct subject s;
	size_t i;

	open_subject(&s, *state, &small_file);
	for (i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		plan.cut = cuts[i];
		(void)run_plan(&s, plan, &sum);
		assert_int_equal(sum.failed + sum.cut, 0);
	}
	close_subject(&s);
}

static void read_of_nothing_is_the_end_of_the_file(void **state)
{
	struct io_fault plan = { .calls = IO_FAULT_READS, .cut = IO_FAULT_TO_NOTHING };
	struct outcome sum;
	struct subject s;

	open_subject(&s, *state, &small_file);
	assert_int_equal(run_plan(&s, plan, &sum), 5);
	assert_int_equal(sum.cut, 5);
	plan.for_ever = true;
	(void)run_plan(&s, plan, &sum);
	assert_true(sum.cut > 5);
	close_subject(&s);
}

static void plan_for_nothing_counts_and_passes_on(void **state)
{
	struct io_fault plan = { .calls = IO_FAULT_SUBMITS, .error = EIO };
	struct subject s;
	struct io io;

	open_subject(&s, *state, &big_file);
	assert_int_equal(io_open_fault(&io, &s.io, &plan), 0);
	assert_int_equal(io_alignment(&io), io_alignment(&s.io));
	assert_int_equal(read_in_flight(&io, big_file.size, MIB, 16), 0);
	assert_int_equal(plan.seen, 41 - 16 + 1);
	assert_int_equal(plan.failed, 0);
	io_close(&io);
	close_subject(&s);
}

const struct contract_test fault_tests[] = {
	TEST(ALL_ROWS, nth_call_that_fails_is_one_error),
	TEST(ALL_ROWS, nth_read_that_is_interrupted_is_healed),
	TEST(ALL_ROWS, nth_read_that_is_short_is_healed),
	TEST(ALL_ROWS, read_of_nothing_is_the_end_of_the_file),
	TEST(ALL_ROWS, plan_for_nothing_counts_and_passes_on),
};
const size_t n_fault_tests = sizeof(fault_tests) / sizeof(fault_tests[0]);
