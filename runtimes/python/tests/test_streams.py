"""Streams of a real replica: what arrives when, back-pressure, clients that go, errors before and in mid-stream."""

import json
import socket
import unittest
from urllib.parse import unquote_to_bytes

from support import Replica, request, until

SOURCE = """
import asyncio, os, threading, time

log = []
local = threading.local()

def wait_for(name):
    end = time.monotonic() + 20
    while not os.path.exists(name) and time.monotonic() < end:
        time.sleep(0.003)

def numbers(count=3):
    for number in range(count):
        yield "Number %d " % number

async def numbers_later(count=3):
    for number in range(count):
        await asyncio.sleep(0)
        yield "Number %d " % number

def returns_generator(count=3):
    return numbers(count)

def returns_async_generator(count=3):
    return numbers_later(count)

async def async_returns_generator(count=3):
    return numbers(count)

def returns_map(count=3):
    return map("Number {} ".format, range(count))

def returns_iterable():
    class Source:
        async def __aiter__(self):
            yield "Number 0 "
            yield "Number 1 "
            yield "Number 2 "
    return Source()

def values():
    yield {"a": 1}
    yield b""
    yield "data: [DONE]\\n\\n"
    yield b": raw\\n\\n"

def nothing():
    return
    yield

async def nothing_later():
    return
    yield

def stepwise():
    yield "first"
    wait_for("go")
    yield "second"

async def stepwise_later():
    yield "first"
    while not os.path.exists("go"):
        await asyncio.sleep(0.003)
    yield "second"

def same_thread():
    local.name = threading.get_ident()
    for _ in range(50):
        yield local.name == threading.get_ident()

def fails_first():
    raise ValueError("at once")
    yield

async def fails_first_later():
    raise ValueError("at once")
    yield

def fails_in_between():
    yield "one"
    raise ValueError("in between")

async def fails_in_between_later():
    yield "one"
    raise ValueError("in between")

def fails_with(message):
    yield "one"
    raise ValueError(message)

def unserialisable():
    yield "one"
    yield [object()]

def leaves_in_between():
    yield "one"
    raise SystemExit(3)

def endless(size=1000):
    count = 0
    try:
        while True:
            count += 1
            log.append(count)
            yield "x" * size
    except GeneratorExit:
        log.append("closed")
        raise

async def endless_later(size=1000):
    count = 0
    try:
        while True:
            count += 1
            log.append(count)
            yield "x" * size
    finally:
        log.append("closed")

async def waits_long():
    try:
        yield "one"
        await asyncio.sleep(60)
    finally:
        log.append("closed")

def fails_to_close():
    try:
        while True:
            yield "x" * 1000
    finally:
        log.append("closed")
        raise ValueError("while it closed")

async def last():
    return log[-1:]

async def count():
    return len(log)

async def clear():
    log.clear()
"""
NUMBERS = b"data: Number 0 \n\ndata: Number 1 \n\ndata: Number 2 \n\n"


class StreamTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.replica = Replica(SOURCE, log_frames=1)

    @classmethod
    def tearDownClass(cls):
        cls.replica.close()

    def setUp(self):
        self.replica.call("clear")

    def test_streams_whatever_is_iterated(self):
        with self.replica.client() as client:
            for function in (
                "numbers",
                "numbers_later",
                "returns_generator",
                "returns_async_generator",
                "async_returns_generator",
                "returns_map",
                "returns_iterable",
                "numbers/chat/completions",
            ):
                answer = client.call(function, x_request_id="r")
                self.assertEqual((answer.status, answer.body, answer.complete), (200, NUMBERS, True), function)
                self.assertEqual(answer.fields["content-type"], "text/event-stream; charset=utf-8")
                self.assertEqual(answer.fields["cache-control"], "no-cache")
                self.assertEqual(answer.fields["x-request-id"], "r")

    def test_frames_each_kind_of_value(self):
        self.assertEqual(self.replica.call("values").body, b'data: {"a":1}\n\ndata: [DONE]\n\n: raw\n\n')

    def test_ends_properly_without_any_item(self):
        for function in ("nothing", "nothing_later"):
            answer = self.replica.call(function)
            self.assertEqual((answer.status, answer.body, answer.complete), (200, b"", True))

    def test_sends_each_item_at_once(self):
        for function in ("stepwise", "stepwise_later"):
            with Replica(SOURCE) as replica, replica.client() as client:
                client.send(request("POST", "/" + function, b"{}"))
                client.head()
                self.assertEqual(client.chunk(), b"data: first\n\n")
                open(replica.path("go"), "w").close()
                self.assertEqual([client.chunk(), client.chunk()], [b"data: second\n\n", b""])

    def test_keeps_a_generator_in_one_thread(self):
        self.assertNotIn(b"false", self.replica.call("same_thread").body)

    def test_carries_many_items_in_order(self):
        for function in ("numbers", "numbers_later"):
            body = self.replica.call(function, {"count": 5000}).body
            self.assertEqual(body, b"".join(b"data: Number %d \n\n" % number for number in range(5000)))

    def test_answers_500_for_an_error_before_the_first_item(self):
        for function in ("fails_first", "fails_first_later"):
            answer = self.replica.call(function)
            self.assertEqual((answer.status, answer.message), (500, "ValueError: at once"))

    def test_shows_an_error_in_mid_stream_twice(self):
        for function, kind in (
            ("fails_in_between", "ValueError"),
            ("fails_in_between_later", "ValueError"),
            ("unserialisable", "Unserialisable"),
            ("leaves_in_between", "SystemExit"),
        ):
            answer = self.replica.call(function, x_request_id="r-" + function)
            self.assertEqual((answer.status, answer.complete), (200, False), function)
            first, _break, rest = answer.body.partition(b"\n\n")
            self.assertEqual(first, b"data: one")
            self.assertTrue(rest.startswith(b"event: error\ndata: ") and rest.endswith(b"\n\n"), rest)
            error = json.loads(rest[len(b"event: error\ndata: ") :].decode())
            self.assertEqual((error["run_id"], error["error"]["type"]), ("r-" + function, kind))
            self.assertTrue(answer.extension.startswith(b"slipway-error=" + kind.encode()), answer.extension)
        log = until(lambda: self.replica.stderr() if "in between" in self.replica.stderr() else None)
        self.assertIn("\x1er-fails_in_between\x1f", log)
        self.assertNotIn("slipway_cortex/", log)

    def test_names_the_error_in_the_last_chunk_for_whoever_passes_it_on(self):
        answer = self.replica.call("fails_with", {"message": "für 5 %;\r\n\ud800"})
        self.assertEqual(answer.extension, b"slipway-error=ValueError%3A%20f%C3%BCr%205%20%25%3B%0D%0A%3F")
        answer = self.replica.call("fails_with", {"message": "ü" * 10000})
        self.assertTrue(900 <= len(answer.extension) <= 950, len(answer.extension))
        self.assertTrue(unquote_to_bytes(answer.extension.decode()).decode().endswith("ü"))

    def test_does_not_pull_while_the_client_does_not_read(self):
        for function in ("endless", "endless_later"):
            self.replica.call("clear")
            client = self.replica.client()
            client.send(request("POST", "/" + function, b'{"size": 1000}'))
            client.head()
            steady = until(lambda: self.steady_count())
            # What the sockets' buffers, the transport and the window hold; without back-pressure it would not stop.
            self.assertLess(steady, 20000)
            read = 0
            while read < 20000000:
                read += len(client.chunk())
            self.assertGreater(self.replica.call("count").result, steady)
            client.close()
            until(lambda: self.replica.call("last").result == ["closed"], function + " being closed")

    def steady_count(self):
        """How many items were pulled, once that has not changed over many round trips."""
        count = self.replica.call("count").result
        return count and all(self.replica.call("count").result == count for _ in range(50)) and count

    def test_closes_the_generator_when_the_client_goes(self):
        for function in ("endless", "endless_later", "waits_long", "fails_to_close"):
            self.replica.call("clear")
            client = self.replica.client()
            client.send(request("POST", "/" + function, b"{}"))
            client.head()
            client.close()
            until(lambda: self.replica.call("last").result == ["closed"], function + " being closed")
        until(lambda: "while it closed" in self.replica.stderr())

    def test_serves_old_clients_without_chunks(self):
        with self.replica.client() as client:
            client.send(b"POST /numbers HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            answer = client.answer()
            self.assertEqual((answer.status, answer.body), (200, NUMBERS))
            self.assertEqual(answer.fields["connection"], "close")
            self.assertNotIn("transfer-encoding", answer.fields)

    def test_holds_a_place_while_it_streams(self):
        with Replica(SOURCE, concurrency=1) as replica, replica.client() as one, replica.client() as two:
            one.send(request("POST", "/stepwise", b"{}"))
            one.head()
            two.send(request("POST", "/numbers", b"{}"))
            self.assertEqual(replica.get("/_slipway/ready").status, 200)
            self.assertEqual(one.chunk(), b"data: first\n\n")
            two.socket.settimeout(0.05)
            with self.assertRaises(socket.timeout):
                two.socket.recv(1)
            two.socket.settimeout(20)
            open(replica.path("go"), "w").close()
            self.assertEqual(two.answer().body, NUMBERS)


if __name__ == "__main__":
    unittest.main()
