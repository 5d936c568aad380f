"""Writes the heads of HTTP answers. Pure but for the clock behind the Date field, which is read once per second."""

from __future__ import annotations

import json
import time

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"

STOPPING = "the replica is stopping and takes no new calls"
# Of the error that a broken stream's last chunk names, encoded: the proxy takes extensions of up to 1,024 bytes.
ERROR_BYTES_MAX = 900
_TOKEN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._~")

# Of a 503 to a call that never began, so that another replica may get it.
REFUSED = b"retry-after: 1\r\nslipway-refused: 1\r\n"

_REASONS = {
    100: b"Continue",
    200: b"OK",
    201: b"Created",
    202: b"Accepted",
    204: b"No Content",
    301: b"Moved Permanently",
    302: b"Found",
    304: b"Not Modified",
    400: b"Bad Request",
    401: b"Unauthorized",
    402: b"Payment Required",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    409: b"Conflict",
    413: b"Content Too Large",
    417: b"Expectation Failed",
    422: b"Unprocessable Content",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
    505: b"HTTP Version Not Supported",
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_date = (0, b"")


def answer_head(status: int, content_type: bytes, length: int | None, fields: bytes, close: bool) -> bytes:
    """The head of an answer, with the empty line. `fields` are further whole lines, each with its CR LF.

    length None means chunked. For 204 and 304, which have no body, neither framing nor type is written.
    """
    if status in (204, 304):
        framing = b""
    elif length is None:
        framing = b"content-type: %b\r\ntransfer-encoding: chunked\r\n" % content_type
    else:
        framing = b"content-type: %b\r\ncontent-length: %d\r\n" % (content_type, length)
    return b"HTTP/1.1 %d %b\r\n%b%bdate: %b\r\n%b\r\n" % (
        status,
        _REASONS.get(status, b"Status"),
        framing,
        fields,
        http_date(),
        b"connection: close\r\n" if close else b"",
    )


def http_date() -> bytes:
    """Now, as the Date field has it; independent of the locale."""
    global _date
    now = int(time.time())
    if _date[0] != now:
        t = time.gmtime(now)
        text = "%s, %02d %s %04d %02d:%02d:%02d GMT" % (
            _DAYS[t.tm_wday],
            t.tm_mday,
            _MONTHS[t.tm_mon - 1],
            t.tm_year,
            t.tm_hour,
            t.tm_min,
            t.tm_sec,
        )
        _date = (now, text.encode("ascii"))
    return _date[1]


def error_extension(message: str) -> bytes:
    """The extension `;slipway-error=…` of a chunk (RFC 9112, 7.1.1): the text, percent-encoded, cut to a bounded length."""
    encoded = ""
    for character in message[:ERROR_BYTES_MAX]:
        for byte in character.encode("utf-8", "replace"):
            encoded += chr(byte) if chr(byte) in _TOKEN else "%%%02X" % byte
        if len(encoded) > ERROR_BYTES_MAX:
            break
    return b";slipway-error=" + encoded.encode("ascii")


def message_body(message: str, run_id: str | None = None) -> bytes:
    """The JSON body of a refusal: {"run_id"?, "message"}."""
    value = {"message": message} if run_id is None else {"run_id": run_id, "message": message}
    return json.dumps(value, separators=(",", ":")).encode("ascii")
