/* Version of the SQLite library that the store runs on. */
#include "store/store.h"

#include <sqlite3.h>

const char *tern_store_sqlite_version(void) {
    return sqlite3_libversion();
}
