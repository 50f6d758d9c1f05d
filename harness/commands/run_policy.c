/* Names by which rows of different conditions are told apart: policies, and shapes in the database. */
#include "commands/run_internal.h"

#include "core/log.h"
#include "core/str.h"

#include <string.h>

static const char *const policies[RUN_POLICIES] = {RUN_POLICY, RUN_POLICY_COOL, RUN_POLICY_SUSTAINED, RUN_POLICY_EMU,
                                                   RUN_POLICY_PLAN};

void tern_run_name_policies(struct run *run, const char *identity) {
    struct tern_shapes *s = &run->shapes;
    char base[sizeof s->name], ending[32];
    tern_str_format(ending, sizeof ending, "%s%s", run->dependent ? TERN_DEPENDENT_SHAPES : "", identity);
    for (size_t i = 0; i < RUN_POLICIES; i++)
        tern_str_format(run->policies[i], sizeof run->policies[i], "%s%s%s", policies[i],
                        run->dependent ? TERN_DEPENDENT_POLICY : "", identity);
    if (!ending[0])
        return;
    tern_str_copy(base, sizeof base - strlen(ending), s->name); /* a long name is cut, what tells rows apart is not */
    tern_str_format(s->name, sizeof s->name, "%s%s", base, ending);
    tern_log_note("rows of this run go by the shapes name %s", s->name);
}

const char *tern_run_policy_name(const struct run *run, const char *policy) {
    for (size_t i = 0; i < RUN_POLICIES; i++)
        if (strcmp(policies[i], policy) == 0)
            return run->policies[i];
    return policy;
}
