"""The end of a real replica: running calls finish, new ones are refused, clean-up runs, and everything is bounded."""

import os
import signal
import socket
import unittest

from support import Replica, request, until

SOURCE = """
import asyncio, atexit, os, signal, sys, threading, time

atexit.register(lambda: print("atexit ran", flush=True))

def wait():
    print("began", flush=True)
    end = time.monotonic() + 20
    while not os.path.exists("go") and time.monotonic() < end:
        time.sleep(0.003)
    print("ended", flush=True)
    return "waited"

async def wait_later():
    print("began", flush=True)
    while not os.path.exists("go"):
        await asyncio.sleep(0.003)
    return "waited"

def stream():
    print("began", flush=True)
    yield "one"
    wait()
    yield "two"

def forever():
    print("began", flush=True)
    while True:
        time.sleep(60)

async def forever_later():
    print("began", flush=True)
    try:
        await asyncio.sleep(3600)
    finally:
        print("cleaned", flush=True)

async def background():
    async def work():
        try:
            await asyncio.sleep(3600)
        finally:
            print("background cleaned", flush=True)
    asyncio.ensure_future(work())
    await asyncio.sleep(0)

async def leaves_in_a_task():
    async def leave():
        sys.exit(5)
    asyncio.ensure_future(leave())

def echo(value=None):
    return value

async def stops_the_loop():
    asyncio.get_event_loop().stop()

def child(seconds):
    pid = os.fork()
    if pid == 0:
        time.sleep(seconds)
        os._exit(0)
    return pid
"""


class DrainTest(unittest.TestCase):
    def began(self, replica, calls=1):
        until(lambda: replica.stdout().count("began") >= calls, "the start of the calls")

    def test_ends_at_once_when_nothing_runs(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Replica(SOURCE) as replica, replica.client() as idle:
                self.assertEqual(idle.call("echo", {"value": 1}).result, 1)
                replica.process.send_signal(number)
                self.assertEqual(replica.wait(), 0)
                self.assertTrue(idle.ended())
                self.assertEqual((replica.stdout(), replica.stderr()), ("atexit ran\n", ""))

    def test_lets_running_calls_end_and_refuses_new_ones(self):
        with Replica(SOURCE, concurrency=3) as replica:
            calls = [replica.client() for _ in range(4)]
            for client, function in zip(calls, ("wait", "wait_later", "stream")):
                client.send(request("POST", "/" + function, b"{}"))
            self.began(replica, 3)
            calls[3].send(request("POST", "/echo", b'{"value": "in line"}'))
            arriving, idle = replica.client(), replica.client()
            idle.send(request("GET", "/_slipway/ready"))
            self.assertEqual(idle.answer().status, 200)
            arriving.send(request("POST", "/echo", b'{"value": 1}')[:-3])
            self.assertEqual(replica.get("/_slipway/ready").status, 200)
            replica.process.send_signal(signal.SIGTERM)
            self.assertTrue(idle.ended())
            answer = until(lambda: self.unready(replica))
            self.assertEqual((answer.message, answer.fields["connection"]), ("the replica is stopping", "close"))
            self.assertEqual(replica.get("/_slipway/health").status, 200)
            refused = replica.call("echo")
            self.assertEqual((refused.status, refused.fields["slipway-refused"]), (503, "1"))
            arriving.send(b" 1}")
            answer = arriving.answer()
            self.assertEqual((answer.status, answer.fields["connection"]), (503, "close"))
            self.assertEqual(answer.fields["slipway-refused"], "1")
            open(replica.path("go"), "w").close()
            for client in calls[:2]:
                answer = client.answer()
                self.assertEqual((answer.result, answer.fields["connection"]), ("waited", "close"))
                self.assertTrue(client.ended())
            self.assertEqual(calls[2].answer().body, b"data: one\n\ndata: two\n\n")
            self.assertEqual(calls[3].answer().result, "in line")
            self.assertEqual(replica.wait(), 0)
            self.assertTrue(replica.stdout().endswith("atexit ran\n"))
            for client in calls + [arriving, idle]:
                client.close()

    def unready(self, replica):
        """The answer of the readiness question once it is no; None before."""
        answer = replica.get("/_slipway/ready")
        return answer if answer.status == 503 else None

    def test_gives_up_after_the_grace(self):
        with Replica(SOURCE, grace_seconds=0.3) as replica:
            calls = [replica.client() for _ in range(3)]
            for client, function in zip(calls, ("forever", "forever_later", "stream")):
                client.send(request("POST", "/" + function, b"{}"))
            self.began(replica, 3)
            self.assertEqual(replica.stop(), 0)
            for client in calls[:2]:
                answer = client.answer()
                self.assertEqual((answer.status, "the replica stopped" in answer.message), (503, True))
            answer = calls[2].answer()
            self.assertFalse(answer.complete)
            self.assertIn(b"event: error", answer.body)
            self.assertIn("cleaned", replica.stdout())
            self.assertIn("atexit ran", replica.stdout())
            self.assertEqual(replica.stderr(), "")
            for client in calls:
                client.close()

    def test_ends_at_once_when_it_is_told_twice(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with Replica(SOURCE) as replica, replica.client() as client:
                client.send(request("POST", "/forever", b"{}"))
                self.began(replica)
                replica.process.send_signal(number)
                until(lambda: self.unready(replica))
                replica.process.send_signal(number)
                self.assertEqual(replica.wait(), code)

    def test_waits_only_so_long_for_a_client_that_does_not_read(self):
        source = "async def large(): return 'x' * 50000000"
        with Replica(source, grace_seconds=0.3) as replica, replica.client() as client:
            client.send(request("POST", "/large", b"{}"))
            client.head()
            self.assertEqual(replica.stop(), 0)

    def test_cancels_background_tasks_and_survives_those_that_leave(self):
        with Replica(SOURCE) as replica:
            replica.call("background")
            replica.call("leaves_in_a_task")
            self.assertEqual(replica.call("echo", {"value": 1}).result, 1)
            replica.call("stops_the_loop")
            self.assertEqual(replica.call("echo", {"value": 1}).result, 1)
            self.assertEqual(replica.stop(), 0)
            self.assertIn("background cleaned", replica.stdout())

    def test_runs_the_app_s_own_handler_at_the_end(self):
        source = """
        import signal, sys
        def clean(number, frame):
            print("own handler", number, flush=True)
            sys.exit(9)
        signal.signal(signal.SIGTERM, clean)
        """
        with Replica(SOURCE + "\nimport own", {"own.py": source}) as replica, replica.client() as client:
            client.send(request("POST", "/wait", b"{}"))
            self.began(replica)
            replica.process.send_signal(signal.SIGTERM)
            until(lambda: self.unready(replica))
            self.assertNotIn("own handler", replica.stdout())
            open(replica.path("go"), "w").close()
            self.assertEqual(client.answer().result, "waited")
            self.assertEqual(replica.wait(), 0)
            self.assertIn("own handler 15\natexit ran", replica.stdout())

    def test_ends_although_a_thread_of_the_app_does_not(self):
        source = SOURCE + "\nthreading.Thread(target=threading.Event().wait, args=(60,)).start()"
        with Replica(source, grace_seconds=0.3) as replica:
            self.assertEqual(replica.stop(), 0)
            self.assertEqual(replica.stdout(), "atexit ran\n")

    def test_lets_slow_clean_up_end_once(self):
        source = """
        import atexit, time
        def slow():
            print("slow begins", flush=True)
            time.sleep(0.6)
            print("slow ended", flush=True)
        atexit.register(slow)
        """
        with Replica(source, grace_seconds=0.3) as replica:
            self.assertEqual(replica.stop(), 0)
            self.assertEqual(replica.stdout(), "slow begins\nslow ended\n")


class ForkTest(unittest.TestCase):
    def test_a_child_holds_neither_the_port_nor_a_connection(self):
        with Replica(SOURCE) as replica:
            client = replica.client()
            pid = client.call("child", {"seconds": 60}, connection="close").result
            try:
                self.assertTrue(client.ended())
                self.assertEqual(replica.stop(), 0)
                with self.assertRaises(OSError):
                    socket.create_connection(("127.0.0.1", replica.port), 5)
            finally:
                client.close()
                os.kill(pid, signal.SIGKILL)

    def test_a_child_of_the_import_holds_neither(self):
        source = SOURCE + "\npid = child(60)\ndef child_pid(): return pid\n"
        with Replica(source) as replica:
            pid = replica.call("child_pid").result
            try:
                self.assertEqual(replica.stop(), 0)
                with self.assertRaises(OSError):
                    socket.create_connection(("127.0.0.1", replica.port), 5)
            finally:
                os.kill(pid, signal.SIGKILL)

    def test_a_signal_to_a_child_does_not_reach_the_replica(self):
        source = """
        import multiprocessing, os, signal, time
        def sleep(began):
            began.set()
            time.sleep(60)
        def run(number, waits):
            context = multiprocessing.get_context("fork")
            began = context.Event()
            child = context.Process(target=sleep, args=(began,))
            child.start()
            if waits:
                began.wait(20)
            os.kill(child.pid, number)
            if number == signal.SIGINT:
                child.join(0.5)
                child.kill()  # Python 3.13.0 itself does not always see it in a child that a thread has forked.
            child.join(20)
            return child.exitcode
        """
        with Replica(source) as replica:
            for number, waits in ((signal.SIGTERM, True), (signal.SIGTERM, False)):
                self.assertEqual(replica.call("run", {"number": int(number), "waits": waits}).result, -number)
            replica.call("run", {"number": int(signal.SIGINT), "waits": True})
            self.assertEqual(replica.get("/_slipway/ready").status, 200)
            self.assertEqual(replica.process.poll(), None)


if __name__ == "__main__":
    unittest.main()
