/* A library to preload: shifts the wall clock of a process, not its monotonic clock, by the number of seconds in the file
   that SHIFTED_CLOCK names. The file holds one 64-bit number, which may change at any time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *seconds;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0 || ftruncate(file, sizeof *seconds) != 0) return;
    void *mapped = mmap(0, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) seconds = mapped;
}

static int64_t shift(void) { return seconds ? atomic_load(seconds) : 0; }

int clock_gettime(clockid_t clock, struct timespec *time) {
    int status = (int)syscall(SYS_clock_gettime, clock, time);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
    return status;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int status = (int)syscall(SYS_gettimeofday, time, zone);
    if (status == 0) time->tv_sec += shift();
    return status;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
