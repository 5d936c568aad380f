"""What becomes of an exception in the app: a traceback in the app's log, and a body for the caller."""

from __future__ import annotations

import json
import os
import sys

MESSAGE_CHARACTERS_MAX = 8 * 1024

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def describe(error: BaseException) -> tuple:
    """The type's name and the message of `error`, the latter bounded. Never raises."""
    try:
        message = str(error)
    except Exception as second:
        message = "<its message cannot be shown: %s>" % type(second).__name__
    if len(message) > MESSAGE_CHARACTERS_MAX:
        message = message[:MESSAGE_CHARACTERS_MAX] + "…"
    return type(error).__name__, message


def failure_body(run_id: str, kind: str, message: str) -> bytes:
    """{"run_id", "message": "<Type>: <message>", "error": {"type", "message"}} as JSON."""
    whole = "%s: %s" % (kind, message) if message else kind
    value = {"run_id": run_id, "message": whole, "error": {"type": kind, "message": message}}
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def refusal_body(run_id: str, kind: str, message: str) -> bytes:
    """The same shape for a call that never began, whose message stands for itself."""
    value = {"run_id": run_id, "message": message, "error": {"type": kind, "message": message}}
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def print_line(text: str) -> None:
    """Writes a line to sys.stderr. Never raises."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except Exception:
        pass  # A log that cannot be written must not take the call's answer with it.


def print_failure(error: BaseException) -> None:
    """Writes the traceback to sys.stderr, without the runtime's own frames before those of the app. Never raises."""
    import traceback  # Loaded by asyncio already; not needed until something fails.

    try:
        error = error.with_traceback(app_frames(error.__traceback__))
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        text = "%s: %s\n" % describe(error)
    print_line(text.rstrip("\n"))


def app_frames(trace):
    """`trace` from the first frame on that is not the runtime's; None when it ends in the runtime itself."""
    own = False
    first = None
    while trace is not None:
        own = is_own(trace.tb_frame.f_code.co_filename)
        if not own and first is None:
            first = trace
        trace = trace.tb_next
    return None if own else first


def is_own(filename: str) -> bool:
    """Whether a code's file belongs to the runtime or to the interpreter's import machinery."""
    return filename.startswith((_HERE, "<frozen importlib"))
