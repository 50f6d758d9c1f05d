/* What the files of a comparison share. Private to output/compare*.c. */
#ifndef TERN_OUTPUT_COMPARE_PARTS_H
#define TERN_OUTPUT_COMPARE_PARTS_H

#include "output/compare.h"

/* The row of A, or of B where A has none: it names the problem. */
const struct tern_result *compare_either(const struct tern_compare_row *row);
/* Same GPU, model, format and op. */
bool compare_same_block(const struct tern_compare_row *a, const struct tern_compare_row *b);
/* Summary, notes and what changed, for a release note. */
void compare_markdown(struct tern_str *out, const struct tern_compare *c);

#endif
