/*
 * A recorder of what a process does to the files below one folder, and of what it sends over TCP.
 *
 * Loaded with LD_PRELOAD. Every write, change of a name or a size, sync and send becomes a record in one log, in the
 * order in which they took effect: the calls are made under a lock and recorded before it is let go. Syncs and
 * nothing else run outside of the lock; they are recorded twice, when they begin and when they are over, because
 * they cover what was written before they began and hold from when they are over.
 *
 *     POWERCUT_ROOT   the folder, absolute
 *     POWERCUT_LOG    the file of records: a header that begins with how much of it is used, then the records
 *
 * The log is a shared mapping, so that a killed process leaves it whole, and a process that follows continues it. The
 * lock is in its header: a process and its children are recorded in one order.
 * Memory that is mapped shared and writable (the store's mark) is compared with a copy before each record: a change
 * is a record of its own, which stands where it may have happened at the latest.
 *
 * Not seen: what libc does inside of itself (stdio), and system calls made without libc. The reader proves that
 * nothing of that kind matters: all records applied must give the folder, byte for byte.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <netinet/in.h>
#include <unistd.h>

#undef open
#undef open64
#undef openat
#undef openat64

enum kind {
    OPEN = 1, CLOSE, WRITE, TRUNCATE, ALLOCATE, RENAME, UNLINK, MKDIR, LINK, SYNC_BEGIN, SYNC_END, MAP, MAPPED, SEND,
    FAILED
};

struct record {
    uint32_t size; /* of the whole record, a multiple of 8 */
    uint32_t kind;
    int32_t pid;
    int32_t fd;
    int64_t a;
    int64_t b;
    uint32_t first;  /* bytes of the first part */
    uint32_t second; /* bytes of the second part */
};

#define CAPACITY ((size_t)8 << 30)
#define FILES 65536
#define MAPS 16

struct header {
    uint64_t used;
    uint64_t made; /* whether the lock is */
    pthread_mutex_t lock;
};

/* Where records begin. recorder.py knows it, too. */
#define FIRST 128
_Static_assert(sizeof(struct header) <= FIRST, "the header is too long");

static char root[PATH_MAX];
static size_t root_length;
static char *log_base;
static struct header *header;
static uint8_t tracked[FILES];
static struct { char *at, *copy; size_t length; int id; } maps[MAPS];
static int map_count;
static pid_t owner; /* whose they are: a child that has not begun its own program has copies of them */

static void die(const char *what)
{
    char text[256];
    int length = snprintf(text, sizeof text, "powercut recorder: %s\n", what);
    if (length > 0)
        (void)!syscall(SYS_write, 2, text, (size_t)length);
    abort();
}

__attribute__((constructor)) static void start(void)
{
    const char *folder = getenv("POWERCUT_ROOT"), *path = getenv("POWERCUT_LOG");
    if (!folder || !path)
        return;
    root_length = strlen(folder);
    if (root_length >= sizeof root)
        die("POWERCUT_ROOT is too long");
    memcpy(root, folder, root_length + 1);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || syscall(SYS_ftruncate, fd, (off_t)CAPACITY) != 0)
        die("POWERCUT_LOG cannot be made");
    long at = syscall(SYS_mmap, NULL, CAPACITY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    if (at == -1)
        die("POWERCUT_LOG cannot be mapped");
    header = (struct header *)at;
    if (!header->made) {
        /* nobody else is there yet: children come later */
        pthread_mutexattr_t kind;
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
        if (pthread_mutex_init(&header->lock, &kind) != 0)
            die("the lock cannot be made");
        header->made = 1;
    }
    log_base = (char *)at;
    owner = getpid();
    syscall(SYS_close, fd);
}

static void take(void)
{
    /* whoever had it may have been killed: what it had not recorded whole is overwritten */
    if (pthread_mutex_lock(&header->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&header->lock);
}

static void release(void)
{
    pthread_mutex_unlock(&header->lock);
}

/* records */

static void put(enum kind kind, int fd, int64_t a, int64_t b, const struct iovec *parts, int count, size_t first,
                const void *second, size_t second_length)
{
    size_t at = header->used ? header->used : FIRST;
    size_t size = (sizeof(struct record) + first + second_length + 7) & ~(size_t)7;
    if (at + size > CAPACITY || first > UINT32_MAX || second_length > UINT32_MAX)
        die("the log is full");
    struct record head = {(uint32_t)size, kind, getpid(), fd, a, b, (uint32_t)first, (uint32_t)second_length};
    memcpy(log_base + at, &head, sizeof head);
    char *to = log_base + at + sizeof head;
    size_t left = first;
    for (int i = 0; i < count && left; i++) {
        size_t part = parts[i].iov_len < left ? parts[i].iov_len : left;
        memcpy(to, parts[i].iov_base, part);
        to += part;
        left -= part;
    }
    if (second_length)
        memcpy(to, second, second_length);
    __atomic_store_n(&header->used, at + size, __ATOMIC_RELEASE);
}

static void look_at_maps(void)
{
    if (map_count && getpid() != owner)
        return;
    for (int i = 0; i < map_count; i++) {
        char *at = maps[i].at, *copy = maps[i].copy;
        size_t from = 0, to = maps[i].length;
        if (memcmp(at, copy, to) == 0)
            continue;
        while (from < to && at[from] == copy[from])
            from++;
        while (to > from && at[to - 1] == copy[to - 1])
            to--;
        memcpy(copy + from, at + from, to - from);
        struct iovec part = {copy + from, to - from};
        put(MAPPED, maps[i].id, (int64_t)from, 0, &part, 1, to - from, NULL, 0);
    }
}

static void say(enum kind kind, int fd, int64_t a, int64_t b, const void *first, size_t length)
{
    struct iovec part = {(void *)(uintptr_t)first, length};
    look_at_maps();
    put(kind, fd, a, b, &part, 1, length, NULL, 0);
}

static void say_paths(enum kind kind, const char *one, const char *two)
{
    struct iovec part = {(void *)(uintptr_t)one, strlen(one)};
    look_at_maps();
    put(kind, -1, 0, 0, &part, 1, part.iov_len, two, two ? strlen(two) : 0);
}

/* which paths and descriptors */

static int below(const char *path)
{
    return log_base && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || !path[root_length]);
}

/* The path made absolute; 1 when it is below the folder. */
static int resolve(int folder, const char *path, char *out)
{
    if (!log_base || !path)
        return 0;
    int length;
    if (path[0] == '/') {
        length = snprintf(out, PATH_MAX, "%s", path);
    } else {
        char base[PATH_MAX], link[64];
        ssize_t got;
        if (folder == AT_FDCWD) {
            got = syscall(SYS_getcwd, base, sizeof base);
            got = got > 0 ? got - 1 : got;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            got = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
        }
        if (got <= 0)
            return 0;
        base[got] = 0;
        length = snprintf(out, PATH_MAX, "%.2000s/%.2000s", base, path);
    }
    return length > 0 && length < PATH_MAX && below(out);
}

static int known(int fd)
{
    return log_base && fd >= 0 && fd < FILES && tracked[fd];
}

/* The port of the other end of a TCP connection, or 0. */
static int peer_port(int fd)
{
    struct stat info;
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    if (!log_base || fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode))
        return 0;
    if (getpeername(fd, (struct sockaddr *)&name, &length) != 0)
        return 0;
    if (name.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&name)->sin_port);
    if (name.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&name)->sin6_port);
    return 0;
}

#define REAL(result, name, ...)                                                                                        \
    static result (*real)(__VA_ARGS__);                                                                                \
    if (!real)                                                                                                         \
        *(void **)&real = dlsym(RTLD_NEXT, #name)

/* Run the call under the lock; `then` sees its result in `done` and may record. errno is the call's. */
#define LOCKED(type, call, then)                                                                                       \
    do {                                                                                                               \
        take();                                                                                                        \
        type done = (call);                                                                                            \
        int kept = errno;                                                                                              \
        then;                                                                                                          \
        release();                                                                                                     \
        errno = kept;                                                                                                  \
        return done;                                                                                                   \
    } while (0)

/* opening and closing */

static void opened(int fd, const char *path, int flags)
{
    if (fd < 0)
        return;
    if (fd >= FILES)
        die("too many open files");
    tracked[fd] = 1;
    say(OPEN, fd, flags, 0, path, strlen(path));
}

static mode_t mode_of(int flags, va_list more)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

#define OPENER(name, folder, before, given, passed)                                                                    \
    int name(before const char *path, int flags, ...)                                                                  \
    {                                                                                                                  \
        REAL(int, name, before const char *, int, ...);                                                                \
        char full[PATH_MAX];                                                                                           \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = mode_of(flags, more);                                                                            \
        va_end(more);                                                                                                  \
        if (!resolve(folder, path, full))                                                                              \
            return real(passed path, flags, mode);                                                                     \
        LOCKED(int, real(passed path, flags, mode), opened(done, full, flags));                                        \
    }
#define NOTHING
#define COMMA ,
OPENER(open, AT_FDCWD, NOTHING, NOTHING, NOTHING)
OPENER(open64, AT_FDCWD, NOTHING, NOTHING, NOTHING)
OPENER(openat, folder, int folder COMMA, folder, folder COMMA)
OPENER(openat64, folder, int folder COMMA, folder, folder COMMA)

int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd)
{
    REAL(int, close, int);
    if (!known(fd))
        return real(fd);
    take();
    tracked[fd] = 0;
    say(CLOSE, fd, 0, 0, NULL, 0);
    int done = real(fd);
    release();
    return done;
}

/* data */

static void wrote(int fd, int64_t offset, const struct iovec *parts, int count, ssize_t done)
{
    if (done <= 0)
        return;
    if (offset < 0)
        offset = lseek(fd, 0, SEEK_CUR) - done;
    look_at_maps();
    put(WRITE, fd, offset, 0, parts, count, (size_t)done, NULL, 0);
}

static void sent(int port, const struct iovec *parts, int count, ssize_t done)
{
    if (done <= 0)
        return;
    look_at_maps();
    put(SEND, -1, port, 0, parts, count, (size_t)done, NULL, 0);
}

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(ssize_t, write, int, const void *, size_t);
    struct iovec part = {(void *)(uintptr_t)data, size};
    if (known(fd))
        LOCKED(ssize_t, real(fd, data, size), wrote(fd, -1, &part, 1, done));
    int port = peer_port(fd);
    if (port)
        LOCKED(ssize_t, real(fd, data, size), sent(port, &part, 1, done));
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(ssize_t, writev, int, const struct iovec *, int);
    if (known(fd))
        LOCKED(ssize_t, real(fd, parts, count), wrote(fd, -1, parts, count, done));
    int port = peer_port(fd);
    if (port)
        LOCKED(ssize_t, real(fd, parts, count), sent(port, parts, count, done));
    return real(fd, parts, count);
}

#define PWRITE(name)                                                                                                   \
    ssize_t name(int fd, const void *data, size_t size, off_t at)                                                      \
    {                                                                                                                  \
        REAL(ssize_t, name, int, const void *, size_t, off_t);                                                         \
        struct iovec part = {(void *)(uintptr_t)data, size};                                                           \
        if (!known(fd))                                                                                                \
            return real(fd, data, size, at);                                                                           \
        LOCKED(ssize_t, real(fd, data, size, at), wrote(fd, at, &part, 1, done));                                      \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define PWRITEV(name, more, passed)                                                                                    \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t at more)                                          \
    {                                                                                                                  \
        REAL(ssize_t, name, int, const struct iovec *, int, off_t more);                                               \
        if (!known(fd))                                                                                                \
            return real(fd, parts, count, at passed);                                                                  \
        LOCKED(ssize_t, real(fd, parts, count, at passed), wrote(fd, at, parts, count, done));                         \
    }
PWRITEV(pwritev, NOTHING, NOTHING)
PWRITEV(pwritev64, NOTHING, NOTHING)
PWRITEV(pwritev2, COMMA int flags, COMMA flags)
PWRITEV(pwritev64v2, COMMA int flags, COMMA flags)

#define TRUNCATER(name)                                                                                                \
    int name(int fd, off_t size)                                                                                       \
    {                                                                                                                  \
        REAL(int, name, int, off_t);                                                                                   \
        if (!known(fd))                                                                                                \
            return real(fd, size);                                                                                     \
        LOCKED(int, real(fd, size), if (done == 0) say(TRUNCATE, fd, size, 0, NULL, 0));                               \
    }
TRUNCATER(ftruncate)
TRUNCATER(ftruncate64)

#define PATH_TRUNCATER(name)                                                                                           \
    int name(const char *path, off_t size)                                                                             \
    {                                                                                                                  \
        REAL(int, name, const char *, off_t);                                                                          \
        char full[PATH_MAX];                                                                                           \
        if (!resolve(AT_FDCWD, path, full))                                                                            \
            return real(path, size);                                                                                   \
        LOCKED(int, real(path, size), if (done == 0) say(TRUNCATE, -1, size, 0, full, strlen(full)));                  \
    }
PATH_TRUNCATER(truncate)
PATH_TRUNCATER(truncate64)

#define ALLOCATER(name, more, passed, mode)                                                                            \
    int name(int fd more, off_t at, off_t size)                                                                        \
    {                                                                                                                  \
        REAL(int, name, int more, off_t, off_t);                                                                       \
        if (!known(fd))                                                                                                \
            return real(fd passed, at, size);                                                                          \
        LOCKED(int, real(fd passed, at, size),                                                                         \
               int64_t flags = mode;                                                                                   \
               if (done == 0) say(ALLOCATE, fd, at, size, &flags, sizeof flags));                                      \
    }
ALLOCATER(fallocate, COMMA int mode, COMMA mode, mode)
ALLOCATER(fallocate64, COMMA int mode, COMMA mode, mode)
ALLOCATER(posix_fallocate, NOTHING, NOTHING, 0)
ALLOCATER(posix_fallocate64, NOTHING, NOTHING, 0)

/* names */

#define TWO_PATHS(name, kind, from_folder, to_folder, given, types, passed)                                            \
    int name given                                                                                                     \
    {                                                                                                                  \
        REAL(int, name, types);                                                                                        \
        char one[PATH_MAX], two[PATH_MAX];                                                                             \
        int is_one = resolve(from_folder, from, one), is_two = resolve(to_folder, to, two);                            \
        if (!is_one && !is_two)                                                                                        \
            return real passed;                                                                                        \
        if (is_one != is_two)                                                                                          \
            die(#name " across the folder's border");                                                                  \
        LOCKED(int, real passed, if (done == 0) say_paths(kind, one, two));                                            \
    }
#define P const char *
TWO_PATHS(rename, RENAME, AT_FDCWD, AT_FDCWD, (P from, P to), P COMMA P, (from, to))
TWO_PATHS(link, LINK, AT_FDCWD, AT_FDCWD, (P from, P to), P COMMA P, (from, to))
TWO_PATHS(renameat, RENAME, a, b, (int a, P from, int b, P to), int COMMA P COMMA int COMMA P, (a, from, b, to))
TWO_PATHS(renameat2, RENAME, a, b, (int a, P from, int b, P to, unsigned f),
          int COMMA P COMMA int COMMA P COMMA unsigned, (a, from, b, to, f))
TWO_PATHS(linkat, LINK, a, b, (int a, P from, int b, P to, int f), int COMMA P COMMA int COMMA P COMMA int,
          (a, from, b, to, f))

#define ONE_PATH(name, kind, folder, given, types, passed)                                                             \
    int name given                                                                                                     \
    {                                                                                                                  \
        REAL(int, name, types);                                                                                        \
        char full[PATH_MAX];                                                                                           \
        if (!resolve(folder, path, full))                                                                              \
            return real passed;                                                                                        \
        LOCKED(int, real passed, if (done == 0) say_paths(kind, full, NULL));                                          \
    }
ONE_PATH(unlink, UNLINK, AT_FDCWD, (P path), P, (path))
ONE_PATH(rmdir, UNLINK, AT_FDCWD, (P path), P, (path))
ONE_PATH(remove, UNLINK, AT_FDCWD, (P path), P, (path))
ONE_PATH(unlinkat, UNLINK, a, (int a, P path, int f), int COMMA P COMMA int, (a, path, f))
ONE_PATH(mkdir, MKDIR, AT_FDCWD, (P path, mode_t m), P COMMA mode_t, (path, m))
ONE_PATH(mkdirat, MKDIR, a, (int a, P path, mode_t m), int COMMA P COMMA mode_t, (a, path, m))

/* syncs */

#define SYNCER(name)                                                                                                   \
    int name(int fd)                                                                                                   \
    {                                                                                                                  \
        static int64_t count;                                                                                          \
        REAL(int, name, int);                                                                                          \
        if (!known(fd))                                                                                                \
            return real(fd);                                                                                           \
        int64_t token = __atomic_add_fetch(&count, 2, __ATOMIC_RELAXED) + (#name[1] == 'd');                           \
        take();                                                                                                        \
        say(SYNC_BEGIN, fd, token, 0, NULL, 0);                                                                        \
        release();                                                                                                     \
        int done = real(fd), kept = errno;                                                                             \
        take();                                                                                                        \
        say(done == 0 ? SYNC_END : FAILED, fd, token, 0, NULL, 0);                                                     \
        release();                                                                                                     \
        errno = kept;                                                                                                  \
        return done;                                                                                                   \
    }
SYNCER(fsync)
SYNCER(fdatasync)

/* mapped memory */

static void mapped(void *at, size_t length, int prot, int flags, int fd)
{
    static int ids;
    if (at == MAP_FAILED || !(flags & MAP_SHARED) || !(prot & PROT_WRITE))
        return;
    if (map_count == MAPS)
        die("too many mappings");
    char *copy = malloc(length);
    if (!copy)
        die("no memory");
    memcpy(copy, at, length);
    maps[map_count].at = at;
    maps[map_count].copy = copy;
    maps[map_count].length = length;
    maps[map_count].id = ++ids;
    map_count++;
    say(MAP, fd, ids, 0, NULL, 0);
}

#define MAPPER(name)                                                                                                   \
    void *name(void *at, size_t length, int prot, int flags, int fd, off_t from)                                       \
    {                                                                                                                  \
        REAL(void *, name, void *, size_t, int, int, int, off_t);                                                      \
        if (!known(fd))                                                                                                \
            return real(at, length, prot, flags, fd, from);                                                            \
        if (from != 0)                                                                                                 \
            die("a mapping that does not begin at 0");                                                                 \
        LOCKED(void *, real(at, length, prot, flags, fd, from), mapped(done, length, prot, flags, fd));                \
    }
MAPPER(mmap)
MAPPER(mmap64)

int munmap(void *at, size_t length)
{
    REAL(int, munmap, void *, size_t);
    if (!map_count)
        return real(at, length);
    take();
    look_at_maps();
    for (int i = 0; i < map_count; i++)
        if (maps[i].at == at) {
            free(maps[i].copy);
            maps[i] = maps[--map_count];
            break;
        }
    int done = real(at, length);
    release();
    return done;
}

/* answers */

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    REAL(ssize_t, send, int, const void *, size_t, int);
    struct iovec part = {(void *)(uintptr_t)data, size};
    int port = peer_port(fd);
    if (!port)
        return real(fd, data, size, flags);
    LOCKED(ssize_t, real(fd, data, size, flags), sent(port, &part, 1, done));
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
    REAL(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    struct iovec part = {(void *)(uintptr_t)data, size};
    int port = peer_port(fd);
    if (!port)
        return real(fd, data, size, flags, to, length);
    LOCKED(ssize_t, real(fd, data, size, flags, to, length), sent(port, &part, 1, done));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(ssize_t, sendmsg, int, const struct msghdr *, int);
    int port = peer_port(fd);
    if (!port)
        return real(fd, message, flags);
    LOCKED(ssize_t, real(fd, message, flags), sent(port, message->msg_iov, (int)message->msg_iovlen, done));
}

/* Ways to change a file that nobody here uses: better loud than silently missed. */

ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t size, unsigned flags)
{
    if (known(out))
        die("copy_file_range into the folder is not recorded");
    return syscall(SYS_copy_file_range, in, from, out, to, size, flags);
}

ssize_t sendfile(int out, int in, off_t *from, size_t size)
{
    if (known(out) || peer_port(out))
        die("sendfile is not recorded");
    return syscall(SYS_sendfile, out, in, from, size);
}

ssize_t splice(int in, off_t *from, int out, off_t *to, size_t size, unsigned flags)
{
    if (known(out) || peer_port(out))
        die("splice is not recorded");
    return syscall(SYS_splice, in, from, out, to, size, flags);
}
