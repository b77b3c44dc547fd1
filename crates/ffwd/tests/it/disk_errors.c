// Errors of a disk for a whole program: loaded before it with LD_PRELOAD, it fails chosen calls on files below a path.
//
//   SHIM_PATH   what the path of a file must contain
//   SHIM_AT     number of the first call that fails, from 1; 0: none
//   SHIM_TIMES  how many fail from there on
//   SHIM_ERROR  the error, as a number; 0: a map is of nothing, so that reading it is SIGBUS, and no other call fails
//   SHIM_LOG    file for "call path" of the first that failed, and at the end "calls N"
//
// Calls that go through libc are taken by their names. fallocate and renameat2 come from rustix as system calls: a seccomp
// filter turns them into SIGSYS, and its handler does or fails them. Linux on x86-64 alone.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

// In place of a sixth argument that neither call has: the handler's own calls pass the filter.
#define OWN_CALL 0x7f51d15cL

static const char *path_part = NULL;
static long fail_at = 0, fail_times = 0, fail_error = 0;
static long calls = 0;
static int log_fd = -1;

static void say(const char *call, const char *path) {
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s %s\n", call, path);
    if (log_fd >= 0) syscall(SYS_write, log_fd, line, length);
}

// Whether this call on this path is to fail. Where only maps fail, only they count.
static int fails(const char *call, const char *path) {
    if (!path_part || !strstr(path, path_part)) return 0;
    if (fail_error == 0 && strcmp(call, "mmap")) return 0;
    long number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (fail_at == 0 || number < fail_at || number - fail_at >= fail_times) return 0;
    if (number == fail_at) say(call, path);
    errno = (int)fail_error;
    return 1;
}

static int fails_fd(const char *call, int fd) {
    if (!path_part || fd <= STDERR_FILENO) return 0;
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlink, name, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return fails(call, path);
}

ssize_t read(int fd, void *to, size_t bytes) { return fails_fd("read", fd) ? -1 : syscall(SYS_read, fd, to, bytes); }
ssize_t write(int fd, const void *from, size_t bytes) { return fails_fd("write", fd) ? -1 : syscall(SYS_write, fd, from, bytes); }
ssize_t pread64(int fd, void *to, size_t bytes, off64_t at) { return fails_fd("pread", fd) ? -1 : syscall(SYS_pread64, fd, to, bytes, at); }

// A full disk takes a part.
ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at) {
    if (!fails_fd("pwrite", fd)) return syscall(SYS_pwrite64, fd, from, bytes, at);
    int error = errno;
    if (error == ENOSPC && bytes > 1) syscall(SYS_pwrite64, fd, from, bytes / 2, at);
    errno = error;
    return -1;
}

int fsync(int fd) { return fails_fd("fsync", fd) ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return fails_fd("fdatasync", fd) ? -1 : (int)syscall(SYS_fdatasync, fd); }
int ftruncate64(int fd, off64_t length) { return fails_fd("ftruncate", fd) ? -1 : (int)syscall(SYS_ftruncate, fd, length); }
int rename(const char *from, const char *to) { return fails("rename", from) ? -1 : (int)syscall(SYS_rename, from, to); }
int unlink(const char *path) { return fails("unlink", path) ? -1 : (int)syscall(SYS_unlink, path); }
int mkdir(const char *path, mode_t mode) { return fails("mkdir", path) ? -1 : (int)syscall(SYS_mkdir, path, mode); }

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return fails(flags & O_CREAT ? "create" : "open", path) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t offset) {
    if (fd >= 0 && !(flags & MAP_ANONYMOUS) && fails_fd("mmap", fd)) {
        if (fail_error != 0) return MAP_FAILED;
        fd = (int)syscall(SYS_memfd_create, "nothing", 0);
        void *map = (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
        syscall(SYS_close, fd);
        return map;
    }
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

static void on_system_call(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    int before = errno, failed;
    if (info->si_syscall == SYS_fallocate) {
        failed = fails_fd("fallocate", (int)registers[REG_RDI]);
    } else {
        failed = fails("renameat2", (const char *)registers[REG_RSI]);
    }
    long done = failed ? -1
                       : syscall(info->si_syscall, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                 registers[REG_R10], registers[REG_R8], OWN_CALL);
    registers[REG_RAX] = done < 0 ? -errno : done;
    errno = before;
}

static int filter_system_calls(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_CALL, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    struct sigaction action = {.sa_sigaction = on_system_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    return sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("SHIM_LOG");
    fail_at = atol(getenv("SHIM_AT") ?: "0");
    fail_times = atol(getenv("SHIM_TIMES") ?: "1");
    fail_error = atol(getenv("SHIM_ERROR") ?: "5");
    if (log) log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (filter_system_calls()) say("unfiltered", strerror(errno));
    path_part = getenv("SHIM_PATH");
}

__attribute__((destructor)) static void end(void) {
    char number[32];
    snprintf(number, sizeof number, "%ld", calls);
    path_part = NULL;
    say("calls", number);
}
