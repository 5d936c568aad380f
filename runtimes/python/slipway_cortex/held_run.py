"""One held run: a call whose function goes on when its connection closes, and whose answer is kept.

Stands where other calls have their exchange (see exchange.py: the same methods, all on the event loop), passes the
answer on to the client that made the call for as long as that is there, and collects it.
"""

from __future__ import annotations

from .http_answer import EVENT_STREAM, JSON

HELD = b"slipway-held: 1\r\n"  # Marks the answer to an attach as the run's own.


class HeldRun:
    """A run that is carried out, or has ended; `table` keeps it.

    on_gone() and on_writable(writable) are as an exchange has them. on_gone() is only called when nobody wants the
    answer.
    """

    __slots__ = (
        "run_id",
        "held_id",
        "gone",
        "streaming",
        "on_gone",
        "on_writable",
        "ended_at",
        "delivered",
        "kept_bytes",
        "watchers",
        "_table",
        "_client",
        "_readers",
        "_freed",
        "_status",
        "_content_type",
        "_body",
        "_body_bytes",
    )

    def __init__(self, table, held_id: str, client) -> None:
        self.run_id = client.run_id
        self.held_id = held_id
        self.gone = False  # Ended, or wanted by nobody: what the call says from now on is dropped.
        self.streaming = False
        self.on_gone = None
        self.on_writable = None
        self.ended_at: float | None = None
        self.delivered = False  # The whole answer was written to somebody.
        self.kept_bytes = 0
        self.watchers: list = []  # Functions that are called once the run has ended.
        self._table = table
        self._client = client  # The exchange of the request that began the run, while it is there.
        self._readers: list = []  # Exchanges of those that wait for the end.
        self._freed = False
        self._status = 200
        self._content_type = JSON
        self._body: bytearray | bytes | None = b""  # None: longer than what is kept.
        self._body_bytes = 0
        client.on_gone = self._client_gone
        client.on_writable = self._client_writable

    # What the call uses.

    def answer(self, status: int, body: bytes, content_type: bytes = JSON, fields: bytes = b"") -> None:
        """The whole answer."""
        if self.gone:
            return
        self._status = status
        self._content_type = content_type
        self._body_bytes = len(body)
        self._body = body if self._table.reserve(self, len(body)) else None
        client = self._end()
        if client is not None:
            client.answer(status, body, content_type, fields)
        self._tell_readers()

    def refuse(self, body: bytes, fields: bytes = b"") -> None:
        """The replica does not carry out the call, or not to its end: nothing is kept of it."""
        if self.gone:
            return
        self.gone = True
        client, self._client = self._client, None
        readers, self._readers = self._readers, []
        self._table.drop(self)
        for exchange in readers if client is None else [client, *readers]:
            exchange.refuse(body, fields)

    def stream(self, data: bytes) -> None:
        """A piece of an event stream."""
        if self.gone:
            return
        if not self.streaming:
            self.streaming = True
            self._content_type = EVENT_STREAM
            self._body = bytearray()
        self._body_bytes += len(data)
        if self._body is not None:
            if self._table.reserve(self, len(data)):
                self._body += data
            else:
                self._body = None
                self._table.release(self)
        if self._client is not None:
            self._client.stream(data)

    def end_stream(self) -> None:
        """The end of an event stream, also of one that has had no piece."""
        if self.gone:
            return
        self._content_type = EVENT_STREAM
        client = self._end()
        if client is not None:
            client.end_stream()
        self._tell_readers()

    def cut_stream(self, status: int, body: bytes) -> None:
        """The end of an event stream that is not complete: the run's answer is `body`, as if it had failed at once."""
        if self.gone:
            return
        self._status = status
        self._content_type = JSON
        self._table.release(self)
        self._body_bytes = len(body)
        self._body = body if self._table.reserve(self, len(body)) else None
        client = self._end()
        if client is not None:
            # Which got another answer, and comes to ask for this one.
            self.delivered = False
            client.cut_stream(status, body)
        self._tell_readers()

    def is_writable(self) -> bool:
        """False while the client is there and does not take what was written."""
        return self._client is None or self._freed or self._client.is_writable()

    # What the table uses.

    def attach(self, exchange) -> None:
        """Answers on `exchange` with the run's answer, as soon as it is there."""
        if self.ended_at is not None:
            self._tell(exchange)
            return
        self._readers.append(exchange)
        exchange.on_gone = lambda: self._readers.remove(exchange)

    def is_awaited(self) -> bool:
        """Whether somebody waits for the answer at this moment."""
        return self._client is not None or bool(self._readers)

    def free(self) -> None:
        """From now on the call is not held up by a client that does not read."""
        self._freed = True
        if self.on_writable is not None:
            self.on_writable(True)

    def lose(self) -> None:
        """Nobody wants the answer any more: the call goes on as any other does whose client has gone."""
        if self.gone:
            return
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()

    def _client_gone(self) -> None:
        self._client = None
        if self.on_writable is not None:
            self.on_writable(True)

    def _client_writable(self, writable: bool) -> None:
        if self.on_writable is not None:
            self.on_writable(writable or self._freed)

    def _end(self):
        """Keeps the run as ended; returns the client that is there to be told, or None."""
        self.gone = True
        self.on_gone = None
        self.on_writable = None
        client, self._client = self._client, None
        self.delivered = client is not None
        self._table.ended(self)
        watchers, self.watchers = self.watchers, []
        for watcher in watchers:
            watcher()
        return client

    def _tell_readers(self) -> None:
        readers, self._readers = self._readers, []
        for exchange in readers:
            self._tell(exchange)

    def _tell(self, exchange) -> None:
        if self._body is None:
            exchange.answer(self._status, b"", self._content_type, HELD + b"slipway-body-bytes: %d\r\n" % self._body_bytes)
        else:
            exchange.answer(self._status, self._body, self._content_type, HELD)
        self.delivered = True
