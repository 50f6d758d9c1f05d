/* Reader of cubin (ELF) headers. Reads untrusted bytes: every offset is checked; owns nothing.
 * The attribute numbers of .nv.info are not documented by NVIDIA; the tests compare them with what ptxas prints. */
#include "device/cubin.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#define MACHINE_CUDA    190
#define NV_FORMAT_SIZED 0x04 /* attribute followed by a 16-bit size and its bytes */
#define NV_FRAME_SIZE   0x11 /* {u32 symbol, u32 bytes} */
#define NV_REGISTERS    0x2f /* {u32 symbol, u32 count} */

struct reader {
    const uint8_t *bytes;
    size_t length;
    const uint8_t *sections; /* section headers, not aligned */
    size_t count;
    Elf64_Shdr names; /* section of section names */
};

static bool inside(const struct reader *r, uint64_t offset, uint64_t size) {
    return offset <= r->length && size <= r->length - offset;
}

static Elf64_Shdr section_at(const struct reader *r, size_t index) {
    Elf64_Shdr section;
    memcpy(&section, r->sections + index * sizeof section, sizeof section);
    return section;
}

/* A string of a string table, or "" when it does not end inside the table. */
static const char *string_at(const struct reader *r, const Elf64_Shdr *table, uint64_t offset) {
    if (!inside(r, table->sh_offset, table->sh_size) || offset >= table->sh_size)
        return "";
    const char *text = (const char *)r->bytes + table->sh_offset + offset;
    return memchr(text, '\0', table->sh_size - offset) ? text : "";
}

static bool find_section(const struct reader *r, const char *name, Elf64_Shdr *out) {
    for (size_t i = 0; i < r->count; i++) {
        *out = section_at(r, i);
        if (strcmp(string_at(r, &r->names, out->sh_name), name) == 0)
            return true;
    }
    return false;
}

static bool open_reader(struct reader *r, const void *image, size_t bytes, Elf64_Ehdr *header) {
    *r = (struct reader){.bytes = image, .length = bytes};
    if (bytes < sizeof *header)
        return false;
    memcpy(header, image, sizeof *header);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_machine != MACHINE_CUDA || header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shstrndx >= header->e_shnum || !inside(r, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
        return false;
    r->sections = r->bytes + header->e_shoff;
    r->count = header->e_shnum;
    r->names = section_at(r, header->e_shstrndx);
    return true;
}

/* Name of symbol `index` of .symtab. */
static const char *symbol_name(const struct reader *r, uint32_t index) {
    Elf64_Shdr table;
    Elf64_Sym symbol;
    if (!find_section(r, ".symtab", &table) || !inside(r, table.sh_offset, table.sh_size) || table.sh_link >= r->count ||
        (uint64_t)index * sizeof symbol + sizeof symbol > table.sh_size)
        return "";
    memcpy(&symbol, r->bytes + table.sh_offset + (uint64_t)index * sizeof symbol, sizeof symbol);
    Elf64_Shdr strings = section_at(r, table.sh_link);
    return string_at(r, &strings, symbol.st_name);
}

/* Walks .nv.info: records are {format, attribute, u16 value-or-size, bytes when sized}. */
static void read_info(const struct reader *r, const char *entry, struct tern_cubin *out) {
    Elf64_Shdr info;
    if (!find_section(r, ".nv.info", &info) || !inside(r, info.sh_offset, info.sh_size))
        return;
    const uint8_t *p = r->bytes + info.sh_offset, *end = p + info.sh_size;
    while (end - p >= 4) {
        uint8_t format = p[0], attribute = p[1];
        size_t size = format == NV_FORMAT_SIZED ? (size_t)(p[2] | p[3] << 8) : 0;
        if ((size_t)(end - p) < 4 + size)
            return;
        if (size == 8 && (attribute == NV_REGISTERS || attribute == NV_FRAME_SIZE)) {
            uint32_t pair[2];
            memcpy(pair, p + 4, sizeof pair);
            if (strcmp(symbol_name(r, pair[0]), entry) == 0)
                *(attribute == NV_REGISTERS ? &out->registers : &out->frame_bytes) = pair[1];
        }
        p += 4 + size;
    }
}

/* The tool note holds "Cuda compilation tools, release 13.0, V13.0.88". */
static void read_toolkit(const struct reader *r, struct tern_cubin *out) {
    static const char key[] = "release ";
    const char *found = memmem(r->bytes, r->length, key, sizeof key - 1);
    if (!found)
        return;
    found += sizeof key - 1;
    size_t left = (size_t)((const char *)r->bytes + r->length - found), length = 0;
    while (length < left && length + 1 < sizeof out->toolkit && found[length] && strchr("0123456789.", found[length]))
        length++;
    memcpy(out->toolkit, found, length);
    out->toolkit[length] = '\0';
}

bool tern_cubin_read(const void *image, size_t bytes, const char *entry, struct tern_cubin *out) {
    struct reader r;
    Elf64_Ehdr header;
    *out = (struct tern_cubin){.registers = -1, .frame_bytes = -1, .static_smem_bytes = -1};
    if (!open_reader(&r, image, bytes, &header))
        return false;
    /* The target stands in bits 8..15 of the flags since ABI version 8 (CUDA 13), in bits 0..7 before. */
    out->sm = (int)(header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff);
    read_toolkit(&r, out);
    read_info(&r, entry, out);
    if (out->registers >= 0) {
        char name[256];
        Elf64_Shdr shared;
        snprintf(name, sizeof name, ".nv.shared.%s", entry);
        out->static_smem_bytes = find_section(&r, name, &shared) ? (int64_t)shared.sh_size : 0;
    }
    return true;
}
