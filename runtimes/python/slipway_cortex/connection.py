"""One client connection: takes bytes in, finds requests in them, and hands each to the service, one after the other.

Pipelined requests wait until the answer before them is written. Every wait for the client has a deadline, which the
service's sweep compares with the clock (`expire`), so that no timer per connection is needed.
"""

from __future__ import annotations

import asyncio

from .exchange import Exchange
from .http_answer import answer_head, JSON, message_body, REFUSED, STOPPING
from .http_chunks import ChunkedBody, body_too_large
from .http_head import HEAD_BYTES_MAX, Head, HttpError, parse_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .service import Verdict

PIPELINED_BYTES_MAX = 256 * 1024  # Read ahead of a running call; beyond it the client waits.
REFUSED_BODY_BYTES_MAX = 64 * 1024  # A refused request's body up to this size is read, and the connection kept.
LINGER_BYTES_MAX = 16 * 1024 * 1024
LINGER_SECONDS = 5.0  # A refused client may go on sending so long, so that it can read why.
BODY_BYTES_PER_SECOND_LEAST = 1024
WRITE_STALL_SECONDS = 300.0  # A client that takes nothing of its answer for so long has its connection closed.
WRITE_BUFFER_BYTES = 64 * 1024

_HEAD, _LENGTH, _CHUNKS, _BUSY, _LINGER, _CLOSED = range(6)


class Connection(asyncio.Protocol):
    """The protocol of one accepted socket. `service` decides (admit) and answers (begin); see service.py."""

    transport: asyncio.Transport
    _head: Head
    _verdict: Verdict  # What the service decided on the request whose body is being received.
    _chunks: ChunkedBody

    def __init__(self, service, seen: bytes = b"") -> None:
        self.service = service
        self.writable = True
        self.exchange: Exchange | None = None
        self._seen = seen
        self._buffer = bytearray()
        self._scanned = 0
        self._phase = _HEAD
        self._advancing = False
        self._served = False
        self._reading = True
        self._body = bytearray()
        self._left = 0
        self._received = 0
        self._since = 0.0
        self._unsent = 0

    # What the event loop calls.

    def connection_made(self, transport) -> None:
        self.transport = transport
        self._since = self.service.now()
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.service.connected(self)
        if self._seen:
            self.data_received(self._seen)
            self._seen = b""

    def connection_lost(self, error) -> None:
        self._phase = _CLOSED
        self.service.disconnected(self)
        if self.exchange is not None:
            self.exchange.lose()
        self._buffer = bytearray()
        self._body = bytearray()

    def data_received(self, data: bytes) -> None:
        if self._phase == _LINGER:
            self._received += len(data)
            if self._received > LINGER_BYTES_MAX:
                self.transport.abort()
            return
        if self._phase == _HEAD and not self._buffer:
            self._since = self.service.now()
        self._buffer += data
        self._received += len(data)
        if self._phase == _BUSY or not self.writable:
            if len(self._buffer) > PIPELINED_BYTES_MAX and self._reading:
                self._reading = False
                self.transport.pause_reading()
            return
        self._advance()

    def pause_writing(self) -> None:
        self.writable = False
        self._since = self.service.now()
        self._unsent = self.transport.get_write_buffer_size()
        if self.exchange is not None and self.exchange.on_writable is not None:
            self.exchange.on_writable(False)

    def resume_writing(self) -> None:
        self.writable = True
        if self.exchange is not None:
            if self.exchange.on_writable is not None:
                self.exchange.on_writable(True)
        elif self._phase in (_HEAD, _LENGTH, _CHUNKS):
            self._resume_reading()
            self._advance()

    # What the exchange and the service call.

    def write(self, data: bytes) -> None:
        """Sends bytes, or keeps them until the client takes them."""
        self.transport.write(data)

    def finish(self, close: bool) -> None:
        """The answer of the current request is written; goes on with the next request unless `close`."""
        self.exchange = None
        if close:
            self._close()
            return
        self._phase = _HEAD
        self._served = True
        self._since = self.service.now()
        self._received = len(self._buffer)
        self._resume_reading()
        if self._buffer and not self._advancing:
            self._advance()

    def close_if_idle(self) -> None:
        """Closes the connection when it is kept for later; a new one's first request may be on its way."""
        if self._phase == _HEAD and self._served and not self._buffer:
            self._close()

    def close_unanswered(self) -> None:
        """Closes the connection unless a request is being answered; one that is still arriving is refused."""
        if self._phase == _HEAD and not self._buffer:
            self._close()
        elif self._phase in (_HEAD, _LENGTH, _CHUNKS):
            self._send_and_linger(503, message_body(STOPPING), REFUSED, False)

    def expire(self, now: float) -> None:
        """Ends the connection when the client has let its deadline pass. Called by the sweep about each second."""
        waited = now - self._since
        if not self.writable:
            self._expire_stalled(now, waited)
        elif self._phase == _HEAD:
            if not self._buffer:
                if waited > self.service.settings.idle_seconds:
                    self._close()
            elif waited > self.service.settings.read_seconds:
                self._refuse(HttpError(408, "the request's head did not arrive in time"))
        elif self._phase in (_LENGTH, _CHUNKS):
            allowed = self.service.settings.read_seconds + self._received / BODY_BYTES_PER_SECOND_LEAST
            if waited > allowed:
                self._refuse(HttpError(408, "the request's body did not arrive in time"))
        elif self._phase == _LINGER and waited > LINGER_SECONDS:
            self.transport.abort()

    def _expire_stalled(self, now: float, waited: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._since = now
        elif waited > WRITE_STALL_SECONDS:
            self.transport.abort()
        self._unsent = unsent

    # Reading requests.

    def _resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.transport.resume_reading()

    def _advance(self) -> None:
        self._advancing = True
        try:
            while self.writable and self._step():
                pass
        except HttpError as error:
            self._refuse(error)
        finally:
            self._advancing = False

    def _step(self) -> bool:
        """Does the next thing that the buffer allows; False when more bytes, or an answer, must come first."""
        if self._phase == _HEAD:
            return self._take_head()
        if self._phase == _LENGTH:
            return self._take_body()
        if self._phase == _CHUNKS and self._chunks.feed(self._buffer):
            body = self._chunks.body
            del self._chunks  # Large; the connection may be kept for long.
            self._hand_over(body)
            return True
        return False

    def _take_head(self) -> bool:
        buffer = self._buffer
        while self._scanned == 0 and buffer[:2] == b"\r\n":
            del buffer[:2]  # Empty lines before a request line are allowed.
        if not buffer:
            return False
        end = buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
        if end > HEAD_BYTES_MAX or (end < 0 and len(buffer) > HEAD_BYTES_MAX):
            raise HttpError(431, "the request's head is larger than %d bytes" % HEAD_BYTES_MAX)
        if end < 0:
            self._check_line_ends()
            return False
        head = parse_head(bytes(buffer[:end]))
        del buffer[: end + 4]
        self._scanned = 0
        self._receive(head)
        return True

    def _check_line_ends(self) -> None:
        """Refuses a lone LF at once; its sender would wait for an answer to a head that never ends."""
        start = self._scanned
        if start and self._buffer[start - 1] == 13:
            start -= 1
        fresh = self._buffer[start:]
        if fresh.count(b"\n") != fresh.count(b"\r\n"):
            raise HttpError(400, "a line of the request's head does not end with CR LF")
        self._scanned = len(self._buffer)

    def _receive(self, head) -> None:
        """Begins to receive the body that follows `head`, or refuses the request before it is sent."""
        self._head = head
        self._verdict = self.service.admit(head)
        self._since = self.service.now()
        self._received = len(self._buffer)
        length = head.length or 0
        most = self.service.settings.body_bytes_max
        if length > most and self._verdict.status is None:
            self._verdict = self.service.refusal(413, body_too_large(most))
        refused = self._verdict.status is not None
        if refused and (length > REFUSED_BODY_BYTES_MAX or (head.expects_continue and (length or head.chunked))):
            self._answer_early()
        elif head.chunked:
            self._phase = _CHUNKS
            self._chunks = ChunkedBody(REFUSED_BODY_BYTES_MAX if refused else most)
            self._welcome()
        elif length:
            self._phase = _LENGTH
            self._left = length
            self._body = bytearray()
            self._welcome()
        else:
            self._hand_over(self._body)

    def _welcome(self) -> None:
        if self._head.expects_continue and not self._buffer:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _take_body(self) -> bool:
        taken = self._buffer[: self._left]
        if not taken:
            return False
        del self._buffer[: len(taken)]
        self._body += taken
        self._left -= len(taken)
        if self._left:
            return False
        self._hand_over(self._body)
        return True

    def _hand_over(self, body: bytearray) -> None:
        head, verdict = self._head, self._verdict
        self._phase = _BUSY
        self._body = bytearray()
        self.exchange = exchange = Exchange(self, head, verdict.run_id)
        if verdict.status is not None:
            exchange.answer(verdict.status, verdict.body, JSON, verdict.fields)
        else:
            self.service.begin(exchange, verdict, body)

    # Refusing and closing.

    def _answer_early(self) -> None:
        """Answers a request whose body is not going to be read."""
        verdict = self._verdict
        self._send_and_linger(verdict.status, verdict.body, verdict.fields, self._head.method == "HEAD")

    def _refuse(self, error: HttpError) -> None:
        self._send_and_linger(error.status, message_body(error.message), b"", False)

    def _send_and_linger(self, status: int, body: bytes, fields: bytes, head_only: bool) -> None:
        """Sends a last answer and reads on for a little, as closing at once could take the answer from the client."""
        head = answer_head(status, JSON, len(body), fields, True)
        self.transport.write(head if head_only else head + body)
        self._buffer = bytearray()
        self._body = bytearray()
        self._received = 0
        self._since = self.service.now()
        self._phase = _LINGER
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _close(self) -> None:
        self._phase = _CLOSED
        self.transport.close()
