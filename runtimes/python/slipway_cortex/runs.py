"""The run that the current code belongs to: a context variable that follows calls, tasks and worker threads."""

from __future__ import annotations

import os
from contextvars import ContextVar

RUN_ID_CHARACTERS_MAX = 128
_VISIBLE = bytes(range(0x21, 0x7F))

current_run: ContextVar = ContextVar("slipway_run", default=None)
"""The id of the run whose code is running, or None outside of runs."""


def new_run_id() -> str:
    """A random version 4 UUID as text. Made here, because importing `uuid` costs milliseconds."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def is_run_id(value: str) -> bool:
    """Whether a run can have this id."""
    return 0 < len(value) <= RUN_ID_CHARACTERS_MAX and not value.encode("utf-8", "replace").translate(None, _VISIBLE)


def run_id_from(value: bytes | None) -> str:
    """The run id in an X-Request-Id header; a new one when it is absent, too long, or not visible ASCII."""
    if value and len(value) <= RUN_ID_CHARACTERS_MAX and not value.translate(None, _VISIBLE):
        return value.decode("ascii")
    return new_run_id()
