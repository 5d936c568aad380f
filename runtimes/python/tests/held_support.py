"""What tests of held runs share: an app, a replica with the platform's questions, and how a held call looks."""

import json

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

async def fails_in_between_later():
    yield "one"
    raise ValueError("in between")

def unserialisable():
    yield "one"
    yield [object()]

async def unserialisable_later():
    yield "one"
    yield [object()]

async def returns_failing_generator():
    return fails_in_between()

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
    try:
        log("began")
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

def sleeps(seconds=0.5):
    log("began")
    time.sleep(seconds)
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
        """The Answer to an attach to the first start of a run."""
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
