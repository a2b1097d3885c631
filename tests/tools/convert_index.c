/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a container's record index is printed: "NAME PAGE FIRST", a line a
 * leaf page, and "NAME records LEAVES RECORDS", for comparison with what a walk over the pages
 * says. */
#include "container/container.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static int tree_print(struct io *io, uint64_t number)
{
	struct container_tree tree;
	struct container_leaf leaf;
	int rc = container_tree(io, number, &tree);

	for (uint64_t i = 0; !rc && i < tree.leaves; i++) {
		rc = container_leaf(io, &tree, i, &leaf);
		if (!rc)
			printf("[%s] %" PRIu64 " %" PRIu64 "\n", tree.name, leaf.page, leaf.first);
	}
	if (!rc)
		printf("[%s] records %" PRIu64 " %" PRIu64 "\n", tree.name, tree.leaves,
		       tree.records);
	return rc;
}

int main(int argc, char **argv)
{
	struct io below, io;
	uint64_t bad;
	int fd, rc;

	if (argc != 2 || (fd = open(argv[1], O_RDONLY)) < 0 || io_open_file(&below, "pread", fd))
		return 2;
	rc = io_open_container(&io, &below, NULL);
	if (!rc) {
		rc = container_check_index(&io, &bad);
		for (uint64_t i = 0; !rc && i < container_info(&io)->trees; i++)
			rc = tree_print(&io, i);
		io_close(&io);
	}
	io_close(&below);
	close(fd);
	if (rc)
		fprintf(stderr, "%s: error %d\n", argv[1], rc);
	return rc != 0;
}
