"""Gives a plain function the event loop that it asks for, as the main thread of a plain Python does.

Plain functions run in threads, where asyncio's policy gives none: `asyncio.get_event_loop()` would raise, and so would
libraries that call it. From Python 3.14 on it raises in every thread, and here too.
"""

from __future__ import annotations

import asyncio
import sys
import threading

LAST = (3, 13)  # The last Python whose main thread gets a loop without having set one.

_thread = threading.local()


def allow_event_loop() -> None:
    """Lets the current thread have a loop as soon as it asks for one. Called when the app is imported."""
    _thread.may_have_loop = True
    if sys.version_info[:2] > LAST:
        return
    policy = asyncio.get_event_loop_policy()  # Perhaps the app's own, such as uvloop's.
    if hasattr(policy, "slipway_gives_loops"):
        return
    given = policy.get_event_loop

    def get_event_loop():
        if not getattr(_thread, "may_have_loop", False):
            return given()
        try:
            loop = given()
        except RuntimeError:
            loop = None
        if loop is None or loop.is_closed():  # One that an earlier call in this thread has closed, or asyncio.run().
            loop = policy.new_event_loop()
            policy.set_event_loop(loop)
        return loop

    try:
        policy.get_event_loop = get_event_loop
        policy.slipway_gives_loops = True
    except AttributeError:
        pass  # A policy without a place for them stays as it is.
