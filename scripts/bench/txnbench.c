// Transactions over the C interface: processor time per transaction, one thread, in memory.
//
//   txnbench DIR TRANSACTIONS        against whichever librocksdb.so is found (LD_LIBRARY_PATH)
//
// 16-byte keys out of a million, 100-byte values, no syncs, one memtable. Each line: name, microseconds. DIR and DIR.o
// are removed first.
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEYS = 1000003, STEP = 7919 };

static rocksdb_writeoptions_t *writes;
static rocksdb_readoptions_t *reads;
static char value[100];

static double cpu_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void check(char *error) {
  if (error) {
    fprintf(stderr, "txnbench: %s\n", error);
    exit(1);
  }
}

static const char *key(long n) {
  static char text[24];
  snprintf(text, sizeof text, "%016ld", n * STEP % KEYS);
  return text;
}

static void report(const char *name, double since, long count) {
  printf("%-36s %.2f\n", name, (cpu_us() - since) / (double)count);
}

static void put(rocksdb_transaction_t *t, long n) {
  char *error = NULL;
  rocksdb_transaction_put(t, key(n), 16, value, sizeof value, &error);
  check(error);
}

static void read_and_put(rocksdb_transaction_t *t, long n) {
  char *error = NULL;
  size_t len;
  free(rocksdb_transaction_get_for_update(t, reads, key(n), 16, &len, 1, &error));
  check(error);
  put(t, n);
}

static void commit(rocksdb_transaction_t *t) {
  char *error = NULL;
  rocksdb_transaction_commit(t, &error);
  check(error);
}

static void with_locks(const rocksdb_options_t *options, const char *dir, long count) {
  char *error = NULL;
  rocksdb_transactiondb_options_t *own = rocksdb_transactiondb_options_create();
  rocksdb_transactiondb_t *db = rocksdb_transactiondb_open(options, own, dir, &error);
  check(error);
  rocksdb_transaction_options_t *how = rocksdb_transaction_options_create();
  rocksdb_transaction_t *t = NULL;
  double since = cpu_us();
  for (long i = 0; i < count; i++) {
    t = rocksdb_transaction_begin(db, writes, how, t);
    for (long j = 0; j < 4; j++) put(t, i * 4 + j);
    commit(t);
  }
  report("locks, 4 puts", since, count);
  since = cpu_us();
  for (long i = 0; i < count; i++) {
    t = rocksdb_transaction_begin(db, writes, how, t);
    for (long j = 0; j < 2; j++) read_and_put(t, i * 2 + j);
    commit(t);
  }
  report("locks, 2 reads for update and puts", since, count);
  since = cpu_us();
  for (long i = 0; i < count; i++) {
    rocksdb_transactiondb_put(db, writes, key(i), 16, value, sizeof value, &error);
    check(error);
  }
  report("a plain put that locks", since, count);
  since = cpu_us();
  for (long i = 0; i < count; i++) {
    char name[24];
    t = rocksdb_transaction_begin(db, writes, how, t);
    snprintf(name, sizeof name, "n%ld", i);
    rocksdb_transaction_set_name(t, name, strlen(name), &error);
    check(error);
    put(t, i);
    rocksdb_transaction_prepare(t, &error);
    check(error);
    commit(t);
  }
  report("two phases, 1 put", since, count);
  rocksdb_transaction_destroy(t);
  rocksdb_transaction_options_destroy(how);
  rocksdb_transactiondb_close(db);
  rocksdb_transactiondb_options_destroy(own);
}

static void without_locks(const rocksdb_options_t *options, const char *dir, long count) {
  char *error = NULL;
  rocksdb_optimistictransactiondb_t *db = rocksdb_optimistictransactiondb_open(options, dir, &error);
  check(error);
  rocksdb_optimistictransaction_options_t *how = rocksdb_optimistictransaction_options_create();
  rocksdb_transaction_t *t = NULL;
  double since = cpu_us();
  for (long i = 0; i < count; i++) {
    t = rocksdb_optimistictransaction_begin(db, writes, how, t);
    for (long j = 0; j < 4; j++) put(t, i * 4 + j);
    commit(t);
  }
  report("checked, 4 puts", since, count);
  since = cpu_us();
  for (long i = 0; i < count; i++) {
    t = rocksdb_optimistictransaction_begin(db, writes, how, t);
    for (long j = 0; j < 2; j++) read_and_put(t, i * 2 + j);
    commit(t);
  }
  report("checked, 2 reads for update and puts", since, count);
  rocksdb_transaction_destroy(t);
  rocksdb_optimistictransaction_options_destroy(how);
  rocksdb_optimistictransactiondb_close(db);
}

int main(int argc, char **argv) {
  long count = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
  if (count <= 0) {
    fprintf(stderr, "usage: txnbench DIR TRANSACTIONS\n");
    return 2;
  }
  char other[4096];
  snprintf(other, sizeof other, "%s.o", argv[1]);
  char *error = NULL;
  rocksdb_options_t *options = rocksdb_options_create();
  // Where there is nothing it fails, which is fine.
  rocksdb_destroy_db(options, argv[1], &error);
  rocksdb_destroy_db(options, other, &error);
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_write_buffer_size(options, (size_t)1 << 30);
  writes = rocksdb_writeoptions_create();
  reads = rocksdb_readoptions_create();
  memset(value, 'v', sizeof value);
  with_locks(options, argv[1], count);
  without_locks(options, other, count);
  rocksdb_readoptions_destroy(reads);
  rocksdb_writeoptions_destroy(writes);
  rocksdb_options_destroy(options);
  return 0;
}
