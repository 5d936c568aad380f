"""Answers health questions while the main thread imports the app.

The import must have the main thread (signal handlers, event loops and GPU libraries demand it), so a small thread of
its own looks at the port meanwhile. Everything that is not such a question is kept unread, or with what was read of
it, and handed over to the service when the app is there.
"""

from __future__ import annotations

import os
import select
import threading

from .http_answer import JSON, answer_head, message_body
from .http_head import HEAD_BYTES_MAX, HttpError, parse_head

HELD_MAX = 1024  # Connections held during the import; further ones wait in the listen queue.
ACCEPT_PAUSE_SECONDS = 0.05  # After a failed accept, such as for want of descriptors, so as not to spin.
CLOSED = getattr(select, "POLLRDHUP", 0)  # Linux tells it; of a Unix socket it is told everywhere.


class Starting:
    """Watches a listening, non-blocking socket from `start` until `stop`."""

    def __init__(self, listener) -> None:
        self._listener = listener
        self._held: dict = {}  # file descriptor to (socket, what it has sent)
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._watch, name="slipway-starting", daemon=True)

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> list:
        """Ends the thread; the connections that wait, each as (socket, bytes it has sent)."""
        os.write(self._wake_write, b"x")
        self._thread.join()
        os.close(self._wake_write)
        os.close(self._wake_read)
        held, self._held = list(self._held.values()), {}
        return held

    def descriptors(self) -> list:
        """The descriptors that a forked child must let go of."""
        return [*self._held, self._listener.fileno()]

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        poll.register(self._listener, select.POLLIN)
        while True:
            for fd, events in poll.poll():
                if fd == self._wake_read:
                    return
                if fd == self._listener.fileno():
                    self._accept(poll)
                elif fd in self._held and events & select.POLLIN:
                    self._read(poll, fd)
                elif fd in self._held:
                    self._drop(poll, fd)  # Whoever asked whether it is ready has gone; such questions would add up.

    def _accept(self, poll) -> None:
        try:
            client, _address = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            select.select([], [], [], ACCEPT_PAUSE_SECONDS)
            return
        client.setblocking(False)
        self._held[client.fileno()] = (client, b"")
        poll.register(client, select.POLLIN)
        if len(self._held) >= HELD_MAX:
            poll.unregister(self._listener)

    def _read(self, poll, fd: int) -> None:
        client, seen = self._held[fd]
        try:
            data = client.recv(HEAD_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(poll, fd)
            return
        seen += data
        self._held[fd] = (client, seen)
        if b"\r\n\r\n" not in seen:
            if len(seen) > HEAD_BYTES_MAX:
                poll.unregister(fd)
            return
        head = question_in(seen)
        if head is None:
            poll.unregister(fd)  # Kept for the service.
            return
        if head.path == "/_slipway/ready":
            poll.modify(fd, CLOSED)  # Kept for the service, too, unless its connection is closed.
            return
        body = message_body("alive")
        try:
            client.send(answer_head(200, JSON, len(body), b"", True) + (b"" if head.method == "HEAD" else body))
        except OSError:
            pass
        self._drop(poll, fd)

    def _drop(self, poll, fd: int) -> None:
        full = len(self._held) >= HELD_MAX
        poll.unregister(fd)
        self._held.pop(fd)[0].close()
        if full:
            poll.register(self._listener, select.POLLIN)


def question_in(seen: bytes):
    """The head of a health or readiness question; None for every other request."""
    try:
        head = parse_head(seen[: seen.index(b"\r\n\r\n")])
    except HttpError:
        return None
    is_question = head.path in ("/_slipway/health", "/_slipway/ready") and head.method in ("GET", "HEAD")
    return head if is_question and not head.length and not head.chunked else None
