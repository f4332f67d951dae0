/* Preloaded into a process: counts the operations that change files under one folder, and before operation n sends a
   signal to the process, or from operation n on answers that the disk is full. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX];
static long count, at;
static int action; /* a signal, or 0 for a full disk */

void faults_arm(const char *folder, long operation, int what) {
    strncpy(root, folder, sizeof root - 1);
    count = 0, at = operation, action = what;
}

long faults_count(void) { return count; }

static int inside(const char *path) { return root[0] && path && strncmp(path, root, strlen(root)) == 0; }

static int inside_fd(int fd) {
    char link[64], path[PATH_MAX];
    if (!root[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return inside(path);
}

static int inside_at(int folder, const char *path) {
    return path && (path[0] == '/' || folder == AT_FDCWD ? inside(path) : inside_fd(folder));
}

/* Returns whether the operation, which takes space on the disk or not, is to fail. */
static int step(int takes_space) {
    long number = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (action && number == at) kill(getpid(), action);
    if (!action && at && number >= at && takes_space) {
        errno = ENOSPC;
        return 1;
    }
    return 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REPLACED(type, name, parameters, arguments, is_inside, takes_space) \
    type name parameters {                                                  \
        if ((is_inside) && step(takes_space)) return -1;                    \
        return NEXT(name) arguments;                                        \
    }

REPLACED(int, rename, (const char *a, const char *b), (a, b), inside(a), 0)
REPLACED(int, unlink, (const char *a), (a), inside(a), 0)
REPLACED(int, unlinkat, (int d, const char *a, int f), (d, a, f), inside_at(d, a), 0)
REPLACED(int, rmdir, (const char *a), (a), inside(a), 0)
REPLACED(int, mkdir, (const char *a, mode_t m), (a, m), inside(a), 1)
REPLACED(int, link, (const char *a, const char *b), (a, b), inside(b), 0)
REPLACED(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), inside_at(e, b), 0)
REPLACED(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f), inside_at(d, a), 0)
REPLACED(int, fsync, (int fd), (fd), inside_fd(fd), 0)
REPLACED(int, ftruncate, (int fd, off_t n), (fd, n), inside_fd(fd), 0)
REPLACED(int, ftruncate64, (int fd, off64_t n), (fd, n), inside_fd(fd), 0)
REPLACED(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), inside_fd(fd), 1)
REPLACED(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o), inside_fd(fd), 1)
REPLACED(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o), inside_fd(fd), 1)

/* These return the error itself. */
int posix_fallocate(int fd, off_t o, off_t n) {
    return inside_fd(fd) && step(1) ? ENOSPC : NEXT(posix_fallocate)(fd, o, n);
}
int posix_fallocate64(int fd, off64_t o, off64_t n) {
    return inside_fd(fd) && step(1) ? ENOSPC : NEXT(posix_fallocate64)(fd, o, n);
}

#define OPENING(name)                                                        \
    int name(const char *path, int flags, ...) {                             \
        va_list rest;                                                        \
        va_start(rest, flags);                                               \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                        \
        if ((flags & (O_CREAT | O_TRUNC)) && inside(path) && step(1)) return -1; \
        return NEXT(name)(path, flags, mode);                                \
    }
OPENING(open)
OPENING(open64)
