/* The least that a group commit costs on this machine: threads that wait for each other's durable writes, and no engine.
 *
 *   group_floor FILE THREADS OPERATIONS WAIT_US
 *
 * Each operation is one "put" of nothing: the thread joins a group; its leader waits at most WAIT_US for all threads to
 * join, writes 4 KiB to FILE with direct I/O and RWF_DSYNC, and wakes the others with one futex call. Threads that come
 * meanwhile form the next group. Figures beside which synced puts of an engine are read: no engine with blocking calls
 * passes them on the same disk and cores. One JSON line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, FILE_BYTES = 64 << 20, MOST_THREADS = 256 };

static int file, threads;
static long per_thread, wait_nanos;
static char *page;
static long *latencies;

/* Of the mutex: the group that is joined, who joined it, whether somebody leads. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long group = 1;
static atomic_int joined;
static int has_leader;
/* Groups with odd and even numbers: 2 * number when the group is durable, 2 * number - 1 when one of it is to lead. */
static atomic_long state[2];
/* A futex is 32 bits wide: the lower half of `state`, counted apart. */
static atomic_int bell[2];
static long writes;

static long nanos(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void ring(int which, int sleepers) {
  atomic_fetch_add(&bell[which], 1);
  syscall(SYS_futex, &bell[which], FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}

static void write_page(void) {
  struct iovec v = {page, PAGE};
  if (pwritev2(file, &v, 1, writes++ * PAGE % FILE_BYTES, RWF_DSYNC) != PAGE) {
    perror("group_floor: write");
    exit(1);
  }
}

static void lead(long mine) {
  long until = nanos() + wait_nanos;
  while (atomic_load(&joined) < threads && nanos() < until)
    __asm__ volatile("" ::: "memory");
  pthread_mutex_lock(&mutex);
  group++;
  atomic_store(&joined, 0);
  pthread_mutex_unlock(&mutex);
  write_page();
  pthread_mutex_lock(&mutex);
  has_leader = atomic_load(&joined) > 0;
  int another = has_leader;
  pthread_mutex_unlock(&mutex);
  if (another) {
    atomic_store(&state[(mine + 1) & 1], 2 * (mine + 1) - 1);
    ring((mine + 1) & 1, 1);
  }
  atomic_store(&state[mine & 1], 2 * mine);
  ring(mine & 1, MOST_THREADS);
}

static void put(void) {
  pthread_mutex_lock(&mutex);
  long mine = group;
  atomic_fetch_add(&joined, 1);
  int leads = !has_leader;
  has_leader = 1;
  pthread_mutex_unlock(&mutex);
  int which = mine & 1;
  while (!leads) {
    int heard = atomic_load(&bell[which]);
    long now = atomic_load(&state[which]);
    if (now >= 2 * mine)
      return;
    if (now == 2 * mine - 1 && atomic_compare_exchange_strong(&state[which], &now, 2 * mine - 2))
      leads = 1;
    else
      syscall(SYS_futex, &bell[which], FUTEX_WAIT_PRIVATE, heard, NULL, NULL, 0);
  }
  lead(mine);
}

static void *work(void *argument) {
  long *latency = latencies + (long)argument * per_thread;
  for (long i = 0; i < per_thread; i++) {
    long began = nanos();
    put();
    latency[i] = nanos() - began;
  }
  return NULL;
}

static int ascending(const void *a, const void *b) {
  long x = *(const long *)a, y = *(const long *)b;
  return (x > y) - (x < y);
}

static double cpu_seconds(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
  if (argc != 5 || (threads = atoi(argv[2])) < 1 || threads > MOST_THREADS || atol(argv[3]) < threads) {
    fprintf(stderr, "usage: group_floor FILE THREADS(1..%d) OPERATIONS WAIT_US\n", MOST_THREADS);
    return 2;
  }
  per_thread = atol(argv[3]) / threads;
  wait_nanos = atol(argv[4]) * 1000;
  file = open(argv[1], O_RDWR | O_CREAT | O_DIRECT, 0644);
  if (file < 0 || posix_memalign((void **)&page, PAGE, 1 << 20)) {
    perror(argv[1]);
    return 1;
  }
  memset(page, 7, 1 << 20);
  for (long at = 0; at < FILE_BYTES; at += 1 << 20)
    if (pwrite(file, page, 1 << 20, at) != 1 << 20) {
      perror(argv[1]);
      return 1;
    }
  fsync(file);
  long all = threads * per_thread;
  latencies = malloc(all * sizeof *latencies);
  pthread_t ids[MOST_THREADS];
  long began = nanos();
  double cpu = cpu_seconds();
  for (long i = 0; i < threads; i++)
    pthread_create(&ids[i], NULL, work, (void *)i);
  for (int i = 0; i < threads; i++)
    pthread_join(ids[i], NULL);
  double seconds = (nanos() - began) / 1e9;
  cpu = cpu_seconds() - cpu;
  qsort(latencies, all, sizeof *latencies, ascending);
  printf("{\"threads\":%d,\"wait_us\":%ld,\"ops_s\":%.0f,\"group\":%.2f,\"cpu_us_op\":%.2f,\"p50_us\":%.1f,"
         "\"p99_us\":%.1f,\"p999_us\":%.1f}\n",
         threads, wait_nanos / 1000, all / seconds, (double)all / writes, cpu * 1e6 / all, latencies[all / 2] / 1e3,
         latencies[all * 99 / 100] / 1e3, latencies[all * 999 / 1000] / 1e3);
  return 0;
}
