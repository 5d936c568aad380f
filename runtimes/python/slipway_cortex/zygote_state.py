"""What the process of an app, copied from a zygote, must have for itself: files, event loop, signals, folder."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import selectors
import signal
import socket
import time


class AppState:
    """What the import left behind in the zygote, to be found again in each replica."""

    def __init__(self, loop, folder: str, signals: dict, files: list) -> None:
        self._loop = loop
        self._signals = signals
        self._files = files
        self._collects = gc.isenabled()
        here = os.getcwd()
        self._folder = None if here == folder else here
        # Of a loop that handles signals, if the app has asked for that.
        self._wakeup = signal.set_wakeup_fd(-1)

    def prepare(self, start) -> None:
        """In a replica's first process. Raises OSError."""
        os.environ.update(start.environment)
        if "TZ" in start.environment:
            time.tzset()
        os.chdir(start.cwd)
        if self._folder is not None:
            os.chdir(self._folder)
        for file in self._files:
            file.open_again()
        renew_loop(self._loop)

    def restore(self) -> None:
        """In the app's process, after the fork has reset these."""
        asyncio.set_event_loop(self._loop)
        for number, handler in self._signals.items():
            signal.signal(number, handler)
        if self._wakeup >= 0:
            signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        if self._collects:
            gc.enable()


class OpenFile:
    """A file or folder that the app has open for reading; siblings would share the place at which it reads."""

    def __init__(self, fd: int, path: str, flags: int) -> None:
        self._fd = fd
        self._path = path
        self._flags = flags & (os.O_DIRECTORY | os.O_NONBLOCK) | os.O_RDONLY | os.O_CLOEXEC
        self._inheritable = os.get_inheritable(fd)
        self._offset = os.lseek(fd, 0, os.SEEK_CUR)

    def open_again(self) -> None:
        """Opens it anew under the same number, at the same offset. Raises OSError that names it."""
        try:
            fresh = os.open("/proc/self/fd/%d" % self._fd, self._flags)
            os.lseek(fresh, self._offset, os.SEEK_SET)
            os.dup2(fresh, self._fd, inheritable=self._inheritable)
            os.close(fresh)
        except OSError as error:
            text = "%s, which main.py has opened, cannot be opened again: %s" % (self._path, error.strerror or error)
            raise OSError(text) from error


def loop_descriptors(loop) -> list:
    """The descriptors of one of asyncio's own loops."""
    return [loop._selector.fileno(), loop._ssock.fileno(), loop._csock.fileno()]


def can_renew(loop) -> bool:
    """Whether `renew_loop` knows this kind of loop."""
    return type(loop) is asyncio.SelectorEventLoop and type(loop._selector) is selectors.EpollSelector


def renew_loop(loop) -> None:
    """Gives the loop a selector and a pair of sockets that it does not share, under the numbers that it knows."""
    for fresh, kept in zip(socket.socketpair(), (loop._ssock, loop._csock)):
        fresh.setblocking(False)
        os.dup2(fresh.fileno(), kept.fileno(), inheritable=False)
        fresh.close()
    with select.epoll() as fresh:
        for key in loop._selector.get_map().values():
            events = select.EPOLLIN if key.events & selectors.EVENT_READ else 0
            events |= select.EPOLLOUT if key.events & selectors.EVENT_WRITE else 0
            fresh.register(key.fd, events)
        os.dup2(fresh.fileno(), loop._selector.fileno(), inheritable=False)
