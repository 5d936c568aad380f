"""The first process of a replica that a zygote starts: gives up its rights, forks the app's process, and outlives it.

It is what a container's init is: it removes ended orphans, and tells how the app's process ended. Over the connection
go the lines `born`, `go` (the only one that it reads), `running` and `exit <code>`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import traceback

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
GO_SECONDS = 60.0  # For whoever asked for the replica to set it up.
CLOSE_RANGE = 436  # The number of the system call, the same on every processor.
AMBIENT_CLEAR_ALL = [ctypes.c_ulong(word) for word in (47, 4, 0, 0, 0)]  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL.
CAPABILITY_HEADER = (ctypes.c_uint32 * 2)(0x20080522, 0)  # Of this process, in the third version of the call.
# None: effective, permitted and inheritable, of capabilities 0 to 31, then of the rest.
CAPABILITY_SETS = (ctypes.c_uint32 * 6)()


def go_on_as_app(start, zygote_pid: int, libc, let_go, prepare) -> None:
    """Goes on as the first process, and ends there; returns only in the app's process, which it forks.

    Calls let_go() first, and prepare(start) before the fork.
    """
    try:
        let_go()
        os.setsid()
        # Blocked signals wait, also for the first process of a namespace, which otherwise gets none without a handler.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Ignored as in the zygote, the app's end would go unseen.
        stdin, stdout, stderr, ready, root = start.descriptors
        start.descriptors = [ready]
        for fd, number in ((stdin, 0), (stdout, 1), (stderr, 2)):
            os.dup2(fd, number)
            os.close(fd)
        os.close(root)
        send(start.connection, b"born\n")
        if not told_to_go(start.connection):
            os._exit(1)
        drop_capabilities(libc)
        prepare(start)
        app = fork_app(zygote_pid)
        if app:
            watch(start.connection, app, libc)
    except BaseException:
        end_with_traceback()
    start.connection.close()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def fork_app(zygote_pid: int) -> int:
    """Forks; the child's id, 0 in the child.

    A library that compares process ids to see that it was forked must not find the zygote's own in a replica.
    """
    while True:
        app = os.fork()
        if app == zygote_pid:
            os.waitpid(app, 0)
        elif app or os.getpid() != zygote_pid:
            return app
        else:
            os._exit(0)


def told_to_go(connection) -> bool:
    """Whether the line `go` comes; anything else, also the end of the connection, means that nobody wants it now."""
    connection.settimeout(GO_SECONDS)
    line = b""
    try:
        while len(line) < 3:
            data = connection.recv(3 - len(line))
            if not data:
                return False
            line += data
    except OSError:  # Also when it takes too long.
        return False
    return line == b"go\n"


def watch(connection, app: int, libc) -> None:
    """Removes ended processes until the app's has ended, tells how it did, and ends."""
    close_all_but(connection.fileno(), libc)
    send(connection, b"running\n")
    stopping = False
    status = None
    while status is None:
        number = signal.sigwait(SIGNALS)
        stopping = stopping or number == signal.SIGTERM
        status = reap(app)
    stopping = stopping or signal.SIGTERM in signal.sigpending()
    if stopping and os.getpid() == 1:
        end_others()
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    send(connection, b"exit %d\n" % code)
    os._exit(code)


def reap(app: int):
    """Removes the children that have ended; the wait status of `app` when it is one of them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == app:
            found = status


def end_others() -> None:
    """Asks every other process of the namespace to end, and waits. Whoever stops the replica kills it in the end."""
    try:
        os.kill(-1, signal.SIGTERM)
        while True:
            os.waitpid(-1, 0)
    except OSError:
        pass  # There is none, or none any more.


def drop_capabilities(libc) -> None:
    """Gives up every capability of this process. Raises OSError when it keeps one."""
    libc.prctl(*AMBIENT_CLEAR_ALL)
    libc.capset(CAPABILITY_HEADER, CAPABILITY_SETS)
    # What those answer does not matter, as a process without capabilities need not be able to drop them.
    kept = type(CAPABILITY_SETS)()
    if libc.capget(CAPABILITY_HEADER, kept) != 0 or kept[0] or kept[1] or kept[3] or kept[4]:
        raise OSError("the replica cannot give up its capabilities")


def close_all_but(kept: int, libc) -> None:
    """Closes every descriptor but one."""
    last = 0xFFFFFFFF
    for first, end in ((0, kept - 1), (kept + 1, last)):
        if first > end:
            continue
        if libc.syscall(CLOSE_RANGE, ctypes.c_ulong(first), ctypes.c_ulong(end), 0) != 0:
            os.closerange(first, min(end + 1, 1 << 16))


def send(connection, line: bytes) -> None:
    """Sends a line. With it goes, as the kernel sees to it, the process id as the reader knows it."""
    try:
        connection.sendall(line, socket.MSG_NOSIGNAL)
    except OSError:
        pass  # Nobody waits for it any more.


def end_with_traceback() -> None:
    """Ends the process, and says why on the replica's standard error."""
    try:
        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        os._exit(1)
