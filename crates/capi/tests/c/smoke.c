/* Drives the C functions as a C program does; run under valgrind and AddressSanitizer by
 * scripts/capi-valgrind.sh. Usage: smoke DIRECTORY. Prints "ok" and exits 0, or says what failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocksdb/c.h"

static char* err = NULL;

#define CHECK(cond)                                                      \
  do {                                                                   \
    if (!(cond)) {                                                       \
      fprintf(stderr, "%s:%d: %s (err: %s)\n", __FILE__, __LINE__, #cond, \
              err ? err : "-");                                          \
      exit(1);                                                           \
    }                                                                    \
  } while (0)
#define OK(call)        \
  do {                  \
    call;               \
    CHECK(err == NULL); \
  } while (0)
#define FAILS(call, text)                       \
  do {                                          \
    call;                                       \
    CHECK(err != NULL && strstr(err, text));    \
    rocksdb_free(err);                          \
    err = NULL;                                 \
  } while (0)

static rocksdb_readoptions_t* ro;
static rocksdb_writeoptions_t* wo;

static void expect(rocksdb_t* db, const char* key, const char* want) {
  size_t n = 77;
  char* v = rocksdb_get(db, ro, key, strlen(key), &n, &err);
  CHECK(err == NULL);
  if (want == NULL) {
    CHECK(v == NULL && n == 0);
    return;
  }
  CHECK(v != NULL && n == strlen(want) && memcmp(v, want, n) == 0);
  free(v);
}

static void put(rocksdb_t* db, const char* key, const char* value) {
  OK(rocksdb_put(db, wo, key, strlen(key), value, strlen(value), &err));
}

/* Callbacks. */

static int destroyed = 0;
static void destroy_state(void* state) {
  CHECK(*(int*)state == 42);
  destroyed++;
}
static int reverse(void* state, const char* a, size_t an, const char* b, size_t bn) {
  (void)state;
  size_t n = an < bn ? an : bn;
  int r = memcmp(a, b, n);
  if (r == 0) r = (an > bn) - (an < bn);
  return -r;
}
static const char* reverse_name(void* state) {
  (void)state;
  return "smoke.Reverse";
}

static char* joined(const char* base, size_t base_len, const char* const* operands,
                    const size_t* lengths, int n, size_t* len) {
  size_t total = base_len;
  for (int i = 0; i < n; i++) total += lengths[i] + 1;
  char* out = malloc(total + 1);
  size_t at = base_len;
  if (base_len) memcpy(out, base, base_len);
  for (int i = 0; i < n; i++) {
    if (at > 0) out[at++] = '+';
    memcpy(out + at, operands[i], lengths[i]);
    at += lengths[i];
  }
  *len = at;
  return out;
}
static char* full_merge(void* state, const char* key, size_t key_len, const char* base,
                        size_t base_len, const char* const* operands, const size_t* lengths,
                        int n, unsigned char* success, size_t* len) {
  (void)state;
  if (key_len > 0 && key[0] == '!') {
    *success = 0;
    *len = 0;
    return NULL;
  }
  *success = 1;
  return joined(base, base ? base_len : 0, operands, lengths, n, len);
}
static char* partial_merge(void* state, const char* key, size_t key_len,
                           const char* const* operands, const size_t* lengths, int n,
                           unsigned char* success, size_t* len) {
  (void)state, (void)key, (void)key_len, (void)operands, (void)lengths, (void)n;
  *success = 0;
  *len = 0;
  return NULL;
}
static void delete_value(void* state, const char* value, size_t len) {
  (void)state, (void)len;
  free((void*)value);
}
static const char* merge_name(void* state) {
  (void)state;
  return "smoke.Join";
}

static char seen[256];
static void seen_put(void* state, const char* k, size_t kn, const char* v, size_t vn) {
  (void)state;
  snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%.*s=%.*s ", (int)kn, k, (int)vn, v);
}
static void seen_delete(void* state, const char* k, size_t kn) {
  (void)state;
  snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "-%.*s ", (int)kn, k);
}

/* Parts. */

static void nulls(void) {
  rocksdb_options_destroy(NULL);
  rocksdb_block_based_options_destroy(NULL);
  rocksdb_cache_destroy(NULL);
  rocksdb_env_destroy(NULL);
  rocksdb_readoptions_destroy(NULL);
  rocksdb_writeoptions_destroy(NULL);
  rocksdb_flushoptions_destroy(NULL);
  rocksdb_compactoptions_destroy(NULL);
  rocksdb_writebatch_destroy(NULL);
  rocksdb_pinnableslice_destroy(NULL);
  rocksdb_iter_destroy(NULL);
  rocksdb_column_family_handle_destroy(NULL);
  rocksdb_comparator_destroy(NULL);
  rocksdb_mergeoperator_destroy(NULL);
  rocksdb_filterpolicy_destroy(NULL);
  rocksdb_universal_compaction_options_destroy(NULL);
  rocksdb_list_column_families_destroy(NULL, 0);
  rocksdb_free(NULL);
  size_t n = 9;
  CHECK(rocksdb_pinnableslice_value(NULL, &n) == NULL && n == 0);
}

static rocksdb_options_t* basic_options(void) {
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_block_based_options_set_block_cache(t, cache);
  rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_block_based_options_destroy(t);
  rocksdb_cache_destroy(cache);
  return o;
}

static void reads_and_writes(const char* dir) {
  rocksdb_options_t* o = basic_options();
  rocksdb_options_enable_statistics(o);
  rocksdb_t* db;
  OK(db = rocksdb_open(o, dir, &err));
  FAILS(rocksdb_open(o, dir, &err), "LOCK: No locks available");

  put(db, "a", "1");
  put(db, "b", "2");
  put(db, "", "empty key");
  OK(rocksdb_put(db, wo, "n", 1, NULL, 0, &err));
  OK(rocksdb_put(db, wo, NULL, 0, "null key", 8, &err));
  expect(db, "", "null key");
  expect(db, "n", "");
  expect(db, "zz", NULL);
  OK(rocksdb_delete(db, wo, "b", 1, &err));
  expect(db, "b", NULL);

  /* An older text stays on success. */
  err = strdup("older");
  rocksdb_put(db, wo, "c", 1, "3", 1, &err);
  CHECK(strcmp(err, "older") == 0);
  free(err);
  err = NULL;
  FAILS(rocksdb_merge(db, wo, "c", 1, "3", 1, &err),
        "Not implemented: Provide a merge_operator when opening DB");

  /* A pinned value survives overwrite, flush and compaction. */
  rocksdb_pinnableslice_t* pin;
  OK(pin = rocksdb_get_pinned(db, ro, "c", 1, &err));
  put(db, "c", "33333333");
  rocksdb_flushoptions_t* fo = rocksdb_flushoptions_create();
  OK(rocksdb_flush(db, fo, &err));
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  size_t n;
  const char* bytes = rocksdb_pinnableslice_value(pin, &n);
  CHECK(n == 1 && bytes[0] == '3');
  rocksdb_pinnableslice_destroy(pin);

  /* Buffers. */
  char buffer[8];
  unsigned char found = 9;
  CHECK(rocksdb_get_into_buffer(db, ro, "c", 1, buffer, 4, &n, &found, &err) == 0);
  CHECK(n == 8 && found == 1 && err == NULL);
  CHECK(rocksdb_get_into_buffer(db, ro, "c", 1, buffer, 8, &n, &found, &err) == 1);
  CHECK(memcmp(buffer, "33333333", 8) == 0);
  CHECK(rocksdb_get_into_buffer(db, ro, "q", 1, buffer, 8, &n, &found, &err) == 0);
  CHECK(n == 0 && found == 0);

  /* Snapshots. */
  const rocksdb_snapshot_t* snap = rocksdb_create_snapshot(db);
  CHECK(rocksdb_snapshot_get_sequence_number(snap) == rocksdb_get_latest_sequence_number(db));
  put(db, "a", "new");
  rocksdb_readoptions_set_snapshot(ro, snap);
  expect(db, "a", "1");
  rocksdb_readoptions_set_snapshot(ro, NULL);
  expect(db, "a", "new");
  rocksdb_release_snapshot(db, snap);

  /* Multi-get. */
  const char* keys[3] = {"a", "zz", "c"};
  const size_t sizes[3] = {1, 2, 1};
  char* values[3] = {buffer, buffer, buffer};
  size_t lens[3];
  char* errs[3] = {buffer, buffer, buffer};
  rocksdb_multi_get(db, ro, 3, keys, sizes, values, lens, errs);
  CHECK(lens[0] == 3 && values[1] == NULL && lens[1] == 0 && lens[2] == 8);
  CHECK(!errs[0] && !errs[1] && !errs[2]);
  rocksdb_free(values[0]);
  rocksdb_free(values[2]);
  rocksdb_multi_get(db, ro, 0, NULL, NULL, NULL, NULL, NULL);
  rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
  rocksdb_column_family_handle_t* cf2 = rocksdb_get_default_column_family_handle(db);
  CHECK(cf != cf2 && rocksdb_column_family_handle_get_id(cf) == 0);
  char* name = rocksdb_column_family_handle_get_name(cf, &n);
  CHECK(n == 7 && memcmp(name, "default", 7) == 0);
  rocksdb_free(name);
  rocksdb_pinnableslice_t* pins[3];
  rocksdb_batched_multi_get_cf(db, ro, cf, 3, keys, sizes, pins, errs, false);
  CHECK(pins[0] && !pins[1] && pins[2]);
  rocksdb_pinnableslice_destroy(pins[0]);
  rocksdb_pinnableslice_destroy(pins[2]);

  /* Iterators, with bounds that are gone after creation. */
  rocksdb_readoptions_t* bounded = rocksdb_readoptions_create();
  char* upper = strdup("c");
  rocksdb_readoptions_set_iterate_upper_bound(bounded, upper, 1);
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, bounded);
  free(upper);
  rocksdb_readoptions_destroy(bounded);
  CHECK(!rocksdb_iter_valid(it));
  rocksdb_iter_next(it);
  CHECK(!rocksdb_iter_valid(it));
  rocksdb_iter_seek_to_first(it);
  CHECK(rocksdb_iter_valid(it));
  bytes = rocksdb_iter_key(it, &n);
  CHECK(n == 0);
  rocksdb_iter_next(it);
  rocksdb_slice_t slice = rocksdb_iter_value_slice(it);
  CHECK(slice.size == 3 && memcmp(slice.data, "new", 3) == 0);
  rocksdb_iter_next(it);
  CHECK(!rocksdb_iter_valid(it));
  OK(rocksdb_iter_get_error(it, &err));
  rocksdb_iter_seek_for_prev(it, "zzz", 3);
  bytes = rocksdb_iter_key(it, &n);
  CHECK(rocksdb_iter_valid(it) && n == 1 && bytes[0] == 'a');
  OK(rocksdb_iter_refresh(it, &err));
  CHECK(!rocksdb_iter_valid(it));
  rocksdb_readoptions_t* tailing = rocksdb_readoptions_create();
  rocksdb_readoptions_set_tailing(tailing, 1);
  rocksdb_iterator_t* follower = rocksdb_create_iterator(db, tailing);
  rocksdb_readoptions_destroy(tailing);
  rocksdb_iter_seek_to_first(follower);
  CHECK(rocksdb_iter_valid(follower));
  rocksdb_iter_seek_to_last(follower);
  CHECK(!rocksdb_iter_valid(follower));
  FAILS(rocksdb_iter_get_error(follower, &err), "Not implemented: ForwardIterator::SeekToLast()");
  rocksdb_iter_destroy(follower);

  /* Batches. */
  rocksdb_writebatch_t* b = rocksdb_writebatch_create();
  const char* parts[2] = {"ab", "cd"};
  const size_t part_sizes[2] = {2, 2};
  rocksdb_writebatch_putv(b, 2, parts, part_sizes, 1, parts, part_sizes);
  rocksdb_writebatch_delete_cf(b, cf, "c", 1);
  rocksdb_writebatch_put_log_data(b, "note", 4);
  CHECK(rocksdb_writebatch_count(b) == 2);
  rocksdb_writebatch_set_save_point(b);
  rocksdb_writebatch_put(b, "x", 1, "y", 1);
  OK(rocksdb_writebatch_rollback_to_save_point(b, &err));
  FAILS(rocksdb_writebatch_pop_save_point(b, &err), "NotFound: ");
  rocksdb_writebatch_iterate(b, NULL, seen_put, seen_delete);
  CHECK(strcmp(seen, "abcd=ab -c ") == 0);
  OK(rocksdb_write(db, wo, b, &err));
  bytes = rocksdb_writebatch_data(b, &n);
  rocksdb_writebatch_t* copy = rocksdb_writebatch_create_from(bytes, n);
  CHECK(rocksdb_writebatch_count(copy) == 2);
  OK(rocksdb_write(db, wo, copy, &err));
  rocksdb_writebatch_destroy(copy);
  rocksdb_writebatch_clear(b);
  OK(rocksdb_write(db, wo, b, &err));
  rocksdb_writebatch_destroy(b);
  b = rocksdb_writebatch_create_from("short", 5);
  CHECK(rocksdb_writebatch_count(b) == 0);
  FAILS(rocksdb_write(db, wo, b, &err), "Corruption: malformed WriteBatch (too small)");
  rocksdb_writebatch_destroy(b);
  expect(db, "abcd", "ab");
  expect(db, "c", NULL);

  /* Properties and statistics. */
  uint64_t number;
  CHECK(rocksdb_property_int(db, "rocksdb.num-snapshots", &number) == 0 && number == 0);
  CHECK(rocksdb_property_int(db, "rocksdb.no-such", &number) == -1);
  char* text = rocksdb_property_value(db, "rocksdb.num-files-at-level0");
  CHECK(text != NULL);
  rocksdb_free(text);
  CHECK(rocksdb_property_value(db, "rocksdb.nope") == NULL);
  text = rocksdb_options_statistics_get_string(o);
  CHECK(strstr(text, "rocksdb.number.keys.written COUNT : 13\n"));
  rocksdb_free(text);
  text = rocksdb_get_db_identity(db, &n);
  CHECK(text != NULL && n == 36);
  rocksdb_free(text);

  /* Any order of destruction is harmless. */
  rocksdb_flushoptions_destroy(fo);
  rocksdb_options_destroy(o);
  rocksdb_column_family_handle_destroy(cf2);
  rocksdb_iter_seek_to_first(it);
  pin = rocksdb_get_pinned(db, ro, "a", 1, &err);
  rocksdb_close(db);
  bytes = rocksdb_iter_value(it, &n);
  rocksdb_iter_destroy(it);
  rocksdb_column_family_handle_destroy(cf);
  CHECK(memcmp(rocksdb_pinnableslice_value(pin, &n), "new", 3) == 0);
  rocksdb_pinnableslice_destroy(pin);
}

static void families_and_reopen(const char* dir) {
  rocksdb_options_t* o = basic_options();
  rocksdb_options_set_error_if_exists(o, 1);
  FAILS(rocksdb_open(o, dir, &err), ": exists (error_if_exists is true)");
  rocksdb_options_set_error_if_exists(o, 0);
  size_t n;
  char** names;
  OK(names = rocksdb_list_column_families(o, dir, &n, &err));
  CHECK(n == 1 && strcmp(names[0], "default") == 0);
  rocksdb_list_column_families_destroy(names, n);

  const char* two[2] = {"default", "other"};
  const rocksdb_options_t* options[2] = {o, o};
  rocksdb_column_family_handle_t* handles[2] = {NULL, NULL};
  FAILS(rocksdb_open_column_families(o, dir, 2, two, options, handles, &err), ": ");
  FAILS(rocksdb_open_column_families(o, dir, 1, two + 1, options, handles, &err),
        "Invalid argument: Default column family not specified");
  rocksdb_t* db;
  OK(db = rocksdb_open_column_families(o, dir, 1, two, options, handles, &err));
  OK(rocksdb_put_cf(db, wo, handles[0], "f", 1, "g", 1, &err));
  char* v = rocksdb_get_cf(db, ro, handles[0], "f", 1, &n, &err);
  CHECK(n == 1 && v[0] == 'g');
  free(v);
  rocksdb_close(db);
  rocksdb_column_family_handle_destroy(handles[0]);

  OK(db = rocksdb_open_for_read_only(o, dir, 0, &err));
  expect(db, "f", "g");
  expect(db, "abcd", "ab");
  FAILS(rocksdb_put(db, wo, "x", 1, "y", 1, &err),
        "Not implemented: Not supported operation in read only mode.");
  rocksdb_close(db);

  rocksdb_options_set_max_successive_merges(o, 5);
  FAILS(rocksdb_open(o, dir, &err), "Not implemented: max_successive_merges");
  rocksdb_options_set_compression(o, 99);
  FAILS(rocksdb_open(o, dir, &err),
        "Invalid argument: Using a CompressionType other than built-in ...");
  OK(rocksdb_destroy_db(o, dir, &err));
  OK(rocksdb_destroy_db(o, dir, &err));
  rocksdb_options_destroy(o);
  o = rocksdb_options_create();
  FAILS(rocksdb_open(o, dir, &err), "does not exist (create_if_missing is false)");
  rocksdb_options_destroy(o);
}

static void callbacks(const char* dir) {
  static int state = 42;
  rocksdb_options_t* o = basic_options();
  rocksdb_comparator_t* c =
      rocksdb_comparator_create(&state, destroy_state, reverse, reverse_name);
  rocksdb_options_set_comparator(o, c);
  rocksdb_options_set_merge_operator(
      o, rocksdb_mergeoperator_create(&state, destroy_state, full_merge, partial_merge,
                                      delete_value, merge_name));
  rocksdb_options_t* copy = rocksdb_options_create_copy(o);
  rocksdb_options_destroy(o);
  rocksdb_t* db;
  OK(db = rocksdb_open(copy, dir, &err));
  put(db, "a", "1");
  put(db, "b", "2");
  OK(rocksdb_merge(db, wo, "a", 1, "x", 1, &err));
  OK(rocksdb_merge(db, wo, "a", 1, "y", 1, &err));
  OK(rocksdb_merge(db, wo, "m", 1, "only", 4, &err));
  OK(rocksdb_merge(db, wo, "!", 1, "bad", 3, &err));
  rocksdb_flushoptions_t* fo = rocksdb_flushoptions_create();
  for (int flushed = 0; flushed < 2; flushed++) {
    expect(db, "a", "1+x+y");
    expect(db, "m", "only");
    size_t n;
    FAILS(rocksdb_get(db, ro, "!", 1, &n, &err), "Corruption: Merge operator failed");
    rocksdb_iterator_t* it = rocksdb_create_iterator(db, ro);
    rocksdb_iter_seek_to_first(it);
    size_t len;
    CHECK(rocksdb_iter_valid(it) && rocksdb_iter_key(it, &len)[0] == 'm');
    rocksdb_iter_next(it);
    CHECK(rocksdb_iter_valid(it) && rocksdb_iter_key(it, &len)[0] == 'b');
    rocksdb_iter_destroy(it);
    OK(rocksdb_flush(db, fo, &err));
  }
  rocksdb_flushoptions_destroy(fo);
  rocksdb_close(db);
  rocksdb_options_t* plain = basic_options();
  FAILS(rocksdb_open(plain, dir, &err),
        "Invalid argument: leveldb.BytewiseComparator: does not match existing comparator "
        "smoke.Reverse");
  rocksdb_options_destroy(plain);
  CHECK(destroyed == 0);
  rocksdb_options_destroy(copy);
  rocksdb_comparator_destroy(c);
  CHECK(destroyed == 2);
}

static void text_options(const char* dir) {
  rocksdb_options_t* base = rocksdb_options_create();
  rocksdb_options_t* o = rocksdb_options_create();
  OK(rocksdb_get_options_from_string(
      base,
      "create_if_missing=true;write_buffer_size=1M;merge_operator={id=StringAppendOperator;"
      "delimiter=/;};block_based_table_factory={block_cache=2M;block_size=1K;"
      "filter_policy=bloomfilter:8:false}",
      o, &err));
  CHECK(rocksdb_options_get_write_buffer_size(o) == 1 << 20);
  FAILS(rocksdb_get_options_from_string(base, "foo=1", o, &err),
        "Invalid argument: Extra option not recognized: foo");
  rocksdb_options_destroy(base);
  rocksdb_options_set_db_host_id(o, "here");
  size_t n;
  CHECK(strcmp(rocksdb_options_get_db_host_id(o, &n), "here") == 0 && n == 4);
  CHECK(strcmp(rocksdb_options_get_wal_dir(o, &n), "") == 0 && n == 0);
  rocksdb_env_t* env = rocksdb_create_mem_env();
  rocksdb_options_set_env(o, env);
  rocksdb_t* db;
  OK(db = rocksdb_open(o, dir, &err));
  OK(rocksdb_merge(db, wo, "k", 1, "a", 1, &err));
  OK(rocksdb_merge(db, wo, "k", 1, "b", 1, &err));
  expect(db, "k", "a/b");
  uint64_t capacity;
  CHECK(rocksdb_property_int(db, "rocksdb.block-cache-capacity", &capacity) == 0);
  CHECK(capacity == 2 << 20);
  rocksdb_close(db);
  OK(rocksdb_destroy_db(o, dir, &err));
  rocksdb_options_destroy(o);
  rocksdb_env_destroy(env);
}

/* Enough data for several tables, with compactions. */
static void volume(const char* dir) {
  rocksdb_options_t* o = basic_options();
  rocksdb_options_set_write_buffer_size(o, 128 << 10);
  rocksdb_options_set_uint64add_merge_operator(o);
  rocksdb_t* db;
  OK(db = rocksdb_open(o, dir, &err));
  char key[16], value[100];
  memset(value, 'v', sizeof value);
  for (int i = 0; i < 5000; i++) {
    int k = (int)((i * 7919u) % 5000);
    snprintf(key, sizeof key, "%08d", k);
    OK(rocksdb_put(db, wo, key, 8, value, sizeof value, &err));
  }
  rocksdb_wait_for_compact_options_t* wait = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact_options_set_flush(wait, 1);
  OK(rocksdb_wait_for_compact(db, wait, &err));
  rocksdb_wait_for_compact_options_destroy(wait);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, ro);
  int n = 0;
  size_t len;
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
    snprintf(key, sizeof key, "%08d", n++);
    CHECK(memcmp(rocksdb_iter_key(it, &len), key, 8) == 0 && len == 8);
  }
  CHECK(n == 5000);
  for (rocksdb_iter_seek_to_last(it); rocksdb_iter_valid(it); rocksdb_iter_prev(it)) n--;
  CHECK(n == 0);
  rocksdb_iter_destroy(it);
  uint64_t one = 1, sum;
  for (int i = 0; i < 3; i++)
    OK(rocksdb_merge(db, wo, "counter", 7, (char*)&one, sizeof one, &err));
  char* v = rocksdb_get(db, ro, "counter", 7, &len, &err);
  CHECK(v && len == 8);
  memcpy(&sum, v, 8);
  CHECK(sum == 3);
  free(v);
  rocksdb_close(db);
  OK(rocksdb_destroy_db(o, dir, &err));
  rocksdb_options_destroy(o);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char dir[1024];
  ro = rocksdb_readoptions_create();
  wo = rocksdb_writeoptions_create();
  nulls();
  snprintf(dir, sizeof dir, "%s/one", argv[1]);
  reads_and_writes(dir);
  families_and_reopen(dir);
  snprintf(dir, sizeof dir, "%s/two", argv[1]);
  callbacks(dir);
  snprintf(dir, sizeof dir, "%s/three", argv[1]);
  text_options(dir);
  volume(dir);
  rocksdb_readoptions_destroy(ro);
  rocksdb_writeoptions_destroy(wo);
  puts("ok");
  return 0;
}
