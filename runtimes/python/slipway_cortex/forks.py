"""Makes a forked child (multiprocessing, os.fork) let go of what is the server's.

Without this a child that outlives a call would keep the port and its clients' connections open, and a signal to the
child would be written to the parent's event loop.
"""

from __future__ import annotations

import os
import signal
import threading

from .app_import import stop_at_once, stop_starting


def let_go_after_fork(sources: list) -> None:
    """In every child from now on: closes the descriptors that each of `sources` returns, and resets the signals.

    `sources` is read in the child, so the caller may change what is in it.
    """

    masks = threading.local()

    def before_fork() -> None:
        # A signal that comes to the child before it is reset would be taken for the parent's; it waits instead.
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))

    def after_fork() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def after_fork_in_child() -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
            if is_servers(signal.getsignal(number)):
                signal.signal(number, handler)
        try:
            let_go()
        finally:
            after_fork()

    def let_go() -> None:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for source in list(sources):
            for fd in source():
                # Replaced, not closed: the objects that own the numbers would close somebody else's later.
                if fd >= 0:
                    os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)

    def is_servers(handler) -> bool:
        """Whether a handler is the runtime's, or what asyncio installs beside its own; else it is the app's."""
        return handler in (stop_starting, stop_at_once) or getattr(handler, "__name__", "") == "_sighandler_noop"

    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork_in_child)
