/* Deletions beside RocksDB: a queue, seeks among range deletions, and the space of what was all deleted.
 *
 *   cc -O2 -Iinclude scripts/bench/deletes.c -o deletes -Ltarget/dist -lrocksdb
 *   LD_LIBRARY_PATH=target/dist ./deletes queue DIRECTORY OPERATIONS [OPTIONS]
 *   LD_LIBRARY_PATH=peers/lib11 ./deletes ranges DIRECTORY KEYS [OPTIONS]
 *   LD_LIBRARY_PATH=target/dist ./deletes mass DIRECTORY KEYS [OPTIONS]
 *
 * `queue` puts at the tail, seeks to the first key, and deletes it, with 1,000 keys in the queue. `ranges` seeks to
 * random keys before and after 2,000 range deletions of a quarter of all keys. `mass` writes, deletes every key, and waits
 * until the tables take at most 1 % of what they took. Times are those of processors but where it says seconds.
 */
#include <dirent.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char* err;
static rocksdb_t* db;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

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

static double clock_of(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static long long tables(const char* path) {
  long long sum = 0;
  char name[4096];
  struct stat st;
  struct dirent* e;
  DIR* d = opendir(path);
  while (d != NULL && (e = readdir(d)) != NULL) {
    size_t len = strlen(e->d_name);
    if (len > 4 && strcmp(e->d_name + len - 4, ".sst") == 0) {
      snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
      if (stat(name, &st) == 0) sum += st.st_size;
    }
  }
  if (d != NULL) closedir(d);
  return sum;
}

static void flush(void) {
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  check("flush");
  rocksdb_flushoptions_destroy(f);
}

static void queue(long n) {
  char key[32], value[128];
  long tail = 0;
  memset(value, 'v', sizeof(value));
  for (; tail < 1000; tail++) {
    snprintf(key, sizeof(key), "q%015ld", tail);
    rocksdb_put(db, w, key, 16, value, 100, &err);
  }
  double began = process_cpu();
  for (long i = 0; i < n; i++) {
    snprintf(key, sizeof(key), "q%015ld", tail++);
    rocksdb_put(db, w, key, 16, value, 100, &err);
    rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
    rocksdb_iter_seek_to_first(it);
    size_t len;
    const char* first = rocksdb_iter_key(it, &len);
    memcpy(key, first, len);
    rocksdb_iter_destroy(it);
    rocksdb_delete(db, w, key, 16, &err);
    check("queue");
    if (i % (n / 5) == n / 5 - 1) {
      printf("after %ld: %.2f us an operation\n", i + 1, (process_cpu() - began) * 1e6 / (n / 5));
      began = process_cpu();
    }
  }
}

static void ranges(long n) {
  char key[32], end[32], value[128];
  memset(value, 'v', sizeof(value));
  for (long i = 0; i < n; i++) {
    snprintf(key, sizeof(key), "k%015ld", i * 7919 % n);
    rocksdb_put(db, w, key, 16, value, 100, &err);
  }
  flush();
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  for (int round = 0; round < 2; round++) {
    unsigned long x = 1;
    const long count = 200000;
    double began = clock_of(CLOCK_THREAD_CPUTIME_ID);
    rocksdb_iterator_t* it = rocksdb_create_iterator(db, r);
    for (long i = 0; i < count; i++) {
      size_t len;
      x = x * 6364136223846793005UL + 1442695040888963407UL;
      snprintf(key, sizeof(key), "k%015ld", (long)((x >> 33) % (unsigned long)n));
      rocksdb_iter_seek(it, key, 16);
      if (rocksdb_iter_valid(it)) rocksdb_iter_key(it, &len);
    }
    rocksdb_iter_destroy(it);
    double took = (clock_of(CLOCK_THREAD_CPUTIME_ID) - began) * 1e6 / count;
    printf("%s: %.3f us a seek\n", round ? "after 2,000 range deletions" : "before", took);
    for (long i = 0; round == 0 && i < 2000; i++) {
      snprintf(key, sizeof(key), "k%015ld", i * (n / 2000));
      snprintf(end, sizeof(end), "k%015ld", i * (n / 2000) + n / 8000);
      rocksdb_column_family_handle_t* cf = rocksdb_get_default_column_family_handle(db);
      rocksdb_delete_range_cf(db, w, cf, key, 16, end, 16, &err);
      check("delete range");
    }
  }
}

static void mass(long n, const char* path) {
  char key[32];
  unsigned long value[15];
  double began = clock_of(CLOCK_MONOTONIC), cpu = process_cpu();
  for (long i = 0; i < n; i++) {
    snprintf(key, sizeof(key), "k%015ld", i * 7919 % n);
    for (int j = 0; j < 15; j++) {
      value[j] = i * 1103515245UL + j * 12345;
      value[j] ^= value[j] >> 17;
    }
    rocksdb_put(db, w, key, 16, (const char*)value, sizeof(value), &err);
    check("put");
  }
  flush();
  rocksdb_wait_for_compact_options_t* wait = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact(db, wait, &err);
  check("wait");
  double wrote = clock_of(CLOCK_MONOTONIC) - began;
  long long full = tables(path);
  printf("written in %.1f s, %.1f s of processors, %.1f MB\n", wrote, process_cpu() - cpu, full / 1e6);
  cpu = process_cpu();
  for (long i = 0; i < n; i++) {
    snprintf(key, sizeof(key), "k%015ld", i);
    rocksdb_delete(db, w, key, 16, &err);
  }
  flush();
  began = clock_of(CLOCK_MONOTONIC);
  for (;;) {
    long long left = tables(path);
    double waited = clock_of(CLOCK_MONOTONIC) - began;
    if (left * 100 <= full || waited > 6 * wrote + 30) {
      printf("%.2f %% left %.2f s after the last deletion (%.2f of the time of writing), %.1f s of processors\n",
             left * 100.0 / full, waited, waited / wrote, process_cpu() - cpu);
      return;
    }
    usleep(50000);
  }
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: deletes queue|ranges|mass DIRECTORY COUNT [OPTIONS]\n");
    return 2;
  }
  rocksdb_options_t* options = rocksdb_options_create();
  if (argc > 4) {
    rocksdb_options_t* parsed = rocksdb_options_create();
    rocksdb_get_options_from_string(options, argv[4], parsed, &err);
    check("options");
    options = parsed;
  }
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_error_if_exists(options, 1);
  db = rocksdb_open(options, argv[2], &err);
  check("open");
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  long n = atol(argv[3]);
  if (strcmp(argv[1], "queue") == 0) {
    queue(n);
  } else if (strcmp(argv[1], "ranges") == 0) {
    ranges(n);
  } else {
    mass(n, argv[2]);
  }
  rocksdb_close(db);
  return 0;
}
