/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no single byte at the front of any page, whatever its value, makes a reader read
 * outside the file.
 *
 * The file has 64 pages. Each of the first 64 bytes of each page takes each of its 255 other
 * values, 1,044,480 files in all, and each file is read in every way. With HEADER_DAMAGE_STEP=N the
 * test reads every N-th file; by default all in a long run (TESTS_LONG), else every 11th, or every
 * 37th under a sanitizer.
 */
#include "fuzz_images.h"
#include "fuzz_walk.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
enum { STEP = 37 };
#else
enum { STEP = 11 };
#endif
enum { FRONT = 64 };

int main(void)
{
	const char *text = getenv("HEADER_DAMAGE_STEP");
	unsigned long step = text ? strtoul(text, NULL, 10) : getenv("TESTS_LONG") ? 1 : STEP;
	unsigned long n = 0, same = 0, number = 0;
	size_t size, page_size;
	uint8_t *bytes = images_make(0, &size);
	static const uint8_t script[] = {0, 18, 1,  4,	4, 15, 33, 9, 200,
					 3, 17, 12, 64, 2, 2,  16, 5};
	uint64_t sound = walk_file(bytes, size, script, sizeof(script));

	if (step < 1)
		step = 1;
	page_size = size / IMAGE_PAGES;
	printf("the sound file: %llu records\n", (unsigned long long)walk_records);
	if (walk_records < 250)
		return 1;
	for (size_t page = 0; page < IMAGE_PAGES; page++)
		for (size_t at = page * page_size; at < page * page_size + FRONT; at++)
			for (unsigned change = 1; change < 256; change++) {
				if (number++ % step)
					continue;
				bytes[at] ^= (uint8_t)change;
				same += walk_file(bytes, size, script, sizeof(script)) == sound;
				bytes[at] ^= (uint8_t)change;
				n++;
			}
	printf("%lu damaged files read, %lu of them as if sound\n", n, same);
	free(bytes);
	return 0;
}
