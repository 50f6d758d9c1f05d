/* How fast one core reads weights, in GB of packed bytes a second: decode and digest, decode and census (tune inspect), both decodes
 * compared (CPU_UNPACK), two ranks by rows (TP_SHARD). Files are made in FOLDER, of random bytes, and read from the page cache.
 * usage: decode_speed FOLDER [MIB [WAYS]]. scripts/bench-formats.sh runs it. */
#include "core/random.h"
#include "formats/census.h"
#include "formats/shard_proof.h"
#include "formats/unpack_proof.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define K      8192
#define ROUNDS 5

/* One layer: header of its file for N rows, in terms of N, and what is declared. */
static const struct format {
    const char *name, *config;
    double bytes_per_weight;
    const char *header; /* %1$: N, with sizes computed below */
} formats[] = {
    {"ternary-i", NULL, 0.25, "U8"},
    {"ternary-ii", NULL, 0.25, "I8"},
    {"bitnet", "{\"quant_method\":\"bitnet\"}", 0.25, NULL},
    {"gguf-tq1_0", NULL, 0.2109375, NULL},
    {"gguf-tq2_0", NULL, 0.2578125, NULL},
    {"gptq 2 bits", "{\"bits\":2,\"group_size\":128,\"sym\":false}", 0.25, NULL},
    {"gptq 3 bits", "{\"bits\":3,\"group_size\":128,\"sym\":false}", 0.375, NULL},
    {"gptq 4 bits", "{\"bits\":4,\"group_size\":128,\"sym\":false}", 0.5, NULL},
    {"gptq 8 bits", "{\"bits\":8,\"group_size\":128,\"sym\":false}", 1, NULL},
    {"awq 4 bits", "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128}", 0.5, NULL},
    {"pack-quantized 4 bits", "{\"quant_method\":\"compressed-tensors\"}", 0.5, NULL},
};

static void fail(const char *what) {
    fprintf(stderr, "decode_speed: %s\n", what);
    exit(1);
}

// ---- files ----------------------------------------------------------------------------------------------------------------

struct file {
    FILE *out;
    struct tern_random random;
    int64_t begin;
    struct tern_str header;
};

static void describe(struct file *f, const char *name, const char *dtype, int64_t rows, int64_t cols, int64_t bytes) {
    char shape[64];
    tern_str_format(shape, sizeof shape, cols < 0 ? "[%" PRId64 "]" : "[%" PRId64 ",%" PRId64 "]", rows, cols);
    tern_str_printf(&f->header,
                    "%s\"m.o_proj.%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%" PRId64 ",%" PRId64 "]}",
                    f->header.length > 1 ? "," : "", name, dtype, shape, f->begin, f->begin + bytes);
    f->begin += bytes;
}

/* Random bytes; where `mask` is set, two fields of 2 bits are never both 1. */
static void put_random(struct file *f, int64_t bytes, bool ternary) {
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t x = tern_random_u64(&f->random);
        if (ternary)
            x &= ~(x >> 1 & x & 0x5555555555555555ULL);
        fwrite(&x, 1, bytes - i < 8 ? (size_t)(bytes - i) : 8, f->out);
    }
}

static void put_ones(struct file *f, int64_t count) {
    static const uint16_t one = 0x3c00;
    for (int64_t i = 0; i < count; i++)
        fwrite(&one, 1, sizeof one, f->out);
}

static void put_header(struct file *f) {
    tern_str_append(&f->header, "}");
    const uint64_t length = f->header.length;
    fwrite(&length, 1, sizeof length, f->out);
    fwrite(f->header.data, 1, f->header.length, f->out);
}

static void put_u32(struct file *f, uint32_t value) {
    fwrite(&value, 1, sizeof value, f->out);
}
static void put_u64(struct file *f, uint64_t value) {
    fwrite(&value, 1, sizeof value, f->out);
}

/* GGUF with one tensor [N][K]: header 24 bytes, its entry 8 + 15 + 4 + 16 + 4 + 8 = 55, padded to 96. */
static void write_gguf(struct file *f, int type, int64_t n, int64_t bytes) {
    fwrite("GGUF", 1, 4, f->out);
    put_u32(f, 3);
    put_u64(f, 1);
    put_u64(f, 0);
    put_u64(f, 15);
    fwrite("m.o_proj.weight", 1, 15, f->out);
    put_u32(f, 2);
    put_u64(f, K);
    put_u64(f, (uint64_t)n);
    put_u32(f, (uint32_t)type);
    put_u64(f, 0);
    fwrite("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 1, 17, f->out);
    const int64_t block = type == 34 ? 54 : 66;
    for (int64_t b = 0; b < bytes / block; b++) {
        put_random(f, block - 2, type == 35);
        put_ones(f, 1);
    }
    put_random(f, -bytes & 31, false);
}

static void write_layer(struct file *f, const char *name, int64_t n) {
    const int64_t groups = K / 128;
    int bits = 0;
    if (strcmp(name, "bitnet") == 0) {
        describe(f, "weight", "U8", n / 4, K, n * K / 4);
        describe(f, "weight_scale", "F16", 1, -1, 2);
        put_header(f);
        put_random(f, n * K / 4, true);
        put_ones(f, 1);
    } else if (strncmp(name, "ternary", 7) == 0) {
        const bool one = strcmp(name, "ternary-ii") == 0;
        describe(f, "packed_ternary_weight", one ? "I8" : "U8", n, K / 4, n * K / 4);
        describe(f, "scales", "F16", n, one ? 1 : groups, 2 * n * (one ? 1 : groups));
        put_header(f);
        put_random(f, n * K / 4, true);
        put_ones(f, n * (one ? 1 : groups));
    } else if (sscanf(name, "gptq %d", &bits) == 1) {
        describe(f, "qweight", "I32", K * bits / 32, n, n * K * bits / 8);
        describe(f, "qzeros", "I32", groups, n * bits / 32, groups * n * bits / 8);
        describe(f, "scales", "F16", groups, n, 2 * n * groups);
        put_header(f);
        put_random(f, n * K * bits / 8 + groups * n * bits / 8, false);
        put_ones(f, n * groups);
    } else if (name[0] == 'a') {
        describe(f, "qweight", "I32", K, n / 8, n * K / 2);
        describe(f, "qzeros", "I32", groups, n / 8, n * groups / 2);
        describe(f, "scales", "F16", groups, n, 2 * n * groups);
        put_header(f);
        put_random(f, n * K / 2 + n * groups / 2, false);
        put_ones(f, n * groups);
    } else {
        describe(f, "weight_packed", "I32", n, K / 8, n * K / 2);
        describe(f, "weight_scale", "F16", n, groups, 2 * n * groups);
        describe(f, "weight_shape", "I64", 2, -1, 16);
        put_header(f);
        put_random(f, n * K / 2, false);
        put_ones(f, n * groups);
        put_u64(f, (uint64_t)n);
        put_u64(f, K);
    }
}

static void write_file(const char *folder, const struct format *format, int64_t n, char *path, size_t size) {
    struct file f = {0};
    char config[4096];
    const bool gguf = strncmp(format->name, "gguf", 4) == 0;
    tern_str_format(path, size, "%s/model.%s", folder, gguf ? "gguf" : "safetensors");
    tern_str_format(config, sizeof config, "%s/quantize_config.json", folder);
    f.out = fopen(config, "w");
    if (!f.out || fputs(format->config ? format->config : "{}", f.out) < 0 || fclose(f.out) != 0)
        fail("cannot write the configuration");
    f.out = fopen(path, "wb");
    if (!f.out)
        fail("cannot write the file");
    tern_random_init(&f.random, 1, format->name);
    tern_str_append(&f.header, "{");
    if (gguf)
        write_gguf(&f, format->name[7] == '1' ? 34 : 35, n, n * K / 256 * (format->name[7] == '1' ? 54 : 66));
    else
        write_layer(&f, format->name, n);
    if (fclose(f.out) != 0)
        fail("cannot write the file");
    tern_str_free(&f.header);
}

// ---- times ----------------------------------------------------------------------------------------------------------------

enum { DIGEST, CENSUS, UNPACK, SHARD, WAYS };

/* Time of the core, not of the wall: the machine may be shared. */
static int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(int way, const struct tern_checkpoint *checkpoint, const struct tern_linears *layers) {
    static const int64_t two = 2;
    char digest[TERN_HASH_CHARS];
    struct tern_census census;
    struct tern_unpack_proof unpack;
    struct tern_split_proof splits[TERN_SHARD_AXES];
    if (way == DIGEST)
        tern_linear_digest(&layers->items[0], digest);
    else if (way == CENSUS)
        tern_census_take(layers, &census);
    else if (way == UNPACK) {
        tern_unpack_prove(checkpoint, layers, NULL, &unpack);
        if (!unpack.digest[0] || unpack.difference.count)
            fail(unpack.fault[0] ? unpack.fault : "decodes differ");
    } else {
        tern_shards_prove(checkpoint, layers, &two, 1, splits);
        if (splits[TERN_SHARD_ROWS].state != TERN_SPLIT_PROVEN)
            fail(splits[TERN_SHARD_ROWS].refusal);
    }
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of the rounds, in GB/s of the tensors' bytes. */
static double speed(int way, const struct tern_checkpoint *checkpoint, const struct tern_linears *layers) {
    double seconds[ROUNDS], bytes = 0;
    const int rounds = way <= CENSUS ? ROUNDS : 1;
    for (int i = 0; i < TERN_LINEAR_PARTS; i++)
        bytes += layers->items[0].parts[i] ? (double)layers->items[0].parts[i]->bytes : 0;
    work(way, checkpoint, layers); /* brings the file into the page cache */
    for (int i = 0; i < rounds; i++) {
        const int64_t start = cpu_ns();
        work(way, checkpoint, layers);
        seconds[i] = (double)(cpu_ns() - start) * 1e-9;
    }
    qsort(seconds, (size_t)rounds, sizeof *seconds, by_value);
    return bytes / seconds[rounds / 2] * 1e-9;
}

int main(int argc, char **argv) {
    const int64_t mib = argc > 2 ? atol(argv[2]) : 64;
    const int ways = argc > 3 ? atoi(argv[3]) : WAYS; /* 2: only the fast ones */
    cpu_set_t one;
    if (argc < 2)
        fail("usage: decode_speed FOLDER [MIB]");
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    printf("%-22s %8s %8s %8s %8s   GB/s of packed bytes, one core, %lld MiB\n", "", "digest", "inspect", "unpack", "shard",
           (long long)mib);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tern_checkpoint checkpoint;
        struct tern_linears layers;
        struct tern_error err = {0};
        char path[4096];
        const int64_t n = (int64_t)((double)(mib << 20) / formats[i].bytes_per_weight / K) / 256 * 256;
        write_file(argv[1], &formats[i], n, path, sizeof path);
        if (tern_checkpoint_open(path, &checkpoint, &err))
            fail(err.text);
        tern_linears_find(&checkpoint, &layers);
        if (layers.count != 1 || layers.items[0].error[0])
            fail(layers.count ? layers.items[0].error : "no layer");
        printf("%-22s", formats[i].name);
        for (int way = 0; way < ways; way++) {
            printf(" %8.2f", speed(way, &checkpoint, &layers));
            fflush(stdout);
        }
        putchar('\n');
        tern_linears_free(&layers);
        tern_checkpoint_close(&checkpoint);
        unlink(path);
    }
    return 0;
}
