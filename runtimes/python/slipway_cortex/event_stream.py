"""Frames what a generator yields as server-sent events. Pure.

Text that already is an event passes through; a lone token that merely looks like the start of one does not break
the stream: see `frame`.
"""

from __future__ import annotations

import json

from .json_value import json_bytes, json_text

_FIELDS = ("data:", "event:", "id:", "retry:")


class EventFramer:
    """The framing of one stream."""

    __slots__ = ("_speaks_events",)

    def __init__(self) -> None:
        self._speaks_events = False

    def frame(self, item) -> bytes:
        """The bytes for one yielded item. Raises Unserialisable.

        - bytes: as they are
        - text that starts with data:, event:, id: or retry: as it is, with the blank line that ends an event
          added when it does not end with a line break
        - text that starts with ":" is a comment when it ends with a blank line, and has a space after the colon or
          comes after an event of the kind above; else it is text, as a language model yields such tokens
        - other text: data: lines, one per line of it
        - anything else: its JSON in a data: line
        """
        if isinstance(item, (bytes, bytearray, memoryview)):
            return bytes(item)
        if not isinstance(item, str):
            return b"data: %b\n\n" % json_bytes(json_text(item, "chunk"))
        if item.startswith(_FIELDS):
            self._speaks_events = True
            return encode(item if item.endswith(("\n", "\r")) else item + "\n\n")
        if item.startswith(":") and item.endswith("\n\n") and (self._speaks_events or item[1] == " "):
            return encode(item)
        return encode("data: %s\n\n" % "\ndata: ".join(split_lines(item)))


def split_lines(text: str) -> list:
    """The lines of `text` as an event stream counts them: CR LF, LF and CR end one, and nothing else does."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def encode(text: str) -> bytes:
    """UTF-8; a lone surrogate, which it cannot hold, becomes a question mark."""
    return text.encode("utf-8", "replace")


def error_event(failure: dict) -> bytes:
    """The event that says that the stream is broken off: {"run_id", "error": {"type", "message"}}."""
    value = {"run_id": failure["run_id"], "error": failure["error"]}
    return b"event: error\ndata: %b\n\n" % json.dumps(value, separators=(",", ":")).encode("ascii")
