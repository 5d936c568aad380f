"""Which run a printed line belongs to: the stream alone, and a real replica."""

import io
import os
import random
import re
import tempfile
import threading
import unittest

from support import Replica, until
from slipway_cortex.app_log import PARTIAL_CHARACTERS_MAX, LogStream
from slipway_cortex.runs import current_run

SOURCE = """
import asyncio, logging, multiprocessing, os, sys, threading, time, warnings

handler = logging.StreamHandler()
logging.getLogger().addHandler(handler)
print("at import")

def speak(text="hello"):
    print(text)
    print(text, "again", file=sys.stderr)
    logging.warning("logged %s", text)

async def speak_later(text="hello"):
    print(text)
    await asyncio.sleep(0)
    await asyncio.gather(*(part(text, number) for number in range(3)))

async def part(text, number):
    print("part", number, "of", text)

def unfinished():
    sys.stdout.write("no line break")

def bar():
    for percent in (10, 20):
        print("%d%%" % percent, end="\\r", flush=True)
    end = time.monotonic() + 20
    while not os.path.exists("go") and time.monotonic() < end:
        time.sleep(0.003)
    print("done")

def many(name, count):
    for number in range(count):
        print(name, number, "x" * (number % 300))

def stream():
    print("before")
    yield "one"
    print("after")

def outside():
    threading.Thread(target=print, args=("of no run",)).start()

def fork():
    child = multiprocessing.get_context("fork").Process(target=print, args=("in the child",), kwargs={"end": ""})
    child.start()
    child.join(20)
    return child.exitcode

def raw():
    sys.stdout.buffer.write(b"raw\\n")
    sys.stdout.flush()
    os.write(1, b"rawer\\n")
    return [sys.stdout.fileno(), sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.writable(), sys.stdout.closed]
"""


class StreamTest(unittest.TestCase):
    def setUp(self):
        self.file = tempfile.TemporaryFile()
        self.original = io.TextIOWrapper(os.fdopen(os.dup(self.file.fileno()), "wb"), encoding="ascii")
        self.stream = LogStream(self.original)
        self.addCleanup(self.file.close)
        self.addCleanup(self.original.close)

    def written(self):
        self.file.seek(0)
        return self.file.read()

    def within(self, run, text):
        token = current_run.set(run)
        try:
            return self.stream.write(text)
        finally:
            current_run.reset(token)

    def test_marks_the_lines_of_runs_only(self):
        self.assertEqual(self.within("r1", "a\nb\n"), 4)
        self.stream.write("c\n\n")
        self.assertEqual(self.written(), b"\x1er1\x1fa\n\x1er1\x1fb\nc\n\n")

    def test_keeps_what_has_no_line_break_apart_for_each_run(self):
        for run, text in (("r1", "a"), ("r2", "b"), (None, "c"), ("r1", "d\ne"), ("r2", "f\n"), (None, "g\n")):
            self.within(run, text)
        self.assertEqual(self.written(), b"\x1er1\x1fad\n\x1er2\x1fbf\ncg\n")
        self.stream.end_run("r2")
        self.stream.end_run("r1")
        self.assertTrue(self.written().endswith(b"cg\n\x1er1\x1fe\n"))
        self.stream.write("h")
        self.stream.flush()
        self.assertNotIn(b"h", self.written())
        self.stream.end_all()
        self.assertTrue(self.written().endswith(b"h\n"))

    def test_writes_out_a_line_that_never_ends(self):
        for _ in range(PARTIAL_CHARACTERS_MAX // 1000 + 2):
            self.within("r", "x" * 1000)
        self.assertTrue(self.written().startswith(b"\x1er\x1fxxx"))
        self.assertEqual(self.written().count(b"\n"), 1)

    def test_writes_a_flushed_line_before_it_is_finished_and_again_when_it_has_grown(self):
        self.within("r", "..")
        self.stream.show()
        self.assertEqual(self.written(), b"", "it was not flushed")
        token = current_run.set("r")
        self.stream.flush()
        self.stream.show()
        self.stream.flush()
        self.stream.show()
        self.assertEqual(self.written(), b"\x1er\x1f..\n")
        self.stream.write(". done\n")
        self.assertEqual(self.written(), b"\x1er\x1f..\n\x1er\x1f... done\n")
        self.stream.write("Name: ")
        self.stream.flush()
        self.stream.show()
        self.stream.write("\nnext\n")
        self.assertTrue(self.written().endswith(b"done\n\x1er\x1fName: \n\x1er\x1fnext\n"))
        self.stream.write("last")
        self.stream.flush()
        self.stream.show()
        self.stream.end_run("r")
        current_run.reset(token)
        self.assertTrue(self.written().endswith(b"next\n\x1er\x1flast\n"))

    def test_replaces_a_line_at_each_carriage_return(self):
        for percent in range(101):
            self.stream.write("\r%3d%% %s" % (percent, "#" * 2000))
            if percent == 50:
                self.stream.show()
        self.stream.show()
        self.stream.write("\n")
        bar = "#" * 2000
        self.assertEqual(self.written().decode(), " 50%% %s\n100%% %s\n" % (bar, bar))

    def test_cannot_be_made_to_claim_another_run(self):
        self.stream.write("a\n\x1er1\x1fforged\nb\x1ec\n")
        self.assertEqual(self.written(), b"a\n\x1e\x1f\x1er1\x1fforged\nb\x1ec\n")

    def test_writes_any_text_and_refuses_bytes(self):
        self.stream.write("\u00e4\u20ac\ud800\n")
        self.assertEqual(self.written(), "\u00e4\u20ac\\ud800\n".encode())
        with self.assertRaises(TypeError):
            self.stream.write(b"x")
        self.assertEqual(self.stream.write(""), 0)

    def test_survives_a_reader_that_has_gone(self):
        read_end, write_end = os.pipe()
        with io.TextIOWrapper(os.fdopen(write_end, "wb")) as original:
            stream = LogStream(original)
            os.close(read_end)
            self.assertEqual(stream.write("x\n"), 2)

    def test_waits_for_a_reader_that_is_slow(self):
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        data = []
        with io.TextIOWrapper(os.fdopen(write_end, "wb")) as original, os.fdopen(read_end, "rb") as source:
            reader = threading.Thread(target=lambda: data.append(source.read()))
            stream = LogStream(original)
            threading.Timer(0.05, reader.start).start()
            for _ in range(10):
                stream.write("x" * 99999 + "\n")
            original.close()
            until(lambda: data)
            reader.join()
        self.assertEqual(data[0], (b"x" * 99999 + b"\n") * 10)

    def test_never_mixes_lines_of_threads(self):
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)  # So that many a write takes only a part of its lines.
        data = []

        def work(name):
            chance = random.Random(name)
            current_run.set("run%d" % name)
            for _ in range(100):
                text = "%d:%s" % (name, "ab" * chance.randint(0, 20000))
                cut = chance.randint(0, len(text))
                stream.write(text[:cut])
                stream.write(text[cut:] + "\n")

        with io.TextIOWrapper(os.fdopen(write_end, "wb")) as original, os.fdopen(read_end, "rb") as source:
            stream = LogStream(original)
            threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
            reader = threading.Thread(target=lambda: data.append(source.read()))
            for thread in threads + [reader]:
                thread.start()
            for thread in threads:
                thread.join()
            original.close()
            reader.join()
        lines = data[0].decode()[:-1].split("\n")
        self.assertEqual(len(lines), 800)
        for line in lines:
            self.assertTrue(re.match("^\x1erun(\\d)\x1f\\1:(ab)*$", line), line[:50])


class ReplicaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.replica = Replica(SOURCE, log_frames=1)

    @classmethod
    def tearDownClass(cls):
        cls.replica.close()

    def lines(self, run, name="stdout"):
        """The lines of a run; those of a call are written before its answer."""
        mark = "\x1e%s\x1f" % run
        return [line[len(mark) :] for line in getattr(self.replica, name)().split("\n") if line.startswith(mark)]

    def test_marks_what_a_run_prints_and_logs(self):
        self.replica.call("speak", x_request_id="r1")
        self.assertEqual(self.lines("r1"), ["hello"])
        self.assertEqual(self.lines("r1", "stderr"), ["hello again", "logged hello"])
        self.replica.call("speak_later", x_request_id="r2")
        self.assertEqual(self.lines("r2"), ["hello"] + ["part %d of hello" % number for number in range(3)])
        self.assertIn("at import\n", self.replica.stdout())
        self.assertNotIn("\x1fat import", self.replica.stdout())

    def test_finishes_the_last_line_when_the_run_ends(self):
        self.replica.call("unfinished", x_request_id="r3")
        self.assertEqual(self.lines("r3"), ["no line break"])

    def test_shows_what_was_flushed_while_the_call_goes_on(self):
        with self.replica.client() as client:
            client.send(b"POST /bar HTTP/1.1\r\nhost: a\r\nx-request-id: r7\r\ncontent-length: 2\r\n\r\n{}")
            until(lambda: self.lines("r7") == ["20%"])
            with open(os.path.join(self.replica.app, "go"), "w"):
                pass
            self.assertEqual(client.answer().status, 200)
        self.assertEqual(self.lines("r7"), ["20%", "\rdone"])

    def test_marks_what_a_stream_prints(self):
        self.replica.call("stream", x_request_id="r4")
        self.assertEqual(self.lines("r4"), ["before", "after"])

    def test_keeps_calls_at_the_same_time_apart(self):
        clients = [self.replica.client() for _ in range(5)]
        for number, client in enumerate(clients):
            body = b'{"name": "n%d", "count": 200}' % number
            head = "POST /many HTTP/1.1\r\nhost: a\r\nx-request-id: many-%d\r\ncontent-length: %d\r\n\r\n"
            client.send((head % (number, len(body))).encode() + body)
        for client in clients:
            self.assertEqual(client.answer().status, 200)
            client.close()
        for number in range(5):
            expected = ["n%d %d %s" % (number, index, "x" * (index % 300)) for index in range(200)]
            self.assertEqual(self.lines("many-%d" % number), expected)

    def test_leaves_other_threads_lines_plain_unless_python_hands_the_context_on(self):
        self.replica.call("outside", x_request_id="r5")
        until(lambda: "of no run\n" in self.replica.stdout())

    def test_marks_what_a_forked_child_prints(self):
        self.assertEqual(self.replica.call("fork", x_request_id="r6").result, 0)
        self.assertEqual(self.lines("r6"), ["in the child"])

    def test_keeps_the_rest_of_a_stream_working(self):
        self.assertEqual(self.replica.call("raw").result, [1, False, "utf-8", True, False])
        self.assertIn("raw\nrawer\n", self.replica.stdout())

    def test_writes_lines_as_they_are_when_not_asked(self):
        with Replica(SOURCE) as replica:
            replica.call("speak")
            self.assertEqual(replica.stdout(), "at import\nhello\n")
            self.assertNotIn("answered", replica.stderr())

    def test_tells_of_each_answer_when_asked(self):
        for level in ("DEBUG", "INTERNAL"):
            with Replica(SOURCE, log_level=level) as replica:
                replica.call("speak")
                until(lambda: re.search(r"^slipway: answered 200 after \d+\.\d ms$", replica.stderr(), re.M))


if __name__ == "__main__":
    unittest.main()
