/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads and writes inputs that are lists of messages from rank 1 to rank 0, over simulated MPI.
 * Each message has a byte `what`, its kind, a byte `which`, the question or tag that it belongs to,
 * two bytes of length, and that many bytes. */
#ifndef LMDBIO_TEST_FUZZ_MESSAGES_H
#define LMDBIO_TEST_FUZZ_MESSAGES_H

#include "mpi_simulated.h"
#include "util/checked.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MESSAGE_HEAD = 4 };

typedef void fuzz_step(uint8_t what, uint8_t which, const uint8_t *bytes, size_t length);

/* Calls step() for at most `count` messages, each cut to at most `most` bytes. */
static inline void messages_take(const uint8_t *data, size_t size, unsigned count, size_t most,
				 fuzz_step *step)
{
	for (unsigned n = 0; n < count && size >= MESSAGE_HEAD; n++) {
		size_t length = load16(data + 2);

		length = length < size - MESSAGE_HEAD ? length : size - MESSAGE_HEAD;
		length = length < most ? length : most;
		step(data[0], data[1], data + MESSAGE_HEAD, length);
		data += MESSAGE_HEAD + length;
		size -= MESSAGE_HEAD + length;
	}
}

/* Puts a message behind the first `at` bytes of an example. Returns the example's new length. */
static inline size_t message_put(uint8_t *bytes, size_t at, uint8_t what, uint8_t which,
				 const void *from, size_t length)
{
	bytes[at] = what;
	bytes[at + 1] = which;
	store16(bytes + at + 2, (uint16_t)length);
	if (length)
		memcpy(bytes + at + MESSAGE_HEAD, from, length);
	return at + MESSAGE_HEAD + length;
}

/* Sends a message from rank 1 to rank 0. The bytes of a message longer than SIM_EAGER must stay in
 * memory until it is received. */
static inline void message_send(const void *bytes, size_t length, int tag)
{
	MPI_Request request;
	int there;

	MPI_Isend(bytes, (int)length, MPI_BYTE, 0, tag, sim_comm(1), &request);
	MPI_Test(&request, &there, MPI_STATUS_IGNORE);
}

#endif
