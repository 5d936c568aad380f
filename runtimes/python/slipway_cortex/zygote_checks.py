"""Looks whether a process that has imported the app may be copied, and says in sentences what stands against it.

What a copy cannot have for itself does: threads and child processes, which are not copied; sockets, pipes and files
that are written, which all copies would use at once; shared memory; a GPU that was used.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import stat
import threading
import warnings

from .zygote_state import OpenFile, can_renew, loop_descriptors

LATER = "do that in a function named _after_fork in main.py, or in the first call"
SHARED = "%s is open (descriptor %d), which all replicas would share: " + LATER
WRITTEN = "the file %s is open for writing (descriptor %d), in which replicas would overwrite each other: " + LATER
OTHER = "%s is open (descriptor %d), perhaps of an event loop or a watcher, which all replicas would share: " + LATER
HARMLESS_DEVICES = {os.makedev(1, minor) for minor in (3, 5, 8, 9)}  # null, zero, random, urandom.
TIMERS = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")


class Checks:
    """One look at this process. Afterwards `files` has what every copy must open anew."""

    def __init__(self) -> None:
        self.files: list = []

    def reasons(self, loop, signals: dict, own_descriptors: list) -> list:
        """One sentence for each thing that was found. `signals` has the handlers as the import left them."""
        own = set(own_descriptors)
        found = loop_reasons(loop)
        if can_renew(loop):
            own.update(loop_descriptors(loop))
        found += thread_reasons()
        found += child_reasons()
        for fd in open_descriptors():
            if fd > 2 and fd not in own:
                reason = self._descriptor_reason(fd)
                if reason:
                    found.append(reason)
        found += memory_reasons()
        found += signal_reasons(signals)
        return list(dict.fromkeys(found))

    def _descriptor_reason(self, fd: int):
        """Why one that the app has open cannot be copied; None when it can."""
        try:
            mode, device = os.fstat(fd).st_mode, os.fstat(fd).st_rdev
            path = os.readlink("/proc/self/fd/%d" % fd)
        except OSError:
            return None  # It was the one that listed the others.
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        if flags & os.O_PATH:
            return None
        if stat.S_ISSOCK(mode):
            return SHARED % (socket_name(fd), fd)
        if stat.S_ISFIFO(mode):
            name = "a pipe" if path.startswith("pipe:") else "the pipe %s" % path
            return SHARED % (name, fd)
        if path.startswith("/dev/nvidia"):
            return gpu_reason(path)
        if stat.S_ISCHR(mode) and device in HARMLESS_DEVICES:
            return None
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            return SHARED % ("the device " + path, fd)
        is_named = path.startswith("/")  # Namespaces look like regular files, and have no place in one.
        if is_named and (stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and flags & os.O_ACCMODE == os.O_RDONLY)):
            self.files.append(OpenFile(fd, path, flags))
            return None
        if is_named and stat.S_ISREG(mode):
            return WRITTEN % (path, fd)
        kind = path.partition(":")[2].strip("[]") if path.startswith("anon_inode:") else path
        return OTHER % (kind, fd)


def open_descriptors() -> list:
    """The numbers of all open descriptors, and perhaps of one that is closed by now."""
    return sorted(int(name) for name in os.listdir("/proc/self/fd"))


def thread_reasons() -> list:
    """Threads beside the main one."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    found = []
    strangers = 0
    for name in os.listdir("/proc/self/task"):
        number = int(name)
        if number == os.getpid():
            continue
        if number in names:
            text = "the thread %r was started at import, and a replica would lack it: %s"
            found.append(text % (names[number], LATER))
        else:
            strangers += 1
    if strangers:
        counted = "a thread of a library is" if strangers == 1 else "%d threads of libraries are" % strangers
        found.append(
            "%s running, which a replica would lack. Many libraries (OpenBLAS, OpenMP, MKL) start a pool of threads when "
            "they are imported or at their first operation; set OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1 and "
            "MKL_NUM_THREADS=1, or leave that operation for later: %s" % (counted, LATER)
        )
    return found


def child_reasons() -> list:
    """Child processes."""
    children: list = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/children" % thread, encoding="ascii") as source:
                children += source.read().split()
        except OSError:
            continue  # The thread has ended, or the kernel does not tell.
    names = [process_name(pid) for pid in children] or (["of a name that is not known"] if has_child() else [])
    text = "the process %s was started at import, and would be no replica's child: %s"
    return [text % (name, LATER) for name in names]


def has_child() -> bool:
    """Whether there is any child process, also where the kernel does not list them."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def process_name(pid: str) -> str:
    """What a process is called, and its id."""
    try:
        with open("/proc/%s/comm" % pid, encoding="utf-8", errors="replace") as source:
            return "%r (%s)" % (source.read().strip(), pid)
    except OSError:
        return pid


def memory_reasons() -> list:
    """Memory that is shared and can be written, and that of a GPU."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as source:
        for line in source:
            parts = line.rstrip("\n").split(None, 5)
            access, path = parts[1], parts[5] if len(parts) > 5 else "without a name"
            if path.startswith("/dev/nvidia"):
                found.append(gpu_reason(path))
            elif access[1] == "w" and access[3] == "s":
                name = path.replace(" (deleted)", "")
                found.append(
                    "shared memory (%s) is mapped for writing, which all replicas would share; it may be of mmap, of "
                    "multiprocessing (a Lock, Queue or Value) or of a library: %s" % (name, LATER)
                )
    return found


def gpu_reason(path: str) -> str:
    """One for every device of the GPU driver."""
    return "the GPU was used (%s is open), and its state cannot be copied; load to the GPU later: %s" % (path, LATER)


def signal_reasons(signals: dict) -> list:
    """Running timers, and handlers that cannot be put back."""
    found = [
        "the timer %s is running, and a replica would lack it: %s" % (name, LATER)
        for name in TIMERS
        if any(signal.getitimer(getattr(signal, name)))
    ]
    for number, handler in signals.items():
        if handler is None:
            name = signal.Signals(number).name
            text = "a library has set a handler for %s past Python, which no replica could be given: %s"
            found.append(text % (name, LATER))
    return found


def loop_reasons(loop) -> list:
    """Event loops that are not the one that the runtime has made."""
    if not can_renew(loop):
        kind = "%s.%s" % (type(loop).__module__, type(loop).__qualname__)
        return ["the event loop is a %s, and only asyncio's own can be copied: leave asyncio's policy as it is" % kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Policies are deprecated since Python 3.14.
        try:
            current = asyncio.get_event_loop_policy().get_event_loop()
        except RuntimeError:
            current = None  # The app has unset it; a replica sets it again.
    if current is None or current is loop or current.is_closed():
        return []
    kind = "%s.%s" % (type(current).__module__, type(current).__qualname__)
    text = "main.py has set an event loop of its own (%s), which cannot be copied: use asyncio.get_event_loop(), or %s"
    return [text % (kind, LATER)]


def socket_name(fd: int) -> str:
    """What a socket is, and what it is connected to or listens at."""
    one = socket.socket(fileno=os.dup(fd))
    try:
        with one:
            try:
                return "a connection to %s" % address_text(one.getpeername())
            except OSError:
                listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                return "a socket%s at %s" % (" that listens" if listens else "", address_text(one.getsockname()))
    except OSError:
        return "a socket"


def address_text(address) -> str:
    """host:port, a path, or "an unnamed socket"."""
    if isinstance(address, tuple) and len(address) >= 2:
        return "%s:%s" % (address[0], address[1])
    if isinstance(address, bytes):
        address = address.decode("utf-8", "backslashreplace")
    return str(address) or "an unnamed socket"
