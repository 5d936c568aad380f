"""How held runs end: cancelled, or with their replica."""

import json
import signal
import unittest

from held_support import RUNS, SOURCE, HeldReplica, held
from support import request, until


class CancelTest(unittest.TestCase):
    def stopped(self, answer, stopped=True):
        self.assertEqual((answer.status, answer.json()), (200, {"stopped": stopped}))

    def test_stops_a_function_wherever_it_runs(self):
        # The sleep cannot be cut short; it is still going on when the cancel comes, also on a busy machine.
        bodies = {"computes": {}, "wait": {}, "wait_later": {}, "returns_awaitable": {}, "sleeps": {"seconds": 2}}
        with HeldReplica(SOURCE) as replica:
            for function, body in bodies.items():
                replica.leave(function, function, **body)
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
            answer = replica.attach("b")
            self.assertEqual((answer.status, answer.message), (500, "Interrupted: the run was stopped"))

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
