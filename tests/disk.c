/* A disk under the control of a test, for LD_PRELOAD: records what is done to the files of one directory, or
 * lets the process die, or the call fail, at the n-th of these operations.
 *
 * A record of the log: operation (1 byte), length of the name (1), offset (8), length of the data (8), name, data.
 * W write, T truncate to offset, S fsync, U unlink; the name is what follows the directory, nothing for itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static char directory[512];  /* with a slash at the end; empty: nothing is watched */
static int log_fd = -1;
static long countdown;       /* operations until something happens; 0: nothing will */
static int failure;          /* errno to fail with; 0: die */
static long count;           /* operations so far */

void disk_watch(const char *path, int fd, long at, int error)
{
    pthread_mutex_lock(&one_at_a_time);
    snprintf(directory, sizeof directory, "%s", path);
    log_fd = fd;
    countdown = at;
    failure = error;
    count = 0;
    pthread_mutex_unlock(&one_at_a_time);
}

long disk_count(void) { return count; }

static const char *name_in_directory(const char *path)
{
    size_t length = strlen(directory);
    if (length && strlen(path) == length - 1 && !strncmp(path, directory, length - 1))
        return ""; /* the directory itself */
    return length && !strncmp(path, directory, length) ? path + length : NULL;
}

static const char *name_of(int fd, char *path, size_t size)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = directory[0] ? readlink(link, path, size - 1) : -1;
    if (length < 0)
        return NULL;
    path[length] = 0;
    const char *name = name_in_directory(path);
    size_t tail = name ? strlen(name) : 0;
    return tail >= 4 && !strcmp(name + tail - 4, "-shm") ? NULL : name; /* never read after a power loss */
}

static void record(char operation, const char *name, uint64_t offset, const void *data, uint64_t length)
{
    uint8_t size = (uint8_t)strlen(name);
    if (log_fd < 0)
        return;
    syscall(SYS_write, log_fd, &operation, 1);
    syscall(SYS_write, log_fd, &size, 1);
    syscall(SYS_write, log_fd, &offset, 8);
    syscall(SYS_write, log_fd, &length, 8);
    syscall(SYS_write, log_fd, name, size);
    for (uint64_t done = 0; done < length;)
        done += (uint64_t)syscall(SYS_write, log_fd, (const char *)data + done, length - done);
}

/* Count an operation; report whether it is the one that fails. Half of a write is done before the end. */
static int is_the_one(int fd, const void *data, size_t length, off_t offset)
{
    count++;
    if (countdown == 0 || --countdown > 0)
        return 0;
    if (length)
        syscall(SYS_pwrite64, fd, data, length / 2, offset);
    if (!failure)
        kill(getpid(), SIGKILL);
    errno = failure;
    return 1;
}

static ssize_t write_at(int fd, const void *data, size_t length, off_t offset)
{
    char path[1024];
    pthread_mutex_lock(&one_at_a_time);
    const char *name = name_of(fd, path, sizeof path);
    ssize_t done = -1;
    if (!name || !is_the_one(fd, data, length, offset))
        done = syscall(SYS_pwrite64, fd, data, length, offset);
    if (name && done > 0)
        record('W', name, (uint64_t)offset, data, (uint64_t)done);
    pthread_mutex_unlock(&one_at_a_time);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return write_at(fd, data, length, offset); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return write_at(fd, data, length, offset); }

ssize_t write(int fd, const void *data, size_t length)
{
    char path[1024];
    const char *name = name_of(fd, path, sizeof path);
    off_t offset = name ? lseek(fd, 0, SEEK_CUR) : -1;
    if (!name || offset < 0)
        return syscall(SYS_write, fd, data, length);
    ssize_t done = write_at(fd, data, length, offset);
    if (done > 0)
        lseek(fd, done, SEEK_CUR);
    return done;
}

static int truncate_to(int fd, off_t size)
{
    char path[1024];
    pthread_mutex_lock(&one_at_a_time);
    const char *name = name_of(fd, path, sizeof path);
    int status = -1;
    if (!name || !is_the_one(fd, NULL, 0, 0))
        status = (int)syscall(SYS_ftruncate, fd, size);
    if (name && !status)
        record('T', name, (uint64_t)size, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}

int ftruncate64(int fd, off_t size) { return truncate_to(fd, size); }
int ftruncate(int fd, off_t size) { return truncate_to(fd, size); }

static int sync_file(int fd)
{
    char path[1024];
    pthread_mutex_lock(&one_at_a_time);
    const char *name = name_of(fd, path, sizeof path);
    int status = name && is_the_one(fd, NULL, 0, 0) ? -1 : 0; /* nothing here waits for the real disk */
    if (name && !status)
        record('S', name, 0, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}

int fsync(int fd) { return sync_file(fd); }
int fdatasync(int fd) { return sync_file(fd); }

int unlink(const char *path)
{
    pthread_mutex_lock(&one_at_a_time);
    const char *name = name_in_directory(path);
    size_t tail = name ? strlen(name) : 0;
    if (tail >= 4 && !strcmp(name + tail - 4, "-shm"))
        name = NULL;
    int status = -1;
    if (!name || !is_the_one(-1, NULL, 0, 0))
        status = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (name && !status)
        record('U', name, 0, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}
