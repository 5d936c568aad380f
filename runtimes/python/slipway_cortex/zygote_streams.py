"""The standard streams of an app that is imported in a zygote.

Only a replica knows whether its lines are to say their runs, and app_log.py takes locks and starts threads, which do
not survive a fork. So the app finds streams that pass on what is written, in a replica to its log.
"""

from __future__ import annotations

import io
import sys

NAMES = ("stdout", "stderr")


class EarlyStream(io.TextIOBase):
    """Passes everything on to `target`, which a replica replaces."""

    def __init__(self, target) -> None:
        self.target = target

    def write(self, text: str) -> int:
        return self.target.write(text)

    def writelines(self, lines) -> None:
        for line in lines:
            self.target.write(line)

    def flush(self) -> None:
        self.target.flush()

    def fileno(self) -> int:
        return self.target.fileno()

    def isatty(self) -> bool:
        return self.target.isatty()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Does nothing, as the log of a replica."""

    def detach(self):
        return self.target.detach()

    @property
    def buffer(self):
        return self.target.buffer

    @property
    def encoding(self):
        return self.target.encoding

    @property
    def errors(self):
        return self.target.errors

    @property
    def newlines(self):
        return self.target.newlines

    closed = False

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "target"), name)


class EarlyStreams:
    """Those of this process."""

    def __init__(self) -> None:
        self._streams: dict = {}  # name to (stream, the one that it stands for)

    def install(self) -> None:
        """Puts them in place of sys.stdout and sys.stderr."""
        for name in NAMES:
            original = getattr(sys, name)
            try:
                original.reconfigure(line_buffering=True)
            except (AttributeError, OSError, ValueError):
                continue  # No such stream, or not on a descriptor: app_log.py leaves it as it is, too.
            self._streams[name] = (EarlyStream(original), original)
            setattr(sys, name, self._streams[name][0])

    def replace(self, install, frames: bool) -> None:
        """Calls install(frames), which may replace the streams, and passes on to those."""
        found = {name: getattr(sys, name) for name in self._streams}
        for name, (_stream, original) in self._streams.items():
            setattr(sys, name, original)
        install(frames)
        for name, (stream, _original) in self._streams.items():
            stream.target = getattr(sys, name)
            if found[name] is not stream:
                setattr(sys, name, found[name])  # One of the app's own, which writes to ours if at all.
