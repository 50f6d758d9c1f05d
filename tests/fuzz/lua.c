/* libFuzzer target: configs in Lua. Input: a shapes file. A file that is read without error must come out the same when its text is
 * loaded again (the sandbox has no clock and no randomness). */
#include "config/shapes.h"
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct tern_shapes first, again;
    struct tern_error err = {0};
    char path[PATH_MAX];
    fuzz_write("fuzz.lua", data, size, path);
    enum tern_status status = tern_shapes_load(path, &first, &err);
    fuzz_judge(status, &err);
    if (!status && (tern_shapes_load(path, &again, &err) != TERN_OK || first.layer_count != again.layer_count ||
                    memcmp(first.m, again.m, sizeof first.m) != 0))
        abort();
    return 0;
}
