/* SPDX-License-Identifier: OLDAP-2.8 */
/* A batch loader whose n-th allocation fails, for every n, in every call.
 *
 * A call gives right data or the code that <lmdbio.h> names, soon, and the next call after the
 * fault works. TESTS_LONG tries every n, else some of each call's are passed over.
 */
#include "call_faults.h"
#include "env_fixture.h"

#include "loader/batch_loader.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RECORDS = 300,
	BATCH = 16,
	VALUE = 12000,
	MEMORY = 256 << 10,
	HANG = 300, /* seconds */
#ifdef __SANITIZE_ADDRESS__
	SHORT = 4, /* each costs three times as much */
#else
	SHORT = 8, /* values of n of one sweep that is not the long one */
#endif
	FEW = 4, /* calls that may fail before memory is there again */
};

static struct place place;

static size_t value_make(void *bytes, uint64_t i)
{
	size_t size = i % 7 == 3 ? 40 + i % 50 : VALUE - i % 1000;

	memset(bytes, (int)(i * 7 + 1), size);
	memcpy(bytes, &i, sizeof(i));
	return size;
}

static bool is_right(const struct lmdbio_sample *sample)
{
	uint8_t bytes[VALUE];
	char key[16];
	size_t size;

	if (sample->error || sample->record >= RECORDS)
		return false;
	size = value_make(bytes, sample->record);
	snprintf(key, sizeof(key), "%08u", (unsigned)sample->record);
	return sample->key.mv_size == 8 && !memcmp(sample->key.mv_data, key, 8) &&
	       sample->data.mv_size == size && !memcmp(sample->data.mv_data, bytes, size);
}

/* What is swept, and what fails now. */
struct sweep {
	const char *call; /* in which the fault is */
	unsigned kinds;
	bool on;
	uint64_t n;
	bool fired;
	unsigned failed; /* calls, of this run */
	enum lmdbio_order order;
	uint64_t memory;
	bool decode;
};

static void arm_in(struct sweep *sweep, const char *call)
{
	if (!strcmp(sweep->call, call))
		fault_arm(sweep->kinds, sweep->n, sweep->on);
}

static void disarm(struct sweep *sweep)
{
	sweep->fired |= fault_disarm();
}

static void blame(const struct sweep *sweep, const char *what, int rc)
{
	print_error("%s of %s: call %llu of kinds %u fails%s: %s (%d, %s)\n", "fault", sweep->call,
		    (unsigned long long)sweep->n, sweep->kinds, sweep->on ? " for good" : "", what,
		    rc, strerror(rc));
	fail();
}

static void expect(const struct sweep *sweep, const char *what, int rc)
{
	if (rc)
		blame(sweep, what, rc);
}

static bool is_shortage(int rc)
{
	return rc == ENOMEM || rc == EAGAIN || rc == EMFILE || rc == MDB_MAP_RESIZED;
}

static int decode(void *context, const struct lmdbio_sample *sample, void *output)
{
	(void)context;
	memcpy(output, &sample->record, sizeof(sample->record));
	return 0;
}

static struct lmdbio_loader *open_it(struct sweep *sweep)
{
	struct loader_place at = {.path = place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader_options options = {
		.size = sizeof(options),
		.seed = 5,
		.batch = BATCH,
		.order = sweep->order,
		.memory = sweep->memory,
		.threads = 4,
	};
	struct lmdbio_loader *loader;
	int rc;

	if (sweep->decode) {
		options.decode = decode;
		options.decode_size = sizeof(uint64_t);
		options.decode_threads = 2;
	}
	arm_in(sweep, "open");
	rc = loader_open(&loader, &at, &options, NULL);
	disarm(sweep);
	if (rc) {
		if (!sweep->fired || !is_shortage(rc) || loader)
			blame(sweep, "opening", rc);
		expect(sweep, "opening once more", loader_open(&loader, &at, &options, NULL));
	}
	return loader;
}

static void batch_check(const struct sweep *sweep, const struct order_epoch *at,
			const struct lmdbio_batch *batch)
{
	const uint64_t *decoded = batch->decoded;

	for (uint32_t i = 0; i < batch->count; i++) {
		const struct lmdbio_sample *sample = &batch->samples[i];

		if (sample->record != order_record(at, batch->number * BATCH + i))
			blame(sweep, "a record out of order", 0);
		if (sample->record == LMDBIO_NO_RECORD)
			continue;
		if (!is_right(sample) || (decoded && decoded[i] != sample->record))
			blame(sweep, "wrong bytes", sample->error);
	}
}

/* Takes batches, `most` at most. A call that fails, fails for want of memory; when some have, there
 * is memory again, and no batch is passed over any more. */
static void take(struct sweep *sweep, struct lmdbio_loader *loader, uint64_t epoch, unsigned most)
{
	unsigned failed = 0, taken = 0;
	struct lmdbio_batch *batch;
	struct order_epoch at;

	order_begin(&at, loader_order(loader), epoch);
	while (taken + failed < most) {
		int rc = loader_next(loader, &batch);

		if (rc == MDB_NOTFOUND)
			break;
		if (rc) {
			if (!is_shortage(rc))
				blame(sweep, "taking a batch", rc);
			if (++failed == FEW)
				disarm(sweep);
			if (failed > FEW)
				blame(sweep, "taking a batch when there is memory", rc);
			continue;
		}
		taken++;
		batch_check(sweep, &at, batch);
		loader_done(batch);
	}
	if (taken + failed > most)
		blame(sweep, "batches are lost", 0);
	sweep->failed += failed;
}

/* Everything that a program does with a loader, once. */
static void use(struct sweep *sweep)
{
	struct lmdbio_loader *loader = open_it(sweep);
	uint8_t state[ORDER_STATE];
	struct lmdbio_batch *out = NULL;
	unsigned batches = (unsigned)loader_batches(loader);
	struct lmdbio_quality quality = {.size = sizeof(quality)};
	int rc;

	if (loader_records(loader) != RECORDS)
		blame(sweep, "records", 0);
	arm_in(sweep, "epoch");
	expect(sweep, "beginning an epoch", loader_epoch(loader, 1));
	take(sweep, loader, 1, batches / 2);
	disarm(sweep);
	expect(sweep, "saving", loader_save(loader, state));
	take(sweep, loader, 1, batches);
	arm_in(sweep, "restore");
	expect(sweep, "restoring", loader_restore(loader, state));
	take(sweep, loader, 1, batches);
	disarm(sweep);
	arm_in(sweep, "quality");
	rc = loader_quality(loader, 0, 0, 6, &quality);
	disarm(sweep);
	if (rc && (!sweep->fired || rc != ENOMEM))
		blame(sweep, "quality", rc);
	expect(sweep, "quality", loader_quality(loader, 0, 0, 6, &quality));
	expect(sweep, "beginning another epoch", loader_epoch(loader, 2));
	rc = loader_next(loader, &out);
	expect(sweep, "a batch after the fault", rc);
	arm_in(sweep, "close");
	loader_close(loader);
	loader_done(out);
	disarm(sweep);
}

static uint64_t step_of(struct sweep *sweep)
{
	struct sweep dry = *sweep;
	uint64_t calls;

	if (getenv("TESTS_LONG"))
		return 1;
	/* As many as there are, about: threads make them differ. */
	dry.n = UINT64_MAX;
	use(&dry);
	calls = fault_calls();
	return calls / SHORT + 1;
}

static void sweep_all(struct sweep sweep)
{
	unsigned missed = 0, fired = 0, failed = 0;
	uint64_t step;

	alarm(HANG);
	step = step_of(&sweep);
	for (sweep.n = 1; missed < 2; sweep.n += sweep.n < SHORT / 3 ? 1 : step) {
		alarm(HANG);
		sweep.fired = false;
		sweep.failed = 0;
		use(&sweep);
		missed = sweep.fired ? 0 : missed + 1;
		fired += sweep.fired;
		failed += sweep.failed;
	}
	alarm(0);
	print_message("# %s, kinds %u%s, memory %llu, order %d: %u faults, %u calls failed\n",
		      sweep.call, sweep.kinds, sweep.on ? " for good" : "",
		      (unsigned long long)sweep.memory, sweep.order, fired, failed);
}

static void sweep_call(const char *call)
{
	static const struct sweep shapes[] = {
		{.order = LMDBIO_ORDER_SHUFFLE, .memory = MEMORY, .decode = true},
		{.order = LMDBIO_ORDER_SHUFFLE, .memory = RECORDS * VALUE / 2},
		{.order = LMDBIO_ORDER_OPPORTUNISTIC, .memory = RECORDS * VALUE / 2},
		{.order = LMDBIO_ORDER_SHUFFLE},
	};
	static const unsigned kinds[] = {FAULT_MEMORY, FAULT_MAP | FAULT_THREAD | FAULT_DESCRIPTOR};

	for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (unsigned j = 0; j < 4; j++) {
			struct sweep sweep = shapes[i];

			sweep.call = call;
			sweep.kinds = kinds[j / 2];
			sweep.on = j % 2;
			sweep_all(sweep);
		}
}

static void open_when_any_call_fails_then_it_says_so(void **state)
{
	(void)state;
	sweep_call("open");
}

static void next_when_any_call_fails_then_data_or_its_code(void **state)
{
	(void)state;
	sweep_call("epoch");
}

static void restore_when_any_call_fails_then_data_or_its_code(void **state)
{
	(void)state;
	sweep_call("restore");
}

static void quality_when_any_call_fails_then_it_says_so(void **state)
{
	(void)state;
	sweep_call("quality");
}

static void close_when_any_call_fails_then_it_ends(void **state)
{
	(void)state;
	sweep_call("close");
}

static int group_setup(void **state)
{
	(void)state;
	place_make(&place);
	place_put_records(&place, RECORDS, VALUE, value_make);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	place_remove(&place);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const stores[] = {"cache", "arena"};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_when_any_call_fails_then_it_says_so),
		cmocka_unit_test(next_when_any_call_fails_then_data_or_its_code),
		cmocka_unit_test(restore_when_any_call_fails_then_data_or_its_code),
		cmocka_unit_test(quality_when_any_call_fails_then_it_says_so),
		cmocka_unit_test(close_when_any_call_fails_then_it_ends),
	};
	int bad = 0, status;

	(void)argc;
	if (getenv("LMDBIO_STORE"))
		return cmocka_run_group_tests(tests, group_setup, group_teardown);
	/* Settings are read once in a process. */
	for (unsigned i = 0; i < 2; i++) {
		pid_t child = fork();

		if (!child) {
			setenv("LMDBIO_STORE", stores[i], 1);
			execv("/proc/self/exe", argv);
			_exit(127);
		}
		bad |= waitpid(child, &status, 0) != child || status;
	}
	return bad;
}
