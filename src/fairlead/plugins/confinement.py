"""The fence around a plugin's process, put up from inside before any of the plugin's code runs.

Limits on resources, no capabilities and none to gain, Landlock for files and signals, a seccomp filter for everything
that leads outside. It cannot be taken down again. The helper process loads this file alone, so it imports little.
Which fence a machine can have is decided in `fences.py`.
"""

import ctypes
import os
import resource
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 38, 22, 24
_SIGKILL = 9

NETWORK = "network"
PROCESSES = "processes"


class FenceError(Exception):
    """A part of the fence could not be put up; the text says which."""


def landlock_version() -> int:
    """The Landlock version of this kernel; 0 where it has none."""
    version: int = _syscall(444, None, ctypes.c_long(0), ctypes.c_long(1))
    return max(0, version)


def confine(
    *,
    landlock: bool,
    allowed: "frozenset[str]",
    limits: "dict[str, int]",
    readable: "list[str]",
    writable: "list[str]",
) -> None:
    """Put up the fence around this process, for good. It must have one thread only. Raises `FenceError`."""
    if PROCESSES not in allowed:
        # Where the plugin may start processes, those must not outlive it; the helper ends its whole group instead.
        _prctl("end with the host", _PR_SET_PDEATHSIG, _SIGKILL)
    _first_to_go()
    for name, most in limits.items():
        which = getattr(resource, f"RLIMIT_{name.upper()}")
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))
    _drop_capabilities()
    _prctl("gain no privileges", _PR_SET_NO_NEW_PRIVS, 1)
    version = landlock_version() if landlock else 0
    if landlock:
        _restrict_files(version, allowed, readable, writable)
    _filter_calls(allowed, signals_are_scoped=version >= 6)


def _prctl(what: str, option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise FenceError(f"cannot make the process {what}: {os.strerror(ctypes.get_errno())}")


def _first_to_go() -> None:
    """When memory runs out, the system takes the plugin and not its host."""
    try:
        adjust = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(adjust, b"1000")
        os.close(adjust)
    except OSError:
        return


def _drop_capabilities() -> None:
    if os.geteuid() == 0:
        for capability in range(64):
            if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                break
    header = struct.pack("Ii", 0x20080522, 0)
    if _libc.capset(header, bytes(24)) != 0:
        raise FenceError(f"cannot give up capabilities: {os.strerror(ctypes.get_errno())}")


# --- Landlock: files, abstract sockets, signals -----------------------------------------------------------------------

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
#: What a folder of one's own may hold: files and folders and links, but no devices and no sockets.
_IN_FOLDERS = (
    _WRITE | _READ | _LIST | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 12 | _REFER | _TRUNCATE
)


def _restrict_files(
    version: int, allowed: "frozenset[str]", readable: "list[str]", writable: "list[str]"
) -> None:
    if version < 1:
        raise FenceError("this kernel has no Landlock")
    handled = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    attributes = struct.pack("Q", handled)
    if version >= 4:
        attributes += struct.pack("Q", 0 if NETWORK in allowed else 3)
    if version >= 6:
        attributes += struct.pack("Q", 3)
    rules = _landlock("make rules", 444, attributes, len(attributes), 0)
    seen = _READ | _LIST | (_EXECUTE if PROCESSES in allowed else 0)
    for path in readable:
        _allow(rules, path, seen & handled)
    for path in writable:
        _allow(rules, path, _IN_FOLDERS & handled)
    _landlock("take effect", 446, rules, 0)
    os.close(rules)


def _allow(rules: int, path: str, access: int) -> None:
    try:
        at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if (os.fstat(at).st_mode & 0o170000) != 0o040000:
            access &= _ON_FILES
        _landlock(f"allow {path}", 445, rules, 1, struct.pack("=Qi", access, at), 0)
    finally:
        os.close(at)


def _landlock(what: str, number: int, *args: "int | bytes") -> int:
    done: int = _syscall(number, *(ctypes.c_long(each) if isinstance(each, int) else each for each in args))
    if done < 0:
        raise FenceError(f"Landlock cannot {what}: {os.strerror(ctypes.get_errno())}")
    return done


# --- seccomp: system calls --------------------------------------------------------------------------------------------

_X86_64, _AARCH64 = 0xC000003E, 0xC00000B7
_ARCHITECTURES = {"x86_64": _X86_64, "aarch64": _AARCH64}

#: By name, the numbers on x86_64 and on aarch64; None where there is no such call.
_NUMBERS: "dict[str, tuple[int | None, int | None]]" = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    # the view of the system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "unshare": (272, 97),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # the kernel
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "syslog": (103, 116),
    # the machine
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    # memory that no limit counts, and channels to others
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "mknod": (133, None),
    "mknodat": (259, 33),
    # Landlock asks who reads and writes a file, not who changes its mode, owner or times. Whoever may read one has it
    # open, and the owner changes those by a descriptor that only reads; which file that is, no filter sees.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "truncate": (76, 45),
    "inotify_add_watch": (254, 27),
    # limits
    "setrlimit": (160, 164),
    "seccomp": (317, 277),
    # decided by their arguments
    "prlimit64": (302, 261),
    "prctl": (157, 167),
    "socket": (41, 198),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "clone": (56, 220),
    "clone3": (435, 435),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "mmap": (9, 222),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
}
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020000
_SHARED_ANONYMOUS = 0x21
#: Owners of files, to whom the kernel sends any signal on our behalf; leases, for which others wait; watched folders.
_FCNTL = (8, 10, 15, 1024, 1026)
#: Owners of sockets, and keys that a terminal takes for its user's; flags, attributes, versions, encryption and seals
#: of files, which their owner sets by a descriptor that only reads.
_IOCTL_REFUSED = (0x8901, 0x8902, 0x5412, 0x541C, 0x40086602, 0x401C5820, 0x40087602, 0x800C6613, 0x40806685)
_FAMILIES = {"inet": 2, "inet6": 10, "netlink": 16}

_Step = tuple[int, int, int, int]


def seccomp_here() -> bool:
    """Whether calls can be filtered on this machine."""
    return os.uname().machine in _ARCHITECTURES and os.path.exists("/proc/sys/kernel/seccomp/actions_avail")


def _filter_calls(allowed: "frozenset[str]", *, signals_are_scoped: bool) -> None:
    if not seccomp_here():
        return
    steps = _program(os.uname().machine, os.getpid(), allowed, signals_are_scoped)
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer))
    if _libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), program, 0, 0) != 0:
        raise FenceError(f"seccomp cannot filter calls: {os.strerror(ctypes.get_errno())}")


def _program(machine: str, pid: int, allowed: "frozenset[str]", signals_are_scoped: bool) -> "list[_Step]":
    """The filter: each call that is not named passes, each named one is refused or judged by its arguments."""
    column = 0 if machine == "x86_64" else 1
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":
        # The second set of numbers, for 32-bit pointers, would pass by the names above.
        steps += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    judged = _judged(pid, allowed, signals_are_scoped)
    for name, numbers in _NUMBERS.items():
        number = numbers[column]
        if number is None or judged.get(name) == []:
            continue
        then = judged.get(name, [(_RETURN, 0, 0, _ERRNO | _EPERM)])
        steps += [(_EQUAL, 0, len(then), number), *then]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _judged(pid: int, allowed: "frozenset[str]", signals_are_scoped: bool) -> "dict[str, list[_Step]]":
    """What becomes of calls that depend on their arguments; nothing: they pass."""
    refuse = (_RETURN, 0, 0, _ERRNO | _EPERM)
    to_itself = _only(0, (pid,), _EPERM)
    of_itself = _only(0, (pid, 0), _EPERM)
    rules: dict[str, list[_Step]] = {
        "prlimit64": _unless_null(2),
        "prctl": [*_argument(0), (_EQUAL, 0, 1, _PR_SET_PDEATHSIG), refuse, (_RETURN, 0, 0, _ALLOW)],
        "socket": [(_RETURN, 0, 0, _ERRNO | _EACCES)],
        "clone3": [(_RETURN, 0, 0, _ERRNO | _ENOSYS)],
        "mmap": [
            *_argument(3),
            (_AND, 0, 0, _SHARED_ANONYMOUS),
            (_EQUAL, 0, 1, _SHARED_ANONYMOUS),
            refuse,
            (_RETURN, 0, 0, _ALLOW),
        ],
        "clone": [*_argument(0), (_ANY_BIT, 1, 0, _CLONE_THREAD), refuse, (_RETURN, 0, 0, _ALLOW)],
        "kill": of_itself,
        "tgkill": to_itself,
        "rt_sigqueueinfo": to_itself,
        "rt_tgsigqueueinfo": to_itself,
        "sched_setaffinity": of_itself,
        "sched_setattr": of_itself,
        "sched_setparam": of_itself,
        "sched_setscheduler": of_itself,
        "fcntl": _none(1, _FCNTL),
        "ioctl": _none(1, _IOCTL_REFUSED),
    }
    if signals_are_scoped:
        rules["tkill"] = []
    if NETWORK in allowed:
        rules["socket"] = _only(0, tuple(_FAMILIES.values()), _EACCES)
    if PROCESSES in allowed:
        rules["clone"] = [*_argument(0), (_ANY_BIT, 0, 1, _CLONE_NEW), refuse, (_RETURN, 0, 0, _ALLOW)]
        passing = ["fork", "vfork", "execve", "execveat"]
        if signals_are_scoped:
            passing += ["kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"]
        rules |= {name: [] for name in passing}
    return rules


def _argument(index: int, *, upper: bool = False) -> "list[_Step]":
    return [(_LOAD, 0, 0, 16 + 8 * index + 4 * upper)]


def _only(index: int, values: "tuple[int, ...]", errno: int) -> "list[_Step]":
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [*_argument(index), *tests, (_RETURN, 0, 0, _ERRNO | errno), (_RETURN, 0, 0, _ALLOW)]


def _none(index: int, values: "tuple[int, ...]") -> "list[_Step]":
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [*_argument(index), *tests, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | _EPERM)]


def _unless_null(index: int) -> "list[_Step]":
    return [
        *_argument(index),
        (_EQUAL, 0, 2, 0),
        *_argument(index, upper=True),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
