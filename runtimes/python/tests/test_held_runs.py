"""Held runs of a real replica: they outlive their connection, their answers are kept, fetched, acknowledged, stopped."""

import json
import signal
import unittest

from support import Replica, request, until

SOURCE = """
import asyncio, os, sys, threading, time

def log(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

def wait_for(name="go"):
    end = time.monotonic() + 30
    while not os.path.exists(name) and time.monotonic() < end:
        time.sleep(0.003)

def echo(value=None):
    log("echo")
    return value

def wait(value="waited"):
    log("began")
    wait_for()
    return value

async def wait_later(value="waited"):
    log("began")
    try:
        while not os.path.exists("go"):
            await asyncio.sleep(0.003)
    except asyncio.CancelledError:
        log("cancelled")
        raise
    return value

def stream():
    yield "one"
    log("began")
    wait_for()
    yield "two"

async def stream_later():
    yield "one"
    log("began")
    try:
        while not os.path.exists("go"):
            await asyncio.sleep(0.003)
    finally:
        log("closed")
    yield "two"

def fails_in_between():
    yield "one"
    raise ValueError("in between")

async def blocks(name):
    log("blocked")
    wait_for(name)

def large(size):
    return "x" * size

def large_stream(size, piece=1000000):
    for _ in range(size // piece):
        yield b"x" * piece
    log("all was yielded")

async def large_stream_later(size, piece=1000000):
    for _ in range(size // piece):
        yield b"x" * piece
    log("all was yielded")

def computes():
    log("began")
    try:
        while True:
            sum(range(100))
    finally:
        log("left")

def computes_in_a_stream():
    yield "one"
    computes()

def returns_awaitable():
    return wait_later()

async def returns_generator():
    return computes_in_a_stream()

def sleeps():
    log("began")
    time.sleep(0.5)
    log("went on")

def swallows():
    log("began")
    while True:
        try:
            wait_for()
            return "at last"
        except BaseException:
            log("swallowed")

async def swallows_later():
    log("began")
    while not os.path.exists("go"):
        try:
            await asyncio.sleep(0.003)
        except asyncio.CancelledError:
            log("swallowed")
    return "at last"

def fails():
    raise ValueError("told so")

def status(status_code):
    return {"status_code": status_code}
"""
RUNS = "/_slipway/runs/"


def held(function, run_id, **body):
    """The bytes of a held call."""
    fields = {"slipway_held": 1, "x_request_id": run_id}
    return request("POST", "/" + function, json.dumps(body).encode(), **fields)


class HeldReplica(Replica):
    """A replica with the platform's questions."""

    def leave(self, function, run_id, seen="began", **body):
        """Calls a function and closes the connection once it has printed `seen`, for as often as it had before."""
        before = self.stdout().count(seen)
        with self.client() as client:
            client.send(held(function, run_id, **body))
            until(lambda: self.stdout().count(seen) > before, "the start of the function")
        self.get("/_slipway/health")  # Whose answer comes after the replica has seen the connection close.

    def finish(self):
        """Lets the functions go on that wait."""
        open(self.path("go"), "w").close()

    def attach(self, run_id):
        """The Answer to an attach to the first attempt of a run."""
        return self.get(RUNS + run_id + ".1")

    def ask(self, method, path, body=b""):
        """A request on a connection of its own: the Answer."""
        with self.client() as client:
            client.send(request(method, path, body))
            return client.answer()

    def stop_run(self, run_id):
        """The Answer to a cancel."""
        return self.ask("DELETE", RUNS + run_id + ".1")

    def acknowledge(self, *run_ids):
        """Acknowledges runs."""
        answer = self.ask("POST", RUNS + "acknowledge", json.dumps([run_id + ".1" for run_id in run_ids]).encode())
        assert answer.status == 200, answer.body


class HoldTest(unittest.TestCase):
    def unknown(self, answer, forgotten=False):
        self.assertEqual((answer.status, answer.json()["has_forgotten"]), (404, forgotten))
        self.assertNotIn("slipway-held", answer.fields)

    def test_a_function_goes_on_when_its_connection_closes_and_its_answer_is_kept(self):
        with HeldReplica(SOURCE) as replica:
            functions = ("wait", "wait_later", "returns_awaitable")
            for function in functions:
                replica.leave(function, "run-" + function)
            replica.finish()
            for function in functions:
                for _ in range(2):
                    answer = replica.attach("run-" + function)
                    self.assertEqual((answer.result, answer.fields["slipway-held"]), ("waited", "1"))
                    self.assertEqual(answer.json()["run_id"], "run-" + function)
                    self.assertEqual(answer.fields["content-type"], "application/json")
            self.assertNotIn("cancelled", replica.stdout())
            self.assertEqual(replica.stderr(), "")

    def test_another_attempt_of_a_run_is_another_held_run(self):
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            for attempt, value in ((1, "first"), (2, "second"), (2, "not begun")):
                fields = {"slipway_held": attempt, "x_request_id": "a"}
                client.send(request("POST", "/echo", json.dumps({"value": value}).encode(), **fields))
                client.answer()
            kept = [replica.get(RUNS + "a.%d" % attempt).result for attempt in (1, 2)]
            self.assertEqual(kept, ["first", "second"])

    def test_only_the_exact_header_holds(self):
        with HeldReplica(SOURCE) as replica:
            for number, value in enumerate(("true", "1, 1", "-1", "1.1", "1000", "")):
                replica.call("echo", x_request_id="run-%d" % number, slipway_held=value)
                self.unknown(replica.attach("run-%d" % number))
            with replica.client() as client:
                client.send(
                    b"POST /echo HTTP/1.1\r\nhost: a\r\nx-request-id: twice\r\n"
                    b"slipway-held: 1\r\nslipway-held: 1\r\ncontent-length: 2\r\n\r\n{}"
                )
                self.assertEqual(client.answer().status, 200)
            self.unknown(replica.attach("twice"))
            with replica.client() as client:
                client.send(request("POST", "/wait_later", b"{}", x_request_id="plain"))
                until(lambda: "began" in replica.stdout())
            until(lambda: "cancelled" in replica.stdout(), "the end of an async call that is not held")

    def test_an_answer_that_was_sent_is_kept_until_it_is_acknowledged(self):
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            client.send(held("echo", "a", value=[1]))
            sent = client.answer()
            self.assertNotIn("slipway-held", sent.fields)
            self.assertEqual(replica.attach("a").body, sent.body)
            for function, body, status in (
                ("fails", {}, 500),
                ("echo", {"unknown": 1}, 422),
                ("status", {"status_code": 204}, 204),
                ("status", {"status_code": 404}, 404),
            ):
                client.send(held(function, "b", **body))
                sent = client.answer()
                kept = replica.attach("b")
                self.assertEqual((kept.status, kept.fields["slipway-held"]), (status, "1"))
                self.assertEqual(kept.body, sent.body)
                replica.acknowledge("b")
                self.unknown(replica.attach("b"))
            replica.acknowledge("a", "never there")
            self.unknown(replica.attach("a"))

    def test_a_run_is_not_begun_twice(self):
        with HeldReplica(SOURCE) as replica, replica.client() as first, replica.client() as second:
            first.send(held("wait", "a"))
            until(lambda: "began" in replica.stdout())
            second.send(held("wait", "a"))
            with replica.client() as third, replica.client() as gone:
                for client in (gone, third):
                    client.send(request("GET", RUNS + "a.1"))
                gone.close()
                replica.get("/_slipway/health")
                replica.finish()
                self.assertEqual(third.answer().body, first.answer().body)
            self.assertEqual(second.answer().fields["slipway-held"], "1")
            second.send(held("wait", "a", value="other"))
            self.assertEqual(second.answer().result, "waited")
            self.assertEqual(replica.stdout().count("began"), 1)
            replica.acknowledge("a")
            second.send(held("wait", "a", value="anew"))
            self.assertEqual(second.answer().result, "anew")

    def test_a_stream_is_kept_whole_as_it_went_out(self):
        whole = b"data: one\n\ndata: two\n\n"
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            for function in ("stream", "stream_later"):
                replica.leave(function, function)
            client.send(held("stream", "to-its-end"))
            self.assertEqual(client.head()[0], 200)
            self.assertEqual(client.chunk(), b"data: one\n\n")
            replica.finish()
            self.assertEqual([client.chunk(), client.chunk()], [b"data: two\n\n", b""])
            for run_id in ("stream", "stream_later", "to-its-end"):
                answer = replica.attach(run_id)
                self.assertEqual((answer.status, answer.body), (200, whole))
                self.assertEqual(answer.fields["content-type"], "text/event-stream; charset=utf-8")

    def test_a_stream_that_broke_off_is_no_answer(self):
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            client.send(held("fails_in_between", "a"))
            self.assertFalse(client.answer().complete)
            answer = replica.attach("a")
            self.assertEqual((answer.status, "slipway-held" in answer.fields), (502, False))

    def test_a_client_that_does_not_read_and_goes_does_not_stop_a_stream(self):
        with HeldReplica(SOURCE) as replica:
            for ended, function in enumerate(("large_stream", "large_stream_later")):
                with replica.client() as client:
                    client.send(held(function, function, size=20000000))
                    client.head()
                    self.assertEqual(replica.stdout().count("all was yielded"), ended)
                self.assertEqual(len(replica.attach(function).body), 20000000)

    def test_what_is_kept_is_bounded_and_the_first_that_ended_is_forgotten_first(self):
        mebibytes = 1024 * 1024
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            for run_id in ("a", "b"):
                client.send(held("large", run_id, size=30 * mebibytes))
                self.assertEqual(client.answer().status, 200)
            self.unknown(replica.attach("other"))
            client.send(held("large", "c", size=30 * mebibytes))
            client.answer()
            self.unknown(replica.attach("a"), forgotten=True)
            self.assertEqual(len(replica.attach("b").result), 30 * mebibytes)
            replica.acknowledge("b", "c")
            self.unknown(replica.attach("other"), forgotten=True)
            for function in ("large", "large_stream"):
                client.send(held(function, function, size=40000000))
                sent = client.answer()
                answer = replica.attach(function)
                self.assertEqual((answer.status, answer.body), (200, b""))
                self.assertEqual(answer.fields["slipway-body-bytes"], str(len(sent.body)))

    def test_only_so_many_runs_are_kept(self):
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            for number in range(1001):
                client.send(held("echo", "run-%d" % number, value=number))
                client.answer()
            self.unknown(replica.attach("run-0"), forgotten=True)
            self.assertEqual(replica.attach("run-1").result, 1)
            replica.acknowledge(*["run-%d" % number for number in range(1001)])
            self.unknown(replica.attach("run-1"), forgotten=True)

    def test_an_acknowledged_run_that_nobody_waits_for_goes_on_as_a_call_whose_client_has_gone(self):
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            replica.leave("wait_later", "left")
            client.send(held("wait", "awaited"))
            until(lambda: replica.stdout().count("began") == 2)
            replica.acknowledge("left", "awaited")
            until(lambda: "cancelled" in replica.stdout())
            self.unknown(replica.attach("left"))
            replica.finish()
            self.assertEqual(client.answer().result, "waited")
            self.assertEqual(replica.attach("awaited").result, "waited")

    def test_refuses_what_it_does_not_understand(self):
        with HeldReplica(SOURCE) as replica:
            path = RUNS + "acknowledge"
            for body in (b"", b"{}", b"[1]", b"[", b'"a"', b"[" * 60000, b"\xff"):
                self.assertEqual(replica.ask("POST", path, body).status, 400 if body else 411, body[:10])
            self.assertEqual(replica.ask("POST", path, b"x" * 65537).status, 413)
            self.assertEqual(replica.ask("PUT", RUNS + "a.1").fields["allow"], "GET, DELETE")
            self.assertEqual(replica.ask("GET", RUNS + "a.1", b"{}").status, 400)
            self.assertEqual(replica.ask("GET", RUNS).status, 404)
            self.assertEqual(replica.ask("GET", RUNS + "a%0Ab").status, 404)
            self.assertEqual(replica.ask("GET", RUNS + "%C3%A9").status, 404)
            self.unknown(replica.ask("GET", RUNS + "acknowledge"))

    def test_lines_say_their_run(self):
        with HeldReplica(SOURCE, log_frames=1) as replica:
            replica.leave("wait", "a", seen="\x1ea\x1fbegan")
            replica.finish()
            self.assertEqual(replica.attach("a").result, "waited")


class CancelTest(unittest.TestCase):
    def stopped(self, answer, stopped=True):
        self.assertEqual((answer.status, answer.json()), (200, {"stopped": stopped}))

    def test_stops_a_function_wherever_it_runs(self):
        functions = ("computes", "wait", "wait_later", "returns_awaitable", "sleeps")
        with HeldReplica(SOURCE) as replica:
            for function in functions:
                replica.leave(function, function)
                self.stopped(replica.stop_run(function))
                answer = replica.attach(function)
                self.assertEqual((answer.status, answer.json()["error"]["type"]), (500, "Interrupted"), function)
                self.stopped(replica.stop_run(function))
            self.assertIn("left", replica.stdout())
            self.assertIn("cancelled", replica.stdout())
            self.assertNotIn("went on", replica.stdout())
            self.assertEqual(replica.stderr(), "")
            self.assertEqual(replica.call("echo", {"value": 1}).result, 1)

    def test_tells_the_client_that_is_still_there(self):
        with HeldReplica(SOURCE) as replica, replica.client() as plain, replica.client() as streamed:
            plain.send(held("wait_later", "a"))
            streamed.send(held("returns_generator", "b"))
            until(lambda: replica.stdout().count("began") == 2)
            self.stopped(replica.stop_run("a"))
            self.stopped(replica.stop_run("b"))
            self.assertEqual(plain.answer().message, "Interrupted: the run was stopped")
            answer = streamed.answer()
            self.assertEqual((answer.complete, b"event: error" in answer.body), (False, True))
            self.assertEqual(replica.attach("b").status, 502)

    def test_stops_streams_also_when_their_client_does_not_read(self):
        with HeldReplica(SOURCE) as replica:
            for function in ("computes_in_a_stream", "stream_later"):
                replica.leave(function, function)
                self.stopped(replica.stop_run(function))
            self.assertIn("closed", replica.stdout())
            for function in ("large_stream", "large_stream_later"):
                with replica.client() as client:
                    client.send(held(function, function, size=10**12))
                    client.head()
                    self.stopped(replica.stop_run(function))

    def test_takes_a_call_out_of_the_line_that_has_not_begun(self):
        with HeldReplica(SOURCE, concurrency=1) as replica, replica.client() as first, replica.client() as second:
            first.send(held("wait", "a"))
            until(lambda: "began" in replica.stdout())
            second.send(held("wait", "b"))
            replica.get("/_slipway/health")
            self.stopped(replica.stop_run("b"))
            self.assertEqual(second.answer().status, 500)
            replica.finish()
            self.assertEqual(first.answer().result, "waited")
            self.assertEqual(replica.call("echo", {"value": 1}).result, 1)
            self.assertEqual(replica.stdout().count("began"), 1)

    def test_stops_a_call_that_has_just_come(self):
        """The cancel comes to the loop together with the call: a task has not run a line, a thread may have."""
        functions = ("wait", "wait_later", "returns_awaitable", "stream", "returns_generator")
        with HeldReplica(SOURCE, concurrency=2) as replica:
            for turn, function in enumerate(functions):
                with replica.client() as blocking, replica.client() as calling, replica.client() as stopping:
                    for client in (calling, stopping):
                        self.assertEqual(client.call("echo", {"value": 1}).result, 1)
                    blocking.send(request("POST", "/blocks", json.dumps({"name": "unblock-%d" % turn}).encode()))
                    until(lambda: replica.stdout().count("blocked") == turn + 1)
                    calling.send(held(function, function))
                    stopping.send(request("DELETE", RUNS + function + ".1"))
                    open(replica.path("unblock-%d" % turn), "w").close()
                    self.stopped(stopping.answer())
                    answer = calling.answer()
                    self.assertIn(b"Interrupted", answer.body)
                    blocking.answer()
            began = replica.stdout().count("began")
            self.assertLessEqual(began, 2)
            # All places were given back.
            with replica.client() as first, replica.client() as second:
                for client in (first, second):
                    client.send(request("POST", "/wait", b"{}"))
                until(lambda: replica.stdout().count("began") == began + 2)

    def test_a_cancel_that_overtakes_its_call_withdraws_it(self):
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            self.assertEqual(replica.stop_run("a").status, 404)
            client.send(held("echo", "a", value=1))
            self.assertEqual(client.answer().status, 500)
            self.assertNotIn("echo", replica.stdout())
            client.send(held("echo", "a", value=1))
            self.assertEqual(client.answer().result, 1)

    def test_says_that_a_function_has_not_ended(self):
        with HeldReplica(SOURCE) as replica, replica.client() as first, replica.client() as second:
            for client, function in ((first, "swallows"), (second, "swallows_later")):
                replica.leave(function, function)
                client.send(request("DELETE", RUNS + function + ".1"))
            for client, function in ((first, "swallows"), (second, "swallows_later")):
                self.stopped(client.answer(), False)
            until(lambda: replica.stdout().count("swallowed") >= 2)
            replica.finish()
            for function in ("swallows", "swallows_later"):
                self.assertEqual(replica.attach(function).result, "at last")


class DrainTest(unittest.TestCase):
    def drain(self, replica):
        replica.process.send_signal(signal.SIGTERM)
        until(lambda: replica.get("/_slipway/ready").status == 503)

    def test_waits_for_a_run_and_until_its_answer_is_acknowledged(self):
        with HeldReplica(SOURCE) as replica:
            replica.leave("wait_later", "a")
            self.drain(replica)
            with replica.client() as client, replica.client() as again, replica.client() as other:
                client.send(request("GET", RUNS + "a.1"))
                again.send(held("wait_later", "a"))
                other.send(held("wait_later", "b"))
                self.assertEqual(other.answer().status, 503)
                replica.finish()
                self.assertEqual(client.answer().result, "waited")
                self.assertEqual(again.answer().result, "waited")
            self.assertEqual(replica.attach("a").result, "waited")
            self.assertIsNone(replica.process.poll())
            replica.acknowledge("a")
            self.assertEqual(replica.wait(), 0)
            self.assertEqual(replica.stdout().count("began"), 1)

    def test_does_not_wait_long_for_acknowledgements_of_runs_that_were_fetched_or_cancelled(self):
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            client.send(held("echo", "a"))
            self.assertEqual(client.answer().status, 200)
            replica.leave("wait_later", "cancelled")
            self.assertEqual(replica.stop_run("cancelled").status, 200)
            self.drain(replica)
            self.assertEqual(replica.attach("a").status, 200)
            self.assertEqual(replica.wait(), 0)

    def test_waits_no_longer_than_the_grace(self):
        with HeldReplica(SOURCE, grace_seconds=0.5) as replica:
            replica.leave("sleeps", "a")
            until(lambda: "went on" in replica.stdout())
            self.assertEqual(replica.stop(), 0)

    def test_a_run_that_is_given_up_has_no_answer(self):
        with HeldReplica(SOURCE, grace_seconds=0.5) as replica, replica.client() as client:
            replica.leave("wait_later", "a")
            client.send(request("GET", RUNS + "a.1"))
            replica.get("/_slipway/health")
            self.assertEqual(replica.stop(), 0)
            answer = client.answer()
            self.assertEqual((answer.status, "slipway-held" in answer.fields), (503, False))


if __name__ == "__main__":
    unittest.main()
