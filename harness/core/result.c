/* Result rows: growing list and canonical order. */
#include "core/result.h"

#include "core/str.h"

#include <stdlib.h>
#include <string.h>

/* The order of the layers in a transformer block; other names follow in the order in which they first appear. */
static const char *const layer_order[] = {"qkv", "q", "k", "v", "o", "gate_up", "gate", "up", "down", "lm_head"};
static const size_t layer_order_count = sizeof layer_order / sizeof layer_order[0];

void tern_results_add(struct tern_results *list, const struct tern_result *row) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : 32;
        list->rows = tern_realloc(list->rows, list->capacity * sizeof list->rows[0]);
    }
    list->rows[list->count++] = *row;
}

struct ranked {
    struct tern_result row;
    size_t layer_rank, position; /* position makes the order total, so that qsort is stable */
};

/* Smaller ranks first; unknown layers by first appearance, behind the known ones. */
static size_t layer_rank(const struct tern_results *list, const char *layer) {
    for (size_t i = 0; i < layer_order_count; i++)
        if (!strcmp(layer_order[i], layer))
            return i;
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->rows[i].layer, layer))
            return layer_order_count + i;
    return layer_order_count + list->count;
}

static int compare_numbers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* gpu, shapes, format, op, layer, M. */
static int compare_ranked(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    int order = strcmp(a->row.gpu, b->row.gpu);
    if (!order)
        order = strcmp(a->row.shapes, b->row.shapes);
    if (!order)
        order = strcmp(a->row.format, b->row.format);
    if (!order)
        order = strcmp(a->row.op, b->row.op);
    if (!order)
        order = compare_numbers((int64_t)a->layer_rank, (int64_t)b->layer_rank);
    if (!order)
        order = compare_numbers(a->row.m, b->row.m);
    return order ? order : compare_numbers((int64_t)a->position, (int64_t)b->position);
}

void tern_results_sort(struct tern_results *list) {
    if (list->count < 2)
        return;
    struct ranked *ranked = tern_alloc(list->count * sizeof *ranked);
    for (size_t i = 0; i < list->count; i++) {
        ranked[i].row = list->rows[i];
        ranked[i].layer_rank = layer_rank(list, list->rows[i].layer);
        ranked[i].position = i;
    }
    qsort(ranked, list->count, sizeof *ranked, compare_ranked);
    for (size_t i = 0; i < list->count; i++)
        list->rows[i] = ranked[i].row;
    free(ranked);
}

void tern_results_free(struct tern_results *list) {
    free(list->rows);
    memset(list, 0, sizeof *list);
}

bool tern_is_replay_name(const char *gpu) {
    size_t length = strlen(gpu), suffix = sizeof TERN_REPLAY_SUFFIX - 1;
    return length >= suffix && strcmp(gpu + length - suffix, TERN_REPLAY_SUFFIX) == 0;
}

/* They stand last, alone or behind a blank. */
bool tern_is_dependent(const char *params) {
    size_t length = strlen(params), word = sizeof TERN_DEPENDENT_WORD - 1;
    return length >= word && !strcmp(params + length - word, TERN_DEPENDENT_WORD) &&
           (length == word || params[length - word - 1] == ' ');
}

bool tern_rounds_scales(const char *params) {
    return strstr(params, "ROUND_SCALES=1") != NULL;
}

const char *tern_conditions(const char *name) {
    const char *end = name + strcspn(name, "@");
    const char *const words[] = {strstr(name, TERN_DEPENDENT_POLICY), strstr(name, TERN_DEPENDENT_SHAPES)};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i] && words[i] < end)
            end = words[i];
    return end;
}
