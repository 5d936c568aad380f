"""Opens the socket that calls come to, and tells the platform that it is open, and whether the app is ready."""

from __future__ import annotations

import json
import os
import socket
import sys

from .failures import describe

BACKLOG = 2048


def listen(host: str, port: int):
    """A listening, non-blocking TCP socket. Raises OSError that names the address."""
    try:
        # As bytes: text would load the tables for international names, which take milliseconds.
        found = socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _name, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        raise OSError("cannot listen on %s:%d: %s" % (host, port, error.strerror or error)) from error
    listener.setblocking(False)
    return listener


def listen_at_path(path: str):
    """A listening, non-blocking Unix socket at `path`, which must not exist. Raises OSError that names the path."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError("cannot listen on %s: %s" % (path, error.strerror or error)) from error
    listener.setblocking(False)
    return listener


class ReadyReport:
    """The descriptor in SLIPWAY_READY_FD: a JSON line when the socket is open, and one when the start has ended."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._wanted = fd is not None
        if fd is not None:
            try:
                os.set_inheritable(fd, False)
            except OSError:
                self._fd = None  # Not an open descriptor.

    def listening(self, listener, settings) -> None:
        """The socket answers, and the app is about to be imported."""
        self._write({"listening": True, "port": port_of(listener, settings)})

    def ready(self, listener, settings) -> None:
        """The app is imported and takes calls."""
        port = port_of(listener, settings)
        self._write({"ready": True, "port": port})
        self._close()
        if port != settings.port and not self._wanted:
            sys.stderr.write("slipway: listening on port %d\n" % port)  # Nobody could know it otherwise.

    def failed(self, error: BaseException) -> None:
        """The app is not going to be ready."""
        self._write({"ready": False, "error": report_of(error)})
        self._close()

    def zygote(self, state: str, **more) -> None:
        """Whether a zygote can start replicas now; the only line of its descriptor."""
        self._write(dict(more, zygote=state))
        self._close()

    def descriptors(self) -> list:
        """The descriptors that a forked child must let go of."""
        return [] if self._fd is None else [self._fd]

    def _write(self, value: dict) -> None:
        if self._fd is None:
            return
        try:
            os.write(self._fd, json.dumps(value).encode("ascii") + b"\n")
        except OSError:
            pass  # Nobody listens; the socket tells the same.

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.close(fd)
        except OSError:
            pass


def report_of(error: BaseException) -> str:
    """`<Type>: <message>` of what ended a start, or what an AppError has for it."""
    return getattr(error, "report", "%s: %s" % describe(error))


def port_of(listener, settings) -> int:
    """The port that calls come to; 0 for a Unix socket, whose path is known."""
    return 0 if settings.path else listener.getsockname()[1]
