"""Held runs: kept answers, attaches, acknowledgements, bounds."""

import json
import unittest

from held_support import RUNS, SOURCE, HeldReplica, held
from support import request, until


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

    def test_another_start_of_a_run_is_another_held_run(self):
        with HeldReplica(SOURCE) as replica, replica.client() as client:
            for start, value in ((1, "first"), (2, "second"), (2, "not begun"), (999, "last")):
                fields = {"slipway_held": start, "x_request_id": "a"}
                client.send(request("POST", "/echo", json.dumps({"value": value}).encode(), **fields))
                client.answer()
            kept = [replica.get(RUNS + "a.%d" % start).result for start in (1, 2, 999)]
            self.assertEqual(kept, ["first", "second", "last"])

    def test_what_is_said_late_of_a_start_does_not_reach_the_next_one(self):
        with HeldReplica(SOURCE) as replica:
            with replica.client() as client:
                client.send(request("POST", "/wait", b'{"value": "second"}', slipway_held=2, x_request_id="a"))
                until(lambda: "began" in replica.stdout())
            replica.get("/_slipway/health")  # Whose answer comes after the replica has seen the connection close.
            replica.acknowledge("a")
            self.unknown(replica.stop_run("a"))
            replica.finish()
            self.assertEqual(replica.get(RUNS + "a.2").result, "second")

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

    def test_a_stream_that_broke_off_is_the_answer_of_its_exception(self):
        raised = "ValueError: in between"
        lacks_form = "Unserialisable: chunk[0] is of type object"
        messages = {
            "fails_in_between": raised,
            "fails_in_between_later": raised,
            "returns_failing_generator": raised,
            "unserialisable": lacks_form,
            "unserialisable_later": lacks_form,
        }
        with HeldReplica(SOURCE) as replica:
            for function, message in messages.items():
                with replica.client() as client:
                    client.send(held(function, function))
                    self.assertFalse(client.answer().complete, function)
                answer = replica.attach(function)
                kind, _colon, _rest = message.partition(":")
                self.assertEqual((answer.status, answer.json()["error"]["type"]), (500, kind), function)
                self.assertTrue(answer.message.startswith(message), answer.message)
                self.assertEqual(answer.fields["slipway-held"], "1", function)
                self.assertEqual(answer.fields["content-type"], "application/json", function)

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

if __name__ == "__main__":
    unittest.main()
