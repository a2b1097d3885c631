/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a fault is written, which reads meet it and what it does. */
#include "slowfs_faults.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FAULT_PAGE UINT64_C(4096)

/* How many bytes of a read at offset may be served; 0: it fails. */
static uint64_t fault_eio(const struct slowfs_fault *fault, bool direct, uint64_t offset)
{
	(void)fault;
	(void)direct;
	(void)offset;
	return 0;
}

/* Whole pages, because the kernel asks for the rest by the page cache: from an offset inside of a
 * page it would begin before the fault. */
static uint64_t fault_short(const struct slowfs_fault *fault, bool direct, uint64_t offset)
{
	uint64_t end = fault->first / FAULT_PAGE * FAULT_PAGE;

	return direct && end > offset ? end - offset : 0;
}

static const struct {
	const char *name;
	uint64_t (*serves)(const struct slowfs_fault *fault, bool direct, uint64_t offset);
} fault_kinds[] = {
	{.name = "eio", .serves = fault_eio},
	{.name = "short", .serves = fault_short},
};

#define FAULT_KINDS (sizeof(fault_kinds) / sizeof(fault_kinds[0]))

void slowfs_faults_init(struct slowfs_faults *faults)
{
	faults->count = 0;
	pthread_mutex_init(&faults->lock, NULL);
}

/* Takes a decimal or 0x number off *text. */
static bool fault_number(const char **text, uint64_t *value)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*value = strtoull(*text, &end, 0);
	*text = end;
	return errno == 0;
}

static bool fault_kind(const char **text, unsigned int *kind)
{
	size_t length = strcspn(*text, ":");

	for (*kind = 0; *kind < FAULT_KINDS; ++*kind) {
		if (strlen(fault_kinds[*kind].name) == length &&
		    strncmp(fault_kinds[*kind].name, *text, length) == 0) {
			*text += length;
			return true;
		}
	}
	return false;
}

static int fault_parse(const char *spec, struct slowfs_fault *fault)
{
	const char *at = strrchr(spec, '@');

	*fault = (struct slowfs_fault){.left = UINT64_MAX};
	if (at != NULL) {
		if (at == spec || (size_t)(at - spec) >= sizeof(fault->name))
			return EINVAL;
		memcpy(fault->name, spec, (size_t)(at - spec));
		spec = at + 1;
	}
	if (!fault_number(&spec, &fault->first))
		return EINVAL;
	fault->last = fault->first;
	if (*spec == '-') {
		spec++;
		if (!fault_number(&spec, &fault->last) || fault->last < fault->first)
			return EINVAL;
	}
	if (*spec++ != ':' || !fault_kind(&spec, &fault->kind))
		return EINVAL;
	if (*spec == ':') {
		spec++;
		if (!fault_number(&spec, &fault->left) || fault->left == 0)
			return EINVAL;
	}
	return *spec == '\0' ? 0 : EINVAL;
}

int slowfs_faults_add(struct slowfs_faults *faults, const char *spec)
{
	struct slowfs_fault fault;
	int rc;

	rc = fault_parse(spec, &fault);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&faults->lock);
	if (faults->count < SLOWFS_FAULTS_MAX)
		faults->list[faults->count++] = fault;
	else
		rc = ENOSPC;
	pthread_mutex_unlock(&faults->lock);
	return rc;
}

void slowfs_faults_clear(struct slowfs_faults *faults)
{
	pthread_mutex_lock(&faults->lock);
	faults->count = 0;
	pthread_mutex_unlock(&faults->lock);
}

static bool fault_meets(const struct slowfs_fault *fault, const char *path, uint64_t offset,
			uint64_t length)
{
	const char *base = strrchr(path, '/');

	if (length == 0 || offset > fault->last || offset + length <= fault->first)
		return false;
	return fault->name[0] == '\0' || strcmp(fault->name, path) == 0 ||
	       (base != NULL && strcmp(fault->name, base + 1) == 0);
}

int slowfs_faults_apply(struct slowfs_faults *faults, const char *path, bool direct,
			uint64_t offset, uint64_t *length)
{
	int rc = 0;

	pthread_mutex_lock(&faults->lock);
	for (unsigned int i = 0; i < faults->count; i++) {
		struct slowfs_fault *fault = &faults->list[i];

		if (!fault_meets(fault, path, offset, *length))
			continue;
		*length = fault_kinds[fault->kind].serves(fault, direct, offset);
		rc = *length == 0 ? EIO : 0;
		if (fault->left != UINT64_MAX && --fault->left == 0) {
			faults->count--;
			memmove(fault, fault + 1, (faults->count - i) * sizeof(*fault));
		}
		break;
	}
	pthread_mutex_unlock(&faults->lock);
	return rc;
}

void slowfs_faults_print(struct slowfs_faults *faults, FILE *out)
{
	pthread_mutex_lock(&faults->lock);
	for (unsigned int i = 0; i < faults->count; i++) {
		const struct slowfs_fault *fault = &faults->list[i];

		fprintf(out, "fail %s%s%ju-%ju:%s", fault->name, fault->name[0] ? "@" : "",
			(uintmax_t)fault->first, (uintmax_t)fault->last,
			fault_kinds[fault->kind].name);
		if (fault->left != UINT64_MAX)
			fprintf(out, ":%ju", (uintmax_t)fault->left);
		fputc('\n', out);
	}
	pthread_mutex_unlock(&faults->lock);
}
