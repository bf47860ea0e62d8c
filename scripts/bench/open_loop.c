/* Durable puts at a fixed rate while the database itself writes tables at another: what its background work does to them.
 *
 *   cc -O2 -pthread -I INC open_loop.c -o open_loop -L DIR -lrocksdb -ldl
 *   open_loop DB [--options "name=value;…"] [--own "name=value;…"] [--rate N] [--threads N] [--background MB/s] [--compactions 1] [--seconds N]
 *
 * The threads of the first kind put 100 bytes with a sync, each at its intended times: a latency counts from there, so
 * that a stall is seen by every put that it holds up. One more thread puts 4 KB without the log into a family of its own as
 * fast as --background says, which is what flushes write; with --compactions 1 that family is compacted, too. Prints one line of JSON; 0 on success. */
#include <dlfcn.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static rocksdb_t* db;
static rocksdb_column_family_handle_t* family[2];
static double rate = 5000, background = 90, seconds = 10;
static int threads = 8, compactions;
static uint64_t start;
static volatile int stop;
static uint64_t* taken;
static long puts_of[64], written;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void until(uint64_t at) {
  struct timespec t = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
  }
}
static void check(char* error) {
  if (error != NULL) {
    fprintf(stderr, "open_loop: %s\n", error);
    exit(1);
  }
}
static void* durable(void* arg) {
  long me = (long)arg, most = (long)(rate * seconds / threads), n = 0;
  uint64_t step = (uint64_t)(1e9 * threads / rate), at = start + step * (uint64_t)me / (uint64_t)threads;
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_sync(w, 1);
  char key[32], value[100];
  memset(value, 'v', sizeof value);
  for (; n < most; n++, at += step) {
    if (now() < at) until(at);
    char* error = NULL;
    snprintf(key, sizeof key, "%016lx", (unsigned long)(n * 8 + me) * 0x9e3779b97f4a7c15u);
    rocksdb_put_cf(db, w, family[0], key, 16, value, sizeof value, &error);
    check(error);
    taken[me * most + n] = now() - at;
  }
  puts_of[me] = n;
  rocksdb_writeoptions_destroy(w);
  return NULL;
}
static void* tables(void* arg) {
  (void)arg;
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(w, 1);
  static char value[4096];
  char key[32];
  uint64_t seed = 88172645463325252u;
  while (!stop) {
    for (size_t i = 0; i < sizeof value; i += 8) {
      seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
      memcpy(value + i, &seed, 8);
    }
    char* error = NULL;
    snprintf(key, sizeof key, "%016lx", (unsigned long)(seed % 100000u));
    rocksdb_put_cf(db, w, family[1], key, 16, value, sizeof value, &error);
    check(error);
    written += (long)sizeof value;
    uint64_t due = start + (uint64_t)((double)written * 1e3 / background);
    if (now() < due) until(due);
  }
  rocksdb_writeoptions_destroy(w);
  return NULL;
}
static int by_size(const void* a, const void* b) {
  uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return (x > y) - (x < y);
}
int main(int argc, char** argv) {
  const char *own = "", *options = "";
  if (argc < 2) return 2;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--own")) own = argv[i + 1];
    else if (!strcmp(argv[i], "--options")) options = argv[i + 1];
    else if (!strcmp(argv[i], "--rate")) rate = atof(argv[i + 1]);
    else if (!strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--background")) background = atof(argv[i + 1]);
    else if (!strcmp(argv[i], "--compactions")) compactions = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]);
    else return fprintf(stderr, "open_loop: no flag %s\n", argv[i]), 2;
  }
  if (threads < 1 || threads > 64 || rate <= 0 || seconds <= 0) return 2;
  char* error = NULL;
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_create_missing_column_families(o, 1);
  rocksdb_options_set_bytes_per_sync(o, 1 << 20);
  rocksdb_options_set_max_background_jobs(o, 4);
  rocksdb_options_set_compression(o, rocksdb_no_compression);
  rocksdb_options_set_disable_auto_compactions(o, !compactions);
  if (own[0]) {
    void (*set)(rocksdb_options_t*, const char*, char**);
    *(void**)&set = dlsym(RTLD_DEFAULT, "spanlith_options_set");
    if (set == NULL) return fprintf(stderr, "open_loop: this library has no options of its own\n"), 2;
    set(o, own, &error);
    check(error);
  }
  rocksdb_options_t* given = rocksdb_options_create();
  rocksdb_get_options_from_string(o, options, given, &error);
  check(error);
  const char* names[2] = {"default", "tables"};
  const rocksdb_options_t* both[2] = {given, given};
  db = rocksdb_open_column_families(given, argv[1], 2, names, both, family, &error);
  check(error);
  long most = (long)(rate * seconds / threads);
  taken = calloc((size_t)(most * threads), sizeof *taken);
  start = now() + 20000000u;
  pthread_t of[64], writer;
  if (background > 0) pthread_create(&writer, NULL, tables, NULL);
  for (long i = 0; i < threads; i++) pthread_create(&of[i], NULL, durable, (void*)i);
  long puts = 0;
  for (int i = 0; i < threads; i++) pthread_join(of[i], NULL), puts += puts_of[i];
  double took = (double)(now() - start) / 1e9;
  stop = 1;
  if (background > 0) pthread_join(writer, NULL);
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  qsort(taken, (size_t)puts, sizeof *taken, by_size);
  double cpu = (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  printf("{\"puts\": %ld, \"per_second\": %.0f, \"background_mb_s\": %.1f, \"cpu_s\": %.2f", puts, (double)puts / took,
         (double)written / 1e6 / took, cpu);
  const double at[] = {50, 99, 99.9, 99.99};
  for (int i = 0; i < 4; i++) printf(", \"p%g_us\": %.0f", at[i], (double)taken[(long)((double)(puts - 1) * at[i] / 100)] / 1e3);
  printf(", \"max_us\": %.0f}\n", (double)taken[puts - 1] / 1e3);
  for (int i = 0; i < 2; i++) rocksdb_column_family_handle_destroy(family[i]);
  rocksdb_close(db);
  rocksdb_options_destroy(given);
  rocksdb_options_destroy(o);
  free(taken);
  return 0;
}
