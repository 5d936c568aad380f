"""Carries what a generator yields to the client, no faster than the client takes it.

stream_sync runs in a worker thread, stream_async on the loop. Both close the generator when the client goes.
"""

from __future__ import annotations

import asyncio
import threading

from .event_stream import EventFramer
from .failures import print_failure

WINDOW_BYTES = 16 * 1024  # What a thread may be ahead of the event loop.
ITEMS_PER_TURN = 16  # How often a generator that never waits lets the loop do other things.


class ThreadPipe:
    """Takes pieces from one worker thread to the exchange on the loop; `send` blocks while the client is slower."""

    __slots__ = ("_loop", "_exchange", "_lock", "_pieces", "_bytes", "_scheduled", "_writable")

    def __init__(self, loop, exchange) -> None:
        self._loop = loop
        self._exchange = exchange
        self._lock = threading.Lock()
        self._pieces: list = []
        self._bytes = 0
        self._scheduled = False
        self._writable = threading.Event()
        self._writable.set()

    def open(self) -> None:
        """On the loop: listens for the client going, pausing and resuming."""
        gone = self._exchange.on_gone

        def on_gone() -> None:
            self._writable.set()
            if gone is not None:
                gone()

        self._exchange.on_gone = on_gone
        self._exchange.on_writable = self._on_writable
        if self._exchange.gone:
            self._writable.set()

    def send(self, data: bytes) -> bool:
        """In the thread: False when the client has gone."""
        with self._lock:
            self._pieces.append(data)
            self._bytes += len(data)
            schedule = not self._scheduled
            self._scheduled = True
            if self._bytes >= WINDOW_BYTES and not self._exchange.gone:
                self._writable.clear()
        if schedule:
            self._loop.call_soon_threadsafe(self._flush)
        # Bounded by the connection, which is closed when its client takes nothing for too long.
        self._writable.wait()
        return not self._exchange.gone

    def _flush(self) -> None:
        with self._lock:
            data, self._pieces = self._pieces, []
            self._bytes = 0
            self._scheduled = False
        for piece in data:
            self._exchange.stream(piece)
        self._on_writable(self._exchange.is_writable())

    def _on_writable(self, writable: bool) -> None:
        if writable or self._exchange.gone:
            self._writable.set()
        else:
            self._writable.clear()


def stream_sync(call, iterator) -> None:
    """In a worker thread: sends every item of `iterator`; returns at its end or when the client has gone."""
    loop, exchange = call.service.loop, call.exchange
    pipe = ThreadPipe(loop, exchange)
    loop.call_soon_threadsafe(pipe.open)
    framer = EventFramer()
    for item in iterator:
        if not pipe.send(framer.frame(item)):
            close = getattr(iterator, "close", None)
            if callable(close):
                close_quietly(close)
            return


def close_quietly(close) -> None:
    """Closes a generator whose client has gone; what its clean-up raises goes into the log."""
    try:
        close()
    except Exception as error:
        print_failure(error)


async def stream_async(call, source) -> None:
    """On the loop: sends every item of the async iterator `source`; it is closed however this ends."""
    exchange = call.exchange
    loop = call.service.loop
    framer = EventFramer()
    resumed = None

    def on_writable(writable: bool) -> None:
        if writable and resumed is not None and not resumed.done():
            resumed.set_result(None)

    exchange.on_writable = on_writable
    iterator = source.__aiter__()
    count = 0
    try:
        async for item in iterator:
            exchange.stream(framer.frame(item))
            count += 1
            if not exchange.is_writable():
                resumed = loop.create_future()
                await resumed
            elif count % ITEMS_PER_TURN == 0:
                await asyncio.sleep(0)
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()
