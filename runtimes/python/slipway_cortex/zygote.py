"""A process that has imported the app and forks for each replica, so that a replica starts in milliseconds.

Asked for by SLIPWAY_ZYGOTE. It imports the app as an ordinary start does, looks whether anything stands against
copying the process, and then listens at a Unix socket. Whoever connects sends one JSON line and five descriptors, and
gets a replica: its first process (zygote_process.py), and below that the app's process, in which `wait` returns.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time

from .settings import NAMES
from .zygote_checks import Checks
from .zygote_process import SIGNALS, go_on_as_app
from .zygote_random import Randomness
from .zygote_state import AppState
from .zygote_streams import EarlyStreams

BACKLOG = 1024
MESSAGE_BYTES_MAX = 256 * 1024
RECEIVE_BYTES = 64 * 1024
PENDING_MAX = 256  # Connections whose message is not there yet; the oldest makes room for a new one.
DESCRIPTORS = ("stdin", "stdout", "stderr", "ready", "root")
CLONE = {"x86_64": 56, "aarch64": 220}  # The number of the system call.
# Mounts, control groups, host name, IPC, users, processes, network. No other flag of clone may be asked for.
NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
THREADS_END_SECONDS = 1.0  # For threads that a library has told to end.


class Start:
    """One replica that somebody has asked for: the connection, and what came over it."""

    def __init__(self, connection) -> None:
        self.connection = connection
        self.message = b""
        self.descriptors: list = []
        self.namespaces = 0
        self.environment: dict = {}
        self.settings: dict = {}  # What of that is the runtime's own.
        self.cwd = ""

    def receive(self) -> bool:
        """Takes what has come; whether all is there.

        Raises OSError, EOFError, ValueError, KeyError or TypeError when no replica can come of it.
        """
        data, notes, flags, _address = self.connection.recvmsg(
            RECEIVE_BYTES, socket.CMSG_SPACE(4 * len(DESCRIPTORS)), socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, content in notes:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self.descriptors += struct.unpack("%di" % (len(content) // 4), content[: len(content) // 4 * 4])
        if not data:
            raise EOFError("the connection was closed before the message was complete")
        self.message += data
        if len(self.message) > MESSAGE_BYTES_MAX:
            raise ValueError("the message is longer than %d bytes" % MESSAGE_BYTES_MAX)
        if not self.message.endswith(b"\n"):
            return False
        if flags & socket.MSG_CTRUNC or len(self.descriptors) != len(DESCRIPTORS):
            text = "%d descriptors came; needed are %d (%s)"
            raise ValueError(text % (len(self.descriptors), len(DESCRIPTORS), ", ".join(DESCRIPTORS)))
        self._read()
        return True

    def _read(self) -> None:
        value = json.loads(self.message.decode("utf-8"))
        self.namespaces, self.cwd = value["namespaces"], value["cwd"]
        self.environment = dict(value["environment"])
        if not all(type(text) is str for text in (self.cwd, *self.environment, *self.environment.values())):
            raise ValueError("cwd, and the names and values of environment, must be text")
        if type(self.namespaces) is not int or self.namespaces & ~NAMESPACES:
            raise ValueError("namespaces is %r; allowed are the CLONE_NEW flags" % (self.namespaces,))
        self.settings = {name: self.environment.pop(name) for name in NAMES if name in self.environment}

    @property
    def ready_fd(self) -> int:
        """Of the replica's own report; the only one that its app's process keeps."""
        return self.descriptors[0]

    def close(self) -> None:
        """Closes the connection and the descriptors."""
        self.connection.close()
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []


class Zygote:
    """Listens at `path`, which must not exist. Raises OSError that names it."""

    def __init__(self, path: str) -> None:
        machine = os.uname().machine
        if sys.platform != "linux" or machine not in CLONE:
            text = "a zygote needs Linux on %s, not %s on %s"
            raise OSError(text % (" or ".join(sorted(CLONE)), sys.platform, machine))
        self._clone_number = CLONE[machine]
        self._libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL keeps the interpreter's lock, as a clone has it too.
        self._libc.syscall.restype = ctypes.c_long
        self._listener = listen_at(path)
        self._pending: dict = {}  # descriptor of a connection to its Start
        self._pid = os.getpid()
        self._start: Start | None = None  # Of the replica that this process is of; None in the zygote.
        self._is_app = False
        self._randomness = Randomness()
        self._streams = EarlyStreams()
        self._checks = Checks()
        self._folder = os.getcwd()
        self.failure: BaseException | None = None  # What went wrong in a replica before its app's process was there.

    def watch(self) -> None:
        """Called before the app is imported."""
        os.register_at_fork(after_in_child=self._after_fork)  # Before the app's own, which are to find all in place.
        self._streams.install()
        self._randomness.watch()

    def settle(self, loop, own_descriptors: list) -> list:
        """Called after the import: makes ready to fork; sentences on what stands against that, if anything does."""
        signals = {number: signal.getsignal(number) for number in SIGNALS}
        self._randomness.settle(self._folder)
        if len(os.listdir("/proc/self/task")) > 1:
            self._have_libraries_end_threads()
        own = [*own_descriptors, *self.descriptors()]
        reasons = self._checks.reasons(loop, signals, own)
        if not reasons:
            self._state = AppState(loop, self._folder, signals, self._checks.files)
            # With SIG_IGN the kernel removes the ended first processes of replicas.
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN if number == signal.SIGCHLD else signal.SIG_DFL)
            gc.collect()
            gc.freeze()  # A collection in a replica would else touch, and so copy, every page with an object in it.
            gc.disable()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass  # No such stream, or nobody reads it.
        return reasons

    def wait(self) -> Start:
        """Starts replicas until this process is ended. Returns in the app's process of each, with what it is to be."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            for fd, _events in poll.poll():
                if fd == self._listener.fileno():
                    self._accept(poll)
                elif fd in self._pending and self._receive(poll, fd):
                    return self._start

    def install_log(self, install, frames: bool) -> None:
        """Calls install(frames), and sends there what the app prints to the streams that it found at import."""
        self._streams.replace(install, frames)

    def descriptors(self) -> list:
        """The descriptors that a forked child must let go of."""
        return [fd for fd in (self._listener.fileno(), *self._pending) if fd >= 0]

    def _accept(self, poll) -> None:
        try:
            connection, _address = self._listener.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                print_error("cannot accept a connection: %s" % error)
                time.sleep(0.05)  # Such as for want of descriptors, so as not to spin.
            return
        connection.setblocking(False)
        if len(self._pending) >= PENDING_MAX:
            self._drop(poll, next(iter(self._pending)))
        self._pending[connection.fileno()] = Start(connection)
        poll.register(connection, select.POLLIN)

    def _receive(self, poll, fd: int) -> bool:
        """Whether this is now the process of an app."""
        start = self._pending[fd]
        try:
            if not start.receive():
                return False
            del self._pending[fd]
            poll.unregister(fd)
            if self._clone(start):
                return True
            start.close()
        except BlockingIOError:
            return False
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            if start.message or not isinstance(error, EOFError):  # Who only connects is of no interest.
                print_error("a replica was asked for, but %s: %s" % (type(error).__name__, error))
            if fd in self._pending:
                self._drop(poll, fd)
            else:
                start.close()
        return False

    def _drop(self, poll, fd: int) -> None:
        poll.unregister(fd)
        self._pending.pop(fd).close()

    def _clone(self, start: Start) -> bool:
        """Makes the replica's first process; whether this is now the process of its app. Raises OSError."""
        pid = self._libc.syscall(self._clone_number, start.namespaces | signal.SIGCHLD, 0, 0, 0, 0)
        if pid < 0:
            number = ctypes.get_errno()
            raise OSError(number, "clone with namespaces %#x: %s" % (start.namespaces, os.strerror(number)))
        if pid:
            return False
        self._start = start
        go_on_as_app(start, self._pid, self._libc, self._let_go, self._prepare)
        return True

    def _let_go(self) -> None:
        """In the first process: closes what is the zygote's."""
        self._listener.close()
        for other in self._pending.values():
            other.close()
        self._pending.clear()

    def _prepare(self, start: Start) -> None:
        """In the first process: makes what the app's process must not share with its siblings. What fails is kept."""
        try:
            self._state.prepare(start)
            self._randomness.renew()
        except Exception as error:
            self.failure = error

    def _after_fork(self) -> None:
        """In each forked child; the app's process is the one that a replica's first process forks."""
        if self._start is None or self._is_app:
            return
        self._is_app = True
        try:
            self._randomness.restore()
            self._state.restore()
        except Exception as error:
            self.failure = error

    def _have_libraries_end_threads(self) -> None:
        """Forks once, without Python's knowledge, a child that ends at once.

        OpenBLAS ends its pool of threads before a fork, and starts it again with the next operation; so do others.
        """
        child = self._libc.fork()
        if child == 0:
            os._exit(0)
        try:
            if child > 0:
                os.waitpid(child, 0)
        except ChildProcessError:
            pass  # The app's own handler of SIGCHLD was quicker.
        end = time.monotonic() + THREADS_END_SECONDS
        while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < end:
            time.sleep(0.005)


def listen_at(path: str):
    """A listening, non-blocking Unix socket at `path` for this user alone. Raises OSError that names the path."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)  # Before it listens: until then nobody can connect.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError("cannot listen on %s: %s" % (path, error.strerror or error)) from error
    listener.setblocking(False)
    return listener


def print_error(text: str) -> None:
    """A line on standard error, past whatever the app has made of sys.stderr."""
    try:
        os.write(2, ("slipway: %s\n" % text).encode("utf-8", "backslashreplace"))
    except OSError:
        pass  # Nobody reads it.
