/* What a kernel's template says of sizes: whether its valid() would let the kernel compete there. */
#ifndef TERN_COMMANDS_EXPORT_RULES_H
#define TERN_COMMANDS_EXPORT_RULES_H

#include "config/template.h"
#include "core/result.h"

struct tern_rules; /* of one kernel */

/* The kernel as a candidate of t, ready for many questions; t and gpu must outlive it. NULL where t is NULL or does not have the
 * kernel's parameters, format or op. The caller frees with tern_rules_free. */
struct tern_rules *tern_rules_open(const struct tern_template *t, const struct tern_gpu *gpu,
                                   const struct tern_result *kernel);
void tern_rules_free(struct tern_rules *rules);

/* True if the template takes the kernel for y[m,n] = x[m,k] * W[n,k]^T, and where nothing is known (rules NULL). */
bool tern_rules_take(const struct tern_rules *rules, int64_t m, int64_t n, int64_t k);

#endif
