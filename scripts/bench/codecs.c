/* Bytes of tables and processor time by codec, on five kinds of data.
 *
 *   cc -O2 -Iinclude scripts/bench/codecs.c -o codecs -Ltarget/dist -lrocksdb -ldl
 *   LD_LIBRARY_PATH=target/dist ./codecs DIRECTORY KIND ENTRIES OPTIONS [OWN]
 *
 * KIND is `text` (lines of words by Zipf's law), `json` (documents of one shape), `rows` (numbers in binary form),
 * `log` (lines that differ in few places) or `mixed` (every second run of 64 entries is noise, the others JSON). OPTIONS
 * are RocksDB's, OWN are those that RocksDB does not have. Entries of about 400 bytes are put in random order, half of them
 * once more, everything is compacted; then a fifth of them is got and all are scanned. Prints the kind, MiB of tables,
 * processor seconds of the process for the writes with the compaction, and for the reads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <rocksdb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static char* err;

static void check(const char* what) {
  if (err != NULL) {
    fprintf(stderr, "%s: %s\n", what, err);
    exit(1);
  }
}

static double process_cpu(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static double live_mib(rocksdb_t* db) {
  uint64_t bytes = 0;
  rocksdb_property_int(db, "rocksdb.live-sst-files-size", &bytes);
  return bytes / 1048576.0;
}

static uint64_t rnd(uint64_t* s) {
  uint64_t z = *s += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

enum { WORDS = 4096, LONGEST = 600 };
static char words[WORDS][16];
static double weight[WORDS];

static void make_words(void) {
  uint64_t s = 7;
  double sum = 0;
  for (int i = 0; i < WORDS; i++) {
    int len = 2 + rnd(&s) % 8;
    for (int j = 0; j < len; j++) words[i][j] = "etaoinshrdlucmfwypvbgkjqxz"[rnd(&s) % 13 + rnd(&s) % 14];
    sum += pow(i + 1, -1.0);
    weight[i] = sum;
  }
  for (int i = 0; i < WORDS; i++) weight[i] /= sum;
}

static const char* word(uint64_t* s) {
  double x = (rnd(s) >> 11) * 0x1.0p-53;
  int low = 0, high = WORDS - 1;
  while (low < high) {
    int mid = (low + high) / 2;
    if (weight[mid] < x) low = mid + 1; else high = mid;
  }
  return words[low];
}

static int json(char* out, uint64_t* s, unsigned n) {
  return sprintf(out,
                 "{\"id\":%u,\"user\":\"%s_%s%u\",\"email\":\"%s.%s@%s.com\",\"active\":%s,\"balance\":%u.%02u,"
                 "\"created\":\"2024-%02u-%02uT%02u:%02u:%02uZ\",\"tags\":[\"%s\",\"%s\",\"%s\"],"
                 "\"address\":{\"street\":\"%u %s street\",\"city\":\"%s\",\"zip\":\"%05u\"},\"note\":\"%s %s %s %s %s\"}",
                 n, word(s), word(s), (unsigned)(rnd(s) % 1000), word(s), word(s), word(s),
                 rnd(s) % 4 ? "true" : "false", (unsigned)(rnd(s) % 100000), (unsigned)(rnd(s) % 100),
                 (unsigned)(rnd(s) % 12 + 1), (unsigned)(rnd(s) % 28 + 1), (unsigned)(rnd(s) % 24),
                 (unsigned)(rnd(s) % 60), (unsigned)(rnd(s) % 60), word(s), word(s), word(s), (unsigned)(rnd(s) % 999),
                 word(s), word(s), (unsigned)(rnd(s) % 100000), word(s), word(s), word(s), word(s), word(s));
}

static int value(const char* kind, char* out, unsigned n, unsigned round) {
  uint64_t s = (uint64_t)n << 8 | round, *p = &s;
  int len = 0;
  if (!strcmp(kind, "text")) {
    while (len < 380) len += sprintf(out + len, "%s ", word(p));
  } else if (!strcmp(kind, "rows")) {
    for (int row = 0; row < 16; row++, len += 24) {
      uint64_t time = 1700000000000u + (uint64_t)n * 16000 + row * 1000 + rnd(p) % 50;
      double temperature = 20 + (int)(rnd(p) % 400) / 100.0;
      uint32_t sensor = n % 500, state = rnd(p) % 16 ? 0 : (uint32_t)(rnd(p) % 5);
      memcpy(out + len, &time, 8);
      memcpy(out + len + 8, &temperature, 8);
      memcpy(out + len + 16, &sensor, 4);
      memcpy(out + len + 20, &state, 4);
    }
  } else if (!strcmp(kind, "log")) {
    for (int line = 0; line < 4; line++)
      len += sprintf(out + len, "2024-03-%02u %02u:%02u:%02u.%03u INFO [worker-%u] http.server: GET /api/v1/items/%u 200 %u bytes in %u ms\n",
                     n / 8640 % 28 + 1, n / 360 % 24, n / 6 % 60, n % 6 * 10 + line, (unsigned)(rnd(p) % 1000),
                     (unsigned)(rnd(p) % 16), (unsigned)(rnd(p) % 50000), (unsigned)(rnd(p) % 4000), (unsigned)(rnd(p) % 90));
  } else if (!strcmp(kind, "mixed") && n / 64 % 2) {
    for (; len < 400; len += 8) {
      uint64_t noise = rnd(p);
      memcpy(out + len, &noise, 8);
    }
  } else {
    len = json(out, p, n);
  }
  return len;
}

int main(int argc, char** argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: codecs DIRECTORY KIND ENTRIES OPTIONS [OWN]\n");
    return 2;
  }
  const char *path = argv[1], *kind = argv[2];
  unsigned entries = (unsigned)atol(argv[3]);
  make_words();
  rocksdb_options_t *base = rocksdb_options_create(), *o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(base, 1);
  rocksdb_options_set_level_compaction_dynamic_level_bytes(base, 1);
  rocksdb_get_options_from_string(base, argv[4], o, &err);
  check("options");
  if (argc > 5 && *argv[5]) {
    void (*set)(rocksdb_options_t*, const char*, char**);
    *(void**)&set = dlsym(RTLD_DEFAULT, "spanlith_options_set");
    if (set == NULL) {
      fprintf(stderr, "the library has no options of its own\n");
      return 1;
    }
    set(o, argv[5], &err);
    check("own options");
  }
  rocksdb_t* db = rocksdb_open(o, path, &err);
  check("open");
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  char key[32], *bytes = malloc(LONGEST * 4);
  /* The same work of making values counts for every codec; it is measured and taken away. */
  double begin = process_cpu();
  for (unsigned i = 0; i < entries + entries / 2; i++) value(kind, bytes, i % entries, i / entries);
  double making = process_cpu() - begin;
  begin = process_cpu();
  for (unsigned i = 0; i < entries + entries / 2; i++) {
    unsigned n = (unsigned)(((uint64_t)i * 2654435761u) % entries);
    int len = value(kind, bytes, n, i / entries);
    rocksdb_put(db, w, key, (size_t)sprintf(key, "key%012u", n), bytes, (size_t)len, &err);
    check("put");
  }
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  double writes = process_cpu() - begin - making;
  double size = live_mib(db);
  begin = process_cpu();
  for (unsigned i = 0; i < entries / 5; i++) {
    unsigned n = (unsigned)(((uint64_t)i * 40503u * 7919u) % entries);
    size_t len;
    char* found = rocksdb_get(db, r, key, (size_t)sprintf(key, "key%012u", n), &len, &err);
    check("get");
    if (found == NULL) {
      fprintf(stderr, "%s is missing\n", key);
      return 1;
    }
    free(found);
  }
  unsigned seen = 0;
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) seen++;
  rocksdb_iter_destroy(it);
  if (seen != entries) {
    fprintf(stderr, "%u entries of %u\n", seen, entries);
    return 1;
  }
  printf("%s %.2f %.3f %.3f\n", kind, size, writes, process_cpu() - begin);
  rocksdb_close(db);
  return 0;
}
