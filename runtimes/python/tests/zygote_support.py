"""A zygote over a temporary app folder, and what asks it for replicas: the other end of its Unix socket."""

import array
import json
import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
import unittest

from support import DEADLINE_SECONDS, Replica, until

ALL_NAMESPACES = 0x20000000 | 0x00020000 | 0x08000000 | 0x40000000  # Processes, mounts, IPC, network.


def children_of(pid):
    """The ids of a process's children."""
    found = []
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, thread)) as source:
            found += [int(child) for child in source.read().split()]
    return found


def is_there(pid):
    """Whether a process exists."""
    return os.path.exists("/proc/%d" % pid)


@unittest.skipUnless(sys.platform == "linux", "zygotes need Linux")
class ZygoteTest(unittest.TestCase):
    """What the tests of zygotes share."""

    def zygote(self, source, files=None, **options):
        """A zygote that is ready, or as `outcome` says."""
        zygote = Zygote(source, files, **options)
        self.addCleanup(zygote.close)
        return zygote

    def forked(self, zygote, **options):
        """A replica of it."""
        replica = zygote.start(**options)
        self.addCleanup(replica.close)
        return replica


class Zygote(Replica):
    """A process that has imported an app. `outcome` is the line of its ready descriptor."""

    def __init__(self, source, files=None, outcome="ready", environ=None, **settings):
        self._sockets = tempfile.mkdtemp(prefix="slipway-zygote-")
        self.socket_path = os.path.join(self._sockets, "zygote")
        environ = dict({"OPENBLAS_NUM_THREADS": "2"}, **(environ or {}))
        super().__init__(source, files, ready=False, environ=environ, zygote=self.socket_path, **settings)
        self.outcome = self.report()
        if self.outcome.get("zygote") != outcome:
            stderr = self.stderr()
            self.close()
            raise AssertionError("the zygote is not %s: %r; %s" % (outcome, self.outcome, stderr))
        assert os.read(self._ready_read, 1) == b"", "its descriptor is closed after that line"

    def connect(self):
        """A connection to its socket, that learns the process ids of who writes."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(DEADLINE_SECONDS)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        connection.connect(self.socket_path)
        return connection

    def start(self, **options):
        """A replica; see Forked."""
        return Forked(self, **options)

    def descriptors(self):
        """What its open descriptors are."""
        folder = "/proc/%d/fd" % self.process.pid
        return sorted(os.readlink(os.path.join(folder, name)) for name in os.listdir(folder))

    def close(self):
        super().close()
        shutil.rmtree(self._sockets)


class Forked(Replica):
    """A replica that a zygote has started. With go=False it stops before its first process is told to go on.

    `first` and `app` are the ids of its two processes.
    """

    def __init__(self, zygote, ready=True, go=True, namespaces=0, environ=None, cwd=None, **settings):
        self.folder = tempfile.mkdtemp(prefix="slipway-cortex-")
        self.app_folder = cwd or zygote.app
        self.connection = zygote.connect()
        self._text = b""
        self.first = self.app = self.port = None
        variables = {"SLIPWAY_" + name.upper(): str(value) for name, value in settings.items()}
        variables.setdefault("SLIPWAY_LISTEN", "127.0.0.1:0")
        message = {"namespaces": namespaces, "environment": dict(variables, **(environ or {})), "cwd": self.app_folder}
        self._ready_read, ready_write = os.pipe()
        files = [os.open(os.devnull, os.O_RDONLY)]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files += [os.open(os.path.join(self.folder, name), flags) for name in ("stdout", "stderr")]
        files += [ready_write, os.open("/", os.O_PATH)]
        send_start(self.connection, json.dumps(message).encode() + b"\n", files)
        for fd in files:
            os.close(fd)
        if go:
            self.go()
            if ready and not self.report().get("ready"):
                stderr = self.stderr()
                self.close()
                raise AssertionError("the replica is not ready: %r %s" % (self.reports, stderr))

    def go(self):
        """Has it go on until its app's process is there."""
        self.born()
        self.connection.sendall(b"go\n")
        if self.line() == "running":
            found = children_of(self.first)
            self.app = found[0] if found else None

    def born(self):
        """Waits for its first process."""
        data, notes, _flags, _address = self.connection.recvmsg(5, socket.CMSG_SPACE(12))
        assert data == b"born\n", data
        self.first = struct.unpack("3i", notes[0][2][:12])[0]

    def line(self):
        """The next line of its first process; None at the end."""
        while b"\n" not in self._text:
            data = self.connection.recv(100)
            if not data:
                return None
            self._text += data
        line, _break, self._text = self._text.partition(b"\n")
        return line.decode()

    def stop(self):
        """SIGTERM to its app, then the exit code."""
        os.kill(self.app, signal.SIGTERM)
        return self.wait()

    def wait(self):
        """The exit code, as its first process tells it."""
        line = self.line()
        assert line and line.startswith("exit "), line
        return int(line[5:])

    def close(self):
        """Ends both processes, and removes the folder."""
        for pid in (self.app, self.first):
            if pid and is_there(pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.connection.close()
        if self.first:
            until(lambda: not is_there(self.first), "the end of the first process")
        os.close(self._ready_read)
        shutil.rmtree(self.folder)


def send_start(connection, message, files):
    """Sends the message, with the descriptors at its first byte."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
    sent = connection.sendmsg([message], rights)
    if sent < len(message):
        connection.sendall(message[sent:])
