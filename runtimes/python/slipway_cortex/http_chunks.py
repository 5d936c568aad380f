"""Decodes a chunked request body (RFC 9112 section 7.1), strictly. Pure: bytes in, bytes or an HttpError out."""

from __future__ import annotations

from .http_head import HttpError

SIZE_LINE_BYTES_MAX = 1024
TRAILER_BYTES_MAX = 16 * 1024
EXTENSION_BYTES_MAX = 64 * 1024  # In all: chunk extensions carry nothing here, so they may not cost either.

_HEX = b"0123456789abcdefABCDEF"
_EXTENSION = b"\t " + bytes(range(0x21, 0x7F))
_SIZE, _DATA, _DATA_END, _TRAILER = range(4)


class ChunkedBody:
    """One body being received: `feed` it until it says that the body is complete, then take `body`."""

    __slots__ = ("body", "_bytes_max", "_state", "_left", "_extension_bytes", "_trailer_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.body = bytearray()
        self._bytes_max = bytes_max
        self._state = _SIZE
        self._left = 0
        self._extension_bytes = 0
        self._trailer_bytes = 0

    def feed(self, buffer: bytearray) -> bool:
        """Takes what it can from the front of `buffer`; True when the body has ended. Raises HttpError 400 or 413."""
        while True:
            if self._state == _DATA:
                if not buffer:
                    return False
                self._take_data(buffer)
            elif self._state == _DATA_END:
                if len(buffer) < 2:
                    if buffer and buffer[0] != 13:
                        raise HttpError(400, "a chunk is longer than its size says")
                    return False
                if buffer[:2] != b"\r\n":
                    raise HttpError(400, "a chunk is longer than its size says")
                del buffer[:2]
                self._state = _SIZE
            else:
                line = self._take_line(buffer)
                if line is None:
                    return False
                if self._state == _SIZE:
                    self._read_size(line)
                elif not line:
                    return True

    def _take_data(self, buffer: bytearray) -> None:
        take = min(self._left, len(buffer))
        self.body += buffer[:take]
        del buffer[:take]
        self._left -= take
        if not self._left:
            self._state = _DATA_END

    def _take_line(self, buffer: bytearray) -> bytes | None:
        """The next line without its CR LF, or None when it is not all there."""
        most = SIZE_LINE_BYTES_MAX if self._state == _SIZE else TRAILER_BYTES_MAX - self._trailer_bytes
        end = buffer.find(b"\n", 0, most + 2)
        if end < 0:
            if len(buffer) > most + 1:
                raise HttpError(400, "a line between the chunks of the body is too long")
            return None
        line = bytes(buffer[: end + 1])
        if not line.endswith(b"\r\n") or line.count(b"\r") != 1:
            raise HttpError(400, "a line between the chunks of the body does not end with CR LF")
        del buffer[: end + 1]
        if self._state == _TRAILER:
            self._trailer_bytes += len(line)
            if line != b"\r\n" and (b":" not in line or line[:1] in b" \t:"):
                raise HttpError(400, "a trailer field of the body has a bad name")
        return line[:-2]

    def _read_size(self, line: bytes) -> None:
        digits, mark, extension = line.partition(b";")
        if not digits or len(digits) > 15 or digits.translate(None, _HEX):
            raise HttpError(400, "a chunk's size is not a hexadecimal number")
        if extension.translate(None, _EXTENSION):
            raise HttpError(400, "a chunk's extension holds a control character")
        self._extension_bytes += len(mark) + len(extension)
        if self._extension_bytes > EXTENSION_BYTES_MAX:
            raise HttpError(400, "the body's chunk extensions are too long")
        self._left = int(digits, 16)
        if len(self.body) + self._left > self._bytes_max:
            raise HttpError(413, body_too_large(self._bytes_max))
        self._state = _DATA if self._left else _TRAILER


def body_too_large(bytes_max: int) -> str:
    """The text of a 413."""
    return "the request's body is larger than %d bytes" % bytes_max
