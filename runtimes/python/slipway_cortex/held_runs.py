"""The held runs of a replica, and the platform's requests about them: attach, acknowledge, cancel.

Made by `service`, used on the event loop only. Each is known by its run's id and the number of the start,
`<run id>.<start>`: a run that is started again must not get the answer of the start before. What is kept is bounded;
when there is no room, the run that ended first is forgotten first, and `forgotten` is True for ever.
"""

from __future__ import annotations

import json
from collections import OrderedDict

from .calls import interrupted_body
from .held_run import HeldRun
from .http_answer import message_body
from .runs import is_run_id

RUNS_PATH = "/_slipway/runs/"
ENDED_RUNS_MAX = 1000
KEPT_BYTES_MAX = 64 * 1024 * 1024  # Of the bodies of all runs, also of those that are still being collected.
RUN_BYTES_MAX = 32 * 1024 * 1024  # Of one body; so one run does not drive out all others.
ACKNOWLEDGEMENT_BYTES_MAX = 64 * 1024
STOP_SECONDS = 5.0  # A cancel waits so long for the function to end.
WITHDRAWN_MAX = 1000
WITHDRAWN_SECONDS = 5.0  # A cancel may overtake the call that it is meant for, which comes on another connection.
# A replica that drains keeps an answer for so long that nobody has got: a platform that is started anew asks for it
# once the lease of the old one has ended.
UNFETCHED_SECONDS = 60.0
# And one that was sent: the platform writes it down, and then acknowledges it.
UNACKNOWLEDGED_SECONDS = 5.0


class HeldRuns:
    """The held runs that are known. `service` carries out their calls."""

    def __init__(self, service) -> None:
        self.forgotten = False  # An answer was dropped before it was acknowledged.
        self._service = service
        self._runs: dict = {}  # held id to HeldRun: those that run and those that have ended
        self._ended: OrderedDict = OrderedDict()  # The latter alone, in the order of their ends.
        self._kept_bytes = 0
        self._withdrawn: OrderedDict = OrderedDict()  # Ids that were cancelled while not known, to the time of it.
        self._draining_since = 0.0

    # Requests.

    def knows(self, held_id: str) -> bool:
        """Whether the run is carried out or its answer kept."""
        return held_id in self._runs

    def admit(self, head):
        """The verdict on a request below RUNS_PATH, whose `run_id` is the id of a held run."""
        service = self._service
        name = head.path[len(RUNS_PATH) :]
        if name == "acknowledge" and head.method == "POST":
            if head.length is None:
                return service.refusal(411, "send the list of run ids with a Content-Length")
            if head.length > ACKNOWLEDGEMENT_BYTES_MAX:
                return service.refusal(413, "send at most %d bytes of run ids" % ACKNOWLEDGEMENT_BYTES_MAX)
            return service.question(self._acknowledge, None)
        if head.method not in ("GET", "DELETE"):
            return service.refusal(405, "use GET or DELETE", None, b"allow: GET, DELETE\r\n")
        if head.length or head.chunked:
            return service.refusal(400, "this request has no body")
        if not is_run_id(name):
            return service.refusal(404, "that is not a run's id")
        return service.question(self._attach if head.method == "GET" else self._cancel, name)

    def begin(self, exchange, verdict, body) -> None:
        """Begins a held run; one that is known already is not begun again, but attached to."""
        held_id = verdict.held_id
        run = self._runs.get(held_id)
        if run is not None:
            run.attach(exchange)
            self._service.settle()
        elif self._was_withdrawn(held_id):
            exchange.answer(500, interrupted_body(verdict.run_id))
        else:
            run = self._runs[held_id] = HeldRun(self, held_id, exchange)
            self._service.call(run, verdict, body)

    def _attach(self, exchange, verdict, _body) -> None:
        run = self._runs.get(verdict.run_id)
        if run is None:
            self._answer_unknown(exchange)
            return
        run.attach(exchange)
        self._service.settle()

    def _acknowledge(self, exchange, _verdict, body) -> None:
        try:
            held_ids = json.loads(bytes(body))
        except (ValueError, RecursionError):
            held_ids = None
        if not isinstance(held_ids, list) or not all(isinstance(held_id, str) for held_id in held_ids):
            exchange.answer(400, message_body("the body must be a JSON list of ids of held runs"))
            return
        for held_id in held_ids:
            run = self._runs.get(held_id)
            if run is not None and (run.ended_at is not None or not run.is_awaited()):
                self.drop(run)
                run.lose()
        exchange.answer(200, message_body("acknowledged"))
        self._service.settle()

    def _cancel(self, exchange, verdict, _body) -> None:
        run = self._runs.get(verdict.run_id)
        if run is None:
            self._withdraw(verdict.run_id)
            self._answer_unknown(exchange)
            return
        if run.ended_at is None:
            run.free()
            if not self._service.interrupt(run):
                run.answer(500, interrupted_body(run.run_id))
        if run.ended_at is not None:
            self._tell_end(run, exchange)
        else:
            self._tell_end_later(run, exchange)

    def _tell_end(self, run: HeldRun, exchange) -> None:
        exchange.answer(200, b'{"stopped": true}')
        run.delivered = True  # Who has cancelled a run does not need its answer to know what became of it.
        self._service.settle()

    def _tell_end_later(self, run: HeldRun, exchange) -> None:
        late = self._service.loop.call_later(STOP_SECONDS, exchange.answer, 200, b'{"stopped": false}')

        def ended() -> None:
            late.cancel()
            self._tell_end(run, exchange)

        run.watchers.append(ended)
        exchange.on_gone = late.cancel

    def _answer_unknown(self, exchange) -> None:
        value = {"message": "the replica does not know this run", "has_forgotten": self.forgotten}
        exchange.answer(404, json.dumps(value).encode("ascii"))

    def _withdraw(self, held_id: str) -> None:
        self._withdrawn[held_id] = self._service.now()
        if len(self._withdrawn) > WITHDRAWN_MAX:
            self._withdrawn.popitem(last=False)

    def _was_withdrawn(self, held_id: str) -> bool:
        at = self._withdrawn.pop(held_id, None) if self._withdrawn else None
        return at is not None and self._service.now() - at <= WITHDRAWN_SECONDS

    # What the runs tell.

    def ended(self, run: HeldRun) -> None:
        """The run's answer is there."""
        run.ended_at = self._service.now()
        self._ended[run.held_id] = run
        while len(self._ended) > ENDED_RUNS_MAX:
            self._forget_first()

    def drop(self, run: HeldRun) -> None:
        """The run is not known any more."""
        if self._runs.get(run.held_id) is run:
            del self._runs[run.held_id]
            self._ended.pop(run.held_id, None)
            self.release(run)

    def reserve(self, run: HeldRun, count: int) -> bool:
        """Whether `count` more bytes of the run's body can be kept, for which others may have to be forgotten."""
        if run.kept_bytes + count > RUN_BYTES_MAX:
            return False
        while self._kept_bytes + count > KEPT_BYTES_MAX and self._ended:
            self._forget_first()
        if self._kept_bytes + count > KEPT_BYTES_MAX:
            return False
        self._kept_bytes += count
        run.kept_bytes += count
        return True

    def release(self, run: HeldRun) -> None:
        """Nothing of the run's body is kept any more."""
        self._kept_bytes -= run.kept_bytes
        run.kept_bytes = 0

    def _forget_first(self) -> None:
        self.forgotten = True
        self.drop(next(iter(self._ended.values())))

    # The end.

    def drain(self) -> None:
        """The replica is to end."""
        self._draining_since = self._service.now()

    def wait_seconds(self, now: float) -> float:
        """How long a replica that drains still waits for answers to be fetched and acknowledged; 0 or less: not at all."""
        end = now
        for run in self._ended.values():
            seconds = UNACKNOWLEDGED_SECONDS if run.delivered else UNFETCHED_SECONDS
            end = max(end, max(run.ended_at, self._draining_since) + seconds)
        return end - now
