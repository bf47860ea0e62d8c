/* The clock of a case of shape.py: what the system says, and as much more as a file does.
 *
 * Built as a shared object and preloaded. SHAPE_CLOCK names a file of eight bytes, seconds as a
 * native integer, which shape_engine.py raises between steps, so that hours pass at once. Only the time of
 * day moves: waits are measured by other clocks or end early enough.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SHAPE_CLOCK");
  int fd = path ? open(path, O_RDONLY) : -1;
  if (fd < 0) return;
  void *at = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) ahead = at;
  close(fd);
}

int clock_gettime(clockid_t id, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, id, now);
  if (result == 0 && id == CLOCK_REALTIME && ahead) now->tv_sec += *ahead;
  return result;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec t;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
  now->tv_sec = t.tv_sec;
  now->tv_usec = t.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}
