"""The threads in which the app's plain functions run, so that the event loop stays free to answer.

Made lazily up to a bound and reused. They are daemon threads: a function that never ends cannot keep the process from
ending after its grace.
"""

from __future__ import annotations

import threading
from _queue import SimpleQueue  # Not `queue`: what the runtime loads would hide an app's own module of that name.

from .event_loops import allow_event_loop


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

    def submit(self, job, lost=None) -> None:
        """Has job() called in a thread.

        A job reports its own failures; lost(error) is called for what it raises all the same, which only an
        interruption does that strikes while the job is dealing with another error.
        """
        with self._lock:
            spawn = False
            if self._idle:
                self._idle -= 1
            elif self._threads < self._threads_max:
                self._threads += 1
                spawn = True
            else:
                self._backlog += 1
        self._jobs.put((job, lost))
        if spawn:
            threading.Thread(target=self._work, name="slipway-call", daemon=True).start()

    def _work(self) -> None:
        allow_event_loop()
        while True:
            job, lost = self._jobs.get()
            try:
                job()
            except BaseException as error:
                if lost is not None:
                    lost(error)
            del job, lost  # A thread that waits must not keep the last call's arguments alive.
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
        self._fired = False  # One interruption is all that a run gets.

    def enter(self) -> None:
        """Called in the thread before the function; raises Interrupted when that has come already."""
        with self._lock:
            if self._fired:
                raise Interrupted
            self._thread = threading.get_ident()

    def leave(self) -> None:
        """Called in the thread after the function, perhaps twice; raises Interrupted if that strikes on the way in.

        Once it has returned, no interruption strikes any more.
        """
        while True:
            try:
                with self._lock:
                    self._thread = None
                let_pending_strike()
                return
            except Interrupted:
                continue

    def interrupt(self) -> bool:
        """Raises Interrupted in the function at its next Python instruction, or when it begins; False the second time.

        A call that waits inside C code (a sleep, a computation) sees it when it comes back to Python.
        """
        with self._lock:
            if self._fired:
                return False
            self._fired = True
            return self._thread is None or raise_in_thread(self._thread, Interrupted)


def let_pending_strike() -> None:
    """Does nothing; but a thread looks for an exception that another has set when it enters a Python function."""


def raise_in_thread(thread: int, kind: type) -> bool:
    """Has the thread of that ident raise `kind` at its next Python instruction; False if it cannot be done."""
    try:
        import ctypes  # Slow to load, and seldom needed.
    except ImportError:
        return False  # A Python that was built without it.

    return ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind)) == 1
