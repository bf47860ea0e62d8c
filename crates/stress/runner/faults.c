/* Failing system calls: stands before the C library for whatever library the runner loads.
 *
 * Only files below one directory are touched. The n-th call of a class, and so many behind it, fail with an
 * error number; before that and after fault_off() everything goes through.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { APPEND, SYNC, SYNCDIR, CREATE, OPEN, READ, RENAME, DELETE, CLASSES };

#define FDS 65536
static char below[512];
static unsigned char kinds[FDS]; /* 1 file, 2 directory */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long made[CLASSES], fired;
static int bad_class = -1, bad_errno;
static long bad_from, bad_times;

void fault_below(const char *dir) {
  snprintf(below, sizeof below, "%s", dir);
}

void fault_set(int class, long nth, int error, long times) {
  pthread_mutex_lock(&lock);
  bad_class = class, bad_from = made[class % CLASSES] + nth, bad_errno = error, bad_times = times;
  fired = 0;
  pthread_mutex_unlock(&lock);
}

long fault_off(void) {
  bad_class = -1;
  return fired;
}

long fault_count(int class) {
  return made[class % CLASSES];
}

/* Whether this call fails; errno is set. */
static int fails(int class) {
  int bad = 0;
  pthread_mutex_lock(&lock);
  long n = ++made[class];
  if (class == bad_class && n >= bad_from && n - bad_from < bad_times) bad = 1, fired++;
  pthread_mutex_unlock(&lock);
  if (bad) errno = bad_errno;
  return bad;
}

static int ours(const char *path) {
  size_t n = strlen(below);
  return n > 0 && path && !strncmp(path, below, n);
}

static int kind(int fd) {
  return fd >= 0 && fd < FDS ? kinds[fd] : 0;
}

#define REAL(ret, name, args) \
  static ret(*real) args; \
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, name)

static int opened(int fd, const char *path) {
  struct stat st;
  if (fd >= 0 && fd < FDS) kinds[fd] = !ours(path) ? 0 : !fstat(fd, &st) && S_ISDIR(st.st_mode) ? 2 : 1;
  return fd;
}

static int open_fails(const char *path, int flags) {
  return ours(path) && fails(flags & O_CREAT ? CREATE : OPEN);
}

#define MODE \
  mode_t mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list list; \
    va_start(list, flags); \
    mode = va_arg(list, mode_t); \
    va_end(list); \
  }

int open(const char *path, int flags, ...) {
  REAL(int, "open", (const char *, int, ...));
  MODE
  return open_fails(path, flags) ? -1 : opened(real(path, flags, mode), path);
}

int open64(const char *path, int flags, ...) {
  REAL(int, "open64", (const char *, int, ...));
  MODE
  return open_fails(path, flags) ? -1 : opened(real(path, flags, mode), path);
}

FILE *fopen(const char *path, const char *how) {
  REAL(FILE *, "fopen", (const char *, const char *));
  return ours(path) && fails(*how == 'r' ? OPEN : CREATE) ? NULL : real(path, how);
}

FILE *fopen64(const char *path, const char *how) {
  REAL(FILE *, "fopen64", (const char *, const char *));
  return ours(path) && fails(*how == 'r' ? OPEN : CREATE) ? NULL : real(path, how);
}

int close(int fd) {
  REAL(int, "close", (int));
  if (fd >= 0 && fd < FDS) kinds[fd] = 0;
  return real(fd);
}

ssize_t write(int fd, const void *p, size_t n) {
  REAL(ssize_t, "write", (int, const void *, size_t));
  return kind(fd) && fails(APPEND) ? -1 : real(fd, p, n);
}

ssize_t writev(int fd, const struct iovec *v, int n) {
  REAL(ssize_t, "writev", (int, const struct iovec *, int));
  return kind(fd) && fails(APPEND) ? -1 : real(fd, v, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
  REAL(ssize_t, "pwrite", (int, const void *, size_t, off_t));
  return kind(fd) && fails(APPEND) ? -1 : real(fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) {
  REAL(ssize_t, "pwrite64", (int, const void *, size_t, off64_t));
  return kind(fd) && fails(APPEND) ? -1 : real(fd, p, n, at);
}

ssize_t read(int fd, void *p, size_t n) {
  REAL(ssize_t, "read", (int, void *, size_t));
  return kind(fd) && fails(READ) ? -1 : real(fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t at) {
  REAL(ssize_t, "pread", (int, void *, size_t, off_t));
  return kind(fd) && fails(READ) ? -1 : real(fd, p, n, at);
}

ssize_t pread64(int fd, void *p, size_t n, off64_t at) {
  REAL(ssize_t, "pread64", (int, void *, size_t, off64_t));
  return kind(fd) && fails(READ) ? -1 : real(fd, p, n, at);
}

int fsync(int fd) {
  REAL(int, "fsync", (int));
  return kind(fd) && fails(kind(fd) == 2 ? SYNCDIR : SYNC) ? -1 : real(fd);
}

int fdatasync(int fd) {
  REAL(int, "fdatasync", (int));
  return kind(fd) && fails(kind(fd) == 2 ? SYNCDIR : SYNC) ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
  REAL(int, "rename", (const char *, const char *));
  return ours(from) && fails(RENAME) ? -1 : real(from, to);
}

int unlink(const char *path) {
  REAL(int, "unlink", (const char *));
  return ours(path) && fails(DELETE) ? -1 : real(path);
}
