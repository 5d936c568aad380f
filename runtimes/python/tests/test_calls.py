"""Calls of a real replica over a real socket: answers, refusals, ids, statuses, concurrency, cancelled calls."""

import json
import subprocess
import sys
import unittest
import uuid

from support import Replica, request, until

SOURCE = """
from __future__ import annotations
import asyncio, contextvars, decimal, functools, os, threading, time

context = contextvars.ContextVar("context", default="unset")
context.set("at import")
seen = []

def echo(value=None):
    return value

async def echo_later(value=None):
    await asyncio.sleep(0)
    return value

def typed(prompt: str, n: int = 1, tags: list[str] | None = None, run_id: str = ""):
    return [prompt, n, tags, run_id]

def identity(run_id):
    return {"run_id": run_id, "context": context.get()}

async def identity_later(run_id):
    return {"run_id": run_id, "context": context.get()}

def status(code, more=None):
    return {"status_code": code, "more": more}

def decimal_result():
    return {"amount": decimal.Decimal("1.5")}

def unserialisable():
    return {"a": [object()]}

def fails(text="no"):
    raise ValueError(text)

async def fails_later():
    raise ValueError("no")

def leaves():
    raise SystemExit("bye")

async def leaves_later():
    raise SystemExit("bye")

async def cancels_itself():
    raise asyncio.CancelledError()

def odd_error():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")
    raise Odd()

def returns_coroutine(value):
    return echo_later(value)

async def returns_task(value):
    return asyncio.ensure_future(echo_later(value))

@functools.lru_cache(maxsize=None)
def cached(a):
    return a

def adds(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function("added", **kwargs)
    return inner

@adds
def decorated(first, second: int):
    return [first, second]

def hold(name=""):
    seen.append(name)
    print("started", flush=True)
    end = time.monotonic() + 20
    while not os.path.exists("go") and time.monotonic() < end:
        time.sleep(0.003)
    return name

def thread():
    return threading.current_thread() is threading.main_thread()

def asks_for_loop():
    return asyncio.get_event_loop().run_until_complete(echo_later("done"))

def closes_loop():
    loop = asyncio.get_event_loop()
    try:
        return loop.run_until_complete(echo_later("done"))
    finally:
        loop.close()

def runs():
    return asyncio.run(echo_later("done"))

def asks_in_own_thread():
    raised = []
    def ask():
        try:
            asyncio.get_event_loop()
        except RuntimeError as error:
            raised.append(str(error))
    own = threading.Thread(target=ask, name="own")
    own.start()
    own.join()
    return raised

async def sleeps():
    try:
        seen.append("sleeping")
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise

async def what_was_seen():
    return seen
"""


class CallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.replica = Replica(SOURCE)

    @classmethod
    def tearDownClass(cls):
        cls.replica.close()

    def test_answers_with_the_envelope_in_its_order(self):
        for function in ("echo", "echo_later"):
            answer = self.replica.call(function, {"value": "\u00e4"}, x_request_id="run-5")
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.fields["content-type"], "application/json")
            self.assertEqual(answer.fields["x-request-id"], "run-5")
            self.assertIn("\u00e4".encode(), answer.body)
            self.assertEqual(list(answer.json()), ["run_id", "result", "run_time_ms"])
            self.assertEqual(answer.json()["run_id"], "run-5")
            self.assertIsInstance(answer.json()["run_time_ms"], float)

    def test_makes_a_run_id_where_none_or_a_bad_one_is_given(self):
        for fields in ({}, {"x_request_id": "a b"}, {"x_request_id": "x" * 129}, {"x_request_id": "\u00e4"}):
            answer = self.replica.call("identity", **fields)
            made = answer.fields["x-request-id"]
            self.assertEqual(uuid.UUID(made).version, 4)
            self.assertEqual([answer.json()["run_id"], answer.result["run_id"]], [made, made])

    def test_gives_a_plain_function_the_loop_that_a_plain_python_gives(self):
        asked = "import asyncio; asyncio.get_event_loop()"
        gives = subprocess.run([sys.executable, "-W", "ignore", "-c", asked], stderr=subprocess.DEVNULL).returncode == 0
        # Also once an earlier call has closed the thread's loop, or has left it without one.
        for _ in range(3):
            for function in ("asks_for_loop", "closes_loop", "runs"):
                answer = self.replica.call(function)
                if gives or function == "runs":
                    self.assertEqual([answer.status, answer.json().get("result")], [200, "done"])
                else:
                    self.assertIn("no current event loop", answer.json()["error"]["message"])
        self.assertEqual(
            self.replica.call("asks_in_own_thread").result, ["There is no current event loop in thread 'own'."]
        )

    def test_keeps_what_the_app_set_in_its_context(self):
        for function in ("identity", "identity_later"):
            self.assertEqual(self.replica.call(function).result["context"], "at import")

    def test_takes_an_empty_body_as_no_arguments(self):
        with self.replica.client() as client:
            for body in (b"", b" \r\n", b"{}", b"\xef\xbb\xbf{}"):
                client.send(request("POST", "/echo", body))
                self.assertEqual(client.answer().result, None)

    def test_refuses_bodies_that_are_no_objects(self):
        with self.replica.client() as client:
            for body, status, part in (
                (b"{", 400, "JSON"),
                (b"a=b", 400, "JSON"),
                (b'{"value": NaN}', 400, "NaN"),
                (b'{"value": "\xff"}', 400, "JSON"),
                (b"[" * 100000, 400, "nested"),
                (b"[]", 422, "an array"),
                (b"null", 422, "null"),
                (b'"x"', 422, "a string"),
                (b"3", 422, "a number"),
            ):
                client.send(request("POST", "/echo", body))
                answer = client.answer()
                self.assertEqual(answer.status, status, body[:20])
                self.assertIn(part, answer.message)
            client.send(request("POST", "/echo", b"a=b", content_type="application/x-www-form-urlencoded"))
            self.assertIn("send application/json", client.answer().message)

    def test_refuses_arguments_that_do_not_fit(self):
        for body, part in (
            ({}, "'prompt' is missing"),
            ({"prompt": "x", "m": 1}, "no parameter 'm'"),
            ({"prompt": 3}, "'prompt' does not fit: expected a string, got the number 3"),
            ({"prompt": "x", "n": "many"}, "expected a whole number, got the string 'many'"),
        ):
            answer = self.replica.call("typed", body)
            self.assertEqual(answer.status, 422)
            self.assertIn(part, answer.message)
            self.assertEqual(list(answer.json()), ["run_id", "message", "error"])
        answer = self.replica.call(
            "typed", {"prompt": "x", "n": "2", "tags": ["a"], "run_id": "forged"}, x_request_id="r"
        )
        self.assertEqual(answer.result, ["x", 2, ["a"], "r"])

    def test_judges_decorated_functions_by_the_call_itself(self):
        self.assertEqual(self.replica.call("decorated", {"second": "2"}).result, ["added", 2])
        for body, part in (({}, "'second' is missing"), ({"second": 2, "third": 3}, "no parameter 'third'")):
            answer = self.replica.call("decorated", body)
            self.assertEqual((answer.status, part in answer.message), (422, True), answer.body)
        self.assertEqual(self.replica.call("cached", {"a": 1}).result, 1)

    def test_sets_the_status_that_the_app_chose(self):
        for code in (200, 201, 299, 404, 422, 429, 500, 599):
            answer = self.replica.call("status", {"code": code})
            self.assertEqual((answer.status, answer.json()["result"]["status_code"]), (code, code))
        for code in (100, 199, 600, "404", 404.0, True, None):
            self.assertEqual(self.replica.call("status", {"code": code}).status, 200)
        with self.replica.client() as client:
            for code in (204, 304, 200):
                self.assertEqual(client.call("status", {"code": code}).status, code)

    def test_serialises_or_says_where_it_cannot(self):
        self.assertEqual(self.replica.call("decimal_result").result, {"amount": 1.5})
        answer = self.replica.call("unserialisable")
        self.assertEqual(answer.status, 500)
        self.assertIn("result.a[0] is of type object, which has no JSON form", answer.message)

    def test_reports_exceptions_and_goes_on(self):
        for function in ("fails", "fails_later"):
            answer = self.replica.call(function, x_request_id="r-" + function)
            self.assertEqual(answer.status, 500)
            self.assertEqual(
                answer.json(),
                {
                    "run_id": "r-" + function,
                    "message": "ValueError: no",
                    "error": {"type": "ValueError", "message": "no"},
                },
            )
        for function, kind in (
            ("leaves", "SystemExit"),
            ("leaves_later", "SystemExit"),
            ("cancels_itself", "CancelledError"),
            ("odd_error", "Odd"),
        ):
            answer = self.replica.call(function)
            self.assertEqual((answer.status, answer.json()["error"]["type"]), (500, kind))
        self.assertLess(len(self.replica.call("fails", {"text": "x" * 100000}).body), 40000)
        self.assertEqual(self.replica.call("echo", {"value": 1}).result, 1)

    def test_logs_tracebacks_with_the_app_s_frames_only(self):
        self.replica.call("fails", {"text": "for the log"})
        self.replica.call("unserialisable")
        log = until(lambda: self.replica.stderr() if "result.a[0]" in self.replica.stderr() else None)
        self.assertIn("ValueError: for the log", log)
        self.assertIn("in fails", log)
        self.assertNotIn("slipway_cortex/", log)
        self.assertNotIn("threading.py", log)

    def test_awaits_what_a_function_returns(self):
        for function in ("returns_coroutine", "returns_task"):
            self.assertEqual(self.replica.call(function, {"value": 5}).result, 5)

    def test_runs_plain_functions_beside_the_main_thread(self):
        self.assertIs(self.replica.call("thread").result, False)

    def test_answers_openai_paths_at_both_depths(self):
        value = {"choices": [1], "run_id": "own", "model": "m"}
        for suffix in ("chat/completions", "v1/chat/completions", "embedding", "embeddings", "v1/embeddings"):
            answer = self.replica.call("echo/" + suffix, {"value": value}).json()
            self.assertEqual(answer["result"], value)
            self.assertEqual((answer["choices"], answer["model"]), ([1], "m"))
            self.assertNotEqual(answer["run_id"], "own")
        self.assertNotIn("choices", self.replica.call("echo", {"value": value}).json())
        for value in ({}, {"run_id": 1}, {"a": "}"}, [1], "x"):
            answer = self.replica.call("echo/embedding", {"value": value})
            self.assertEqual(answer.result, value)

    def test_refuses_other_paths_and_methods(self):
        for path in ("/nothing", "/", "/_private", "/asyncio", "/echo/x", "/echo/v1", "/echo/chat", "/_slipway/x"):
            with self.replica.client() as client:
                client.send(request("POST", path, b"{}"))
                self.assertEqual(client.answer().status, 404, path)
        self.assertIn("echo, echo_later, typed", self.replica.call("nothing").message)
        self.assertIn("without the name of a function; main.py has: echo,", self.replica.call("").message)
        for path in ("/echo", "//echo", "/echo/", "/%65cho"):
            with self.replica.client() as client:
                client.send(request("POST", path + "?async=true", b'{"value": 1}'))
                self.assertEqual(client.answer().result, 1)
        for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
            with self.replica.client() as client:
                client.send(request(method, "/echo"))
                answer = client.answer(head_only=method == "HEAD")
                self.assertEqual((answer.status, answer.fields["allow"]), (405, "POST"))

    def test_says_that_it_is_alive_and_ready(self):
        for path in ("/_slipway/health", "/_slipway/ready"):
            self.assertEqual(self.replica.get(path).status, 200)
            with self.replica.client() as client:
                client.send(request("HEAD", path) + request("POST", path))
                self.assertEqual(client.answer(head_only=True).status, 200)
                self.assertEqual(client.answer().status, 405)

    def test_takes_large_bodies_and_gives_large_answers(self):
        value = "x" * 5000000
        for function in ("echo", "echo_later"):
            self.assertEqual(self.replica.call(function, {"value": value}).result, value)
        with self.replica.client() as client:
            body = json.dumps({"value": value}).encode()
            pieces = [body[at : at + 70000] for at in range(0, len(body), 70000)]
            coded = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
            client.send(request("POST", "/echo", coded, transfer_encoding="chunked"))
            self.assertEqual(client.answer().result, value)


class ConcurrencyTest(unittest.TestCase):
    def test_runs_so_many_calls_at_once_and_no_more(self):
        with Replica(SOURCE, concurrency=2) as replica:
            clients = [replica.client() for _ in range(4)]
            for number, client in enumerate(clients):
                client.send(request("POST", "/hold", b'{"name": %d}' % number))
                if number < 2:
                    until(lambda: len(self.started(replica)) == number + 1)
            # Both places are taken; the other two wait, and the replica still answers.
            self.assertEqual(replica.get("/_slipway/health").status, 200)
            clients[2].close()  # It goes while it waits: it must never start.
            replica.get("/_slipway/health")  # Answered, so the replica has seen it go.
            self.release(replica)
            self.assertEqual([clients[index].answer().result for index in (0, 1, 3)], [0, 1, 3])
            self.assertEqual(sorted(replica.call("what_was_seen").result), [0, 1, 3])
            for client in clients:
                client.close()

    def started(self, replica):
        """Which calls of hold have begun; told by a file, as no place is free to ask the app."""
        return [1 for line in replica.stdout().splitlines() if line == "started"]

    def release(self, replica):
        """Lets the held calls go."""
        open(replica.path("go"), "w").close()

    def test_answers_health_while_the_only_place_is_taken(self):
        with Replica(SOURCE, concurrency=1) as replica:
            with replica.client() as client:
                client.send(request("POST", "/hold", b"{}"))
                until(lambda: len(self.started(replica)) == 1)
                self.assertEqual(replica.get("/_slipway/health").status, 200)
                self.release(replica)
                self.assertEqual(client.answer().status, 200)

    def test_cancels_an_async_call_whose_client_goes(self):
        with Replica(SOURCE) as replica:
            client = replica.client()
            client.send(request("POST", "/sleeps", b"{}"))
            until(lambda: replica.call("what_was_seen").result == ["sleeping"])
            client.close()
            until(lambda: replica.call("what_was_seen").result == ["sleeping", "cancelled"])
            self.assertEqual(replica.stderr(), "")


if __name__ == "__main__":
    unittest.main()
