/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the dynamic section of an ELF file. */
#include "elf_inspect.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* lmdb_symbol: the only function that every user of LMDB must call. Other libraries have mdb_open
 * and similar names too. */
static const char lmdb_symbol[] = "mdb_env_open", lmdbio_symbol[] = "lmdbio_version";
static const char lmdb_version_text[] = "LMDB ";
static const char *const reaching[] = {"dlopen",      "dlmopen",      "execve", "execv", "execvp",
				       "posix_spawn", "posix_spawnp", "system", "popen"};

struct image {
	const unsigned char *bytes;
	size_t size;
	const ElfW(Ehdr) *header;
	const ElfW(Phdr) *segments;
};

struct elf_table {
	uint64_t address, size, entry;
};

struct dynamic {
	const ElfW(Dyn) *entries;
	size_t count;
	struct elf_table strings, symbols, rel, rela, plt;
	bool plt_is_rela;
	bool symbolic;
};

/* Returns `count` items of `each` bytes at `offset`, or NULL if they are not all inside the file,
 * or if a table is not aligned as the format demands. Single bytes may stand anywhere. */
static const void *image_at(const struct image *image, uint64_t offset, uint64_t count, size_t each)
{
	if (offset > image->size || count > (image->size - offset) / each)
		return NULL;
	if (each > 1 && offset % sizeof(ElfW(Addr)))
		return NULL;
	return image->bytes + offset;
}

/* The same for an address in memory: its segment gives the place in the file. */
static const void *image_at_address(const struct image *image, uint64_t address, uint64_t size,
				    size_t each)
{
	for (unsigned i = 0; i < image->header->e_phnum; i++) {
		const ElfW(Phdr) *segment = &image->segments[i];

		if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
		    address - segment->p_vaddr > segment->p_filesz ||
		    size > segment->p_filesz - (address - segment->p_vaddr) ||
		    segment->p_offset > image->size)
			continue;
		return image_at(image, segment->p_offset + (address - segment->p_vaddr),
				size / each, each);
	}
	return NULL;
}

static void dynamic_read(const ElfW(Dyn) *entries, size_t count, struct dynamic *dynamic)
{
	dynamic->entries = entries;
	dynamic->count = count;
	for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
		uint64_t value = entries[i].d_un.d_val;

		switch (entries[i].d_tag) {
		case DT_STRTAB:
			dynamic->strings.address = value;
			break;
		case DT_STRSZ:
			dynamic->strings.size = value;
			break;
		case DT_SYMTAB:
			dynamic->symbols.address = value;
			break;
		case DT_REL:
			dynamic->rel.address = value;
			break;
		case DT_RELSZ:
			dynamic->rel.size = value;
			break;
		case DT_RELA:
			dynamic->rela.address = value;
			break;
		case DT_RELASZ:
			dynamic->rela.size = value;
			break;
		case DT_JMPREL:
			dynamic->plt.address = value;
			break;
		case DT_PLTRELSZ:
			dynamic->plt.size = value;
			break;
		case DT_PLTREL:
			dynamic->plt_is_rela = value == DT_RELA;
			break;
		case DT_SYMBOLIC:
			dynamic->symbolic = true;
			break;
		case DT_FLAGS:
			dynamic->symbolic |= !!(value & DF_SYMBOLIC);
			break;
		default:
			break;
		}
	}
}

/* Returns the name at an offset among the strings, or "" if the file does not hold all of it. */
static const char *string_at(const struct image *image, const struct dynamic *dynamic,
			     uint64_t offset)
{
	const char *name = NULL;

	if (offset < dynamic->strings.size) {
		uint64_t rest = dynamic->strings.size - offset;
		const char *strings =
			image_at_address(image, dynamic->strings.address, dynamic->strings.size, 1);

		if (strings && memchr(strings + offset, 0, rest))
			name = strings + offset;
	}
	return name ? name : "";
}

static const char *symbol_name(const struct image *image, const struct dynamic *dynamic,
			       const ElfW(Sym) *symbol)
{
	return string_at(image, dynamic, symbol->st_name);
}

static bool needs_library(const struct image *image, const struct dynamic *dynamic, const char *name)
{
	for (size_t i = 0; i < dynamic->count && dynamic->entries[i].d_tag != DT_NULL; i++)
		if (dynamic->entries[i].d_tag == DT_NEEDED &&
		    !strcmp(string_at(image, dynamic, dynamic->entries[i].d_un.d_val), name))
			return true;
	return false;
}

static void reference_note(const char *name, struct elf_facts *facts)
{
	if (!strcmp(name, lmdb_symbol))
		facts->calls_lmdb = true;
	for (size_t i = 0; i < sizeof(reaching) / sizeof(reaching[0]); i++)
		facts->reaches_out |= !strcmp(name, reaching[i]);
}

/* Reads the names that the loader must look up: one relocation each. Counting undefined symbols
 * instead would miss libraries that carry LMDB and let it be replaced. */
static void relocations_read(const struct image *image, const struct dynamic *dynamic,
			     const struct elf_table *table, size_t each, struct elf_facts *facts)
{
	const unsigned char *at = image_at_address(image, table->address, table->size, 1);

	for (uint64_t i = 0; at && i < table->size / each; i++, at += each) {
		ElfW(Rel) relocation;
		const ElfW(Sym) *symbol;
		uint64_t index;

		memcpy(&relocation, at, sizeof(relocation));
		index = sizeof(void *) == 8 ? ELF64_R_SYM((uint64_t)relocation.r_info)
					    : ELF32_R_SYM((uint32_t)relocation.r_info);
		if (!index)
			continue;
		symbol = image_at_address(image, dynamic->symbols.address + index * sizeof(*symbol),
					  sizeof(*symbol), sizeof(*symbol));
		if (symbol)
			reference_note(symbol_name(image, dynamic, symbol), facts);
	}
}

/* Returns whether the file defines a symbol. Only a section header has the number of dynamic
 * symbols: a file without section headers counts as defining nothing. */
static bool defines_symbol(const struct image *image, const struct dynamic *dynamic,
			   const char *name)
{
	const ElfW(Shdr) *sections =
		image_at(image, image->header->e_shoff, image->header->e_shnum, sizeof(*sections));

	if (!sections || image->header->e_shentsize != sizeof(*sections))
		return false;
	for (unsigned i = 0; i < image->header->e_shnum; i++) {
		const ElfW(Sym) *symbols;
		size_t count = sections[i].sh_size / sizeof(*symbols);

		if (sections[i].sh_type != SHT_DYNSYM)
			continue;
		symbols = image_at(image, sections[i].sh_offset, count, sizeof(*symbols));
		for (size_t n = 0; symbols && n < count; n++)
			if (symbols[n].st_shndx != SHN_UNDEF &&
			    !strcmp(symbol_name(image, dynamic, &symbols[n]), name))
				return true;
	}
	return false;
}

static void segments_read(const struct image *image, struct elf_facts *facts)
{
	struct dynamic dynamic = {0};

	facts->kind = ELF_STATIC;
	for (unsigned i = 0; i < image->header->e_phnum; i++) {
		const ElfW(Phdr) *segment = &image->segments[i];
		size_t size = segment->p_filesz;

		if (segment->p_type == PT_DYNAMIC) {
			size_t count = size / sizeof(ElfW(Dyn));
			const ElfW(Dyn) *entries =
				image_at(image, segment->p_offset, count, sizeof(*entries));

			facts->kind = entries ? ELF_DYNAMIC : ELF_NOT;
			if (entries)
				dynamic_read(entries, count, &dynamic);
		} else if (segment->p_type == PT_INTERP && size && size <= sizeof(facts->loader) &&
			   image_at(image, segment->p_offset, size, 1)) {
			memcpy(facts->loader, image->bytes + segment->p_offset, size);
			facts->loader[size - 1] = 0;
		}
	}
	if (facts->kind != ELF_DYNAMIC)
		return;
	relocations_read(image, &dynamic, &dynamic.rel, sizeof(ElfW(Rel)), facts);
	relocations_read(image, &dynamic, &dynamic.rela, sizeof(ElfW(Rela)), facts);
	relocations_read(image, &dynamic, &dynamic.plt,
			 dynamic.plt_is_rela ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel)), facts);
	facts->needs_lmdb_1 = needs_library(image, &dynamic, "liblmdb.so.1");
	facts->defines_lmdb = defines_symbol(image, &dynamic, lmdb_symbol);
	facts->defines_lmdbio = defines_symbol(image, &dynamic, lmdbio_symbol);
	if (facts->defines_lmdb && dynamic.symbolic)
		facts->calls_lmdb = false; /* -Bsymbolic: its own definition comes first */
}

/* Finds mdb_version()'s text: "LMDB 0.9.35: (" and a date. */
static void version_read(const struct image *image, struct elf_facts *facts)
{
	const unsigned char *at = image->bytes, *end = image->bytes + image->size;
	const size_t front = sizeof(lmdb_version_text) - 1;
	size_t length, dots;

	while ((at = memmem(at, (size_t)(end - at), lmdb_version_text, front))) {
		at += front;
		dots = 0;
		for (length = 0; length < (size_t)(end - at) && length < sizeof(facts->version) &&
				 (at[length] == '.' || (at[length] >= '0' && at[length] <= '9'));
		     length++)
			dots += at[length] == '.';
		if (dots != 2 || length >= sizeof(facts->version) ||
		    (size_t)(end - at) < length + 3 || memcmp(at + length, ": (", 3))
			continue;
		memcpy(facts->version, at, length);
		facts->carries_lmdb = true;
		return;
	}
}

static void image_read(struct image *image, struct elf_facts *facts)
{
	static const unsigned char native[] = {
		ELFMAG0,
		ELFMAG1,
		ELFMAG2,
		ELFMAG3,
		sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32,
		__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB};
	const ElfW(Ehdr) *own = (const ElfW(Ehdr) *)(uintptr_t)_r_debug.r_ldbase;

	image->header = image_at(image, 0, 1, sizeof(*image->header));
	if (!image->header || memcmp(image->bytes, ELFMAG, SELFMAG))
		return;
	facts->kind = ELF_FOREIGN;
	/* The loader that runs this program is mapped at r_ldbase: its machine is this one. */
	if (memcmp(image->bytes, native, sizeof(native)) || !own ||
	    image->header->e_machine != own->e_machine)
		return;
	facts->kind = ELF_NOT;
	image->segments = image_at(image, image->header->e_phoff, image->header->e_phnum,
				   sizeof(*image->segments));
	if (!image->segments || image->header->e_phentsize != sizeof(*image->segments))
		return;
	segments_read(image, facts);
	version_read(image, facts);
}

int elf_inspect(const char *path, struct elf_facts *facts)
{
	struct image image = {0};
	struct stat status;
	void *map;
	int rc = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	memset(facts, 0, sizeof(*facts));
	if (fd < 0)
		return errno;
	if (fstat(fd, &status)) {
		rc = errno;
	} else if (S_ISREG(status.st_mode) && status.st_size > 0) {
		map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map == MAP_FAILED) {
			rc = errno;
		} else {
			image.bytes = map;
			image.size = (size_t)status.st_size;
			image_read(&image, facts);
			munmap(map, image.size);
		}
	}
	close(fd);
	return rc;
}
