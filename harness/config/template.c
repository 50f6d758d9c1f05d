/* Templates: loading templates/NAME/space.lua into a checked C struct.
 * Owns the Lua state of each template; asking it `valid` is in template_valid.c. */
#include "config/template.h"

#include "config/expr.h"
#include "config/fields.h"
#include "config/find.h"
#include "config/sandbox.h"
#include "core/file.h"
#include "core/log.h"
#include "core/result.h"
#include "formats/layout.h"

#include <ctype.h>
#include <limits.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const template_keys[] = {
    "name", "ops",   "summary",    "families",      "bits",   "min_cc", "m",      "layout",
    "unit", "entry", "efficiency", "exact_weights", "params", "valid",  "launch",
};
static const char *const param_keys[] = {"name", "values", "default", "doc"};
static const char *const launch_keys[] = {"grid",    "block",   "smem",     "workspace",
                                          "cluster", "busiest", "prologue", "dependent"};
static const char *const prologue_keys[] = {"entry", "grid", "block"};
static const char *const template_units[] = {"f32", "mma-f16", "mma-s8", "wgmma-f16", "wgmma-s8"};
/* Names that launch expressions and the preamble give to other things. */
static const char *const reserved_names[] = {"M",   "N",    "K",         "G",    "GROUP",    "BITS",
                                             "SMS", "ZERO", "HAS_ZEROS", "BF16", "DEPENDENT"};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

/* A text that must be one of `choices`. */
static void template_read_choice(struct tern_fields *f, const char *key, char *out, size_t size, const char *const *choices,
                                 size_t count) {
    tern_fields_text(f, key, out, size, TERN_REQUIRED);
    if (f->status != TERN_OK)
        return;
    struct tern_strs names = {0};
    struct tern_str all = {0};
    bool known = false;
    for (size_t i = 0; i < count; i++) {
        known = known || strcmp(choices[i], out) == 0;
        tern_strs_add(&names, choices[i]);
        tern_str_printf(&all, "%s%s", i ? ", " : "", choices[i]);
    }
    if (!known) {
        const char *near = tern_str_suggest(out, &names);
        tern_fields_fail(f, key, "must be one of %s; not '%s'", tern_str_text(&all), out);
        if (near != NULL)
            tern_error_hint(f->err, "did you mean '%s'?", near);
    }
    tern_str_free(&all);
    tern_strs_free(&names);
}

static void template_read_families(struct tern_fields *f, struct tern_template *t) {
    int64_t length = tern_fields_push_table(f, "families", TERN_REQUIRED);
    if (length < 0)
        return;
    if (length == 0)
        tern_fields_fail(f, "families", "must list at least one family");
    char name[16];
    for (int64_t i = 0; i < length && tern_fields_entry_text(f, "families", i + 1, name, sizeof(name)); i++) {
        bool known = false;
        for (size_t family = 0; family < COUNT(t->families); family++)
            if (strcmp(name, tern_family_name((enum tern_family)family)) == 0)
                t->families[family] = known = true;
        if (!known)
            tern_fields_fail(f, "families", "must hold 'ternary' or 'gptq', not '%s'", name);
    }
    tern_fields_pop(f, 1);
}

static void template_read_ops(struct tern_fields *f, struct tern_template *t) {
    int64_t length = tern_fields_push_table(f, "ops", TERN_REQUIRED);
    if (length < 0)
        return;
    if (length == 0)
        tern_fields_fail(f, "ops", "must list at least one op");
    char name[16];
    for (int64_t i = 0; i < length && tern_fields_entry_text(f, "ops", i + 1, name, sizeof(name)); i++) {
        enum tern_activation type;
        if (tern_activation_of_op(name, &type))
            t->types[type] = true;
        else
            tern_fields_fail(f, "ops", "must hold 'linear-a16' or 'linear-bf16', not '%s'", name);
    }
    tern_fields_pop(f, 1);
}

static void template_read_bits(struct tern_fields *f, struct tern_template *t) {
    int64_t bits[COUNT(t->bits)];
    size_t count = 0;
    /* The list is 0-terminated, but all four widths fill it: readers stop at its end too. */
    tern_fields_ints(f, "bits", 2, 8, bits, COUNT(t->bits), &count, TERN_REQUIRED);
    for (size_t i = 0; i < count; i++) {
        if (bits[i] != 2 && bits[i] != 3 && bits[i] != 4 && bits[i] != 8)
            tern_fields_fail(f, "bits", "must hold 2, 3, 4 or 8, not %d", (int)bits[i]);
        t->bits[i] = (int)bits[i];
    }
}

static void template_read_m(struct tern_fields *f, struct tern_template *t) {
    int64_t range[2];
    size_t count = 0;
    tern_fields_ints(f, "m", 1, INT32_MAX, range, 2, &count, TERN_REQUIRED);
    if (f->status != TERN_OK)
        return;
    if (count != 2 || range[0] > range[1])
        tern_fields_fail(f, "m", "must be {least, largest}");
    t->m_min = range[0];
    t->m_max = count == 2 ? range[1] : 0;
}

/* ---- parameters ---- */

static bool template_is_param_name(const char *name) {
    if (!isupper((unsigned char)name[0]))
        return false;
    for (const char *c = name; *c != '\0'; c++)
        if (!isupper((unsigned char)*c) && !isdigit((unsigned char)*c) && *c != '_')
            return false;
    return true;
}

static void template_check_param(struct tern_fields *f, const struct tern_template *t, const struct tern_param *param) {
    if (f->status != TERN_OK)
        return;
    if (!template_is_param_name(param->name))
        tern_fields_fail(f, "name", "must be upper case letters, digits and '_', not '%s'", param->name);
    for (size_t i = 0; i < COUNT(reserved_names); i++)
        if (strcmp(reserved_names[i], param->name) == 0)
            tern_fields_fail(f, "name", "must not be '%s', which already means something else", param->name);
    for (size_t i = 0; i < t->param_count; i++)
        if (strcmp(t->params[i].name, param->name) == 0)
            tern_fields_fail(f, "name", "is used twice: '%s'", param->name);
    bool listed = false;
    for (size_t i = 0; i < param->value_count; i++) {
        listed = listed || param->values[i] == param->fallback;
        for (size_t j = 0; j < i; j++)
            if (param->values[i] == param->values[j])
                tern_fields_fail(f, "values", "holds %lld twice", (long long)param->values[i]);
    }
    if (!listed)
        tern_fields_fail(f, "default", "must be one of 'values', not %lld", (long long)param->fallback);
}

static void template_read_params(struct tern_fields *parent, struct tern_template *t) {
    int64_t length = tern_fields_push_table(parent, "params", TERN_REQUIRED);
    if (length < 0)
        return;
    if (length > TERN_MAX_PARAMS)
        tern_fields_fail(parent, "params", "must hold at most %d parameters", TERN_MAX_PARAMS);
    for (int64_t i = 0; i < length && tern_fields_push_entry(parent, "params", i + 1); i++) {
        struct tern_param *param = &t->params[t->param_count];
        struct tern_fields f;
        char where[64];
        tern_str_format(where, sizeof(where), "params[%d].", (int)i + 1);
        tern_fields_begin(&f, parent->lua, parent->path, where, parent->err);
        tern_fields_known(&f, param_keys, COUNT(param_keys));
        tern_fields_text(&f, "name", param->name, sizeof(param->name), TERN_REQUIRED);
        tern_fields_text(&f, "doc", param->doc, sizeof(param->doc), TERN_REQUIRED);
        tern_fields_ints(&f, "values", INT32_MIN, INT32_MAX, param->values, TERN_MAX_PARAM_VALUES, &param->value_count,
                         TERN_REQUIRED);
        tern_fields_int(&f, "default", INT32_MIN, INT32_MAX, &param->fallback, TERN_REQUIRED);
        template_check_param(&f, t, param);
        parent->status = f.status;
        t->param_count++;
        tern_fields_pop(parent, 1);
    }
    tern_fields_pop(parent, 1);
}

/* ---- launch ---- */

/* Expressions are parsed here only to be refused early, with the file's name; they are kept as text. */
static void template_check_expr(struct tern_fields *f, const char *key, const char *text) {
    if (f->status != TERN_OK || text[0] == '\0')
        return;
    struct tern_expr *expr = NULL;
    f->status = tern_expr_parse(text, &expr, f->err);
    if (f->status != TERN_OK) {
        f->status = TERN_USAGE;
        f->err->status = TERN_USAGE;
        tern_error_prefix(f->err, "%s: key '%s%s'", f->path, f->where, key);
    }
    tern_expr_free(expr);
}

/* A launch entry may be written as a number where it is constant: smem = 0. */
static void template_read_expr(struct tern_fields *f, const char *key, char *out, size_t size, enum tern_need need) {
    if (f->status != TERN_OK)
        return;
    lua_getfield(f->lua, f->table, key);
    bool whole = lua_isinteger(f->lua, -1);
    if (whole)
        tern_str_format(out, size, "%lld", (long long)lua_tointeger(f->lua, -1));
    lua_pop(f->lua, 1);
    if (!whole)
        tern_fields_text(f, key, out, size, need);
    template_check_expr(f, key, out);
}

/* launch.prologue = { entry = "...", grid = "...", block = "..." } */
static void template_read_prologue(struct tern_fields *parent, struct tern_template *t) {
    if (tern_fields_push_table(parent, "prologue", TERN_OPTIONAL) < 0)
        return;
    struct tern_fields f;
    tern_fields_begin(&f, parent->lua, parent->path, "launch.prologue.", parent->err);
    tern_fields_known(&f, prologue_keys, COUNT(prologue_keys));
    tern_fields_text(&f, "entry", t->prologue, sizeof(t->prologue), TERN_REQUIRED);
    template_read_expr(&f, "grid", t->prologue_grid, sizeof(t->prologue_grid), TERN_REQUIRED);
    template_read_expr(&f, "block", t->prologue_block, sizeof(t->prologue_block), TERN_REQUIRED);
    parent->status = f.status;
    tern_fields_pop(parent, 1);
}

static void template_read_launch(struct tern_fields *parent, struct tern_template *t) {
    if (tern_fields_push_table(parent, "launch", TERN_REQUIRED) < 0)
        return;
    struct tern_fields f;
    tern_fields_begin(&f, parent->lua, parent->path, "launch.", parent->err);
    tern_fields_known(&f, launch_keys, COUNT(launch_keys));
    int64_t dimensions = tern_fields_push_table(&f, "grid", TERN_REQUIRED);
    if (dimensions == 0 || dimensions > 3)
        tern_fields_fail(&f, "grid", "must be a list of 1 to 3 expressions");
    for (int64_t i = 0; i < dimensions && f.status == TERN_OK; i++) {
        char key[16];
        tern_str_format(key, sizeof(key), "grid[%d]", (int)i + 1);
        if (tern_fields_entry_text(&f, "grid", i + 1, t->grid[i], sizeof(t->grid[i])))
            template_check_expr(&f, key, t->grid[i]);
    }
    if (dimensions >= 0)
        tern_fields_pop(&f, 1);
    template_read_expr(&f, "block", t->block, sizeof(t->block), TERN_REQUIRED);
    template_read_expr(&f, "smem", t->smem, sizeof(t->smem), TERN_OPTIONAL);
    template_read_expr(&f, "workspace", t->workspace, sizeof(t->workspace), TERN_OPTIONAL);
    template_read_expr(&f, "cluster", t->cluster, sizeof(t->cluster), TERN_OPTIONAL);
    template_read_expr(&f, "busiest", t->busiest, sizeof(t->busiest), TERN_OPTIONAL);
    template_read_prologue(&f, t);
    tern_fields_bool(&f, "dependent", &t->dependent, TERN_OPTIONAL);
    parent->status = f.status;
    tern_fields_pop(parent, 1);
}

/* ---- whole template ---- */

static void template_check_valid(struct tern_fields *f) {
    if (f->status != TERN_OK)
        return;
    lua_getfield(f->lua, f->table, "valid");
    if (!lua_isfunction(f->lua, -1))
        tern_fields_fail(f, "valid", "must be a function(p, problem, gpu), not a %s",
                         lua_typename(f->lua, lua_type(f->lua, -1)));
    lua_pop(f->lua, 1);
}

static enum tern_status template_read(struct tern_fields *f, struct tern_template *t) {
    char folder[NAME_MAX + 1];
    int64_t min_cc = 0;
    tern_fields_known(f, template_keys, COUNT(template_keys));
    tern_fields_text(f, "name", t->name, sizeof(t->name), TERN_REQUIRED);
    tern_config_base_name(t->dir, folder, sizeof(folder));
    if (f->status == TERN_OK && strcmp(folder, t->name) != 0)
        tern_fields_fail(f, "name", "must be the folder's name '%s', not '%s'", folder, t->name);
    template_read_ops(f, t);
    tern_fields_text(f, "summary", t->summary, sizeof(t->summary), TERN_REQUIRED);
    template_read_families(f, t);
    template_read_bits(f, t);
    tern_fields_int(f, "min_cc", 75, 999, &min_cc, TERN_REQUIRED);
    t->min_cc = (int)min_cc;
    template_read_m(f, t);
    tern_fields_text(f, "layout", t->layout, sizeof(t->layout), TERN_REQUIRED);
    if (f->status == TERN_OK && tern_layout_find(t->layout) == NULL)
        tern_fields_fail(f, "layout", "must be a layout that exists (harness/formats/layout.h), not '%s'", t->layout);
    template_read_choice(f, "unit", t->unit, sizeof(t->unit), template_units, COUNT(template_units));
    tern_fields_text(f, "entry", t->entry, sizeof(t->entry), TERN_REQUIRED);
    tern_fields_positive(f, "efficiency", &t->efficiency, TERN_REQUIRED);
    if (f->status == TERN_OK && t->efficiency > 1)
        tern_fields_fail(f, "efficiency", "must be a share of the limit, at most 1, not %g", t->efficiency);
    tern_fields_bool(f, "exact_weights", &t->exact_weights, TERN_REQUIRED);
    template_read_params(f, t);
    template_read_launch(f, t);
    template_check_valid(f);
    return f->status;
}

static enum tern_status template_hash(struct tern_template *t, struct tern_error *err) {
    static const char *const files[] = {"kernel.cu", "space.lua"};
    struct tern_hash_state *state = tern_hash_new();
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < COUNT(files) && status == TERN_OK; i++) {
        char path[PATH_MAX], *data = NULL;
        size_t length = 0;
        tern_str_format(path, sizeof(path), "%s/%s", t->dir, files[i]);
        status = tern_file_read(path, &data, &length, err);
        if (status == TERN_OK)
            tern_hash_add(state, data, length);
        free(data);
    }
    tern_hash_end(state, t->hash);
    if (status != TERN_OK && err != NULL)
        tern_error_hint(err, "a template is a folder with kernel.cu and space.lua");
    return status;
}

enum tern_status tern_template_load(const char *dir, struct tern_template *out, struct tern_error *err) {
    *out = (struct tern_template){0};
    struct tern_template t = {0};
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/')
        length--;
    if (length >= sizeof(t.dir))
        return tern_error_set(err, TERN_USAGE, "template path is too long: %.200s...", dir);
    tern_str_format(t.dir, sizeof(t.dir), "%.*s", (int)length, dir);
    char path[PATH_MAX];
    tern_str_format(path, sizeof(path), "%s/space.lua", t.dir);
    enum tern_status status = template_hash(&t, err);
    if (status == TERN_OK)
        status = tern_sandbox_load(path, &t.lua, err);
    if (status != TERN_OK)
        return status;
    struct tern_fields fields;
    tern_fields_begin(&fields, tern_sandbox_state(t.lua), path, "", err);
    status = template_read(&fields, &t);
    if (status != TERN_OK) {
        tern_template_free(&t);
        return status;
    }
    lua_State *lua = tern_sandbox_state(t.lua);
    lua_getfield(lua, -1, "valid"); /* stack: [1] table, [2] valid; template_valid.c relies on it */
    *out = t;
    return TERN_OK;
}

/* True for a folder with a space.lua. One with a kernel.cu alone is being written: it is named, not silently left out. */
static bool template_is_folder(const char *dir) {
    char kernel[PATH_MAX], space[PATH_MAX];
    tern_str_format(kernel, sizeof(kernel), "%s/kernel.cu", dir);
    tern_str_format(space, sizeof(space), "%s/space.lua", dir);
    if (tern_file_exists(space))
        return true;
    if (tern_file_exists(kernel))
        tern_log_warn("add a space.lua, see docs/adding-a-kernel.md", "%s has a kernel.cu but no space.lua: left out", dir);
    return false;
}

enum tern_status tern_templates_load_all(struct tern_template **templates, size_t *count, struct tern_error *err) {
    *templates = NULL;
    *count = 0;
    char root[PATH_MAX], dir[PATH_MAX];
    struct tern_strs names = {0};
    enum tern_status status = tern_file_home_path("templates", root, sizeof(root), err);
    if (status == TERN_OK)
        status = tern_file_list(root, "", &names, err);
    if (status == TERN_OK)
        *templates = tern_alloc_zero(names.count, sizeof(**templates));
    for (size_t i = 0; i < names.count && status == TERN_OK; i++) {
        tern_str_format(dir, sizeof(dir), "%s/%s", root, names.items[i]);
        if (!template_is_folder(dir))
            continue;
        status = tern_template_load(dir, &(*templates)[*count], err);
        *count += status == TERN_OK;
    }
    if (status == TERN_OK && *count == 0)
        status = tern_error_set(err, TERN_MISSING, "no templates in %s", root);
    if (status != TERN_OK) {
        tern_templates_free(*templates, *count);
        *templates = NULL;
        *count = 0;
    }
    tern_strs_free(&names);
    return status;
}

/* Selects one by name; false if none has it. */
static bool select_name(const struct tern_template *templates, size_t count, const char *name, bool *selected) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(templates[i].name, name) == 0)
            return selected[i] = true;
    return false;
}

enum tern_status tern_templates_select(const struct tern_template *templates, size_t count, const char *list, bool *selected,
                                       struct tern_error *err) {
    struct tern_strs wanted = {0}, known = {0};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < count; i++) {
        tern_strs_add(&known, templates[i].name);
        selected[i] = !list;
    }
    if (list)
        tern_strs_split(&wanted, list, ',');
    if (list && wanted.count == 0)
        status = tern_error_set(err, TERN_USAGE, "--templates '%s' names no template", list);
    for (size_t w = 0; w < wanted.count && status == TERN_OK; w++)
        if (!select_name(templates, count, wanted.items[w], selected)) {
            const char *near = tern_str_suggest(wanted.items[w], &known);
            status = tern_error_set(err, TERN_USAGE, "unknown template '%s'", wanted.items[w]);
            if (near)
                tern_error_hint(err, "did you mean '%s'?", near);
        }
    tern_strs_free(&wanted);
    tern_strs_free(&known);
    return status;
}

bool tern_template_serves(const struct tern_template *t, const struct tern_format *format, enum tern_activation type) {
    bool bits = false;
    for (size_t i = 0; i < COUNT(t->bits) && t->bits[i] != 0; i++)
        bits = bits || t->bits[i] == format->bits;
    return bits && t->families[format->family] && t->types[type];
}

void tern_template_fill(const struct tern_template *t, struct tern_result *row) {
    tern_str_copy(row->template_name, sizeof row->template_name, t->name);
    tern_str_copy(row->layout, sizeof row->layout, t->layout);
    tern_str_copy(row->entry, sizeof row->entry, t->entry);
    for (int i = 0; i < 3; i++)
        tern_str_copy(row->grid[i], sizeof row->grid[i], t->grid[i]);
    tern_str_copy(row->block, sizeof row->block, t->block);
    tern_str_copy(row->smem, sizeof row->smem, t->smem);
    tern_str_copy(row->workspace, sizeof row->workspace, t->workspace);
    tern_str_copy(row->cluster, sizeof row->cluster, t->cluster);
    tern_str_copy(row->prologue, sizeof row->prologue, t->prologue);
    tern_str_copy(row->prologue_grid, sizeof row->prologue_grid, t->prologue_grid);
    tern_str_copy(row->prologue_block, sizeof row->prologue_block, t->prologue_block);
    tern_str_copy(row->template_hash, sizeof row->template_hash, t->hash);
    row->min_m = t->m_min;
    row->max_m = t->m_max;
}

void tern_template_free(struct tern_template *t) {
    tern_sandbox_free(t->lua);
    t->lua = NULL;
}

void tern_templates_free(struct tern_template *templates, size_t count) {
    for (size_t i = 0; i < count; i++)
        tern_template_free(&templates[i]);
    free(templates);
}
