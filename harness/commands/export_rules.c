/* What a kernel's template says of sizes. See export_rules.h. */
#include "commands/export_rules.h"

#include "core/str.h"
#include "space/grid.h"

#include <stdlib.h>

struct tern_rules {
    struct tern_candidate candidate;
    struct tern_format format;
    enum tern_activation type;
    const struct tern_gpu *gpu;
};

struct tern_rules *tern_rules_open(const struct tern_template *t, const struct tern_gpu *gpu,
                                   const struct tern_result *kernel) {
    struct tern_rules *rules = tern_alloc_zero(1, sizeof *rules);
    rules->gpu = gpu;
    if (t && gpu && tern_activation_of_op(kernel->op, &rules->type) &&
        !tern_format_parse(kernel->format, &rules->format, NULL) &&
        !tern_candidate_parse(t, kernel->params, &rules->candidate, NULL))
        return rules;
    free(rules);
    return NULL;
}

void tern_rules_free(struct tern_rules *rules) {
    free(rules);
}

bool tern_rules_take(const struct tern_rules *rules, int64_t m, int64_t n, int64_t k) {
    bool valid = true;
    char reason[160];
    if (!rules)
        return true;
    const struct tern_problem_shape shape = {&rules->format, m, n, k, rules->type, rules->candidate.dependent};
    const enum tern_status status = tern_template_valid(rules->candidate.tmpl, rules->candidate.values, &shape, rules->gpu,
                                                        &valid, NULL, reason, sizeof reason, NULL);
    return status != TERN_OK || valid;
}
