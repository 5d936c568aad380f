"""Starts a program that forks replicas: `python3 -I -S confine.py USER VIEW PROGRAM [ARGUMENT ...]`.

Runs as the first user of a sandbox, outside of the app's view. PROGRAM runs in VIEW as USER, as every program of a
sandbox does, but in a user namespace of its own, in which all ids are what they are outside, and with one capability
there, CAP_SYS_ADMIN: it allows PROGRAM to clone a child into new namespaces. What else the capability would allow is
refused by a filter of system calls, which also holds for all descendants until the last has ended.

Standard library only. Nothing of the app runs before PROGRAM is executed.
"""

import ctypes
import os
import platform
import struct
import sys

EPERM, ENOSYS = 1, 38
CAP_SYS_ADMIN = 21
CAP_LAST = 63
OWNER_BIT = 0x80000000  # No project has a user id with this bit.
# The replicas of one zygote need as many of the last four kinds as there are replicas.
NAMESPACES_MAX = {"user": 0, "uts": 0, "cgroup": 0, "time": 0, "mnt": 1000, "ipc": 1000, "pid": 1000, "net": 1000}
READY = 3  # The descriptor for the runtime's report, the only one beside the standard ones.
MAX_DESCRIPTORS = 1 << 20

# prctl(2)
PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 4, 8, 22, 24, 28
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 38, 47
SECBIT_NO_SETUID_FIXUP = 4
PR_CAP_AMBIENT_RAISE = 2
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522

# clone(2)
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_NEWTIME = 0x00000080  # Of `unshare` only: in the flags of `clone`, the low byte is a signal.

# A replica gets new namespaces of these kinds; a program never gets one of the others.
ALLOWED_IN_CLONE = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
REFUSED_IN_CLONE = CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWCGROUP
REFUSED_IN_UNSHARE = ALLOWED_IN_CLONE | REFUSED_IN_CLONE | CLONE_NEWTIME

# For each processor: how the kernel names it to a filter, and the numbers of system calls.
PROCESSORS = {
    "x86_64": {
        "audit": 0xC000003E,
        "clone": 56,
        "unshare": 272,
        "mount": 165,
        "umount2": 166,
        "pivot_root": 155,
        "setns": 308,
        "open_by_handle_at": 304,
        "fanotify_init": 300,
        "fanotify_mark": 301,
        "quotactl": 179,
        "perf_event_open": 298,
        "bpf": 321,
    },
    "aarch64": {
        "audit": 0xC00000B7,
        "clone": 220,
        "unshare": 97,
        "mount": 40,
        "umount2": 39,
        "pivot_root": 41,
        "setns": 268,
        "open_by_handle_at": 265,
        "fanotify_init": 262,
        "fanotify_mark": 263,
        "quotactl": 60,
        "perf_event_open": 241,
        "bpf": 280,
    },
}
# System calls from 424 on have the same number on every processor: open_tree, move_mount, fsopen, fsconfig, fsmount,
# fspick, mount_setattr, quotactl_fd, and open_tree_attr.
REFUSED_EVERYWHERE = [428, 429, 430, 431, 432, 433, 442, 443, 467]
CLONE3 = 435  # A filter cannot see its flags. Programs use `clone` where it does not exist.
X32_BIT = 0x40000000  # The second set of numbers that x86-64 has.

# Classic BPF: `struct sock_filter` is code, jump if true, jump if false, operand.
LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
AT_NUMBER, AT_PROCESSOR, AT_FIRST_ARGUMENT = 0, 4, 16  # In `struct seccomp_data`; both processors are little-endian.
ALLOW, REFUSE, MISSING = 0x7FFF0000, 0x00050000 | EPERM, 0x00050000 | ENOSYS

libc = ctypes.CDLL(None, use_errno=True)


def main():
    user, view, program = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    processor = PROCESSORS.get(platform.machine())
    if processor is None:
        raise OSError("no filter of system calls is known for the processor %s" % platform.machine())
    enter_user_namespace(owner=user | OWNER_BIT)
    bound_namespaces()
    os.chroot(view)
    os.chdir("/")
    for capability in range(CAP_LAST + 1):
        if capability != CAP_SYS_ADMIN:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # Fails for those that the kernel does not have.
    become(user)
    keep_only(CAP_SYS_ADMIN)
    checked("no_new_privs", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    install(filter_of(processor))
    os.closerange(READY + 1, MAX_DESCRIPTORS)  # What the platform has inherited must not look like the app's.
    os.execv(program[0], program)


def checked(what, result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def enter_user_namespace(owner):
    """Enters a new user namespace in which every id of the present one is the same.

    What the kernel counts for each user (namespaces, watches of files) counts for `owner`, who runs nothing, and not
    for root, whose limits all programs of the machine would share.
    """
    maps = {name: identity("/proc/self/" + name) for name in ("uid_map", "gid_map")}
    parent = os.getpid()
    entered_read, entered_write = os.pipe()
    child = os.fork()
    if child == 0:
        # Only a process of the outer namespace may write maps with more than one id.
        os.close(entered_write)
        os.read(entered_read, 1)
        try:
            for name, text in maps.items():
                with open("/proc/%d/%s" % (parent, name), "w") as file:
                    file.write(text)
            os._exit(0)
        except OSError as error:
            sys.stderr.write("the ids of the user namespace: %s\n" % error)
            os._exit(1)
    checked("securebits", libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0))  # Keeps the capabilities.
    os.setresuid(-1, owner, -1)
    checked("dumpable", libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))  # So that the other process may write the maps.
    checked("a new user namespace", libc.unshare(CLONE_NEWUSER))
    os.close(entered_write)
    os.close(entered_read)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(1)


def bound_namespaces():
    """Sets how many namespaces there may be in the new user namespace."""
    for kind, most in NAMESPACES_MAX.items():
        try:
            with open("/proc/sys/user/max_%s_namespaces" % kind, "w") as file:
                file.write(str(most))
        except OSError:
            pass  # The kernel lacks this kind.


def identity(path):
    """The text of a map from each id that the map at `path` has to itself."""
    with open(path) as file:
        extents = [line.split() for line in file]
    return "".join("%s %s %s\n" % (inside, inside, count) for inside, _outside, count in extents)


def become(user):
    """Changes to the user, and its group of the same number, and keeps the capabilities."""
    checked("keep capabilities", libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    if user != 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def keep_only(capability):
    """Gives up all capabilities but this one, which the next program keeps."""
    low, high = 1 << capability, 0
    header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION_3, 0))
    sets = ctypes.create_string_buffer(struct.pack("=6I", low, low, low, high, high, high))
    checked("capset", libc.capset(header, sets))
    checked("ambient", libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0))


def filter_of(processor):
    """The instructions of the filter."""
    refused = [number for name, number in processor.items() if name not in ("audit", "clone", "unshare")]
    instructions = [
        (LOAD, 0, 0, AT_PROCESSOR),
        (JUMP_EQUAL, 1, 0, processor["audit"]),
        (RETURN, 0, 0, MISSING),
        (LOAD, 0, 0, AT_NUMBER),
        (JUMP_GREATER_EQUAL, 0, 1, X32_BIT),
        (RETURN, 0, 0, MISSING),
        (JUMP_EQUAL, 0, 1, CLONE3),
        (RETURN, 0, 0, MISSING),
    ]
    for number in refused + REFUSED_EVERYWHERE:
        instructions += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    for name, flags in (("clone", REFUSED_IN_CLONE), ("unshare", REFUSED_IN_UNSHARE)):
        instructions += [
            (JUMP_EQUAL, 0, 4, processor[name]),
            (LOAD, 0, 0, AT_FIRST_ARGUMENT),
            (JUMP_ANY_BIT, 0, 1, flags),
            (RETURN, 0, 0, REFUSE),
            (RETURN, 0, 0, ALLOW),
        ]
    return instructions + [(RETURN, 0, 0, ALLOW)]


def install(instructions):
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in instructions))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(program)))
    checked("the filter of system calls", libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0))


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit("the process that forks replicas cannot be confined: %s" % error)
