/* Executes lines of a differential program against one shared library with RocksDB's C API.
 *
 *   runner LIBRARY      reads lines from standard input, prints one line per line.
 *
 * A line "=" ends a segment: everything is flushed and "=" is printed. Keys are hexadecimal ("-" is the
 * empty key, "*" no key), values are sNUMBER.LENGTH (made from a number), uNUMBER (eight bytes) or hexadecimal.
 * "@N" in front of a line means family slot N, through the functions that take a family handle. A line that makes no sense in the present state prints why and changes nothing, so that a program without
 * some of its lines is a program too. An error prints "E" and its text.
 *
 * Written against the C API alone, as a user would; knows nothing about who made the library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* faults.c */
void fault_below(const char *dir);
void fault_set(int class, long nth, int error, long times);
void fault_storm(long seed, long one_in);
long fault_off(void);
int fault_classes(void);
long fault_count(int class);

typedef void *H;
typedef unsigned char U8;

#define FUNCTIONS(X) \
  X(H, options_create, (void)) \
  X(void, options_destroy, (H)) \
  X(void, options_set_comparator, (H, H)) \
  X(void, options_set_merge_operator, (H, H)) \
  X(void, options_set_uint64add_merge_operator, (H)) \
  X(void, get_options_from_string, (H, const char *, H, char **)) \
  X(H, comparator_create, (void *, void (*)(void *), int (*)(void *, const char *, size_t, const char *, size_t), const char *(*)(void *))) \
  X(H, mergeoperator_create, (void *, void (*)(void *), \
     char *(*)(void *, const char *, size_t, const char *, size_t, const char *const *, const size_t *, int, U8 *, size_t *), \
     char *(*)(void *, const char *, size_t, const char *const *, const size_t *, int, U8 *, size_t *), \
     void (*)(void *, const char *, size_t), const char *(*)(void *))) \
  X(H, open, (H, const char *, char **)) \
  X(H, open_for_read_only, (H, const char *, U8, char **)) \
  X(H, open_column_families, (H, const char *, int, const char *const *, const H *, H *, char **)) \
  X(void, close, (H)) \
  X(void, destroy_db, (H, const char *, char **)) \
  X(H, checkpoint_object_create, (H, char **)) \
  X(void, checkpoint_create, (H, const char *, uint64_t, char **)) \
  X(void, checkpoint_object_destroy, (H)) \
  X(char **, list_column_families, (H, const char *, size_t *, char **)) \
  X(void, list_column_families_destroy, (char **, size_t)) \
  X(void, column_family_handle_destroy, (H)) \
  X(H, get_default_column_family_handle, (H)) \
  X(uint32_t, column_family_handle_get_id, (H)) \
  X(char *, column_family_handle_get_name, (H, size_t *)) \
  X(H, writeoptions_create, (void)) \
  X(void, writeoptions_destroy, (H)) \
  X(void, writeoptions_set_sync, (H, U8)) \
  X(void, writeoptions_disable_WAL, (H, int)) \
  X(void, put, (H, H, const char *, size_t, const char *, size_t, char **)) \
  X(void, delete, (H, H, const char *, size_t, char **)) \
  X(void, singledelete, (H, H, const char *, size_t, char **)) \
  X(void, merge, (H, H, const char *, size_t, const char *, size_t, char **)) \
  X(void, write, (H, H, H, char **)) \
  X(void, put_cf, (H, H, H, const char *, size_t, const char *, size_t, char **)) \
  X(void, delete_cf, (H, H, H, const char *, size_t, char **)) \
  X(void, singledelete_cf, (H, H, H, const char *, size_t, char **)) \
  X(void, merge_cf, (H, H, H, const char *, size_t, const char *, size_t, char **)) \
  X(void, delete_range_cf, (H, H, H, const char *, size_t, const char *, size_t, char **)) \
  X(H, create_column_family, (H, H, const char *, char **)) \
  X(void, drop_column_family, (H, H, char **)) \
  X(void, writebatch_put_cf, (H, H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_putv_cf, (H, H, int, const char *const *, const size_t *, int, const char *const *, const size_t *)) \
  X(void, writebatch_delete_cf, (H, H, const char *, size_t)) \
  X(void, writebatch_deletev_cf, (H, H, int, const char *const *, const size_t *)) \
  X(void, writebatch_singledelete_cf, (H, H, const char *, size_t)) \
  X(void, writebatch_merge_cf, (H, H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_delete_range_cf, (H, H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_iterate_cf, (H, void *, \
     void (*)(void *, uint32_t, const char *, size_t, const char *, size_t), void (*)(void *, uint32_t, const char *, size_t), \
     void (*)(void *, uint32_t, const char *, size_t, const char *, size_t))) \
  X(U8, get_into_buffer_cf, (H, H, H, const char *, size_t, char *, size_t, size_t *, U8 *, char **)) \
  X(void, multi_get_cf, (H, H, const H *, size_t, const char *const *, const size_t *, char **, size_t *, char **)) \
  X(U8, key_may_exist, (H, H, const char *, size_t, char **, size_t *, const char *, size_t, U8 *)) \
  X(U8, key_may_exist_cf, (H, H, H, const char *, size_t, char **, size_t *, const char *, size_t, U8 *)) \
  X(H, create_iterator_cf, (H, H, H)) \
  X(void, create_iterators, (H, H, H *, H *, size_t, char **)) \
  X(void, readoptions_set_total_order_seek, (H, U8)) \
  X(void, readoptions_set_prefix_same_as_start, (H, U8)) \
  X(void, readoptions_set_auto_prefix_mode, (H, U8)) \
  X(void, readoptions_set_tailing, (H, U8)) \
  X(void, readoptions_set_pin_data, (H, U8)) \
  X(void, flush_cf, (H, H, H, char **)) \
  X(void, flush_cfs, (H, H, H *, int, char **)) \
  X(void, compact_range_cf, (H, H, const char *, size_t, const char *, size_t)) \
  X(char *, property_value_cf, (H, H, const char *)) \
  X(int, property_int_cf, (H, H, const char *, uint64_t *)) \
  X(H, writebatch_create, (void)) \
  X(H, writebatch_create_from, (const char *, size_t)) \
  X(void, writebatch_destroy, (H)) \
  X(void, writebatch_clear, (H)) \
  X(int, writebatch_count, (H)) \
  X(void, writebatch_put, (H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_putv, (H, int, const char *const *, const size_t *, int, const char *const *, const size_t *)) \
  X(void, writebatch_delete, (H, const char *, size_t)) \
  X(void, writebatch_deletev, (H, int, const char *const *, const size_t *)) \
  X(void, writebatch_singledelete, (H, const char *, size_t)) \
  X(void, writebatch_merge, (H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_put_log_data, (H, const char *, size_t)) \
  X(void, writebatch_delete_range, (H, const char *, size_t, const char *, size_t)) \
  X(const char *, writebatch_data, (H, size_t *)) \
  X(void, writebatch_iterate, (H, void *, void (*)(void *, const char *, size_t, const char *, size_t), void (*)(void *, const char *, size_t))) \
  X(void, writebatch_set_save_point, (H)) \
  X(void, writebatch_rollback_to_save_point, (H, char **)) \
  X(void, writebatch_pop_save_point, (H, char **)) \
  X(H, readoptions_create, (void)) \
  X(void, readoptions_destroy, (H)) \
  X(void, readoptions_set_snapshot, (H, H)) \
  X(void, readoptions_set_fill_cache, (H, U8)) \
  X(void, readoptions_set_verify_checksums, (H, U8)) \
  X(void, readoptions_set_readahead_size, (H, size_t)) \
  X(void, readoptions_set_iterate_lower_bound, (H, const char *, size_t)) \
  X(void, readoptions_set_iterate_upper_bound, (H, const char *, size_t)) \
  X(char *, get, (H, H, const char *, size_t, size_t *, char **)) \
  X(char *, get_cf, (H, H, H, const char *, size_t, size_t *, char **)) \
  X(H, get_pinned, (H, H, const char *, size_t, char **)) \
  X(H, get_pinned_cf, (H, H, H, const char *, size_t, char **)) \
  X(const char *, pinnableslice_value, (H, size_t *)) \
  X(void, pinnableslice_destroy, (H)) \
  X(U8, get_into_buffer, (H, H, const char *, size_t, char *, size_t, size_t *, U8 *, char **)) \
  X(void, multi_get, (H, H, size_t, const char *const *, const size_t *, char **, size_t *, char **)) \
  X(void, batched_multi_get_cf, (H, H, H, size_t, const char *const *, const size_t *, H *, char **, bool)) \
  X(H, create_iterator, (H, H)) \
  X(void, iter_destroy, (H)) \
  X(U8, iter_valid, (H)) \
  X(void, iter_seek_to_first, (H)) \
  X(void, iter_seek_to_last, (H)) \
  X(void, iter_seek, (H, const char *, size_t)) \
  X(void, iter_seek_for_prev, (H, const char *, size_t)) \
  X(void, iter_next, (H)) \
  X(void, iter_prev, (H)) \
  X(const char *, iter_key, (H, size_t *)) \
  X(const char *, iter_value, (H, size_t *)) \
  X(void, iter_get_error, (H, char **)) \
  X(void, iter_refresh, (H, char **)) \
  X(H, create_snapshot, (H)) \
  X(void, release_snapshot, (H, H)) \
  X(uint64_t, snapshot_get_sequence_number, (H)) \
  X(uint64_t, get_latest_sequence_number, (H)) \
  X(H, flushoptions_create, (void)) \
  X(void, flushoptions_destroy, (H)) \
  X(void, flushoptions_set_wait, (H, U8)) \
  X(void, flush, (H, H, char **)) \
  X(void, flush_wal, (H, U8, char **)) \
  X(void, compact_range, (H, const char *, size_t, const char *, size_t)) \
  X(H, compactoptions_create, (void)) \
  X(void, compactoptions_destroy, (H)) \
  X(void, compactoptions_set_blob_garbage_collection_policy, (H, int)) \
  X(void, compactoptions_set_blob_garbage_collection_age_cutoff, (H, double)) \
  X(void, compact_range_opt, (H, H, const char *, size_t, const char *, size_t)) \
  X(void, compact_range_cf_opt, (H, H, H, const char *, size_t, const char *, size_t)) \
  X(H, wait_for_compact_options_create, (void)) \
  X(void, wait_for_compact_options_destroy, (H)) \
  X(void, wait_for_compact, (H, H, char **)) \
  X(char *, property_value, (H, const char *)) \
  X(int, property_int, (H, const char *, uint64_t *)) \
  X(void, set_options, (H, int, const char *const *, const char *const *, char **)) \
  X(void, set_options_cf, (H, H, int, const char *const *, const char *const *, char **)) \
  X(H, compactionfilter_create, (void *, void (*)(void *), \
     U8 (*)(void *, int, const char *, size_t, const char *, size_t, char **, size_t *, U8 *), const char *(*)(void *))) \
  X(void, options_set_compaction_filter, (H, H)) \
  X(H, get_updates_since, (H, uint64_t, H, char **)) \
  X(U8, wal_iter_valid, (H)) \
  X(void, wal_iter_next, (H)) \
  X(void, wal_iter_status, (H, char **)) \
  X(H, wal_iter_get_batch, (H, uint64_t *)) \
  X(void, wal_iter_destroy, (H)) \
  X(H, writebatch_wi_create, (size_t, U8)) \
  X(H, writebatch_wi_create_with_params, (H, size_t, U8, size_t, size_t)) \
  X(void, writebatch_wi_destroy, (H)) \
  X(void, writebatch_wi_clear, (H)) \
  X(int, writebatch_wi_count, (H)) \
  X(void, writebatch_wi_put, (H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_wi_put_cf, (H, H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_wi_delete, (H, const char *, size_t)) \
  X(void, writebatch_wi_delete_cf, (H, H, const char *, size_t)) \
  X(void, writebatch_wi_merge, (H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_wi_merge_cf, (H, H, const char *, size_t, const char *, size_t)) \
  X(void, writebatch_wi_put_log_data, (H, const char *, size_t)) \
  X(const char *, writebatch_wi_data, (H, size_t *)) \
  X(void, writebatch_wi_set_save_point, (H)) \
  X(void, writebatch_wi_rollback_to_save_point, (H, char **)) \
  X(char *, writebatch_wi_get_from_batch, (H, H, const char *, size_t, size_t *, char **)) \
  X(char *, writebatch_wi_get_from_batch_cf, (H, H, H, const char *, size_t, size_t *, char **)) \
  X(char *, writebatch_wi_get_from_batch_and_db, (H, H, H, const char *, size_t, size_t *, char **)) \
  X(char *, writebatch_wi_get_from_batch_and_db_cf, (H, H, H, H, const char *, size_t, size_t *, char **)) \
  X(H, writebatch_wi_create_iterator_with_base_readopts, (H, H, H)) \
  X(H, writebatch_wi_create_iterator_with_base_cf_readopts, (H, H, H, H)) \
  X(void, write_writebatch_wi, (H, H, H, char **)) \
  X(void, free, (void *))

#define DECLARE(ret, name, args) static ret(*rdb_##name) args;
FUNCTIONS(DECLARE)

#define SLOTS 4
#define FAMILIES 6

/* Calls the form of a function that a line asks for: with "@N" in front for a family, else without. */
#define CF(name, ...) (cur ? rdb_##name##_cf(db, o, cur, __VA_ARGS__) : rdb_##name(db, o, __VA_ARGS__))
#define BATCH(name, ...) (cur ? rdb_##name##_cf(b, cur, __VA_ARGS__) : rdb_##name(b, __VA_ARGS__))

static char dir[4096];
static H db, cur, families[FAMILIES], iters[SLOTS], iter_ro[SLOTS], snaps[SLOTS], batches[SLOTS], indexed[SLOTS];
static char *bounds[SLOTS][2];
static int comparator_kind, merge_kind, filter_kind;
static volatile long line_number;

/* ---- output ---- */

static char *out;
static size_t out_len, out_cap;

static void room(size_t n) {
  if (out_len + n + 1 > out_cap) {
    out_cap = (out_len + n + 1) * 2;
    out = realloc(out, out_cap);
  }
}

static void say(const char *format, ...) {
  char text[8192];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (n >= (int)sizeof text) n = sizeof text - 1;
  room(n);
  memcpy(out + out_len, text, n);
  out_len += n;
}

static void flush_out(void) {
  size_t at = 0;
  while (at < out_len) {
    ssize_t n = write(1, out + at, out_len - at);
    if (n <= 0) _exit(3);
    at += n;
  }
  out_len = 0;
}

static void on_signal(int sig) {
  say("CRASH signal %d in line %ld\n", sig, line_number);
  flush_out();
  _exit(4);
}

static uint64_t hash(uint64_t h, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++) h = (h ^ (U8)p[i]) * 0x100000001b3ULL;
  return (h ^ n) * 0x100000001b3ULL;
}

/* Short bytes as they are, long ones by length and hash. */
static void say_bytes(const char *p, size_t n) {
  if (n == 0) {
    say("-");
  } else if (n <= 24) {
    for (size_t i = 0; i < n; i++) say("%02x", (U8)p[i]);
  } else {
    for (size_t i = 0; i < 8; i++) say("%02x", (U8)p[i]);
    say("..%zu#%016llx", n, (unsigned long long)hash(0xcbf29ce484222325ULL, p, n));
  }
}

/* Prints and frees an error; 1 if there was one. */
static int failed(char *err) {
  if (!err) return 0;
  for (char *p = err; *p; p++)
    if (*p == '\n') *p = ' ';
  say("E %s", err);
  rdb_free(err);
  return 1;
}

static void done(char *err) {
  if (!failed(err)) say("ok");
}

/* ---- input ---- */

typedef struct {
  char *p;
  size_t n;
  int missing;
} Bytes;

static int digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static Bytes unhex(const char *text) {
  Bytes b = {NULL, 0, 0};
  size_t n = strlen(text);
  if (!strcmp(text, "-")) n = 0;
  b.p = malloc(n / 2 + 1);
  for (size_t i = 0; i + 1 < n; i += 2) b.p[b.n++] = (char)(digit(text[i]) << 4 | digit(text[i + 1]));
  return b;
}

static Bytes key_of(const char *text) {
  if (!text) text = "-";
  if (!strcmp(text, "*")) {
    Bytes none = {NULL, 0, 1};
    return none;
  }
  return unhex(text);
}

static Bytes value_of(const char *text) {
  Bytes b = {NULL, 0, 0};
  if (!text) text = "-";
  if (text[0] == 's') {
    char *dot;
    uint64_t x = strtoull(text + 1, &dot, 10);
    b.n = *dot ? strtoull(dot + 1, NULL, 10) : 0;
    b.p = malloc(b.n + 8);
    uint64_t s = x * 0x9e3779b97f4a7c15ULL + 1;
    for (size_t i = 0; i < b.n; i++) {
      if (i % 16 == 0) s = s * 6364136223846793005ULL + 1442695040888963407ULL;
      /* Half of them compressible. */
      b.p[i] = (char)(x & 1 ? s >> (8 * (i % 8)) : (s >> 60) + 'a');
    }
    return b;
  }
  if (text[0] == 'u') {
    uint64_t x = strtoull(text + 1, NULL, 10);
    b.p = malloc(8);
    b.n = 8;
    for (int i = 0; i < 8; i++) b.p[i] = (char)(x >> (8 * i));
    return b;
  }
  return unhex(text);
}

#define WORDS_MAX 128
static char *words[WORDS_MAX];
static int word_count;

static char *word(int i) { return i < word_count ? words[i] : NULL; }
static long number(int i) { return i < word_count ? atol(words[i]) : 0; }
static int slot(int i) { return (int)((unsigned long)number(i) % SLOTS); }

/* ---- callbacks ---- */

static void nothing(void *state) { (void)state; }

static int compare_reverse(void *state, const char *a, size_t an, const char *b, size_t bn) {
  (void)state;
  int c = memcmp(b, a, an < bn ? an : bn);
  return c ? c : an < bn ? 1 : an > bn ? -1 : 0;
}

static const char *name_reverse(void *state) {
  (void)state;
  return "stress.reverse";
}

static void append(char **to, size_t *n, const char *p, size_t len) {
  *to = realloc(*to, *n + len + 1);
  memcpy(*to + *n, p, len);
  *n += len;
}

/* Joins with '|'; an operand that begins with 'F' 'A' fails. Folding in steps gives the same. */
static char *full_merge(void *state, const char *key, size_t kn, const char *old, size_t oldn, const char *const *ops,
                        const size_t *lens, int count, U8 *success, size_t *n) {
  (void)state;
  (void)key;
  (void)kn;
  char *v = malloc(1);
  *n = 0;
  *success = 1;
  if (old) append(&v, n, old, oldn);
  for (int i = 0; i < count; i++) {
    if (lens[i] >= 2 && ops[i][0] == 'F' && ops[i][1] == 'A') *success = 0;
    if (old || i > 0) append(&v, n, "|", 1);
    append(&v, n, ops[i], lens[i]);
  }
  if (!*success) {
    free(v);
    *n = 0;
    return NULL;
  }
  return v;
}

/* Not mergeable without a value. */
static char *partial_merge(void *state, const char *key, size_t kn, const char *const *ops, const size_t *lens, int count,
                           U8 *success, size_t *n) {
  (void)state;
  (void)key;
  (void)kn;
  (void)ops;
  (void)lens;
  (void)count;
  *success = 0;
  *n = 0;
  return NULL;
}

static void delete_value(void *state, const char *v, size_t n) {
  (void)state;
  (void)n;
  free((void *)v);
}

static const char *name_merge(void *state) {
  (void)state;
  return "stress.merge";
}

/* Removes values whose length is a multiple of three, and shortens every third: a second pass changes nothing. */
static U8 filter(void *state, int level, const char *key, size_t kn, const char *old, size_t oldn, char **new_value,
                 size_t *new_len, U8 *changed) {
  static _Thread_local char *kept;
  (void)state;
  (void)level;
  (void)key;
  (void)kn;
  *changed = 0;
  if (oldn % 3 == 1 && oldn > 3) {
    kept = realloc(kept, oldn);
    memcpy(kept, old, oldn - 2);
    *new_value = kept;
    *new_len = oldn - 2;
    *changed = 1;
  }
  return oldn % 3 == 0 && oldn > 0;
}

static const char *name_filter(void *state) {
  (void)state;
  return "stress.filter";
}

static H comparator(void) {
  static H c;
  if (!c) c = rdb_comparator_create(NULL, nothing, compare_reverse, name_reverse);
  return c;
}

/* ---- verbs ---- */

static void close_db(void) {
  if (!db) return;
  for (int i = 0; i < SLOTS; i++) {
    if (iters[i]) rdb_iter_destroy(iters[i]);
    if (iter_ro[i]) rdb_readoptions_destroy(iter_ro[i]);
    if (snaps[i]) rdb_release_snapshot(db, snaps[i]);
    iters[i] = iter_ro[i] = snaps[i] = NULL;
  }
  for (int i = 0; i < FAMILIES; i++) {
    if (families[i]) rdb_column_family_handle_destroy(families[i]);
    families[i] = NULL;
  }
  rdb_close(db);
  db = NULL;
}

/* Options made of "setup" and a string; NULL after printing the error. */
static H make_options(const char *text) {
  char *err = NULL;
  H base = rdb_options_create(), o = rdb_options_create();
  rdb_get_options_from_string(base, text, o, &err);
  rdb_options_destroy(base);
  if (failed(err)) {
    rdb_options_destroy(o);
    return NULL;
  }
  if (comparator_kind) rdb_options_set_comparator(o, comparator());
  if (filter_kind) {
    static H f;
    if (!f) f = rdb_compactionfilter_create(NULL, nothing, filter, name_filter);
    rdb_options_set_compaction_filter(o, f);
  }
  if (merge_kind == 1) rdb_options_set_uint64add_merge_operator(o);
  if (merge_kind == 2)
    rdb_options_set_merge_operator(
        o, rdb_mergeoperator_create(NULL, nothing, full_merge, partial_merge, delete_value, name_merge));
  return o;
}

/* Opens the named families, or with NULL all there are. OPTIONS|OPTIONS|...: the first are those of the database
 * too, family n has the nth or the last. */
static void open_families(H o, char *list, char *more, char **err) {
  const char *names[64];
  char **found = NULL;
  H each[64], handles[64];
  int n = 0;
  size_t found_count = 0;
  if (!list) {
    char *missing = NULL;
    found = rdb_list_column_families(o, dir, &found_count, &missing);
    rdb_free(missing);
    while (n < 64 && n < (int)found_count) names[n] = found[n], n++;
    if (n == 0) names[n++] = "default";
  } else {
    char *name;
    while (n < 64 && (name = strsep(&list, ","))) names[n++] = name;
  }
  char *texts[64];
  int count = 0;
  while (count < 64 && more) texts[count++] = strsep(&more, "|");
  int good = 1;
  for (int i = 0; i < n; i++) {
    each[i] = i == 0 || count < 2 ? o : make_options(texts[i < count ? i : count - 1]);
    if (!each[i]) {
      good = 0;
      n = i;
    }
  }
  if (good) db = rdb_open_column_families(o, dir, n, names, (const H *)each, handles, err);
  if (db)
    for (int i = 0; i < n; i++) {
      if (i < FAMILIES)
        families[i] = handles[i];
      else
        rdb_column_family_handle_destroy(handles[i]);
    }
  for (int i = 1; i < n; i++)
    if (each[i] != o) rdb_options_destroy(each[i]);
  if (found) rdb_list_column_families_destroy(found, found_count);
}

/* open KIND OPTIONS */
static void verb_open(char *rest) {
  char *err = NULL;
  if (db) {
    say("already open");
    return;
  }
  char *kind = strsep(&rest, " ");
  char *first = rest ? strdup(rest) : strdup("");
  char *bar = strchr(first, '|');
  if (bar) *bar = 0;
  H o = make_options(first);
  free(first);
  if (!o) return;
  if (!strcmp(kind, "ro")) {
    db = rdb_open_for_read_only(o, dir, 0, &err);
  } else if (!strncmp(kind, "cf:", 3) || !strcmp(kind, "all")) {
    open_families(o, kind[0] == 'a' ? NULL : kind + 3, rest, &err);
  } else {
    db = rdb_open(o, dir, &err);
  }
  rdb_options_destroy(o);
  if (db || err) done(err);
}

/* mkcf SLOT NAME OPTIONS */
static void verb_create(void) {
  char *err = NULL;
  int s = (int)((unsigned long)number(1) % FAMILIES);
  H o = make_options(word(3) ? word(3) : "");
  if (!o) return;
  H made = rdb_create_column_family(db, o, word(2) ? word(2) : "", &err);
  rdb_options_destroy(o);
  if (made) {
    if (families[s]) rdb_column_family_handle_destroy(families[s]);
    families[s] = made;
    say("id %u ", rdb_column_family_handle_get_id(made));
  }
  done(err);
}

static H write_options(long flags) {
  H o = rdb_writeoptions_create();
  if (flags & 1) rdb_writeoptions_set_sync(o, 1);
  if (flags & 2) rdb_writeoptions_disable_WAL(o, 1);
  return o;
}

static H read_options(const char *at) {
  H o = rdb_readoptions_create();
  if (at && *at >= '0' && *at <= '9') {
    H s = snaps[atoi(at) % SLOTS];
    if (s) rdb_readoptions_set_snapshot(o, s);
  }
  return o;
}

static void verb_write(const char *verb) {
  char *err = NULL;
  Bytes k = key_of(word(1)), v = {NULL, 0, 0};
  if (!strcmp(verb, "put")) {
    v = value_of(word(2));
    H o = write_options(number(3));
    CF(put, k.p, k.n, v.p, v.n, &err);
    rdb_writeoptions_destroy(o);
  } else if (!strcmp(verb, "merge")) {
    v = value_of(word(2));
    H o = write_options(number(3));
    CF(merge, k.p, k.n, v.p, v.n, &err);
    rdb_writeoptions_destroy(o);
  } else if (!strcmp(verb, "range")) {
    v = key_of(word(2));
    H o = write_options(number(3)), cf = cur ? NULL : rdb_get_default_column_family_handle(db);
    rdb_delete_range_cf(db, o, cur ? cur : cf, k.p, k.n, v.p, v.n, &err);
    if (cf) rdb_column_family_handle_destroy(cf);
    rdb_writeoptions_destroy(o);
  } else if (!strcmp(verb, "del")) {
    H o = write_options(number(2));
    CF(delete, k.p, k.n, &err);
    rdb_writeoptions_destroy(o);
  } else {
    /* toggle: put if absent, else single delete */
    size_t n;
    H ro = rdb_readoptions_create(), o = write_options(number(3));
    char *old = cur ? rdb_get_cf(db, ro, cur, k.p, k.n, &n, &err) : rdb_get(db, ro, k.p, k.n, &n, &err);
    rdb_readoptions_destroy(ro);
    v = value_of(word(2));
    if (!err) {
      if (old)
        CF(singledelete, k.p, k.n, &err);
      else
        CF(put, k.p, k.n, v.p, v.n, &err);
    }
    say(old ? "single " : "put ");
    rdb_free(old);
    rdb_writeoptions_destroy(o);
  }
  free(k.p);
  free(v.p);
  done(err);
}

static void show_put(void *state, const char *k, size_t kn, const char *v, size_t vn) {
  (void)state;
  say(" put ");
  say_bytes(k, kn);
  say("=");
  say_bytes(v, vn);
}

static void show_delete(void *state, const char *k, size_t kn) {
  (void)state;
  say(" del ");
  say_bytes(k, kn);
}

static void show_put_cf(void *state, uint32_t cf, const char *k, size_t kn, const char *v, size_t vn) {
  say(" %u", cf);
  show_put(state, k, kn, v, vn);
}

static void show_merge_cf(void *state, uint32_t cf, const char *k, size_t kn, const char *v, size_t vn) {
  say(" merge %u", cf);
  show_put(state, k, kn, v, vn);
}

static void show_delete_cf(void *state, uint32_t cf, const char *k, size_t kn) {
  say(" %u", cf);
  show_delete(state, k, kn);
}

/* b SLOT VERB ... */
static void verb_batch(void) {
  int s = slot(1);
  const char *verb = word(2);
  char *err = NULL;
  if (!batches[s]) batches[s] = rdb_writebatch_create();
  H b = batches[s];
  if (!verb) {
    say("no verb");
    return;
  }
  Bytes k = {NULL, 0, 0}, v = {NULL, 0, 0};
  if (!strcmp(verb, "put")) {
    k = key_of(word(3)), v = value_of(word(4));
    BATCH(writebatch_put, k.p, k.n, v.p, v.n);
  } else if (!strcmp(verb, "del")) {
    k = key_of(word(3));
    BATCH(writebatch_delete, k.p, k.n);
  } else if (!strcmp(verb, "sdel")) {
    k = key_of(word(3));
    BATCH(writebatch_singledelete, k.p, k.n);
  } else if (!strcmp(verb, "merge")) {
    k = key_of(word(3)), v = value_of(word(4));
    BATCH(writebatch_merge, k.p, k.n, v.p, v.n);
  } else if (!strcmp(verb, "log")) {
    v = value_of(word(3));
    rdb_writebatch_put_log_data(b, v.p, v.n);
  } else if (!strcmp(verb, "range")) {
    k = key_of(word(3)), v = key_of(word(4));
    BATCH(writebatch_delete_range, k.p, k.n, v.p, v.n);
  } else if (!strcmp(verb, "putv")) {
    Bytes a = key_of(word(3)), c = key_of(word(4));
    k = value_of(word(5)), v = value_of(word(6));
    const char *kp[2] = {a.p, c.p}, *vp[2] = {k.p, v.p};
    size_t kl[2] = {a.n, c.n}, vl[2] = {k.n, v.n};
    BATCH(writebatch_putv, 2, kp, kl, 2, vp, vl);
    free(a.p);
    free(c.p);
  } else if (!strcmp(verb, "delv")) {
    k = key_of(word(3)), v = key_of(word(4));
    const char *kp[2] = {k.p, v.p};
    size_t kl[2] = {k.n, v.n};
    BATCH(writebatch_deletev, 2, kp, kl);
  } else if (!strcmp(verb, "clear")) {
    rdb_writebatch_clear(b);
  } else if (!strcmp(verb, "save")) {
    rdb_writebatch_set_save_point(b);
  } else if (!strcmp(verb, "rollback")) {
    rdb_writebatch_rollback_to_save_point(b, &err);
  } else if (!strcmp(verb, "pop")) {
    rdb_writebatch_pop_save_point(b, &err);
  } else if (!strcmp(verb, "data")) {
    size_t n;
    const char *p = rdb_writebatch_data(b, &n);
    say("data ");
    /* Without the sequence number, which a write fills in. */
    say_bytes(n > 8 ? p + 8 : p, n > 8 ? n - 8 : 0);
    say(" ");
  } else if (!strcmp(verb, "iterate")) {
    if (cur)
      rdb_writebatch_iterate_cf(b, NULL, show_put_cf, show_delete_cf, show_merge_cf);
    else
      rdb_writebatch_iterate(b, NULL, show_put, show_delete);
    say(" ");
  } else if (!strcmp(verb, "from")) {
    k = unhex(word(3) ? word(3) : "-");
    rdb_writebatch_destroy(b);
    b = batches[s] = rdb_writebatch_create_from(k.p, k.n);
    if (!b) {
      say("null");
      free(k.p);
      return;
    }
  }
  free(k.p);
  free(v.p);
  say("count %d ", rdb_writebatch_count(b));
  done(err);
}

static void say_value(char *v, size_t n, char *err) {
  if (failed(err)) return;
  if (v)
    say_bytes(v, n);
  else
    say("absent");
}

/* get METHOD AT KEY */
static void verb_get(void) {
  char *err = NULL, *v;
  size_t n = 0;
  long method = number(1);
  Bytes k = key_of(word(3));
  H o = read_options(word(2));
  if (method == 1) {
    H p = CF(get_pinned, k.p, k.n, &err);
    v = p ? (char *)rdb_pinnableslice_value(p, &n) : NULL;
    say_value(v, n, err);
    if (p) rdb_pinnableslice_destroy(p);
  } else if (method == 2) {
    char buf[64];
    U8 found = 9;
    U8 fits = CF(get_into_buffer, k.p, k.n, buf, sizeof buf, &n, &found, &err);
    if (!failed(err)) {
      say("fits %d found %d size %zu ", fits, found, found ? n : 0);
      if (found && fits) say_bytes(buf, n);
    }
  } else if (method == 3) {
    H cf = cur ? NULL : rdb_get_default_column_family_handle(db);
    v = rdb_get_cf(db, o, cur ? cur : cf, k.p, k.n, &n, &err);
    say_value(v, n, err);
    rdb_free(v);
    if (cf) rdb_column_family_handle_destroy(cf);
  } else {
    v = CF(get, k.p, k.n, &n, &err);
    say_value(v, n, err);
    rdb_free(v);
  }
  rdb_readoptions_destroy(o);
  free(k.p);
}

/* kme AT KEY: a key that is there may exist. The value is not looked at: RocksDB says that it found one where it
 * only could not read. */
static void verb_may_exist(void) {
  char *err = NULL, *v = NULL;
  size_t n = 0, m = 0;
  U8 found = 0;
  Bytes k = key_of(word(2));
  H o = read_options(word(1));
  char *there = CF(get, k.p, k.n, &n, &err);
  U8 may = CF(key_may_exist, k.p, k.n, &v, &m, NULL, 0, &found);
  if (!failed(err)) {
    if (there && !may) say("FALSE NEGATIVE ");
    say("ok");
  }
  if (may && found) rdb_free(v);
  rdb_free(there);
  rdb_readoptions_destroy(o);
  free(k.p);
}

/* mgetcf AT FAMILY/KEY... */
static void verb_mget_families(void) {
  Bytes k[WORDS_MAX];
  const char *kp[WORDS_MAX];
  size_t kl[WORDS_MAX], vl[WORDS_MAX];
  char *v[WORDS_MAX], *errs[WORDS_MAX];
  H of[WORDS_MAX];
  int n = 0;
  H o = read_options(word(1));
  for (int i = 2; i < word_count; i++) {
    char *slash = strchr(words[i], '/');
    H cf = families[atoi(words[i]) % FAMILIES];
    if (!slash || !cf) continue;
    k[n] = key_of(slash + 1);
    kp[n] = k[n].p, kl[n] = k[n].n, of[n] = cf;
    v[n] = errs[n] = NULL, vl[n] = 0;
    n++;
  }
  rdb_multi_get_cf(db, o, (const H *)of, n, kp, kl, v, vl, errs);
  say("%d", n);
  for (int i = 0; i < n; i++) {
    say(" ");
    say_value(v[i], vl[i], errs[i]);
    rdb_free(v[i]);
    free(k[i].p);
  }
  rdb_readoptions_destroy(o);
}

/* mget METHOD AT KEY... */
static void verb_mget(void) {
  Bytes k[WORDS_MAX];
  const char *kp[WORDS_MAX];
  size_t kl[WORDS_MAX], vl[WORDS_MAX];
  char *v[WORDS_MAX], *errs[WORDS_MAX];
  H pins[WORDS_MAX];
  int n = word_count > 3 ? word_count - 3 : 0;
  H o = read_options(word(2));
  for (int i = 0; i < n; i++) {
    k[i] = key_of(word(3 + i));
    kp[i] = k[i].p, kl[i] = k[i].n;
    v[i] = errs[i] = NULL, vl[i] = 0, pins[i] = NULL;
  }
  if (number(1) == 1 || cur) {
    H cf = cur ? NULL : rdb_get_default_column_family_handle(db);
    rdb_batched_multi_get_cf(db, o, cur ? cur : cf, n, kp, kl, pins, errs, false);
    if (cf) rdb_column_family_handle_destroy(cf);
  } else {
    rdb_multi_get(db, o, n, kp, kl, v, vl, errs);
  }
  say("%d", n);
  for (int i = 0; i < n; i++) {
    say(" ");
    if (pins[i]) {
      size_t len;
      const char *p = rdb_pinnableslice_value(pins[i], &len);
      say_value((char *)p, len, errs[i]);
      rdb_pinnableslice_destroy(pins[i]);
    } else {
      say_value(v[i], vl[i], errs[i]);
      rdb_free(v[i]);
    }
    free(k[i].p);
  }
  rdb_readoptions_destroy(o);
}

static void say_position(H it) {
  char *err = NULL;
  size_t n;
  if (rdb_iter_valid(it)) {
    const char *p = rdb_iter_key(it, &n);
    say_bytes(p, n);
    say("=");
    p = rdb_iter_value(it, &n);
    say_bytes(p, n);
    return;
  }
  rdb_iter_get_error(it, &err);
  if (!failed(err)) say("end");
}

/* iter SLOT AT LOWER UPPER FLAGS */
static void verb_iter(void) {
  int s = slot(1);
  if (iters[s]) rdb_iter_destroy(iters[s]);
  if (iter_ro[s]) rdb_readoptions_destroy(iter_ro[s]);
  H o = iter_ro[s] = read_options(word(2));
  for (int i = 0; i < 2; i++) {
    free(bounds[s][i]);
    bounds[s][i] = NULL;
    Bytes b = key_of(word(3 + i) ? word(3 + i) : "*");
    if (b.missing) continue;
    bounds[s][i] = b.p;
    if (i == 0)
      rdb_readoptions_set_iterate_lower_bound(o, b.p, b.n);
    else
      rdb_readoptions_set_iterate_upper_bound(o, b.p, b.n);
  }
  long flags = number(5);
  if (flags & 1) rdb_readoptions_set_fill_cache(o, 0);
  if (flags & 2) rdb_readoptions_set_verify_checksums(o, 0);
  if (flags & 4) rdb_readoptions_set_readahead_size(o, 10000);
  if (flags & 8) rdb_readoptions_set_total_order_seek(o, 1);
  if (flags & 16) rdb_readoptions_set_auto_prefix_mode(o, 1);
  if (flags & 32) rdb_readoptions_set_pin_data(o, 1);
  iters[s] = cur ? rdb_create_iterator_cf(db, o, cur) : rdb_create_iterator(db, o);
  rdb_readoptions_set_snapshot(o, NULL);
  say_position(iters[s]);
}

/* pseek KEY COUNT, tail KEY COUNT: forward within the prefix, or over what is there by now. */
static void verb_forward(int tailing) {
  Bytes k = key_of(word(1));
  H o = rdb_readoptions_create();
  if (tailing)
    rdb_readoptions_set_tailing(o, 1);
  else
    rdb_readoptions_set_prefix_same_as_start(o, 1);
  H it = cur ? rdb_create_iterator_cf(db, o, cur) : rdb_create_iterator(db, o);
  rdb_iter_seek(it, k.p, k.n);
  say_position(it);
  for (long i = number(2); i > 0 && rdb_iter_valid(it); i--) {
    rdb_iter_next(it);
    say(" ");
    say_position(it);
  }
  rdb_iter_destroy(it);
  rdb_readoptions_destroy(o);
  free(k.p);
}

/* citer AT: the first entry of each family, at one point in time. */
static void verb_iterators(void) {
  char *err = NULL;
  H of[FAMILIES], made[FAMILIES];
  int n = 0;
  for (int i = 0; i < FAMILIES; i++)
    if (families[i]) of[n++] = families[i];
  H o = read_options(word(1));
  rdb_readoptions_set_total_order_seek(o, 1);
  if (n) rdb_create_iterators(db, o, of, made, n, &err);
  if (!failed(err)) {
    say("%d", n);
    for (int i = 0; i < n; i++) {
      rdb_iter_seek_to_first(made[i]);
      say(" ");
      say_position(made[i]);
      rdb_iter_destroy(made[i]);
    }
  }
  rdb_readoptions_destroy(o);
}

static void verb_move(const char *verb) {
  int s = slot(1);
  H it = iters[s];
  if (!it) {
    say("no iterator");
    return;
  }
  if (!strcmp(verb, "seek") || !strcmp(verb, "sfp")) {
    Bytes k = key_of(word(2));
    if (verb[1] == 'e')
      rdb_iter_seek(it, k.p, k.n);
    else
      rdb_iter_seek_for_prev(it, k.p, k.n);
    free(k.p);
    say_position(it);
  } else if (!strcmp(verb, "first")) {
    rdb_iter_seek_to_first(it);
    say_position(it);
  } else if (!strcmp(verb, "last")) {
    rdb_iter_seek_to_last(it);
    say_position(it);
  } else if (!strcmp(verb, "refresh")) {
    char *err = NULL;
    rdb_iter_refresh(it, &err);
    /* Whether an error of before is still told differs and means nothing: the position is gone. */
    if (!failed(err)) say("valid %d", rdb_iter_valid(it));
  } else if (!strcmp(verb, "iterdrop")) {
    rdb_iter_destroy(it);
    rdb_readoptions_destroy(iter_ro[s]);
    iters[s] = iter_ro[s] = NULL;
    say("ok");
  } else {
    for (long i = number(2); i > 0; i--) {
      if (!rdb_iter_valid(it)) {
        say(" stop");
        break;
      }
      if (!strcmp(verb, "next"))
        rdb_iter_next(it);
      else
        rdb_iter_prev(it);
      say(" ");
      say_position(it);
    }
  }
}

/* setopts NAME=VALUE... */
static void verb_set_options(void) {
  const char *names[WORDS_MAX], *values[WORDS_MAX];
  char *err = NULL;
  int n = 0;
  for (int i = 1; i < word_count; i++) {
    char *value = word(i);
    names[n] = strsep(&value, "=");
    values[n++] = value ? value : "";
  }
  if (cur)
    rdb_set_options_cf(db, cur, n, names, values, &err);
  else
    rdb_set_options(db, n, names, values, &err);
  done(err);
}

/* wal: batches since the latest sequence number but the given distance, which are in the log for sure. */
static void verb_wal(void) {
  char *err = NULL;
  uint64_t latest = rdb_get_latest_sequence_number(db), since = latest + 1 - (uint64_t)number(1), sequence = 0;
  H it = rdb_get_updates_since(db, since, NULL, &err);
  if (failed(err) || !it) return;
  for (; rdb_wal_iter_valid(it); rdb_wal_iter_next(it)) {
    size_t n;
    H b = rdb_wal_iter_get_batch(it, &sequence);
    const char *p = rdb_writebatch_data(b, &n);
    say("%lld ", (long long)(sequence - latest));
    /* Without the sequence number, which recovery may have counted otherwise. */
    say_bytes(p + 8, n - 8);
    say(" ");
    rdb_writebatch_destroy(b);
  }
  rdb_wal_iter_status(it, &err);
  done(err);
  rdb_wal_iter_destroy(it);
}

static void verb_indexed_iter(H b);

/* w SLOT VERB ... */
static void verb_indexed(void) {
  int s = slot(1);
  const char *verb = word(2);
  char *err = NULL;
  if (!indexed[s])
    indexed[s] = comparator_kind ? rdb_writebatch_wi_create_with_params(comparator(), 0, s % 2, 0, 0)
                                 : rdb_writebatch_wi_create(0, s % 2);
  H b = indexed[s];
  if (!verb) {
    say("no verb");
    return;
  }
  Bytes k = {NULL, 0, 0}, v = {NULL, 0, 0};
  size_t n = 0;
  if (!strcmp(verb, "put")) {
    k = key_of(word(3)), v = value_of(word(4));
    BATCH(writebatch_wi_put, k.p, k.n, v.p, v.n);
  } else if (!strcmp(verb, "del")) {
    k = key_of(word(3));
    BATCH(writebatch_wi_delete, k.p, k.n);
  } else if (!strcmp(verb, "merge")) {
    k = key_of(word(3)), v = value_of(word(4));
    BATCH(writebatch_wi_merge, k.p, k.n, v.p, v.n);
  } else if (!strcmp(verb, "log")) {
    v = value_of(word(3));
    rdb_writebatch_wi_put_log_data(b, v.p, v.n);
  } else if (!strcmp(verb, "clear")) {
    rdb_writebatch_wi_clear(b);
  } else if (!strcmp(verb, "save")) {
    rdb_writebatch_wi_set_save_point(b);
  } else if (!strcmp(verb, "rollback")) {
    rdb_writebatch_wi_rollback_to_save_point(b, &err);
  } else if (!strcmp(verb, "data")) {
    const char *p = rdb_writebatch_wi_data(b, &n);
    say("data ");
    say_bytes(n > 8 ? p + 8 : p, n > 8 ? n - 8 : 0);
    say(" ");
  } else if (!strcmp(verb, "get")) {
    H o = rdb_options_create();
    k = key_of(word(3));
    char *found = cur ? rdb_writebatch_wi_get_from_batch_cf(b, o, cur, k.p, k.n, &n, &err)
                      : rdb_writebatch_wi_get_from_batch(b, o, k.p, k.n, &n, &err);
    say_value(found, n, NULL);
    say(" ");
    rdb_free(found);
    rdb_options_destroy(o);
  } else if (!db) {
    say("closed");
  } else if (!strcmp(verb, "getdb")) {
    H o = read_options(word(3));
    k = key_of(word(4));
    char *found = cur ? rdb_writebatch_wi_get_from_batch_and_db_cf(b, db, o, cur, k.p, k.n, &n, &err)
                      : rdb_writebatch_wi_get_from_batch_and_db(b, db, o, k.p, k.n, &n, &err);
    say_value(found, n, NULL);
    say(" ");
    rdb_free(found);
    rdb_readoptions_destroy(o);
  } else if (!strcmp(verb, "write")) {
    H o = write_options(number(3));
    rdb_write_writebatch_wi(db, o, b, &err);
    rdb_writeoptions_destroy(o);
  } else if (!strcmp(verb, "iter")) {
    verb_indexed_iter(b);
  }
  free(k.p);
  free(v.p);
  say("%d ", rdb_writebatch_wi_count(b));
  done(err);
}

/* w SLOT iter LOWER UPPER MOVE...: moves are f l n p, and sKEY or rKEY to seek. */
static void verb_indexed_iter(H b) {
  Bytes low = key_of(word(3)), high = key_of(word(4));
  H o = rdb_readoptions_create();
  rdb_readoptions_set_total_order_seek(o, 1);
  if (!low.missing) rdb_readoptions_set_iterate_lower_bound(o, low.p, low.n);
  if (!high.missing) rdb_readoptions_set_iterate_upper_bound(o, high.p, high.n);
  H base = cur ? rdb_create_iterator_cf(db, o, cur) : rdb_create_iterator(db, o);
  H it = cur ? rdb_writebatch_wi_create_iterator_with_base_cf_readopts(b, base, cur, o)
             : rdb_writebatch_wi_create_iterator_with_base_readopts(b, base, o);
  for (int i = 5; i < word_count; i++) {
    char move = *word(i);
    if (move == 'f') {
      rdb_iter_seek_to_first(it);
    } else if (move == 'l') {
      rdb_iter_seek_to_last(it);
    } else if (move == 's' || move == 'r') {
      Bytes k = key_of(word(i) + 1);
      if (move == 's')
        rdb_iter_seek(it, k.p, k.n);
      else
        rdb_iter_seek_for_prev(it, k.p, k.n);
      free(k.p);
    } else if (!rdb_iter_valid(it)) {
      say("stop ");
      continue;
    } else if (move == 'n') {
      rdb_iter_next(it);
    } else {
      rdb_iter_prev(it);
    }
    say_position(it);
    say(" ");
  }
  rdb_iter_destroy(it);
  rdb_readoptions_destroy(o);
  free(low.p);
  free(high.p);
}

static void verb_dump(void) {
  H o = rdb_readoptions_create();
  rdb_readoptions_set_total_order_seek(o, 1);
  H it = cur ? rdb_create_iterator_cf(db, o, cur) : rdb_create_iterator(db, o);
  uint64_t h = 0xcbf29ce484222325ULL, back = h;
  size_t count = 0, count_back = 0, n;
  char *err = NULL;
  /* An order-free sum, so that the backward scan can be compared. */
  uint64_t sum = 0, sum_back = 0;
  for (rdb_iter_seek_to_first(it); rdb_iter_valid(it); rdb_iter_next(it)) {
    const char *k = rdb_iter_key(it, &n);
    uint64_t one = hash(0xcbf29ce484222325ULL, k, n);
    h = hash(h, k, n);
    const char *v = rdb_iter_value(it, &n);
    h = hash(h, v, n);
    sum += hash(one, v, n);
    count++;
  }
  rdb_iter_get_error(it, &err);
  if (!failed(err)) {
    for (rdb_iter_seek_to_last(it); rdb_iter_valid(it); rdb_iter_prev(it)) {
      const char *k = rdb_iter_key(it, &n);
      back = hash(0xcbf29ce484222325ULL, k, n);
      const char *v = rdb_iter_value(it, &n);
      sum_back += hash(back, v, n);
      count_back++;
    }
    rdb_iter_get_error(it, &err);
    if (!failed(err)) {
      say("%zu %016llx", count, (unsigned long long)h);
      if (count_back != count || sum_back != sum) say(" backward %zu differs", count_back);
    }
  }
  rdb_iter_destroy(it);
  rdb_readoptions_destroy(o);
}

static void verb_list(void) {
  char *err = NULL;
  size_t n = 0;
  H o = rdb_options_create();
  char **names = rdb_list_column_families(o, dir, &n, &err);
  if (!failed(err)) {
    say("%zu", n);
    for (size_t i = 0; i < n; i++) say(" %s", names[i]);
    rdb_list_column_families_destroy(names, n);
  }
  rdb_options_destroy(o);
}

/* Contents of all families, by name, in an order that does not depend on slots. */
static void verb_dump_all(void) {
  H before = cur;
  char *names[FAMILIES];
  H of[FAMILIES];
  int n = 0;
  for (int i = 0; i < FAMILIES; i++) {
    if (!families[i]) continue;
    size_t len = 0;
    char *name = rdb_column_family_handle_get_name(families[i], &len);
    names[n] = strndup(name, len);
    of[n++] = families[i];
    rdb_free(name);
  }
  if (n == 0) verb_dump();
  for (int i = 0; i < n; i++) {
    say("%s%s ", i ? " " : "", names[i]);
    cur = of[i];
    verb_dump();
    free(names[i]);
  }
  cur = before;
}

static void verb_property(const char *verb) {
  const char *name = word(1) ? word(1) : "";
  if (verb[4] == 'i') {
    uint64_t v = 0;
    int r = cur ? rdb_property_int_cf(db, cur, name, &v) : rdb_property_int(db, name, &v);
    say("%d %llu", r, r ? 0ULL : (unsigned long long)v);
  } else {
    char *v = cur ? rdb_property_value_cf(db, cur, name) : rdb_property_value(db, name);
    // One result is one line.
    for (char *c = v; c && *c; c++)
      if (*c == '\n') *c = ';';
    say("%s", v ? v : "null");
    rdb_free(v);
  }
}

static void run_line(char *line) {
  char *err = NULL;
  cur = NULL;
  if (line[0] == '@' && line[1] && line[2] == ' ') {
    cur = families[(unsigned)(line[1] - '0') % FAMILIES];
    if (!cur) {
      say("no family");
      return;
    }
    line += 3;
  }
  if (!strncmp(line, "open ", 5)) {
    verb_open(line + 5);
    return;
  }
  if (!strncmp(line, "options ", 8)) {
    H o = make_options(line + 8);
    if (o) {
      rdb_options_destroy(o);
      say("ok");
    }
    return;
  }
  if (!strncmp(line, "dir ", 4)) {
    snprintf(dir, sizeof dir, "%s", line + 4);
    fault_below(dir);
    say("ok");
    return;
  }
  word_count = 0;
  for (char *w; word_count < WORDS_MAX && (w = strsep(&line, " "));)
    if (*w) words[word_count++] = w;
  const char *verb = word(0);
  if (!verb) {
    say("empty");
  } else if (!strcmp(verb, "setup")) {
    if (!db) comparator_kind = (int)number(1), merge_kind = (int)number(2), filter_kind = (int)number(3);
    say("ok");
  } else if (!strcmp(verb, "close")) {
    close_db();
    for (int i = 0; i < SLOTS; i++) {
      if (batches[i]) rdb_writebatch_destroy(batches[i]);
      if (indexed[i]) rdb_writebatch_wi_destroy(indexed[i]);
      batches[i] = indexed[i] = NULL;
    }
    say("ok");
  } else if (!strcmp(verb, "fault")) {
    /* fault CLASS NTH ERRNO TIMES */
    fault_set((int)number(1), number(2), (int)number(3), number(4));
    say("ok");
  } else if (!strcmp(verb, "storm")) {
    /* storm SEED ONE_IN */
    fault_storm(number(1), number(2));
    say("ok");
  } else if (!strcmp(verb, "sleep")) {
    /* sleep MILLISECONDS */
    usleep((useconds_t)number(1) * 1000);
    say("ok");
  } else if (!strcmp(verb, "faultoff")) {
    say("%ld", fault_off());
  } else if (!strcmp(verb, "calls")) {
    for (int i = 0; i < fault_classes(); i++) say("%s%ld", i ? " " : "", fault_count(i));
  } else if (!strcmp(verb, "listcf")) {
    verb_list();
  } else if (!strcmp(verb, "b")) {
    verb_batch();
  } else if (!strcmp(verb, "w")) {
    verb_indexed();
  } else if (!strcmp(verb, "destroydb")) {
    H o = rdb_options_create();
    rdb_destroy_db(o, dir, &err);
    rdb_options_destroy(o);
    done(err);
  } else if (!db) {
    say("closed");
  } else if (!strcmp(verb, "put") || !strcmp(verb, "del") || !strcmp(verb, "merge") || !strcmp(verb, "toggle") ||
             !strcmp(verb, "range")) {
    verb_write(verb);
  } else if (!strcmp(verb, "checkpoint")) {
    /* Beside the directory, under a longer name. */
    char to[sizeof dir + 8];
    snprintf(to, sizeof to, "%s-copy", dir);
    H checkpoint = rdb_checkpoint_object_create(db, &err);
    if (checkpoint) {
      rdb_checkpoint_create(checkpoint, to, 0, &err);
      rdb_checkpoint_object_destroy(checkpoint);
    }
    done(err);
  } else if (!strcmp(verb, "mkcf")) {
    verb_create();
  } else if (!strcmp(verb, "dropcf") || !strcmp(verb, "closecf")) {
    int s = (int)((unsigned long)number(1) % FAMILIES);
    if (!families[s]) {
      say("no family");
    } else if (verb[0] == 'd') {
      rdb_drop_column_family(db, families[s], &err);
      done(err);
    } else {
      rdb_column_family_handle_destroy(families[s]);
      families[s] = NULL;
      say("ok");
    }
  } else if (!strcmp(verb, "setopts")) {
    verb_set_options();
  } else if (!strcmp(verb, "wal")) {
    verb_wal();
  } else if (!strcmp(verb, "kme")) {
    verb_may_exist();
  } else if (!strcmp(verb, "mgetcf")) {
    verb_mget_families();
  } else if (!strcmp(verb, "pseek") || !strcmp(verb, "tail")) {
    verb_forward(verb[0] == 't');
  } else if (!strcmp(verb, "citer")) {
    verb_iterators();
  } else if (!strcmp(verb, "dumpall")) {
    verb_dump_all();
  } else if (!strcmp(verb, "flushcfs")) {
    H o = rdb_flushoptions_create(), of[FAMILIES];
    int n = 0;
    for (int i = 0; i < FAMILIES; i++)
      if (families[i]) of[n++] = families[i];
    if (n) rdb_flush_cfs(db, o, of, n, &err);
    rdb_flushoptions_destroy(o);
    done(err);
  } else if (!strcmp(verb, "write")) {
    int s = slot(1);
    if (!batches[s]) batches[s] = rdb_writebatch_create();
    H o = write_options(number(2));
    rdb_write(db, o, batches[s], &err);
    rdb_writeoptions_destroy(o);
    done(err);
  } else if (!strcmp(verb, "get")) {
    verb_get();
  } else if (!strcmp(verb, "mget")) {
    verb_mget();
  } else if (!strcmp(verb, "iter")) {
    verb_iter();
  } else if (!strcmp(verb, "seek") || !strcmp(verb, "sfp") || !strcmp(verb, "first") || !strcmp(verb, "last") ||
             !strcmp(verb, "next") || !strcmp(verb, "prev") || !strcmp(verb, "refresh") || !strcmp(verb, "iterdrop")) {
    verb_move(verb);
  } else if (!strncmp(verb, "snap", 4)) {
    int s = slot(1);
    if (snaps[s]) rdb_release_snapshot(db, snaps[s]);
    snaps[s] = rdb_create_snapshot(db);
    if (verb[4])
      say("ok");
    else
      say("%llu", snaps[s] ? (unsigned long long)rdb_snapshot_get_sequence_number(snaps[s]) : 0ULL);
  } else if (!strcmp(verb, "release")) {
    int s = slot(1);
    if (snaps[s]) rdb_release_snapshot(db, snaps[s]);
    snaps[s] = NULL;
    say("ok");
  } else if (!strcmp(verb, "seqno")) {
    say("%llu", (unsigned long long)rdb_get_latest_sequence_number(db));
  } else if (!strcmp(verb, "flush")) {
    H o = rdb_flushoptions_create();
    rdb_flushoptions_set_wait(o, number(1) != 0);
    if (cur)
      rdb_flush_cf(db, o, cur, &err);
    else
      rdb_flush(db, o, &err);
    rdb_flushoptions_destroy(o);
    done(err);
  } else if (!strcmp(verb, "flushwal")) {
    rdb_flush_wal(db, number(1) != 0, &err);
    done(err);
  } else if (!strcmp(verb, "compact")) {
    Bytes a = key_of(word(1)), b = key_of(word(2));
    if (cur)
      rdb_compact_range_cf(db, cur, a.p, a.n, b.p, b.n);
    else
      rdb_compact_range(db, a.p, a.n, b.p, b.n);
    free(a.p);
    free(b.p);
    say("ok");
  } else if (!strcmp(verb, "compactblobs")) {
    Bytes a = key_of(word(1)), b = key_of(word(2));
    H o = rdb_compactoptions_create();
    rdb_compactoptions_set_blob_garbage_collection_policy(o, (int)number(3));
    rdb_compactoptions_set_blob_garbage_collection_age_cutoff(o, atof(word(4)));
    if (cur)
      rdb_compact_range_cf_opt(db, cur, o, a.p, a.n, b.p, b.n);
    else
      rdb_compact_range_opt(db, o, a.p, a.n, b.p, b.n);
    rdb_compactoptions_destroy(o);
    free(a.p);
    free(b.p);
    say("ok");
  } else if (!strcmp(verb, "wait")) {
    H o = rdb_wait_for_compact_options_create();
    rdb_wait_for_compact(db, o, &err);
    rdb_wait_for_compact_options_destroy(o);
    done(err);
  } else if (!strcmp(verb, "propint") || !strcmp(verb, "propval")) {
    verb_property(verb);
  } else if (!strcmp(verb, "family")) {
    size_t n = 0;
    H cf = cur ? NULL : rdb_get_default_column_family_handle(db);
    char *name = rdb_column_family_handle_get_name(cur ? cur : cf, &n);
    say("%u %.*s", rdb_column_family_handle_get_id(cur ? cur : cf), (int)n, name);
    rdb_free(name);
    if (cf) rdb_column_family_handle_destroy(cf);
  } else if (!strcmp(verb, "dump")) {
    verb_dump();
  } else {
    say("unknown verb %s", verb);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  H lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
#define LOAD(ret, name, args) \
  *(void **)&rdb_##name = dlsym(lib, "rocksdb_" #name); \
  if (!rdb_##name) { \
    fprintf(stderr, "missing: rocksdb_" #name "\n"); \
    return 2; \
  }
  FUNCTIONS(LOAD)
  /* RUNNER_SLOW_MS=N tells on standard error which lines take that long. */
  double slow_ms = getenv("RUNNER_SLOW_MS") ? atof(getenv("RUNNER_SLOW_MS")) : 0;
  signal(SIGSEGV, on_signal);
  signal(SIGBUS, on_signal);
  signal(SIGABRT, on_signal);
  signal(SIGFPE, on_signal);
  signal(SIGILL, on_signal);
  char *line = NULL;
  size_t cap = 0;
  ssize_t n;
  while ((n = getline(&line, &cap, stdin)) > 0) {
    if (line[n - 1] == '\n') line[--n] = 0;
    line_number++;
    if (!strcmp(line, "=")) {
      say("=\n");
      flush_out();
      line_number = 0;
    } else if (!strcmp(line, "abandon")) {
      /* The process ends without closing anything. */
      say("abandoned\n=\n");
      flush_out();
      _exit(0);
    } else {
      struct timespec before, after;
      char copy[200];
      snprintf(copy, sizeof copy, "%s", line);
      clock_gettime(CLOCK_MONOTONIC, &before);
      run_line(line);
      clock_gettime(CLOCK_MONOTONIC, &after);
      double ms = (after.tv_sec - before.tv_sec) * 1e3 + (after.tv_nsec - before.tv_nsec) / 1e6;
      if (slow_ms > 0 && ms >= slow_ms) fprintf(stderr, "%s: %.0f ms: %s\n", argv[1], ms, copy);
      say("\n");
    }
  }
  return 0;
}
