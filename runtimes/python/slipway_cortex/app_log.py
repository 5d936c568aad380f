"""Says of each line that Python code prints which run it belongs to.

Stands in for sys.stdout and sys.stderr when the platform asks for it (SLIPWAY_LOG_FRAMES=1), before the app is
imported, so that logging handlers made then go through it too. A line inside a run is written as
RS run-id US line LF (RS is 0x1e, US is 0x1f); a line outside of runs as it is. A line outside of runs that itself
starts with RS gets an empty run id, so that it cannot be taken for one of a run.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading

from .runs import current_run

PARTIAL_CHARACTERS_MAX = 64 * 1024
PARTIALS_MAX = 1024


class LogStream(io.TextIOBase):
    """A text stream over the file descriptor of `original`, in whole lines, atomic across threads."""

    def __init__(self, original) -> None:
        self._original = original
        self._fd = original.fileno()
        self._lock = threading.RLock()  # A signal's handler may print while its own thread is printing.
        self._partials: dict = {}  # (run id or None, thread) to the text since the last line break
        self._forked = False

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        run = current_run.get()
        key = (run, threading.get_ident())
        with self._lock:
            held = self._partials.pop(key, "") if self._partials else ""
            whole = held + text
            end = whole.rfind("\n") + 1
            if end < len(whole):
                self._hold(key, whole[end:])
            if end:
                self._send(framed(whole[:end], run))
        return len(text)

    def flush(self) -> None:
        """Lines are written at once; an unfinished one stays, except in a forked child, which has no end of run."""
        self._original.flush()
        if self._forked:
            self.end_all()

    def end_run(self, run: str) -> None:
        """Writes what the run has left without a line break."""
        if self._partials:
            with self._lock:
                for key in [key for key in self._partials if key[0] == run]:
                    self._send(framed(self._partials.pop(key) + "\n", run))

    def end_all(self) -> None:
        """Writes everything that is left without a line break."""
        with self._lock:
            while self._partials:
                (run, _thread), text = self._partials.popitem()
                self._send(framed(text + "\n", run))

    def after_fork(self) -> None:
        """In a child: the parent's threads, and whatever they hold or have begun, are not there."""
        self._lock = threading.RLock()
        self._partials = {}
        self._forked = True

    def _hold(self, key, text: str) -> None:
        if len(text) > PARTIAL_CHARACTERS_MAX:
            self._send(framed(text + "\n", key[0]))
            return
        if len(self._partials) >= PARTIALS_MAX:
            self.end_all()
        self._partials[key] = text

    def _send(self, text: str) -> None:
        """Writes to the descriptor; when nobody reads any more, the text is dropped, as an app must not die of that."""
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            self._original.flush()
            while data:
                try:
                    data = data[os.write(self._fd, data) :]
                except BlockingIOError:
                    select.select([], [self._fd], [], 1.0)
        except (OSError, ValueError):
            pass

    # The rest of what a standard stream has.

    encoding = "utf-8"
    errors = "backslashreplace"
    newlines = None
    closed = False

    @property
    def buffer(self):
        return self._original.buffer

    def fileno(self) -> int:
        return self._original.fileno()

    def isatty(self) -> bool:
        return self._original.isatty()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Does nothing: what the runtime says last goes here, too."""

    def detach(self):
        return self._original.detach()

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_original"), name)


def framed(lines: str, run: str | None) -> str:
    """`lines`, each ending with LF, as they are written for a run, or outside of runs (None)."""
    if run is not None:
        mark = "\x1e%s\x1f" % run
        return mark + lines[:-1].replace("\n", "\n" + mark) + "\n"
    if "\x1e" not in lines:
        return lines
    return "".join("\x1e\x1f%s\n" % line if line.startswith("\x1e") else line + "\n" for line in lines[:-1].split("\n"))


_streams: list = []


def install(frames: bool) -> None:
    """Makes the standard streams write each line at once; with `frames`, also say its run."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            stream.reconfigure(line_buffering=True)
            if frames:
                wrapped = LogStream(stream)
                _streams.append(wrapped)
                setattr(sys, name, wrapped)
        except (AttributeError, OSError, ValueError):
            continue  # No such stream, or not on a descriptor: it stays as it is.
    if _streams:
        os.register_at_fork(after_in_child=after_fork)


def end_run(run: str) -> None:
    """Called when a run has ended, before its caller gets the answer."""
    for stream in _streams:
        stream.end_run(run)


def end_all() -> None:
    """Called when the process ends."""
    for stream in _streams:
        stream.end_all()


def after_fork() -> None:
    """Called in each forked child."""
    for stream in _streams:
        stream.after_fork()
