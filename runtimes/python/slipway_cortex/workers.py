"""The threads in which the app's plain functions run, so that the event loop stays free to answer.

Made lazily up to a bound and reused. They are daemon threads: a function that never ends cannot keep the process from
ending after its grace.
"""

from __future__ import annotations

import threading
from _queue import SimpleQueue  # Not `queue`: what the runtime loads would hide an app's own module of that name.


class Interrupted(BaseException):
    """Raised inside a plain function whose run is interrupted. No Exception, so that the app does not catch it."""


class Workers:
    """A pool of at most `threads_max` threads; jobs beyond that wait in order."""

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._jobs: SimpleQueue = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0  # Threads that wait for a job and have none promised.
        self._backlog = 0  # Jobs that no thread is promised to.

    def submit(self, job) -> None:
        """Has job() called in a thread; what it raises is dropped, so it must report its own failures."""
        with self._lock:
            spawn = False
            if self._idle:
                self._idle -= 1
            elif self._threads < self._threads_max:
                self._threads += 1
                spawn = True
            else:
                self._backlog += 1
        self._jobs.put(job)
        if spawn:
            threading.Thread(target=self._work, name="slipway-call", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                self._jobs.get()()
            except BaseException:
                pass  # An interruption that came a moment too late; jobs themselves do not raise.
            with self._lock:
                if self._backlog:
                    self._backlog -= 1
                else:
                    self._idle += 1


class Interruptible:
    """Marks the stretch of a thread in which one run's plain function may be interrupted (used by calls.py)."""

    __slots__ = ("_lock", "_thread", "_fired")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._fired = False

    def enter(self) -> None:
        """Called in the thread before the function."""
        with self._lock:
            self._thread = threading.get_ident()

    def leave(self) -> None:
        """Called in the thread after the function; an interruption that has not struck yet is taken back."""
        with self._lock:
            thread, self._thread = self._thread, None
            if self._fired and thread is not None:
                raise_in_thread(thread, None)

    def interrupt(self) -> bool:
        """Raises Interrupted in the function at its next Python instruction; False when it is not running.

        A call that waits inside C code (a sleep, a computation) sees it when it comes back to Python.
        """
        with self._lock:
            if self._thread is None or self._fired:
                return False
            self._fired = True
            return raise_in_thread(self._thread, Interrupted)


def raise_in_thread(thread: int, kind) -> bool:
    """Sets (kind) or clears (None) the exception that the thread of that ident raises next; False if it is gone."""
    import ctypes

    target = ctypes.py_object(kind) if kind is not None else None
    return ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), target) == 1
