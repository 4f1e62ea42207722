"""Locks this process in, for good, before it runs what somebody else wrote.

Three locks, none of which needs root: limits on memory, time and files (any Unix); no
new processes, nothing done to others, nothing that outlives it and no network (Linux,
seccomp); no files but those named, and no writing outside of one folder (Linux 5.13,
Landlock). What cannot be locked here is left open, and said.
"""

import ctypes
import os
import platform
import resource
import struct
import sys

# Numbers of system calls, by machine: first those that are refused.
REFUSED = {
    # fork vfork execve execveat; kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo
    # pidfd_send_signal; ptrace process_vm_readv, _writev; socket connect bind;
    # unshare setns mount; bpf perf_event_open io_uring_setup keyctl userfaultfd;
    # what slows others down: setpriority sched_setparam, -scheduler, -affinity, -attr
    # ioprio_set migrate_pages move_pages, and pidfd_getfd process_madvise, _mrelease;
    # what outlives its process: shmget shmat shmctl semget semop semctl semtimedop
    # msgget msgsnd msgrcv msgctl mq_open mq_unlink add_key request_key
    "x86_64": (57, 58, 59, 322, 62, 200, 234, 129, 297, 424, 101, 310, 311)
    + (41, 42, 49, 272, 308, 165, 321, 298, 425, 250, 323)
    + (141, 142, 144, 203, 314, 251, 256, 279, 438, 440, 448)
    + (29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241, 248, 249),
    "aarch64": (221, 281, 129, 130, 131, 138, 240, 424, 117, 270, 271)
    + (198, 203, 200, 97, 268, 40, 280, 241, 425, 219, 282)
    + (140, 118, 119, 122, 274, 30, 238, 239, 438, 440, 448)
    + (194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181, 217, 218),
}
# Limits of other processes kill them, too: only one's own, which the C library calls 0.
PRLIMIT = {"x86_64": 302, "aarch64": 261}
# Whom a file or a socket sends SIGIO, or another signal in its place: F_SETOWN F_SETSIG
# F_SETOWN_EX of fcntl, FIOSETOWN SIOCSPGRP of ioctl.
TELLS = {
    "x86_64": {72: (8, 10, 15), 16: (0x8901, 0x8902)},
    "aarch64": {25: (8, 10, 15), 29: (0x8901, 0x8902)},
}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3, CLONE_THREAD = 435, 0x10000
MACHINE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026

NO_NEW_PRIVILEGES, SET_SECCOMP, DEATH_SIGNAL = 38, 22, 1
READ, WRITE = 0b1101, 0b1_1111_1111_1110  # Landlock's rights; bit 0 is execute
LOOKED_AT = (
    "/usr /lib /lib64 /etc/ld.so.cache /etc/localtime /proc/self /proc/cpuinfo "
    "/proc/meminfo /proc/stat /sys/devices/system /dev/null /dev/zero /dev/urandom"
).split()


def lock(folder: str, course: str, *, memory: int, seconds: int) -> list[str]:
    """Locks this process in; it must have no other thread yet.

    Args:
      folder: the one in which it may write.
      course: the course's root, of which it may read the parts it imports.
      memory: bytes of address space. seconds: of processor time.
    Returns:
      What could not be locked, in words; empty where everything holds.
    """
    most = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: 16 * 2**20,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    left_open = []
    for what, most_of_it in most.items():
        hard = resource.getrlimit(what)[1]
        if hard != resource.RLIM_INFINITY:
            most_of_it = min(most_of_it, hard)
        try:
            resource.setrlimit(what, (most_of_it, most_of_it))
        except (ValueError, OSError):  # macOS knows no limit of memory
            left_open.append("memory")
    if sys.platform != "linux":
        return [*left_open, "processes", "the network", "files"]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(DEATH_SIGNAL, 9, 0, 0, 0)  # it ends with its judge
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if not _only_files(libc, folder, course):
        left_open.append("files")
    _drop_capabilities(libc)
    if not _no_calls(libc):
        left_open += ["processes", "the network"]
    return left_open


def _only_files(libc, folder, course) -> bool:
    """Landlock: reads what Python needs and the course, writes in one folder."""
    version = libc.syscall(444, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    every = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    rules = libc.syscall(444, struct.pack("Q", every), ctypes.c_size_t(8), 0)
    parts = [os.path.join(course, name) for name in ("helpers", "scripts", "data")]
    readable = [*LOOKED_AT, *parts, sys.prefix, sys.base_prefix, course + "/.venv"]
    allowed = [(path, READ) for path in [*readable, *sys.path] if path != course]
    for path, rights in [*allowed, (folder, READ | WRITE), ("/dev/null", READ | 2)]:
        if not path or not os.path.exists(path):
            continue
        if not os.path.isdir(path):
            rights &= 0b111  # what a file can have
        where = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", rights & every, where)
        libc.syscall(445, rules, 1, rule, 0)
        os.close(where)
    done = libc.syscall(446, rules, 0) == 0
    os.close(rules)
    return done


def _drop_capabilities(libc) -> None:
    """Root becomes a user like others, who cannot raise a limit again."""
    header, nothing = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[0] * 6)
    libc.capset(header, nothing)


LOAD, SAME, AT_LEAST, HAS, GIVE = 0x20, 0x15, 0x35, 0x45, 0x06  # of a filter
FIRST, SECOND = 16, 24  # where a call's arguments stand, their lower 32 bits


def _no_calls(libc) -> bool:
    """seccomp: no new process, nothing done to another, no socket."""
    machine = platform.machine()
    if machine not in REFUSED:
        return False
    program = [(LOAD, 0, 0, 4), (SAME, 1, 0, MACHINE[machine]), (GIVE, 0, 0, EPERM)]
    program += [(LOAD, 0, 0, 0), (AT_LEAST, 0, 1, 0x40000000), (GIVE, 0, 0, EPERM)]
    for number in REFUSED[machine]:
        program += [(SAME, 0, 1, number), (GIVE, 0, 0, EPERM)]
    program += _by_argument(PRLIMIT[machine], FIRST, (0,), ALLOW, EPERM)
    for number, what in TELLS[machine].items():
        program += _by_argument(number, SECOND, what, EPERM, ALLOW)
    # Threads are made by clone, too; glibc falls back to it where there is no clone3.
    program += [(SAME, 0, 1, CLONE3), (GIVE, 0, 0, ENOSYS)]
    program += [(SAME, 0, 3, CLONE[machine]), (LOAD, 0, 0, FIRST)]
    program += [(HAS, 1, 0, CLONE_THREAD), (GIVE, 0, 0, EPERM), (GIVE, 0, 0, ALLOW)]
    text = b"".join(struct.pack("HBBI", *line) for line in program)
    held = ctypes.create_string_buffer(text, len(text))
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(held))
    return libc.prctl(SET_SECCOMP, 2, head, 0, 0) == 0


def _by_argument(number, place, values, found, otherwise) -> list[tuple]:
    """Lines of a filter: what one call gets, by the value of one of its arguments."""
    count = len(values)
    lines = [(SAME, 0, count + 3, number), (LOAD, 0, 0, place)]
    lines += [(SAME, count - i, 0, value) for i, value in enumerate(values)]
    return [*lines, (GIVE, 0, 0, otherwise), (GIVE, 0, 0, found)]
