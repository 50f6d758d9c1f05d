/* Names and shapes of weight formats: parsing, canonical names, and what a group may be.
 * Owns the family table; knows nothing of files, layouts or kernels. */
#include "formats/format.h"

#include "core/str.h"

#include <inttypes.h>
#include <string.h>

/* One row a (family, bits): what its names start with and what it may carry. */
struct tern_family_row {
    const char *prefix;
    enum tern_family family;
    int bits, zero; /* zero: the constant zero point when symmetric */
    bool may_be_asym, may_be_tensor;
};

static const struct tern_family_row family_rows[] = {
    {"ternary", TERN_FAMILY_TERNARY, 2, 1, false, true}, {"gptq2", TERN_FAMILY_GPTQ, 2, 2, true, false},
    {"gptq3", TERN_FAMILY_GPTQ, 3, 4, true, false},      {"gptq4", TERN_FAMILY_GPTQ, 4, 8, true, false},
    {"gptq8", TERN_FAMILY_GPTQ, 8, 128, true, false},
};
static const size_t family_row_count = sizeof family_rows / sizeof family_rows[0];

const char *const tern_format_examples[] = {
    "ternary-g128",   "ternary-channel", "ternary-tensor",  "gptq2-g64",     "gptq2-g128",
    "gptq2-g64-asym", "gptq3-g128",      "gptq3-g128-asym", "gptq3-channel", "gptq4-g32",
    "gptq4-g64",      "gptq4-g128",      "gptq4-g128-asym", "gptq4-channel", "gptq4-channel-asym",
    "gptq8-g128",     "gptq8-g128-asym", "gptq8-channel",   "gptq8-g32",
};
const size_t tern_format_example_count = sizeof tern_format_examples / sizeof tern_format_examples[0];

const char *tern_family_name(enum tern_family family) {
    return family == TERN_FAMILY_TERNARY ? "ternary" : "gptq";
}

/* Fills the error for a name that is no format, with the nearest example as hint. */
static enum tern_status unknown_format(const char *name, struct tern_error *err) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < tern_format_example_count; i++)
        tern_strs_add(&names, tern_format_examples[i]);
    const char *near = tern_str_suggest(name, &names);
    tern_error_set(err, TERN_USAGE, "unknown format '%s'", name);
    if (near)
        tern_error_hint(err, "did you mean '%s'?", near);
    else
        tern_error_hint(err, "formats are ternary-{g128,channel,tensor} and gptq{2,3,4,8}-{gN,channel}[-asym], N a "
                             "multiple of 32");
    tern_strs_free(&names);
    return TERN_USAGE;
}

/* Parses "g128", "channel" or "tensor" in name[0..length). */
static bool parse_group(const char *text, size_t length, int64_t *group) {
    char token[24];
    if (length == 0 || length >= sizeof token)
        return false;
    memcpy(token, text, length);
    token[length] = '\0';
    if (strcmp(token, "channel") == 0)
        *group = TERN_GROUP_CHANNEL;
    else if (strcmp(token, "tensor") == 0)
        *group = TERN_GROUP_TENSOR;
    else if (token[0] != 'g' || token[1] < '1' || token[1] > '9' || !tern_str_parse_int(token + 1, 1, INT32_MAX, group))
        return false;
    return true;
}

/* The one spelling of a format, made from its fields. */
static void write_name(struct tern_format *format, const struct tern_family_row *row) {
    char group[24] = "channel";
    if (format->group == TERN_GROUP_TENSOR)
        tern_str_copy(group, sizeof group, "tensor");
    else if (format->group > 0)
        tern_str_format(group, sizeof group, "g%" PRId64, format->group);
    tern_str_format(format->name, sizeof format->name, "%s-%s%s", row->prefix, group, format->sym ? "" : "-asym");
}

/* Refuses combinations whose parts are known but do not fit together. */
static enum tern_status check_parts(const char *name, const struct tern_family_row *row, const struct tern_format *format,
                                    struct tern_error *err) {
    if (!format->sym && !row->may_be_asym) {
        tern_error_set(err, TERN_USAGE, "format '%s': %s weights have no zero points", name, row->prefix);
        tern_error_hint(err, "leave out '-asym'");
        return TERN_USAGE;
    }
    if (format->group == TERN_GROUP_TENSOR && !row->may_be_tensor) {
        tern_error_set(err, TERN_USAGE, "format '%s': %s has no per-tensor scale", name, row->prefix);
        tern_error_hint(err, "use %s-channel", row->prefix);
        return TERN_USAGE;
    }
    if (format->group > 0 && format->group % 32 != 0) {
        tern_error_set(err, TERN_USAGE, "format '%s': group %" PRId64 " is not a multiple of 32", name, format->group);
        tern_error_hint(err, "groups are 32, 64, 96, 128, ... or 'channel'");
        return TERN_USAGE;
    }
    return TERN_OK;
}

enum tern_status tern_format_parse(const char *name, struct tern_format *format, struct tern_error *err) {
    const struct tern_family_row *row = NULL;
    const char *dash = strchr(name, '-');
    size_t prefix_length = dash ? (size_t)(dash - name) : 0;
    for (size_t i = 0; i < family_row_count && dash; i++)
        if (strlen(family_rows[i].prefix) == prefix_length && memcmp(name, family_rows[i].prefix, prefix_length) == 0)
            row = &family_rows[i];
    if (!row)
        return unknown_format(name, err);

    struct tern_format out = {.family = row->family, .bits = row->bits, .sym = true, .zero = row->zero};
    const char *group = dash + 1;
    const char *suffix = strchr(group, '-');
    size_t group_length = suffix ? (size_t)(suffix - group) : strlen(group);
    if (!parse_group(group, group_length, &out.group))
        return unknown_format(name, err);
    if (suffix && strcmp(suffix, "-asym") == 0) {
        out.sym = false;
        out.zero = 0;
    } else if (suffix && (strcmp(suffix, "-actorder") == 0 || strcmp(suffix, "-asym-actorder") == 0)) {
        tern_error_set(err, TERN_USAGE, "format '%s': act-order is not served", name);
        tern_error_hint(err, "sort the columns of W by group, permute x alike, and tune the format without '-actorder'");
        return TERN_USAGE;
    } else if (suffix) {
        return unknown_format(name, err);
    }
    enum tern_status status = check_parts(name, row, &out, err);
    if (status != TERN_OK)
        return status;
    write_name(&out, row);
    *format = out;
    return TERN_OK;
}

enum tern_status tern_format_check_shape(const struct tern_format *format, int64_t n, int64_t k, bool short_group_ok,
                                         struct tern_error *err) {
    if (n <= 0 || n % 8 != 0 || n > INT32_MAX) {
        tern_error_set(err, TERN_USAGE, "N = %" PRId64 " is not a positive multiple of 8 below 2^31", n);
        tern_error_hint(err, "pad the layer's output features to a multiple of 8");
        return TERN_USAGE;
    }
    if (k <= 0 || k % 32 != 0 || k > INT32_MAX) {
        tern_error_set(err, TERN_USAGE, "K = %" PRId64 " is not a positive multiple of 32 below 2^31", k);
        tern_error_hint(err, "pad the layer's input features to a multiple of 32");
        return TERN_USAGE;
    }
    if (format->group > k) {
        tern_error_set(err, TERN_USAGE, "%s: group %" PRId64 " exceeds K = %" PRId64, format->name, format->group, k);
        tern_error_hint(err, "use a smaller group or the channel format");
        return TERN_USAGE;
    }
    if (format->group > 0 && k % format->group != 0 && !short_group_ok) {
        tern_error_set(err, TERN_USAGE, "%s: K = %" PRId64 " is not a multiple of the group %" PRId64, format->name, k,
                       format->group);
        tern_error_hint(err, "the last group would hold %" PRId64 " weights only; choose a group that divides K",
                        k % format->group);
        return TERN_USAGE;
    }
    return TERN_OK;
}

int64_t tern_format_groups(const struct tern_format *format, int64_t k) {
    return format->group > 0 ? (k + format->group - 1) / format->group : 1;
}

int64_t tern_format_group_size(const struct tern_format *format, int64_t k) {
    return format->group > 0 ? format->group : k;
}
