"""Answers the health and readiness questions while the main thread imports the app.

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
ANSWER = {"/_slipway/health": (200, "alive"), "/_slipway/ready": (503, "the app is starting")}


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
            for fd, _events in poll.poll():
                if fd == self._wake_read:
                    return
                if fd == self._listener.fileno():
                    self._accept(poll)
                elif fd in self._held:
                    self._read(poll, fd)

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
        reply = reply_to(seen)
        if reply is None:
            poll.unregister(fd)  # Kept for the service.
            return
        try:
            client.send(reply)
        except OSError:
            pass
        self._drop(poll, fd)

    def _drop(self, poll, fd: int) -> None:
        full = len(self._held) >= HELD_MAX
        poll.unregister(fd)
        self._held.pop(fd)[0].close()
        if full:
            poll.register(self._listener, select.POLLIN)


def reply_to(seen: bytes) -> bytes | None:
    """The answer to a health or readiness question; None for every other request."""
    try:
        head = parse_head(seen[: seen.index(b"\r\n\r\n")])
    except HttpError:
        return None
    if head.path not in ANSWER or head.method not in ("GET", "HEAD") or head.length or head.chunked:
        return None
    status, message = ANSWER[head.path]
    body = message_body(message)
    reply = answer_head(status, JSON, len(body), b"", True)
    return reply if head.method == "HEAD" else reply + body
