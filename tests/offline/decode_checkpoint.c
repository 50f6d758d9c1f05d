/* Prints every weight of every quantised layer of a checkpoint, for comparison with a decoder that shares no code with it.
 * A layer: "layer NAME FORMAT N K BITS GROUP GROUPS SYM ACTORDER", or "error NAME TEXT"; its warnings; "index" with the group of
 * each k; then a line a row: codes, zeros (a byte each) and scales (binary32 bits) in hexadecimal. */
#include "formats/linear.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_bytes(const uint8_t *bytes, int64_t count) {
    putchar(' ');
    for (int64_t i = 0; i < count; i++)
        printf("%02x", bytes[i]);
}

static void print_row(const struct tern_linear *layer, const struct tern_linear_rows *rows, int64_t i) {
    printf("row %" PRId64, rows->first + i);
    print_bytes(rows->codes + i * layer->k, layer->k);
    print_bytes(rows->zeros + i * layer->groups, layer->groups);
    putchar(' ');
    for (int64_t g = 0; g < layer->groups; g++) {
        uint32_t bits;
        memcpy(&bits, &rows->scales[i * layer->groups + g], sizeof bits);
        printf("%08x", bits);
    }
    putchar('\n');
}

/* Blocks of 5 rows: their borders lie inside words of zero points. */
static void print_layer(const struct tern_linear *layer) {
    struct tern_linear_rows rows;
    int32_t *index = tern_alloc((size_t)layer->k * sizeof *index);
    printf("layer %s %s %" PRId64 " %" PRId64 " %d %" PRId64 " %" PRId64 " %d %d\n", layer->name, layer->checkpoint_format,
           layer->n, layer->k, layer->bits, layer->group, layer->groups, layer->sym, layer->act_order);
    for (size_t i = 0; i < layer->warnings.count; i++)
        printf("warning %s\n", layer->warnings.items[i]);
    tern_linear_group_index(layer, index);
    printf("index");
    for (int64_t k = 0; k < layer->k; k++)
        printf(" %d", index[k]);
    putchar('\n');
    tern_linear_rows_alloc(layer, 5, &rows);
    for (int64_t n = 0; n < layer->n; n += 5) {
        tern_linear_decode(layer, n, n + 5 < layer->n ? n + 5 : layer->n, &rows);
        for (int64_t i = 0; i < rows.count; i++)
            print_row(layer, &rows, i);
    }
    tern_linear_rows_free(&rows);
    free(index);
}

int main(int argc, char **argv) {
    struct tern_checkpoint checkpoint;
    struct tern_linears layers = {0};
    struct tern_error err = {0};
    enum tern_status status = argc == 2 ? tern_checkpoint_open(argv[1], &checkpoint, &err) : TERN_USAGE;
    if (argc != 2)
        return TERN_USAGE;
    if (!status)
        tern_linears_find(&checkpoint, &layers);
    else
        printf("error - %s\n", err.text);
    for (size_t i = 0; i < layers.count; i++)
        if (layers.items[i].error[0])
            printf("error %s %s\n", layers.items[i].name, layers.items[i].error);
        else
            print_layer(&layers.items[i]);
    tern_linears_free(&layers);
    tern_checkpoint_close(&checkpoint);
    return (int)status;
}
