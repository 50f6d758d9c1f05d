/* tern_rt_pack_on and tern_rt_unpack_on on the emulator: the bytes of the host's packer, the exact inverse, and what is counted or
 * refused. usage: test_packing FOLDER. The header is compiled in. */
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"

#include "emulated.h"

#include "formats/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(int ok, const char *what, const struct tern_rt_error *err) {
    printf("%s %s%s%s\n", ok ? "ok" : "not ok", what, err && err->text[0] ? ": " : "", err ? err->text : "");
    failures += !ok;
}

struct arrays { /* canonical or packed, on the emulated device, which the host can read */
    void *codes, *scales, *zeros;
};

static struct arrays make_arrays(int64_t codes, int64_t scales, int64_t zeros) {
    struct arrays a = {tern_emulated_alloc((size_t)codes), tern_emulated_alloc((size_t)scales),
                       zeros ? tern_emulated_alloc((size_t)zeros) : NULL};
    memset(a.codes, 0xA5, (size_t)codes);
    memset(a.scales, 0xA5, (size_t)scales);
    if (zeros)
        memset(a.zeros, 0xA5, (size_t)zeros);
    return a;
}

static int same(const struct arrays *a, const struct arrays *b, int64_t codes, int64_t scales, int64_t zeros) {
    return !memcmp(a->codes, b->codes, (size_t)codes) && !memcmp(a->scales, b->scales, (size_t)scales) &&
           (!zeros || !memcmp(a->zeros, b->zeros, (size_t)zeros));
}

/* The bytes of the host's packer, and the same weights again; what the host refuses is counted. */
static void check_packing_of(struct tern_rt *rt, const char *name, int64_t n, int64_t k) {
    struct tern_rt_error err = {0};
    struct tern_error why;
    struct tern_rt_layer layer;
    struct tern_format format;
    struct tern_weights w;
    if (tern_format_parse(name, &format, &why) || tern_weights_random(&format, n, k, 11, &w, &why) ||
        tern_rt_layer(rt, name, NULL, n, k, &layer, &err)) {
        expect(0, name, &err);
        return;
    }
    const int64_t entries = w.groups * n, zeros = layer.zero_bytes ? entries : 0;
    struct arrays from = make_arrays(n * k, 2 * entries, zeros), back = make_arrays(n * k, 2 * entries, zeros),
                  host = make_arrays(layer.code_bytes, layer.scale_bytes, layer.zero_bytes),
                  there = make_arrays(layer.code_bytes, layer.scale_bytes, layer.zero_bytes);
    memcpy(from.codes, w.codes, (size_t)(n * k));
    memcpy(from.scales, w.scales, (size_t)(2 * entries));
    if (zeros)
        memcpy(from.zeros, w.zeros, (size_t)zeros);
    const struct tern_rt_weights canonical = {from.codes, from.scales, from.zeros, n * k, 2 * entries, zeros},
                                 again = {back.codes, back.scales, back.zeros, n * k, 2 * entries, zeros};
    unsigned long long *wrong = tern_emulated_alloc(sizeof *wrong);
    *wrong = 0;
    const struct tern_rt_packed packed = {there.codes, there.scales, there.zeros, wrong};
    expect(tern_rt_pack(&layer, &canonical, host.codes, host.scales, host.zeros, &err) == TERN_RT_OK &&
               tern_rt_pack_on(rt, &layer, &canonical, &packed, NULL, &err) == TERN_RT_OK && *wrong == 0 &&
               same(&host, &there, layer.code_bytes, layer.scale_bytes, layer.zero_bytes),
           "packed on the device as on the host", &err);
    expect(tern_rt_unpack_on(rt, &layer, &packed, &again, NULL, &err) == TERN_RT_OK && *wrong == 0 &&
               same(&from, &back, n * k, 2 * entries, zeros),
           "and unpacked again", &err);
    canonical.codes[n * k - 1] = 0xFF;
    expect(tern_rt_pack_on(rt, &layer, &canonical, &packed, NULL, &err) == TERN_RT_OK && *wrong == 1,
           "an illegal code is counted", &err);
    struct tern_rt_packed bad = packed;
    bad.codes = (char *)there.codes + 2;
    expect(tern_rt_pack_on(rt, &layer, &canonical, &bad, NULL, &err) == TERN_RT_ARGUMENT, "misaligned packed codes", &err);
    struct tern_rt_weights less = canonical;
    less.code_bytes--;
    expect(tern_rt_pack_on(rt, &layer, &less, &packed, NULL, &err) == TERN_RT_ARGUMENT, "codes too short for the device",
           &err);
    tern_weights_free(&w);
}

static struct tern_rt *open_archive(const char *path, const void *bytes, size_t count) {
    struct tern_rt *rt = NULL;
    struct tern_rt_error err = {0};
    struct tern_rt_options o = {
        .kernels_path = path, .kernels = bytes, .kernels_bytes = count, .driver = &tern_rt_driver_emulated};
    o.tables = tern_tables(&o.table_count);
    expect(tern_rt_open(&o, &rt, &err) == TERN_RT_OK, "a runtime", &err);
    return rt;
}

/* An export that was made without NVRTC has no such kernels: here their name is spoiled in the index. */
static void check_without(const char *path) {
    struct tern_rt_error err = {0};
    struct tern_rt_layer layer;
    unsigned char one[8] = {0};
    char *data = malloc(1 << 24);
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(data, 1, 1 << 24, file) : 0;
    char *name = bytes ? memmem(data, bytes, "pack-", 5) : NULL;
    expect(name != NULL, "the archive names them", NULL);
    if (file)
        fclose(file);
    if (!name)
        return;
    name[0] = 'q';
    struct tern_rt *rt = open_archive(NULL, data, bytes);
    const struct tern_rt_packed packed = {one, one, NULL, NULL};
    const struct tern_rt_weights w = {one, (uint16_t *)(void *)one, NULL, 384 * 256, 2 * 2 * 384, 0};
    expect(tern_rt_layer(rt, "ternary-g128", NULL, 384, 256, &layer, &err) == TERN_RT_OK &&
               tern_rt_pack_on(rt, &layer, &w, &packed, NULL, &err) == TERN_RT_NO_KERNEL,
           "an archive without them", &err);
    tern_rt_close(rt);
    free(data);
}

int main(int argc, char **argv) {
    char kernels[4096];
    if (argc < 2)
        return 2;
    snprintf(kernels, sizeof kernels, "%s/tern_kernels.bin", argv[1]);
    struct tern_rt *rt = open_archive(kernels, NULL, 0);
    check_packing_of(rt, "ternary-g128", 40, 288); /* half a row tile, a quarter of a k tile */
    check_packing_of(rt, "gptq4-g32-asym", 24, 160);
    tern_rt_close(rt);
    check_without(kernels);
    return failures != 0;
}
