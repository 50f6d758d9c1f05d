/* What the winners of a GPU were measured with: the environment that a release states. */
#include "store/store_sql.h"

#include "core/str.h"

#include <string.h>

#define DEVICES "(SELECT id FROM device WHERE gpu = ?1 AND real = 1)"

/* Columns: name, text, count, exit code, seconds, seed. */
static const struct {
    const char *section, *sql;
} QUERIES[] = {
    {"run", "SELECT command_line, tern_version, 1, coalesce(exit_code, -1),"
            " coalesce(CAST(round((julianday(ended) - julianday(started)) * 86400) AS INTEGER), -1), seed"
            " FROM run WHERE device IN " DEVICES " ORDER BY id"},
    {"nvrtc", "SELECT DISTINCT x.nvrtc, '', 1, 0, 0, 0 FROM winner w JOIN build b ON b.id = w.build"
              " JOIN toolchain x ON x.id = b.toolchain WHERE w.device IN " DEVICES " ORDER BY 1"},
    {"policy", "SELECT policy, '', count(*), 0, 0, 0 FROM trial WHERE device IN " DEVICES " GROUP BY 1 ORDER BY 1"},
    {"outcome",
     "SELECT stage || ' ' || outcome, '', count(*), 0, 0, 0 FROM trial WHERE device IN " DEVICES " GROUP BY 1 ORDER BY 1"},
    {"build", "SELECT outcome, '', count(*), 0, 0, 0 FROM build WHERE arch IN (SELECT arch FROM device WHERE gpu = ?1)"
              " GROUP BY 1 ORDER BY 1"},
    {"template", "SELECT DISTINCT c.template, c.template_hash, 1, 0, 0, 0 FROM winner w JOIN build b ON b.id = w.build"
                 " JOIN candidate c ON c.id = b.candidate WHERE w.device IN " DEVICES " ORDER BY 1, 2"},
};

static enum tern_status one_section(struct tern_store *s, size_t index, const char *gpu,
                                    enum tern_status (*each)(void *user, const struct tern_store_fact *fact,
                                                             struct tern_error *err),
                                    void *user, struct tern_error *err) {
    sqlite3_stmt *row;
    bool there = false;
    enum tern_status status = tern_store_prepare(s, &row, err, QUERIES[index].sql, "t", gpu);
    if (status)
        return status;
    while (!(status = tern_store_step(s, row, &there, err)) && there) {
        struct tern_store_fact fact = {.section = QUERIES[index].section,
                                       .count = sqlite3_column_int64(row, 2),
                                       .exit_code = sqlite3_column_int64(row, 3),
                                       .seconds = sqlite3_column_int64(row, 4),
                                       .seed = sqlite3_column_int64(row, 5)};
        tern_store_text(row, 0, fact.name, sizeof fact.name);
        tern_store_text(row, 1, fact.text, sizeof fact.text);
        status = each(user, &fact, err);
        if (status)
            break;
    }
    sqlite3_finalize(row);
    return status;
}

enum tern_status tern_store_facts_each(struct tern_store *s, const char *gpu,
                                       enum tern_status (*each)(void *user, const struct tern_store_fact *fact,
                                                                struct tern_error *err),
                                       void *user, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof QUERIES / sizeof QUERIES[0] && !status; i++)
        status = one_section(s, i, gpu, each, user, err);
    return status;
}

enum tern_status tern_store_winner_device(struct tern_store *s, const char *gpu, struct tern_store_device *out, bool *found,
                                          struct tern_error *err) {
    static const char sql[] =
        "SELECT device FROM winner WHERE planned = 0 AND device IN " DEVICES " ORDER BY id DESC LIMIT 1";
    sqlite3_stmt *row;
    int64_t id = 0;
    *found = false;
    enum tern_status status = tern_store_prepare(s, &row, err, sql, "t", gpu);
    if (status)
        return status;
    status = tern_store_step(s, row, found, err);
    if (!status && *found)
        id = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    return !status && *found ? tern_store_device_get(s, id, out, err) : status;
}
