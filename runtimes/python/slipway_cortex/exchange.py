"""One request's answer: plain or streamed, written to the connection that the request came on.

Made by `connection`, used on the event loop only. After the client has gone, every method does nothing.
"""

from __future__ import annotations

import json

from .event_stream import error_event
from .http_answer import EVENT_STREAM, JSON, answer_head, error_extension


class Exchange:
    """The writing side of one request.

    on_gone() is called once when the client goes before the answer is complete; on_writable(writable) each time
    the client stops (False) or resumes (True) taking what is streamed. Both are set by whoever makes the answer.
    """

    __slots__ = (
        "connection",
        "run_id",
        "head_only",
        "http11",
        "keep_alive",
        "gone",
        "streaming",
        "on_gone",
        "on_writable",
    )

    def __init__(self, connection, head, run_id: str | None) -> None:
        self.connection = connection
        self.run_id = run_id
        self.head_only = head.method == "HEAD"
        self.http11 = head.http11
        self.keep_alive = head.keep_alive
        self.gone = False
        self.streaming = False
        self.on_gone = None
        self.on_writable = None

    def answer(self, status: int, body: bytes, content_type: bytes = JSON, fields: bytes = b"") -> None:
        """Sends a whole answer. `fields` are further whole header lines."""
        if self.gone:
            return
        close = self._closes()
        head = answer_head(status, content_type, len(body), self._fields(fields, close), close)
        self.connection.write(head if self.head_only or status in (204, 304) else head + body)
        self._end(close)

    def refuse(self, body: bytes, fields: bytes = b"") -> None:
        """Sends 503: the replica's own answer to a call that it does not carry out, or not to its end."""
        self.answer(503, body, JSON, fields)

    def stream(self, data: bytes) -> None:
        """Sends a piece of an event stream; the first piece is preceded by the head. Empty pieces are left out."""
        if self.gone:
            return
        head = b""
        if not self.streaming:
            self.streaming = True
            head = self._stream_head()
        if data:
            data = self._chunk(data)
        if head or data:
            self.connection.write(head + data)

    def end_stream(self) -> None:
        """Ends an event stream properly, also one that has had no piece."""
        if self.gone:
            return
        head = b"" if self.streaming else self._stream_head()
        close = self._closes() or not self.http11
        tail = b"0\r\n\r\n" if self.http11 else b""
        self.connection.write(head + tail)
        self._end(close)

    def cut_stream(self, _status: int, body: bytes) -> None:
        """Ends an event stream so that the client sees that it is not complete: no last chunk, connection closed.

        `body` is what a call gets that fails before its stream begins; here its error is the last event. The chunk
        says it too, for whoever passes the bytes on without reading them.
        """
        if self.gone:
            return
        failure = json.loads(body)
        self.connection.write(self._chunk(error_event(failure), error_extension(failure["message"])))
        self._end(True)

    def is_writable(self) -> bool:
        """False while the client does not take what was written."""
        return self.gone or self.connection.writable

    def lose(self) -> None:
        """The client has gone. Called by the connection."""
        if self.gone:
            return
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()

    def _chunk(self, data: bytes, extension: bytes = b"") -> bytes:
        return b"%x%b\r\n%b\r\n" % (len(data), extension, data) if self.http11 else data

    def _closes(self) -> bool:
        return not self.keep_alive or self.connection.service.draining

    def _fields(self, fields: bytes, close: bool) -> bytes:
        if self.run_id is not None:
            fields += b"x-request-id: %b\r\n" % self.run_id.encode("ascii")
        if not close and not self.http11:
            fields += b"connection: keep-alive\r\n"
        return fields

    def _stream_head(self) -> bytes:
        close = self._closes() or not self.http11
        fields = self._fields(b"cache-control: no-cache\r\nx-accel-buffering: no\r\n", close)
        if self.http11:
            return answer_head(200, EVENT_STREAM, None, fields, close)
        return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n%bconnection: close\r\n\r\n" % (EVENT_STREAM, fields)

    def _end(self, close: bool) -> None:
        self.gone = True
        self.on_gone = None
        self.on_writable = None
        self.connection.finish(close)
