"""Says of each line that Python code prints which run it belongs to.

Stands in for sys.stdout and sys.stderr when the platform asks for it (SLIPWAY_LOG_FRAMES=1), before the app is
imported, so that logging handlers made then go through it too. A line inside a run is written as
RS run-id US line LF (RS is 0x1e, US is 0x1f); a line outside of runs as it is. A line outside of runs that itself
starts with RS gets an empty run id, so that it cannot be taken for one of a run.

A line that is not finished yet, such as a progress bar, is written as it stands once it has been flushed, at most every
SHOW_SECONDS, and again as a whole when it is finished and has changed. Of a line only what follows its last carriage
return counts.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
import time

from .runs import current_run

PARTIAL_CHARACTERS_MAX = 64 * 1024
PARTIALS_MAX = 1024
SHOW_SECONDS = 0.8  # What an app flushes is to be seen within a second.


class LogStream(io.TextIOBase):
    """A text stream over the file descriptor of `original`, in whole lines, atomic across threads."""

    def __init__(self, original) -> None:
        self._original = original
        self._fd = original.fileno()
        self._lock = threading.RLock()  # A signal's handler may print while its own thread is printing.
        self._partials: dict = {}  # (run id or None, thread) to the text since the last line break
        self._forget_shown()
        self._forked = False

    def _forget_shown(self) -> None:
        self._shown: dict = {}  # What was written of unfinished lines, by the keys of `_partials`.
        self._flushed: set = set()  # Keys of those that were flushed since.
        self._wake = threading.Event()
        self._shows = False  # The thread that writes them runs.

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        run = current_run.get()
        key = (run, threading.get_ident())
        with self._lock:
            held = self._partials.pop(key, "") if self._partials else ""
            shown = self._shown.pop(key, None) if self._shown else None
            whole = held + text
            end = whole.rfind("\n") + 1
            if end:
                first = whole.index("\n")
                begin = first + 1 if shown is not None and visible(whole[:first]) == shown else 0
                shown = None
                if begin < end:
                    self._send(framed(whole[begin:end], run))
            if end < len(whole):
                self._hold(key, whole[end:], shown)
                if "\r" in text:  # As the streams of Python flush themselves.
                    self._show_soon(key)
        return len(text)

    def flush(self) -> None:
        """Lines are written at once; an unfinished one soon, and at once in a forked child, which has no end of run."""
        self._original.flush()
        if self._forked:
            self.end_all()
        elif self._partials:
            with self._lock:
                self._show_soon((current_run.get(), threading.get_ident()))

    def show(self) -> None:
        """Writes the flushed unfinished lines as they stand, unless they were already."""
        with self._lock:
            for key in self._flushed:
                text = visible(self._partials.get(key, ""))
                if text and text != self._shown.get(key):
                    self._send(framed(text + "\n", key[0]))
                    self._shown[key] = text
            self._flushed.clear()

    def _show_soon(self, key) -> None:
        if key not in self._partials:
            return
        self._flushed.add(key)
        self._wake.set()
        if self._shows:
            return
        try:
            threading.Thread(target=self._keep_showing, name="slipway-log", daemon=True).start()
            self._shows = True
        except RuntimeError:
            pass  # No thread can be started any more: the line is written when it is finished.

    def _keep_showing(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            time.sleep(SHOW_SECONDS)
            self.show()

    def end_run(self, run: str) -> None:
        """Writes what the run has left without a line break."""
        if self._partials:
            with self._lock:
                for key in [key for key in self._partials if key[0] == run]:
                    self._end(key)

    def end_all(self) -> None:
        """Writes everything that is left without a line break."""
        with self._lock:
            for key in list(self._partials):
                self._end(key)

    def after_fork(self) -> None:
        """In a child: the parent's threads, and whatever they hold or have begun, are not there."""
        self._lock = threading.RLock()
        self._partials = {}
        self._forget_shown()
        self._forked = True

    def _hold(self, key, text: str, shown) -> None:
        text = text[len(text.rstrip("\r").rpartition("\r")[0]) :]
        if len(text) > PARTIAL_CHARACTERS_MAX:
            self._send(framed(text + "\n", key[0]))
            return
        if len(self._partials) >= PARTIALS_MAX:
            self.end_all()
        self._partials[key] = text
        if shown is not None:
            self._shown[key] = shown

    def _end(self, key) -> None:
        text, shown = self._partials.pop(key), self._shown.pop(key, None)
        if shown is None or visible(text) != shown:
            self._send(framed(text + "\n", key[0]))

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


def visible(line: str) -> str:
    """What a terminal shows of it: the text after the last carriage return."""
    return line.rstrip("\r").rpartition("\r")[2]


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
