/* Ceilings of a device as a table and as JSON. See ceilings.h. */
#include "output/ceilings.h"

#include "core/str.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static void print_reads(FILE *out, const struct tern_ceilings *c) {
    fprintf(out, "\n  cold read    MiB        us      GB/s\n");
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->rows[i].kind, "read") == 0)
            fprintf(out, "            %6.0f  %8.2f  %8.0f\n", c->rows[i].argument / 1048576.0, c->rows[i].value,
                    c->rows[i].argument / c->rows[i].value * 1e-3);
}

static void print_others(FILE *out, const struct tern_ceilings *c) {
    fputc('\n', out);
    for (size_t i = 0; i < c->count; i++) {
        const struct tern_ceiling *row = &c->rows[i];
        if (strcmp(row->kind, "copy") == 0)
            fprintf(out, "  copy                 %8.0f GB/s, read and written, %.0f MiB\n", row->value,
                    row->argument / 1048576.0);
        else if (strcmp(row->kind, "launch") == 0)
            fprintf(out, "  empty kernel         %8.2f us as a node of a graph, %.0f block%s\n", row->value, row->argument,
                    row->argument > 1 ? "s" : "");
        else if (strcmp(row->kind, "sample") == 0)
            fprintf(out, "  a sample's overhead  %8.2f us: events and start of the graph\n", row->value);
    }
}

/* One line a kind: the cool row, and the sustained one if it is there. */
static void print_rates(FILE *out, const struct tern_ceilings *c) {
    bool headed = false;
    for (size_t i = 0; i < c->count; i++) {
        char kind[24], sustained[24 + 16];
        tern_str_copy(kind, sizeof kind, c->rows[i].kind);
        char *regime = strstr(kind, "/cool");
        if (!regime)
            continue;
        *regime = '\0';
        tern_str_format(sustained, sizeof sustained, "%s/sustained", kind);
        const struct tern_ceiling *load = tern_ceilings_find(c, sustained);
        if (!headed)
            fprintf(out, "\n  matrix rate      cool   MHz  sustained   MHz\n");
        headed = true;
        fprintf(out, "  %-12s %8.0f %5d", kind, c->rows[i].value, c->rows[i].sm_mhz);
        if (load)
            fprintf(out, "   %8.0f %5d", load->value, load->sm_mhz);
        else
            fprintf(out, "          -     -");
        fprintf(out, "  %s\n", c->rows[i].unit);
    }
}

void tern_output_ceilings(FILE *out, const struct tern_output_device *device, const struct tern_ceilings *ceilings) {
    fprintf(out, "%s: %s, driver %s\n", device->gpu, device->name, device->driver[0] ? device->driver : "unknown");
    print_reads(out, ceilings);
    print_others(out, ceilings);
    print_rates(out, ceilings);
}

void tern_output_ceilings_json(FILE *out, const struct tern_output_device *device, const struct tern_ceilings *ceilings) {
    json_t *rows = json_array();
    for (size_t i = 0; i < ceilings->count; i++) {
        const struct tern_ceiling *row = &ceilings->rows[i];
        json_t *samples = json_array();
        for (size_t k = 0; k < row->sample_count; k++)
            json_array_append_new(samples, json_real(row->samples_us[k]));
        json_array_append_new(rows, json_pack("{s:s, s:I, s:f, s:s, s:i, s:o}", "kind", row->kind, "argument",
                                              (json_int_t)row->argument, "value", row->value, "unit", row->unit, "sm_mhz",
                                              row->sm_mhz, "samples_us", samples));
    }
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:o}", "gpu", device->gpu, "device", device->name, "driver",
                             device->driver, "db", device->db, "ceilings", rows);
    json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(root);
}
