"""One call of one function, from its bound arguments to its answer.

Plain functions run in a worker thread, async ones on the event loop; what they return decides how it goes on: an
awaitable is awaited, an iterator is streamed, anything else becomes the JSON envelope.
"""

from __future__ import annotations

import asyncio
import json
from contextvars import copy_context
from time import perf_counter

from . import app_log
from .failures import describe, failure_body, print_failure, print_line, refusal_body
from .json_value import json_bytes, json_text
from .runs import current_run
from .streams import stream_async, stream_sync
from .workers import Interrupted, Interruptible

AWAITABLES_MAX = 8  # A function that returns an awaitable that returns an awaitable …


class Call:
    """A call that waits, runs, or is being answered. `service` is told when it has ended (`ended`)."""

    __slots__ = (
        "service",
        "exchange",
        "endpoint",
        "args",
        "kwargs",
        "given",
        "run_id",
        "openai",
        "task",
        "begun",
        "mark",
        "interrupted",
    )

    def __init__(self, service, exchange, target, args: list, kwargs: dict, given: list) -> None:
        self.service = service
        self.exchange = exchange
        self.endpoint = target.endpoint
        self.args = args
        self.kwargs = kwargs
        self.given = given
        self.run_id = exchange.run_id
        self.openai = target.openai
        self.task: asyncio.Task | None = None
        self.begun = False  # The task has come to its first line.
        self.mark = Interruptible()
        self.interrupted = False
        exchange.on_gone = self._client_gone

    def start(self) -> None:
        """Begins to run. Called on the loop, once there is room."""
        if self.endpoint.is_async:
            self.task = self.service.loop.create_task(self._run_async())
        else:
            context = copy_context()
            self.service.workers.submit(lambda: context.run(self._run_sync), self._fail_in_thread)

    def give_up(self) -> None:
        """The replica ends before the call does: the caller is told, and the call left behind."""
        if self.exchange.streaming:
            text = "the replica stopped before the stream ended"
            self.exchange.cut_stream(503, failure_body(self.run_id, "Stopped", text))
        else:
            self.exchange.refuse(failure_body(self.run_id, "Stopped", "the replica stopped before the call ended"))
        self._cancel_task()

    def interrupt(self) -> None:
        """Stops the function of a call that has started: an async one is cancelled, a plain one gets Interrupted."""
        self.interrupted = True
        if self.task is not None:
            self._cancel_task()
        else:
            self.mark.interrupt()

    def _client_gone(self) -> None:
        self.service.abandoned(self)
        self._cancel_task()

    def _cancel_task(self) -> None:
        if self.task is None:
            return
        if not self.begun:
            self.task.add_done_callback(self._never_begun)
        self.task.cancel()

    def _never_begun(self, _task) -> None:
        """A task that is cancelled before its first line runs none at all, also not those that end the call."""
        if not self.begun:
            self.begun = True
            self._fail_on_loop(asyncio.CancelledError())

    # Plain functions: in a worker thread, in the call's own context.

    def _run_sync(self) -> None:
        current_run.set(self.run_id)
        started = perf_counter()
        try:
            self.mark.enter()
            result = self.endpoint.function(*self.args, **self.kwargs)
            if is_awaitable(result) or is_async_iterator(result):
                self.mark.leave()
                context = copy_context()
                self._on_loop(context.run, self._adopt, result, started)
                return
            if is_iterator(result):
                stream_sync(self, result)
                self.mark.leave()
                self._on_loop(self._finish_stream)
                return
            self.mark.leave()
            elapsed = perf_counter() - started
            status, body = self._success(result, elapsed)
        except BaseException as error:  # Also SystemExit: sys.exit() in a function must not end the replica.
            self.mark.leave()
            self._fail_in_thread(error)
            return
        app_log.end_run(self.run_id)
        self._on_loop(self._finish, status, body)

    def _fail_in_thread(self, error: BaseException) -> None:
        """Answers with what the function raised; also called for an interruption that strikes while that is done."""
        status, body = self._failure(error)
        app_log.end_run(self.run_id)
        self._on_loop(self._finish, status, body)

    def _on_loop(self, function, *args) -> None:
        try:
            self.service.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass  # The loop is closed: the process is about to end, and the caller has been told.

    # Async functions, and what plain ones leave to the loop.

    async def _run_async(self) -> None:
        self.begun = True
        current_run.set(self.run_id)
        started = perf_counter()
        try:
            await self._settle(self.endpoint.function(*self.args, **self.kwargs), started)
        except BaseException as error:
            self._fail_on_loop(error)

    def _adopt(self, result, started: float) -> None:
        """Goes on, on the loop, with an awaitable or async iterator that a plain function returned."""
        self.task = self.service.loop.create_task(self._run_adopted(result, started))
        if self.exchange.gone or self.interrupted:
            self._cancel_task()

    async def _run_adopted(self, result, started: float) -> None:
        self.begun = True
        try:
            await self._settle(result, started)
        except BaseException as error:
            self._fail_on_loop(error)

    async def _settle(self, result, started: float) -> None:
        """Awaits, streams or answers `result`, and ends the call."""
        for _ in range(AWAITABLES_MAX):
            if not is_awaitable(result):
                break
            result = await result
        if is_async_iterator(result):
            await stream_async(self, result)
            self._end_log()
            self._finish_stream()
        elif is_iterator(result):
            self.task = None
            context = copy_context()
            self.service.workers.submit(lambda: context.run(self._stream_in_thread, result), self._fail_in_thread)
        else:
            status, body = self._success(result, perf_counter() - started)
            self._end_log()
            self._finish(status, body)

    def _stream_in_thread(self, iterator) -> None:
        try:
            self.mark.enter()
            stream_sync(self, iterator)
            self.mark.leave()
            app_log.end_run(self.run_id)
            self._on_loop(self._finish_stream)
        except BaseException as error:
            self.mark.leave()
            self._fail_in_thread(error)

    def _fail_on_loop(self, error: BaseException) -> None:
        if isinstance(error, (asyncio.CancelledError, GeneratorExit)) and self.exchange.gone:
            self._end_log()
            self._finish_stream()
            return
        status, body = self._failure(error)
        self._end_log()
        self._finish(status, body)

    def _end_log(self) -> None:
        app_log.end_run(self.run_id)

    # The answer.

    def _success(self, result, elapsed_seconds: float) -> tuple:
        """Status and body of a result. Raises Unserialisable."""
        text = json_text(result)
        status = 200
        if isinstance(result, dict):
            chosen = result.get("status_code")
            if isinstance(chosen, int) and not isinstance(chosen, bool) and 200 <= chosen <= 599:
                status = int(chosen)
        more = ""
        if self.openai and isinstance(result, dict):
            more = opened(result, text)
        if self.service.settings.log_calls:
            print_line("slipway: answered %d after %.1f ms" % (status, elapsed_seconds * 1000.0))
        head = '{"run_id":%s,"result":%s,"run_time_ms":%r%s}'
        return status, json_bytes(head % (json.dumps(self.run_id), text, elapsed_seconds * 1000.0, more))

    def _failure(self, error: BaseException) -> tuple:
        """Status and body of an exception, whose traceback goes into the app's log."""
        if self.endpoint.lenient and isinstance(error, TypeError):
            misfit = self.endpoint.misfit(self.given)
            text = str(error)
            if misfit is not None and ("() missing " in text or "() got an unexpected keyword" in text):
                return 422, refusal_body(self.run_id, "ParameterError", misfit)
        if self.interrupted and isinstance(error, (Interrupted, asyncio.CancelledError)):
            return 500, interrupted_body(self.run_id)
        print_failure(error)
        kind, message = describe(error)
        return 500, failure_body(self.run_id, kind, message)

    def _finish(self, status: int, body: bytes) -> None:
        """Answers and ends the call; a stream that has begun is broken off with an error event instead."""
        if self.exchange.streaming:
            self.exchange.cut_stream(status, body)
        else:
            self.exchange.answer(status, body)
        self.service.ended(self)

    def _finish_stream(self) -> None:
        self.exchange.end_stream()
        self.service.ended(self)


def interrupted_body(run_id: str) -> bytes:
    """The body of the answer to a call that was stopped."""
    return failure_body(run_id, "Interrupted", "the run was stopped")


def opened(result: dict, text: str) -> str:
    """The members of `result`, whose JSON is `text`, as further members of the envelope.

    So an OpenAI client, which reads `choices` at the top, and one that reads `result` are both served.
    """
    if not result:
        return ""
    if result.keys() & {"run_id", "result", "run_time_ms"}:
        rest = {key: value for key, value in json.loads(text).items() if key not in ("run_id", "result", "run_time_ms")}
        text = json_text(rest)
        return "," + text[1:-1] if rest else ""
    return "," + text[1:-1]


def is_awaitable(value) -> bool:
    """Whether `value` can be awaited."""
    return hasattr(type(value), "__await__")


def is_async_iterator(value) -> bool:
    """Whether `value` is iterated with `async for`."""
    return hasattr(type(value), "__aiter__")


def is_iterator(value) -> bool:
    """Whether `value` is an iterator (a generator, map, file …), as opposed to a container, which is a value."""
    return hasattr(type(value), "__next__")
