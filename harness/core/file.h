/* Files and folders: whole reads, atomic writes (temp + fsync + rename), finding the program's data. */
#ifndef TERN_CORE_FILE_H
#define TERN_CORE_FILE_H

#include "core/error.h"
#include "core/str.h"

#include <stdbool.h>
#include <stddef.h>

bool tern_file_exists(const char *path);
bool tern_file_is_dir(const char *path);

/* Reads a whole file; *data is malloc'ed with a NUL behind the last byte, the caller frees it. */
enum tern_status tern_file_read(const char *path, char **data, size_t *length, struct tern_error *err);

/* Replaces `path` atomically; a reader sees the old or the new content, never a part. */
enum tern_status tern_file_write(const char *path, const void *data, size_t length, struct tern_error *err);

/* mkdir -p. */
enum tern_status tern_file_make_dirs(const char *path, struct tern_error *err);

/* Makes a new folder NAME.XXXXXX in $TMPDIR, or /tmp; the caller removes it. */
enum tern_status tern_file_make_scratch(const char *name, char *out, size_t size, struct tern_error *err);

/* Proves that files can be created in `dir` (made if missing), by creating and removing one. Called before long work. */
enum tern_status tern_file_check_writable_dir(const char *dir, struct tern_error *err);

/* Names (not paths) in a folder that end in `suffix` ("" for all), sorted; "." and ".." left out. */
enum tern_status tern_file_list(const char *dir, const char *suffix, struct tern_strs *names, struct tern_error *err);

/* First executable of that name on PATH; false if none. */
bool tern_file_find_program(const char *name, char *out, size_t size);

/* Folder with templates/, kernels/, configs/, scripts/, harness/emulator/: $TERN_HOME, else the first of the executable's
 * folder, its parents and its ../share/tern that holds templates/include/tern/abi.h. */
enum tern_status tern_file_home(char *out, size_t size, struct tern_error *err);

/* home + "/" + relative. */
enum tern_status tern_file_home_path(const char *relative, char *out, size_t size, struct tern_error *err);

#endif
