/* Version of the program, as `tune --version`, the database and exports state it. */
#ifndef TERN_CORE_VERSION_H
#define TERN_CORE_VERSION_H

#define TERN_VERSION "0.1.0"

#endif
