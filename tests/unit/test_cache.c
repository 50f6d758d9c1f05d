/* Unit tests of the cubin cache: round trips, every kind of damage found by the checksum, two writers at once. */
#include "store/cache.h"

#include "core/file.h"
#include "core/random.h"
#include "core/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define IMAGE_BYTES 20000

struct world {
    char dir[64];
    struct tern_cache *cache;
    unsigned char image[IMAGE_BYTES]; /* half random, half regular, as cubins are */
};

static void world_open(struct world *w) {
    struct tern_random r;
    tern_random_init(&r, 1, "cache");
    for (size_t i = 0; i < IMAGE_BYTES; i++)
        w->image[i] = i % 2 ? (unsigned char)tern_random_u64(&r) : 7;
    strcpy(w->dir, "/tmp/tern-cache-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    assert_int_equal(tern_cache_open(w->dir, &w->cache, NULL), TERN_OK);
}

static void world_close(struct world *w) {
    struct tern_strs folders = {0};
    char path[256];
    assert_int_equal(tern_file_list(w->dir, "", &folders, NULL), TERN_OK);
    for (size_t i = 0; i < folders.count; i++) {
        struct tern_strs files = {0};
        tern_str_format(path, sizeof path, "%s/%s", w->dir, folders.items[i]);
        assert_int_equal(tern_file_list(path, "", &files, NULL), TERN_OK);
        for (size_t j = 0; j < files.count; j++) {
            tern_str_format(path, sizeof path, "%s/%s/%s", w->dir, folders.items[i], files.items[j]);
            unlink(path);
        }
        tern_strs_free(&files);
        tern_str_format(path, sizeof path, "%s/%s", w->dir, folders.items[i]);
        rmdir(path);
    }
    tern_strs_free(&folders);
    rmdir(w->dir);
    tern_cache_close(w->cache);
}

/* True if `hash` is found and has the given content; false if absent. Anything else fails. */
static bool holds(struct tern_cache *cache, const char *hash, const void *image, size_t length) {
    void *got = NULL;
    size_t bytes = 1;
    bool found = true;
    struct tern_error err = {0};
    if (tern_cache_get(cache, hash, &got, &bytes, &found, &err))
        fail_msg("%s", err.text);
    if (!found) {
        assert_null(got);
        return false;
    }
    assert_int_equal(bytes, length);
    assert_memory_equal(got, image, length);
    free(got);
    return true;
}

static void test_round_trip(void **state) {
    (void)state;
    static struct world w;
    char hash[TERN_HASH_CHARS], empty[TERN_HASH_CHARS], expected[TERN_HASH_CHARS], path[4096];
    world_open(&w);
    tern_hash_bytes(w.image, IMAGE_BYTES, expected);
    assert_false(holds(w.cache, expected, w.image, IMAGE_BYTES));
    assert_int_equal(tern_cache_put(w.cache, w.image, IMAGE_BYTES, hash, NULL), TERN_OK);
    assert_string_equal(hash, expected);
    assert_true(holds(w.cache, hash, w.image, IMAGE_BYTES));
    assert_int_equal(tern_cache_path(w.cache, hash, path, sizeof path, NULL), TERN_OK);
    assert_true(tern_file_exists(path));
    assert_true(strncmp(path, w.dir, strlen(w.dir)) == 0 && strncmp(path + strlen(w.dir) + 1, hash, 2) == 0);
    assert_int_equal(tern_cache_put(w.cache, w.image, IMAGE_BYTES, hash, NULL), TERN_OK); /* again: no harm */
    assert_int_equal(tern_cache_put(w.cache, "", 0, empty, NULL), TERN_OK);
    assert_true(holds(w.cache, empty, "", 0));
    assert_true(holds(w.cache, hash, w.image, IMAGE_BYTES));
    world_close(&w);
}

/* Writes `data` in the place of the entry: the cache must report it absent, remove it, and take it again. */
static void check_damaged(struct world *w, const char *hash, const char *path, const void *data, size_t length) {
    char again[TERN_HASH_CHARS];
    assert_int_equal(tern_file_write(path, data, length, NULL), TERN_OK);
    assert_false(holds(w->cache, hash, w->image, IMAGE_BYTES));
    assert_false(tern_file_exists(path));
    assert_int_equal(tern_cache_put(w->cache, w->image, IMAGE_BYTES, again, NULL), TERN_OK);
    assert_true(holds(w->cache, hash, w->image, IMAGE_BYTES));
}

/* Damage is warned about; 270 warnings belong into a file here, not on the screen. */
static int divert_stderr(void **state) {
    static int saved;
    FILE *log = tmpfile();
    saved = dup(STDERR_FILENO);
    *state = &saved;
    return log && dup2(fileno(log), STDERR_FILENO) >= 0 ? 0 : -1;
}

static int restore_stderr(void **state) {
    int *saved = *state;
    return dup2(*saved, STDERR_FILENO) >= 0 && close(*saved) == 0 ? 0 : -1;
}

static void test_damage(void **state) {
    (void)state;
    static struct world w;
    char hash[TERN_HASH_CHARS], other[TERN_HASH_CHARS], path[4096], path2[4096], *frame, *frame2;
    size_t length, length2;
    struct tern_random r;
    world_open(&w);
    assert_int_equal(tern_cache_put(w.cache, w.image, IMAGE_BYTES, hash, NULL), TERN_OK);
    assert_int_equal(tern_cache_path(w.cache, hash, path, sizeof path, NULL), TERN_OK);
    assert_int_equal(tern_file_read(path, &frame, &length, NULL), TERN_OK);
    tern_random_init(&r, 2, "bits");
    int harmless = 0;
    for (int round = 0; round < 200; round++) { /* one flipped bit anywhere, header included */
        size_t bit = round < 80 ? (size_t)round : (size_t)tern_random_below(&r, 8 * length);
        frame[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(tern_file_write(path, frame, length, NULL), TERN_OK);
        if (holds(w.cache, hash, w.image, IMAGE_BYTES)) /* a flag zstd does not need: the content is checked, and right */
            harmless++;
        else
            assert_false(tern_file_exists(path));
        frame[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_in_range(harmless, 0, 10);
    for (size_t cut = 0; cut < length; cut += length / 37 + 1) /* cut short, down to nothing */
        check_damaged(&w, hash, path, frame, cut);
    check_damaged(&w, hash, path, "not a frame at all", 18);
    assert_int_equal(tern_cache_put(w.cache, w.image, IMAGE_BYTES - 1, other, NULL),
                     TERN_OK); /* a good frame of another image */
    assert_int_equal(tern_cache_path(w.cache, other, path2, sizeof path2, NULL), TERN_OK);
    assert_int_equal(tern_file_read(path2, &frame2, &length2, NULL), TERN_OK);
    check_damaged(&w, hash, path, frame2, length2);
    free(frame);
    free(frame2);
    char warning[64] = "";
    assert_true(pread(STDERR_FILENO, warning, sizeof warning - 1, 0) > 0);
    assert_non_null(strstr(warning, "damaged cache entry"));
    world_close(&w);
}

static void test_names_are_hashes(void **state) {
    (void)state;
    static const char *const names[] = {"",
                                        "ab",
                                        "../../../../etc/passwd",
                                        "0123456789ABCDEF0123456789ABCDEF",
                                        "../456789abcdef0123456789abcdef01",
                                        "0123456789abcdef0123456789abcdef0"};
    static struct world w;
    world_open(&w);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *image;
        size_t bytes;
        bool found;
        char path[256];
        struct tern_error err = {0};
        assert_int_equal(tern_cache_get(w.cache, names[i], &image, &bytes, &found, &err), TERN_INTERNAL);
        assert_non_null(strstr(err.text, "not the name"));
        assert_int_equal(tern_cache_path(w.cache, names[i], path, sizeof path, NULL), TERN_INTERNAL);
    }
    world_close(&w);
}

/* Two processes put the same image over and over while a third reads: it sees nothing or the whole image, never a part. */
static void test_concurrent_writers(void **state) {
    (void)state;
    static struct world w;
    char hash[TERN_HASH_CHARS];
    int seen = 0, status;
    world_open(&w);
    tern_hash_bytes(w.image, IMAGE_BYTES, hash);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            for (int n = 0; n < 40; n++)
                if (tern_cache_put(w.cache, w.image, IMAGE_BYTES, hash, NULL))
                    _exit(1);
            _exit(0);
        }
    }
    bool appeared = false;
    for (int running = 2; running > 0;) {
        bool there = holds(w.cache, hash, w.image, IMAGE_BYTES);
        assert_true(there || !appeared); /* a part would be taken for damage and removed: absent again */
        appeared = appeared || there;
        seen += there;
        if (waitpid(-1, &status, WNOHANG) > 0) {
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            running--;
        }
    }
    assert_true(holds(w.cache, hash, w.image, IMAGE_BYTES));
    assert_true(seen > 0);
    struct tern_strs files = {0}; /* and no temporary file is left */
    char folder[128];
    tern_str_format(folder, sizeof folder, "%s/%.2s", w.dir, hash);
    assert_int_equal(tern_file_list(folder, "", &files, NULL), TERN_OK);
    assert_int_equal(files.count, 1);
    tern_strs_free(&files);
    world_close(&w);
}

static void test_folder_not_usable(void **state) {
    (void)state;
    struct tern_cache *cache;
    struct tern_error err = {0};
    assert_int_not_equal(tern_cache_open("/proc/no/such/folder", &cache, &err), TERN_OK);
    assert_null(cache);
    assert_true(err.text[0] != '\0');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test_setup_teardown(test_damage, divert_stderr, restore_stderr),
        cmocka_unit_test(test_names_are_hashes),
        cmocka_unit_test(test_concurrent_writers),
        cmocka_unit_test(test_folder_not_usable),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
