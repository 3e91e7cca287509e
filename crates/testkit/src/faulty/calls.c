/* A disk that fails on demand, preloaded into a server under test.
 *
 * The file $FAULTS lists the failures, one on each line:
 *
 *     CALL PART ERROR FROM TO
 *
 * CALL is write, ahead (a write at a given offset, such as zeros written ahead), sync, rename, open, truncate,
 * unlink or `any`. PART is a substring of the file's path; `any` is every file of the log and every
 * snapshot. ERROR is a number of errno, `half` (a write takes half of its bytes), `stall` (each call waits
 * while the line is present) or `hold` (the call waits until the file changes). FROM and TO count the calls
 * of a line, from 1 on, since the last change of the file; a held call is not counted again. $FAULTS.hits
 * lists the calls that have failed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST_LINES 16
#define HALF -1
#define STALL -2
#define HOLD -3

struct line {
    char call[16], part[128];
    int error;
    long from, to, seen;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct line lines[MOST_LINES];
static int count;
/* The number of changes of the file. */
static long changes;
static char text[4096];

/* The functions below replace the library's, so these call the kernel directly. */
static void look(const char *name) {
    char now[sizeof text];
    long n = 0, fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
        n = syscall(SYS_read, fd, now, sizeof now - 1);
        syscall(SYS_close, fd);
    }
    now[n > 0 ? n : 0] = 0;
    if (!strcmp(now, text)) return;
    strcpy(text, now);
    changes++;
    count = 0;
    for (char *at = now; at && *at && count < MOST_LINES;) {
        struct line *line = &lines[count];
        char error[16];
        line->seen = 0;
        if (sscanf(at, "%15s %127s %15s %ld %ld", line->call, line->part, error, &line->from,
                   &line->to) == 5) {
            line->error = !strcmp(error, "half")    ? HALF
                          : !strcmp(error, "stall") ? STALL
                          : !strcmp(error, "hold")  ? HOLD
                                                    : atoi(error);
            count++;
        }
        at = strchr(at, '\n');
        if (at) at++;
    }
}

static int concerns(const struct line *line, const char *call, const char *path) {
    if (strcmp(line->call, "any") && strcmp(line->call, call)) return 0;
    if (strcmp(line->part, "any")) return strstr(path, line->part) != NULL;
    return strstr(path, "appendonlydir") || strstr(path, ".rdb");
}

static void tell(const char *name, const char *call, int fate, const char *path) {
    char hits[4096], told[4400];
    snprintf(hits, sizeof hits, "%s.hits", name);
    int n = snprintf(told, sizeof told, "%s %d %s\n", call, fate, path);
    long fd = syscall(SYS_openat, AT_FDCWD, hits, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        syscall(SYS_write, fd, told, n);
        syscall(SYS_close, fd);
    }
}

/* The result of this call: 0 (the call runs), an error, or HALF. */
static int fate_of(const char *call, const char *path) {
    const char *name = getenv("FAULTS");
    int saved = errno, fate = 0, told = 0;
    long since = 0;
    if (!name || !path) return 0;
    do {
        if (fate) usleep(5000);
        pthread_mutex_lock(&mutex);
        look(name);
        if (fate == HOLD) {
            if (since != changes) fate = 0;
            pthread_mutex_unlock(&mutex);
            continue;
        }
        fate = 0;
        since = changes;
        for (int n = 0; n < count && !fate; n++) {
            struct line *line = &lines[n];
            if (!concerns(line, call, path)) continue;
            if (line->error == STALL) {
                fate = STALL;
            } else if (++line->seen >= line->from && line->seen <= line->to) {
                fate = line->error;
            }
        }
        if (fate && !told++) tell(name, call, fate, path);
        pthread_mutex_unlock(&mutex);
    } while (fate == STALL || fate == HOLD);
    errno = saved;
    return fate;
}

static int fate_of_open(const char *call, int fd) {
    char link[64], path[4096];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (n < 0) return 0;
    path[n] = 0;
    return fate_of(call, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define UNLESS(fate, result)  \
    do {                      \
        int error = (fate);   \
        if (error > 0) {      \
            errno = error;    \
            return -1;        \
        }                     \
        return result;        \
    } while (0)

ssize_t write(int fd, const void *bytes, size_t n) {
    int fate = fate_of_open("write", fd);
    UNLESS(fate, REAL(write)(fd, bytes, fate == HALF ? (n + 1) / 2 : n));
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
    int fate = fate_of_open("ahead", fd);
    UNLESS(fate, REAL(pwrite64)(fd, bytes, fate == HALF ? (n + 1) / 2 : n, at));
}

int fsync(int fd) { UNLESS(fate_of_open("sync", fd), REAL(fsync)(fd)); }
int fdatasync(int fd) { UNLESS(fate_of_open("sync", fd), REAL(fdatasync)(fd)); }
int ftruncate(int fd, off_t n) { UNLESS(fate_of_open("truncate", fd), REAL(ftruncate)(fd, n)); }
int ftruncate64(int fd, off64_t n) { UNLESS(fate_of_open("truncate", fd), REAL(ftruncate64)(fd, n)); }
int rename(const char *from, const char *to) { UNLESS(fate_of("rename", to), REAL(rename)(from, to)); }
int unlink(const char *path) { UNLESS(fate_of("unlink", path), REAL(unlink)(path)); }

static int mode_of(int flags, va_list more) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = mode_of(flags, more);
    va_end(more);
    UNLESS(fate_of("open", path), REAL(open)(path, flags, mode));
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = mode_of(flags, more);
    va_end(more);
    UNLESS(fate_of("open", path), REAL(open64)(path, flags, mode));
}
