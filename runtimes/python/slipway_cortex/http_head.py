"""Reads the head of an HTTP/1.x request, strictly by RFC 9112: what two parsers could read differently is refused.

Pure: bytes in, a Head or an HttpError out. Called by `connection`, and by `starting` while the app is imported.
"""

from __future__ import annotations

import json

HEAD_BYTES_MAX = 64 * 1024
FIELDS_MAX = 256  # Far above what any client or chain of proxies sends.
START_DIGITS_MAX = 3  # Of the number in Slipway-Held.

_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VISIBLE = bytes(range(0x21, 0x7F))
_FIELD_VALUE = b"\t " + _VISIBLE + bytes(range(0x80, 0x100))
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"


class HttpError(Exception):
    """A request that is refused: `status` and a text that says why. The connection is closed after it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Head:
    """The parts of a request's head that the runtime uses; `length` is None when no Content-Length was given."""

    __slots__ = (
        "method",
        "path",
        "host",
        "http11",
        "keep_alive",
        "length",
        "chunked",
        "expects_continue",
        "request_id",
        "content_type",
        "held",
    )
    method: str
    path: str
    host: bytes  # The Host field; empty where an HTTP/1.0 request has none.
    http11: bool
    keep_alive: bool
    length: int | None
    chunked: bool
    expects_continue: bool
    request_id: bytes | None
    content_type: bytes
    held: bytes  # `Slipway-Held: 1`: the answer of this start is kept when the connection closes; empty: it is not.


def parse_head(data: bytes) -> Head:
    """The head in `data`: everything before the empty line, without the CR LF CR LF. Raises HttpError."""
    lines = data.split(b"\r\n")
    breaks = len(lines) - 1
    if data.count(b"\n") != breaks or data.count(b"\r") != breaks:
        raise HttpError(400, "a line of the request's head does not end with CR LF")
    if breaks > FIELDS_MAX:
        raise HttpError(431, "the request has more than %d header fields" % FIELDS_MAX)
    head = Head()
    read_request_line(head, lines[0])
    read_fields(head, collect_fields(lines))
    return head


def read_request_line(head: Head, line: bytes) -> None:
    """Sets method, path and http11 from the first line."""
    parts = line.split(b" ")
    if len(parts) != 3:
        raise HttpError(400, "the request line is not 'method target version'")
    method, target, version = parts
    if not method or method.translate(None, _TOKEN):
        raise HttpError(400, "the request's method is not a token")
    if not target or target.translate(None, _VISIBLE):
        raise HttpError(400, "the request's target holds characters that must be percent-encoded")
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        known = len(version) == 8 and version.startswith(b"HTTP/") and version[6:7] == b"."
        raise HttpError(505 if known else 400, "the HTTP version is not supported; use HTTP/1.1")
    head.method = method.decode("ascii")
    head.http11 = version == b"HTTP/1.1"
    head.path = path_of(target, head.method)


def path_of(target: bytes, method: str) -> str:
    """The decoded path of a request target, without its query."""
    if not target.startswith(b"/"):
        scheme, mark, rest = target.partition(b"://")
        if mark and scheme.lower() in (b"http", b"https"):
            slash = rest.find(b"/")
            target = rest[slash:] if slash >= 0 else b"/"
        elif target == b"*" and method == "OPTIONS":
            return "*"
        else:
            raise HttpError(400, "the request's target must be a path")
    path = target.partition(b"?")[0]
    if b"%" in path:
        path = percent_decode(path)
    return path.decode("utf-8", "replace")


def percent_decode(path: bytes) -> bytes:
    """`path` with each %XX replaced by its byte. Raises HttpError for a % without two hexadecimal digits."""
    first, *rest = path.split(b"%")
    parts = [first]
    for piece in rest:
        if len(piece) < 2 or piece[:2].translate(None, _HEX):
            raise HttpError(400, "the request's path has a % that two hexadecimal digits do not follow")
        parts.append(bytes((int(piece[:2], 16),)) + piece[2:])
    return b"".join(parts)


def collect_fields(lines: list) -> dict:
    """The header fields after the request line: lower-case name to the list of its values."""
    fields: dict = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name.translate(None, _TOKEN):
            folded = line[:1] in (b" ", b"\t")
            raise HttpError(400, "a header field is folded over lines" if folded else "a header field has a bad name")
        value = value.strip(b" \t")
        if value.translate(None, _FIELD_VALUE):
            raise HttpError(400, "a header field holds a control character")
        name = name.lower()
        if name in fields:
            fields[name].append(value)
        else:
            fields[name] = [value]
    return fields


def read_fields(head: Head, fields: dict) -> None:
    """Sets what the header fields say: framing, connection, expectation, ids."""
    hosts = fields.get(b"host", ())
    if len(hosts) > 1 or (head.http11 and not hosts):
        raise HttpError(400, "the request must have exactly one Host field")
    head.host = hosts[0] if hosts else b""
    read_framing(head, fields)
    options = b",".join(fields[b"connection"]).lower() if b"connection" in fields else b""
    tokens = [token.strip(b" \t") for token in options.split(b",")]
    head.keep_alive = b"close" not in tokens if head.http11 else b"keep-alive" in tokens
    head.expects_continue = False
    if b"expect" in fields and head.http11:
        if len(fields[b"expect"]) != 1 or fields[b"expect"][0].lower() != b"100-continue":
            raise HttpError(417, "the only expectation that can be met is 100-continue")
        head.expects_continue = True
    ids = fields.get(b"x-request-id")
    head.request_id = ids[0] if ids and len(ids) == 1 else None
    head.content_type = fields[b"content-type"][0] if b"content-type" in fields else b""
    head.held = b""
    if b"slipway-held" in fields:
        starts = fields[b"slipway-held"]
        if len(starts) == 1 and len(starts[0]) <= START_DIGITS_MAX and starts[0].isdigit():
            head.held = starts[0]


def is_local_host(host: bytes) -> bool:
    """Whether a Host field has an IP address, localhost or a name below it; none of them can be a stranger's name."""
    if host.startswith(b"["):
        address, end, rest = host[1:].partition(b"]")
        is_address = b":" in address and not address.translate(None, _HEX + b":.")
        return bool(end) and is_address and rest[:1] in (b"", b":")
    name = host.partition(b":")[0].lower()
    if name == b"localhost" or name.endswith(b".localhost"):
        return True
    parts = name.split(b".")
    return len(parts) == 4 and all(part.isdigit() and len(part) < 4 and int(part) < 256 for part in parts)


def read_framing(head: Head, fields: dict) -> None:
    """Sets length and chunked. Any doubt about where the body ends is an error: it is how requests are smuggled."""
    lengths = fields.get(b"content-length")
    codings = fields.get(b"transfer-encoding")
    head.length = None
    head.chunked = False
    if codings is not None:
        if lengths is not None:
            raise HttpError(400, "the request has both Content-Length and Transfer-Encoding")
        if not head.http11:
            raise HttpError(400, "an HTTP/1.0 request cannot have a Transfer-Encoding")
        if len(codings) != 1 or codings[0].lower() != b"chunked":
            chunked_last = codings[-1].lower().endswith(b"chunked") and len(codings) == 1
            raise HttpError(501 if chunked_last else 400, "the only Transfer-Encoding that is understood is 'chunked'")
        head.chunked = True
    elif lengths is not None:
        if len(lengths) != 1 or not lengths[0] or lengths[0].translate(None, _DIGITS) or len(lengths[0]) > 18:
            raise HttpError(400, "the Content-Length must be one whole number")
        head.length = int(lengths[0])
    if b"content-encoding" in fields and (head.chunked or head.length):
        refuse_coding(b", ".join(fields[b"content-encoding"]))


def refuse_coding(coding: bytes) -> None:
    """Functions read JSON, which nobody decodes. The platform says the same before a call gets here."""
    if coding.strip().lower() == b"identity":
        return
    shown = json.dumps(coding.decode("latin-1")[:64])
    how = "send it uncompressed, without Content-Encoding."
    raise HttpError(415, f"The body has Content-Encoding {shown}, but functions take bodies only as they are: {how}")
