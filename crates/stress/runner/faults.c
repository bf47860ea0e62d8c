/* Failing system calls: stands before the C library for whatever library the runner loads.
 *
 * Only files below one directory are touched. The n-th call of a class, and so many behind it, fail with an
 * error number; before that and after fault_off() everything goes through. With EINTR a close has closed, and with
 * LATE a change of names has been made, as over a network. With SHORT a read or write does a part. In a storm any
 * call may be interrupted or short.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
  APPEND, SYNC, SYNCDIR, CREATE, OPEN, READ, RENAME, DELETE,
  /* From here on for interruptions only. */
  LINK, DIRS, TRUNCATE, CLOSE, LIST, STAT, LOCK, RANGE, RING, CLASSES
};
/* Instead of an error number. */
enum { SHORT = -1, LATE = -2 };

#define FDS 65536
static char below[512];
static unsigned char kinds[FDS]; /* 1 file, 2 directory, 3 directory whose entries are still to be read */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long made[CLASSES], fired;
static int bad_class = -1, bad_errno;
static long bad_from, bad_times;
static unsigned long storm_state;
static long storm_one_in;

void fault_below(const char *dir) {
  snprintf(below, sizeof below, "%s", dir);
}

void fault_set(int class, long nth, int error, long times) {
  pthread_mutex_lock(&lock);
  bad_class = class, bad_from = made[class % CLASSES] + nth, bad_errno = error, bad_times = times;
  fired = 0;
  pthread_mutex_unlock(&lock);
}

/* One call in so many, of all classes; how is drawn. */
void fault_storm(long seed, long one_in) {
  pthread_mutex_lock(&lock);
  storm_state = (unsigned long)seed * 2 + 1, storm_one_in = one_in;
  fired = 0;
  pthread_mutex_unlock(&lock);
}

long fault_off(void) {
  bad_class = -1;
  storm_one_in = 0;
  return fired;
}

int fault_classes(void) {
  return CLASSES;
}

long fault_count(int class) {
  return made[class % CLASSES];
}

static unsigned long storm_next(void) {
  storm_state ^= storm_state << 13, storm_state ^= storm_state >> 7, storm_state ^= storm_state << 17;
  return storm_state;
}

/* What happens to this call: 0 nothing, otherwise an error number, SHORT or LATE. */
static int fate(int class) {
  int bad = 0;
  pthread_mutex_lock(&lock);
  long n = ++made[class];
  if (class == bad_class && n >= bad_from && n - bad_from < bad_times) bad = bad_errno;
  if (storm_one_in && storm_next() % (unsigned long)storm_one_in == 0)
    bad = storm_next() % 2 ? EINTR : class == APPEND || class == READ ? SHORT : LATE;
  if (bad) fired++;
  pthread_mutex_unlock(&lock);
  return bad;
}

/* Whether this call fails without being made; errno is set. */
static int fails(int class) {
  int bad = fate(class);
  if (bad) errno = bad == LATE || bad == SHORT ? EINTR : bad;
  return bad != 0;
}

/* The result of a change of names: a late interruption comes when it has been made. */
#define NAMED(class, is_ours, call) \
  int bad = is_ours ? fate(class) : 0; \
  if (bad && bad != LATE) return errno = bad == SHORT ? EINTR : bad, -1; \
  int done = call; \
  if (bad == LATE && !done) return errno = EINTR, -1; \
  return done

/* The length of a read or write, or a failure. */
#define MOVED(class, fd, n) \
  int bad = kind(fd) ? fate(class) : 0; \
  if (bad == SHORT) n = n > 1 ? n / 2 : n; \
  else if (bad) return errno = bad == LATE ? EINTR : bad, -1

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
  int bad = kind(fd) ? fate(CLOSE) : 0;
  if (fd >= 0 && fd < FDS) kinds[fd] = 0;
  int done = real(fd);
  return bad ? errno = bad < 0 ? EINTR : bad, -1 : done;
}

ssize_t write(int fd, const void *p, size_t n) {
  REAL(ssize_t, "write", (int, const void *, size_t));
  MOVED(APPEND, fd, n);
  return real(fd, p, n);
}

ssize_t writev(int fd, const struct iovec *v, int n) {
  REAL(ssize_t, "writev", (int, const struct iovec *, int));
  return kind(fd) && fails(APPEND) ? -1 : real(fd, v, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
  REAL(ssize_t, "pwrite", (int, const void *, size_t, off_t));
  MOVED(APPEND, fd, n);
  return real(fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) {
  REAL(ssize_t, "pwrite64", (int, const void *, size_t, off64_t));
  MOVED(APPEND, fd, n);
  return real(fd, p, n, at);
}

ssize_t read(int fd, void *p, size_t n) {
  REAL(ssize_t, "read", (int, void *, size_t));
  MOVED(READ, fd, n);
  return real(fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t at) {
  REAL(ssize_t, "pread", (int, void *, size_t, off_t));
  MOVED(READ, fd, n);
  return real(fd, p, n, at);
}

ssize_t pread64(int fd, void *p, size_t n, off64_t at) {
  REAL(ssize_t, "pread64", (int, void *, size_t, off64_t));
  MOVED(READ, fd, n);
  return real(fd, p, n, at);
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
  NAMED(RENAME, ours(from), real(from, to));
}

int unlink(const char *path) {
  REAL(int, "unlink", (const char *));
  NAMED(DELETE, ours(path), real(path));
}

int link(const char *from, const char *to) {
  REAL(int, "link", (const char *, const char *));
  NAMED(LINK, ours(from), real(from, to));
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
  REAL(int, "linkat", (int, const char *, int, const char *, int));
  NAMED(LINK, ours(from), real(a, from, b, to, flags));
}

int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", (const char *, mode_t));
  NAMED(DIRS, ours(path), real(path, mode));
}

int rmdir(const char *path) {
  REAL(int, "rmdir", (const char *));
  NAMED(DIRS, ours(path), real(path));
}

int ftruncate(int fd, off_t size) {
  REAL(int, "ftruncate", (int, off_t));
  return kind(fd) && fails(TRUNCATE) ? -1 : real(fd, size);
}

int ftruncate64(int fd, off64_t size) {
  REAL(int, "ftruncate64", (int, off64_t));
  return kind(fd) && fails(TRUNCATE) ? -1 : real(fd, size);
}

DIR *opendir(const char *path) {
  REAL(DIR *, "opendir", (const char *));
  if (ours(path) && fails(LIST)) return NULL;
  DIR *dir = real(path);
  if (dir) opened(dirfd(dir), path);
  if (dir && kind(dirfd(dir))) kinds[dirfd(dir)] = 3;
  return dir;
}

/* One call of the system reads many entries. */
static int reads_entries(DIR *dir) {
  int fd = dirfd(dir);
  if (kind(fd) != 3) return 0;
  kinds[fd] = 2;
  return 1;
}

struct dirent *readdir(DIR *dir) {
  REAL(struct dirent *, "readdir", (DIR *));
  return reads_entries(dir) && fails(LIST) ? NULL : real(dir);
}

struct dirent64 *readdir64(DIR *dir) {
  REAL(struct dirent64 *, "readdir64", (DIR *));
  return reads_entries(dir) && fails(LIST) ? NULL : real(dir);
}

int closedir(DIR *dir) {
  REAL(int, "closedir", (DIR *));
  int fd = dirfd(dir);
  if (fd >= 0 && fd < FDS) kinds[fd] = 0;
  return real(dir);
}

int statx(int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
  REAL(int, "statx", (int, const char *, int, unsigned, struct statx *));
  /* Rust's library asks with null pointers whether there is such a call; the header promises that there are none. */
  const char *volatile named = path;
  const char *p = named;
  return p && (*p ? ours(p) : kind(at)) && fails(STAT) ? -1 : real(at, path, flags, mask, out);
}

int stat(const char *restrict path, struct stat *restrict out) {
  REAL(int, "stat", (const char *, struct stat *));
  return ours(path) && fails(STAT) ? -1 : real(path, out);
}

int stat64(const char *restrict path, struct stat64 *restrict out) {
  REAL(int, "stat64", (const char *, struct stat64 *));
  return ours(path) && fails(STAT) ? -1 : real(path, out);
}

int access(const char *path, int how) {
  REAL(int, "access", (const char *, int));
  return ours(path) && fails(STAT) ? -1 : real(path, how);
}

int fcntl(int fd, int what, ...) {
  REAL(int, "fcntl", (int, int, void *));
  va_list list;
  va_start(list, what);
  void *arg = va_arg(list, void *);
  va_end(list);
  return what == F_SETLK && kind(fd) && fails(LOCK) ? -1 : real(fd, what, arg);
}

int fcntl64(int fd, int what, ...) {
  REAL(int, "fcntl64", (int, int, void *));
  va_list list;
  va_start(list, what);
  void *arg = va_arg(list, void *);
  va_end(list);
  return what == F_SETLK && kind(fd) && fails(LOCK) ? -1 : real(fd, what, arg);
}

int fallocate(int fd, int mode, off_t from, off_t n) {
  REAL(int, "fallocate", (int, int, off_t, off_t));
  return kind(fd) && fails(RANGE) ? -1 : real(fd, mode, from, n);
}

int fallocate64(int fd, int mode, off64_t from, off64_t n) {
  REAL(int, "fallocate64", (int, int, off64_t, off64_t));
  return kind(fd) && fails(RANGE) ? -1 : real(fd, mode, from, n);
}

int sync_file_range(int fd, off64_t from, off64_t n, unsigned flags) {
  REAL(int, "sync_file_range", (int, off64_t, off64_t, unsigned));
  return kind(fd) && fails(RANGE) ? -1 : real(fd, from, n, flags);
}

/* The ring has no function of its own in the C library. */
long syscall(long number, ...) {
  REAL(long, "syscall", (long, long, long, long, long, long, long));
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
#ifdef SYS_io_uring_enter
  if (number == SYS_io_uring_enter && below[0] && fails(RING)) return -1;
#endif
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
