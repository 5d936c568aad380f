"""The state of a replica that serves: what is asked for, which calls run and wait, which connections are open.

All of it lives on the event loop's thread. `boot` makes it once the app is imported, and tells it when to drain.
"""

from __future__ import annotations

import json
from collections import deque

from .calls import Call
from .connection import Connection
from .endpoints import BindingError, Endpoint, Endpoints
from .failures import print_failure, refusal_body
from .held_runs import RUNS_PATH, HeldRuns
from .http_answer import message_body, REFUSED, STOPPING
from .http_head import HttpError, is_local_host
from .runs import run_id_from
from .workers import Workers

WAITING_MAX = 4096  # Calls that wait for others to end; the platform holds its own line before the replica.
PARSED_ON_LOOP_BYTES_MAX = 64 * 1024  # Larger bodies are parsed in a worker, so that the loop stays free.
SWEEP_SECONDS = 1.0
CLOSING_SECONDS = 5.0  # After the last call, clients get so long to take what was written.

# A web page can let a name of its own lead to this machine, and would then read answers like any page of its site.
NOT_LOCAL = "Host is %r, but only an IP address or localhost is answered here, such as http://127.0.0.1 with the port"

_SUFFIXES = ("chat/completions", "embedding", "embeddings")


class Verdict:
    """What is to become of a request, known from its head: an answer (status is not None), or a call of `endpoint`.

    Where `begin` is set, begin(exchange, verdict, body) takes the request once its body is there.
    """

    __slots__ = ("status", "body", "fields", "run_id", "endpoint", "openai", "content_type", "begin", "held_id")
    endpoint: Endpoint

    def __init__(self, status=None, body=b"", fields=b"", run_id=None) -> None:
        self.status = status
        self.body = body
        self.fields = fields
        self.run_id = run_id
        self.openai = False
        self.content_type = b""
        self.begin = None
        self.held_id = ""


class Service:
    """One replica. on_stopped() is called once it has drained, and `stopped` is then True."""

    def __init__(self, settings, loop, module, on_stopped) -> None:
        self.settings = settings
        self.loop = loop
        self.now = loop.time
        self.draining = False
        self.workers = Workers(settings.concurrency + 1)
        self.connections: set = set()
        self.held = HeldRuns(self)
        self._endpoints = Endpoints(module)
        self._running: set = set()
        self._waiting: deque = deque()
        self._sweeping = False
        self.stopped = False
        self._on_stopped = on_stopped
        self._closing = False
        self._drained = None  # The timer of `settle`.

    # Connections.

    def protocol(self, seen: bytes = b"") -> Connection:
        """A protocol for a new connection, of which `seen` was read already."""
        return Connection(self, seen)

    def connected(self, connection) -> None:
        """Counts a connection, whose deadlines are kept from now on."""
        self.connections.add(connection)
        if not self._sweeping:
            self._sweeping = True
            self.loop.call_later(SWEEP_SECONDS, self._sweep)

    def disconnected(self, connection) -> None:
        """Forgets a connection."""
        self.connections.discard(connection)
        if self._closing and not self.connections:
            self._stop()

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            connection.expire(now)
        self._sweeping = bool(self.connections)
        if self._sweeping:
            self.loop.call_later(SWEEP_SECONDS, self._sweep)

    # Requests.

    def admit(self, head) -> Verdict:
        """Decides on a request by its head. Raises nothing but HttpError."""
        path = head.path
        if self.settings.local_hosts and not is_local_host(head.host):
            return self.refusal(403, NOT_LOCAL % head.host.decode("latin-1")[:200])
        if path.startswith("/_slipway/"):
            return self._admit_own(head)
        run_id = run_id_from(head.request_id)
        parts = [part for part in path.split("/") if part]
        name = parts[0] if parts else ""
        suffix = parts[1:]
        if suffix[:1] == ["v1"]:
            del suffix[0]
        openai = "/".join(suffix) in _SUFFIXES
        endpoint = self._endpoints.find(name)
        if endpoint is None:
            return self.refusal(404, self._endpoints.unknown(name), run_id)
        if suffix and not openai or (len(parts) > 1 and not suffix):
            known = ", ".join("/%s/%s" % (name, known) for known in _SUFFIXES)
            text = "there is nothing at %s; the function answers at /%s, and at %s" % (path[:200], name, known)
            return self.refusal(404, text, run_id)
        if head.method != "POST":
            text = "%s is not supported: call a function with POST" % head.method[:20]
            return self.refusal(405, text, run_id, b"allow: POST\r\n")
        held_id = "%s.%s" % (run_id, head.held.decode("ascii")) if head.held else ""
        if self.draining and not (held_id and self.held.knows(held_id)):
            return self.refusal(503, STOPPING, run_id, REFUSED)
        verdict = Verdict(run_id=run_id)
        verdict.endpoint = endpoint
        verdict.openai = openai
        verdict.content_type = head.content_type
        if held_id:
            verdict.held_id = held_id
            verdict.begin = self.held.begin
        return verdict

    def _admit_own(self, head) -> Verdict:
        if head.path.startswith(RUNS_PATH):
            return self.held.admit(head)
        if head.path not in ("/_slipway/health", "/_slipway/ready"):
            return self.refusal(404, "there is /_slipway/health, /_slipway/ready, and %s with a run's id" % RUNS_PATH)
        if head.method not in ("GET", "HEAD"):
            return self.refusal(405, "use GET", None, b"allow: GET, HEAD\r\n")
        if head.path == "/_slipway/ready" and self.draining:
            return self.refusal(503, "the replica is stopping")
        return self.refusal(200, "ready" if head.path == "/_slipway/ready" else "alive")

    def refusal(self, status: int, message: str, run_id=None, fields: bytes = b"") -> Verdict:
        """An answer that carries only a message."""
        return Verdict(status, message_body(message), fields, run_id)

    def question(self, begin, run_id: str | None) -> Verdict:
        """A request that begin(exchange, verdict, body) takes."""
        verdict = Verdict(run_id=run_id)
        verdict.begin = begin
        return verdict

    def begin(self, exchange, verdict: Verdict, body) -> None:
        """Takes a request whose body is there."""
        if verdict.begin is None:
            self.call(exchange, verdict, body)
        else:
            verdict.begin(exchange, verdict, body)

    def call(self, exchange, verdict: Verdict, body) -> None:
        """Binds the body to the function and starts the call, or lines it up."""
        if len(body) <= PARSED_ON_LOOP_BYTES_MAX:
            self._bound(exchange, verdict, read_arguments(verdict, body))
            return

        def parse() -> None:
            outcome = read_arguments(verdict, body)
            try:
                self.loop.call_soon_threadsafe(self._bound, exchange, verdict, outcome)
            except RuntimeError:
                pass  # The loop is closed: the process is about to end.

        self.workers.submit(parse)

    def _bound(self, exchange, verdict: Verdict, outcome) -> None:
        if exchange.gone:
            return
        if isinstance(outcome, HttpError):
            kind = "ParameterError" if outcome.status == 422 else "RequestError"
            exchange.answer(outcome.status, refusal_body(verdict.run_id, kind, outcome.message))
        elif self.draining:
            exchange.refuse(message_body(STOPPING, verdict.run_id), REFUSED)
        elif len(self._running) < self.settings.concurrency:
            call = Call(self, exchange, verdict, *outcome)
            self._running.add(call)
            call.start()
        elif len(self._waiting) >= WAITING_MAX:
            text = "%d calls wait for this replica already" % WAITING_MAX
            exchange.refuse(message_body(text, verdict.run_id), REFUSED)
        else:
            self._waiting.append(Call(self, exchange, verdict, *outcome))

    # Calls.

    def ended(self, call: Call) -> None:
        """A call has ended: the next one that waits takes its place."""
        self._running.discard(call)
        while self._waiting and len(self._running) < self.settings.concurrency:
            following = self._waiting.popleft()
            self._running.add(following)
            following.start()
        if self.draining:
            self.settle()

    def interrupt(self, exchange) -> bool:
        """Stops the call that answers on `exchange`; False: none has started, and none will."""
        for call in self._waiting:
            if call.exchange is exchange:
                self._waiting.remove(call)
                return False
        for call in self._running:
            if call.exchange is exchange:
                call.interrupt()
                return True
        return False

    def abandoned(self, call: Call) -> None:
        """A call's client has gone: when it still waits, it never starts."""
        try:
            self._waiting.remove(call)
        except ValueError:
            pass

    # The end.

    def drain(self) -> None:
        """Takes no new calls, lets those that run or wait end within the grace, then calls on_stopped()."""
        if self.draining:
            return
        self.draining = True
        self.held.drain()
        for connection in list(self.connections):
            connection.close_if_idle()
        self.loop.call_later(self.settings.grace_seconds, self._give_up)
        self.settle()

    def settle(self) -> None:
        """While draining: ends when no call runs, and no answer is kept that somebody may still ask for."""
        if self._drained is not None:
            self._drained.cancel()
            self._drained = None
        if not self.draining or self._running or self._closing:
            return
        wait_seconds = self.held.wait_seconds(self.loop.time())
        if wait_seconds > 0:
            self._drained = self.loop.call_later(wait_seconds, self.settle)
        else:
            self._close_all()

    def _give_up(self) -> None:
        self.held.forgotten = True  # What now is told of runs that go on is not their end.
        waiting = list(self._waiting)
        self._waiting.clear()
        for call in list(self._running) + waiting:
            call.give_up()
        self._close_all()

    def _close_all(self) -> None:
        if self._closing:
            return
        self._closing = True
        for connection in list(self.connections):
            connection.close_unanswered()
        if self.connections:
            self.loop.call_later(min(CLOSING_SECONDS, self.settings.grace_seconds), self._stop)
        else:
            self._stop()

    def _stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self._on_stopped()


def read_arguments(verdict: Verdict, body):
    """(args, kwargs, given names) for a call, or an HttpError as a value when the body does not fit."""
    endpoint = verdict.endpoint
    try:
        value = parse_object(body, verdict.content_type)
        args, kwargs = endpoint.bind(value, verdict.run_id)
    except BindingError as error:
        return HttpError(422, str(error))
    except HttpError as error:
        return error
    except Exception as error:
        print_failure(error)
        return HttpError(500, "the arguments could not be read: %s" % type(error).__name__)
    return args, kwargs, list(value)


def parse_object(body, content_type: bytes) -> dict:
    """The JSON object in `body`; an empty body is an empty one. Raises HttpError 400 or 422."""
    if not body.strip():
        return {}
    try:
        value = _decoder.decode(body.decode("utf-8-sig"))
    except RecursionError:
        raise HttpError(400, "the body is nested too deeply") from None
    except ValueError as error:  # Also JSONDecodeError and UnicodeDecodeError.
        kind = content_type.decode("latin-1")[:100]
        hint = "" if not kind or "json" in kind else " (its content type is %s; send application/json)" % kind
        raise HttpError(400, "the body is not a JSON object: %s%s" % (str(error)[:200], hint)) from None
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}.get(
            type(value), "a number"
        )
        raise HttpError(422, "the body must be a JSON object whose keys are the function's parameters, not %s" % kind)
    return value


def refuse_constant(name: str):
    """NaN and Infinity are not JSON."""
    raise ValueError("%s is not allowed in JSON" % name)


_decoder = json.JSONDecoder(parse_constant=refuse_constant)
