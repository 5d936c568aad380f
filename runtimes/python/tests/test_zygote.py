"""A zygote and the replicas that it starts: what they answer, how the app prepares them, and when it refuses."""

import os
import unittest

from support import Replica
from zygote_support import Zygote, ZygoteTest, children_of, send_start

ECHO = "def run(value=None): return value"


class StartTest(ZygoteTest):
    def test_serves_as_an_ordinary_start_does(self):
        source = """
        import os, sys, threading
        imported = os.getpid()
        def where():
            names = [name for name in os.environ if name.startswith("SLIPWAY_")]
            main = threading.main_thread().ident == threading.get_ident()
            return [__name__, sys.argv, sys.path, os.getcwd(), sorted(names), main, os.getpid() == imported]
        async def parts():
            yield "one"
            yield "two"
        def fails():
            raise ValueError("no")
        """
        zygote = self.zygote(source)
        replica = self.forked(zygote, log_frames=1, environ={"SLIPWAY_REPLICA_ID": "r1"}, concurrency=3)
        other = self.forked(zygote)
        self.assertEqual([report.get("listening") for report in replica.reports], [True, None])
        answer = replica.call("where", x_request_id="id").json()
        answer.pop("run_time_ms")
        expected = ["main", [zygote.path("main.py")], None, zygote.app, ["SLIPWAY_REPLICA_ID"], False, False]
        expected[2] = answer["result"][2]
        self.assertEqual(answer, {"run_id": "id", "result": expected})
        self.assertEqual(expected[2][0], zygote.app)
        self.assertEqual(replica.call("parts").body, b"data: one\n\ndata: two\n\n")
        self.assertEqual(replica.call("fails").json()["error"], {"type": "ValueError", "message": "no"})
        self.assertIn("\x1fValueError: no\n", replica.stderr())
        self.assertEqual(other.call("where").result[4], [])
        self.assertEqual(replica.stop(), 0)
        self.assertEqual(other.call("where").status, 200)
        self.assertEqual(zygote.stderr(), "")

    def test_tells_that_the_import_failed_as_an_ordinary_start_does(self):
        zygote = self.zygote("def broken(): raise KeyError('x')\nbroken()", outcome="failed")
        self.assertEqual(zygote.outcome["error"], "KeyError: 'x'")
        self.assertEqual(zygote.wait(), 1)
        with Replica("def broken(): raise KeyError('x')\nbroken()", ready=False) as ordinary:
            self.assertEqual(ordinary.wait(), 1)
            self.assertEqual(zygote.stderr().replace(zygote.app, ""), ordinary.stderr().replace(ordinary.app, ""))

    def test_is_for_its_user_alone_and_runs_on_after_nonsense(self):
        zygote = self.zygote(ECHO)
        self.assertEqual(os.stat(zygote.socket_path).st_mode & 0o777, 0o600)
        for message in (b"nonsense\n", b"[]\n", b"{}\n", b'{"namespaces": 256, "environment": {}, "cwd": "/"}\n', b""):
            with zygote.connect() as connection:
                files = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
                if message:
                    send_start(connection, message, files)
                else:
                    connection.sendall(b"{}\n")
                for fd in files:
                    os.close(fd)
                self.assertEqual(connection.recv(10), b"")
        self.assertIn("namespaces is 256; allowed are the CLONE_NEW flags", zygote.stderr())
        self.assertEqual(children_of(zygote.process.pid), [])
        self.assertEqual(self.forked(zygote).call("run", {"value": 1}).result, 1)

    def test_takes_a_long_message_in_parts(self):
        value = "x" * 100_000
        replica = self.forked(self.zygote("import os\ndef run(): return os.environ['LONG']"), environ={"LONG": value})
        self.assertEqual(replica.call("run").result, value)

    def test_reports_settings_and_folders_that_cannot_be_used(self):
        zygote = self.zygote(ECHO)
        replica = self.forked(zygote, ready=False, concurrency=0)
        self.assertIn("SLIPWAY_CONCURRENCY is '0'", replica.report()["error"])
        self.assertEqual(replica.wait(), 2)
        replica = self.forked(zygote, ready=False, cwd="/nowhere")
        error = "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'"
        self.assertEqual(replica.report(), {"ready": False, "error": error})
        self.assertEqual(replica.wait(), 1)

    def test_keeps_the_settings_that_the_zygote_was_given(self):
        zygote = self.zygote(ECHO, max_body_bytes=10)
        self.assertEqual(self.forked(zygote).call("run", {"value": "longer than that"}).status, 413)
        self.assertEqual(self.forked(zygote, max_body_bytes=100).call("run", {"value": "longer than that"}).status, 200)


class HookTest(ZygoteTest):
    SOURCE = """
    import os, sys
    calls = []
    os.register_at_fork(after_in_child=lambda: calls.append(["at fork", os.environ.get("NAME"), os.getcwd()]))
    def _after_fork():
        calls.append(["hook", os.environ.get("NAME"), os.getcwd()])
        print("hooked", flush=True)
    def run(): return calls
    """

    def test_calls_both_kinds_once_with_all_in_place(self):
        zygote = self.zygote(self.SOURCE)
        replica = self.forked(zygote, environ={"NAME": "value"})
        place = ["value", zygote.app]
        self.assertEqual(replica.call("run").result, [["at fork", *place], ["hook", *place]])
        self.assertEqual(replica.stdout(), "hooked\n")
        self.assertEqual(zygote.stdout(), "")

    def test_calls_it_in_an_ordinary_start_too(self):
        with Replica(self.SOURCE, environ={"NAME": "value"}) as replica:
            self.assertEqual(replica.call("run").result, [["hook", "value", replica.app]])
            self.assertEqual(replica.call("_after_fork").status, 404)

    def test_may_be_async(self):
        source = """
        import asyncio
        event = []
        async def _after_fork():
            await asyncio.sleep(0)
            event.append(asyncio.get_running_loop())
        async def run(): return event == [asyncio.get_running_loop()]
        """
        self.assertIs(self.forked(self.zygote(source)).call("run").result, True)

    def test_ends_the_start_when_it_fails(self):
        source = "import os, sys\ndef _after_fork(): %s\ndef run(): pass"
        failures = [
            ("raise ValueError('no')", "ValueError: no", 1),
            ("sys.exit(7)", "SystemExit: main.py called sys.exit(7) in _after_fork", 1),
        ]
        for code, error, exit_code in failures:
            zygote = self.zygote(source % code)
            replica = self.forked(zygote, ready=False)
            self.assertEqual(replica.report(), {"ready": False, "error": error})
            self.assertEqual(replica.wait(), exit_code)
            self.assertIn("in _after_fork", replica.stderr())
            self.assertNotIn("slipway_cortex", replica.stderr())
            self.assertIn("|| ERROR || Failure to initialize user app || END ERROR ||\n", replica.stderr())


class RefusalTest(ZygoteTest):
    def refuses(self, source, *parts, files=None):
        """The sentences of a zygote that refuses, in one of which are all of `parts`."""
        with Zygote(source + "\ndef run(): pass\n", files, outcome="refused") as zygote:
            reasons = zygote.outcome["reasons"]
            self.assertTrue(any(all(part in reason for part in parts) for reason in reasons), reasons)
            self.assertEqual(zygote.wait(), 0)
            return reasons

    def test_names_threads_and_processes(self):
        thread = "import threading\nend = threading.Event()\n"
        thread += "threading.Thread(target=end.wait, name='loader', daemon=True).start()"
        self.assertEqual(len(self.refuses(thread, "the thread 'loader'", "_after_fork")), 1)
        # A thread that Python does not know.
        library = """
import ctypes
libc = ctypes.CDLL(None)
thread = ctypes.c_ulong()
libc.pthread_create(ctypes.byref(thread), None, libc.pause, None)
"""
        self.refuses(library, "a thread of a library is running", "OPENBLAS_NUM_THREADS=1")
        child = "import subprocess, atexit\nchild = subprocess.Popen(['sleep', '60'])\natexit.register(child.kill)"
        self.refuses(child, "the process 'sleep' (")

    def test_names_what_is_open(self):
        server = "import socket\na = socket.create_server(('127.0.0.1', 0))\n"
        self.refuses(server, "a socket that listens at 127.0.0.1:")
        self.refuses(server + "b = socket.create_connection(a.getsockname())", "a connection to 127.0.0.1:")
        self.refuses("import os\nends = os.pipe()", "a pipe is open")
        self.refuses("import select\na = select.epoll()", "eventpoll is open")
        self.refuses("import os\na = os.open('/dev/full', os.O_RDONLY)", "the device /dev/full")
        self.refuses("import os\na = os.open('/proc/self/ns/net', os.O_RDONLY)", "net:[")
        self.refuses("a = open('log.txt', 'a')", "log.txt is open for writing")
        database = "import sqlite3\na = sqlite3.connect('app.db')\na.execute('create table t (x)')"
        self.refuses(database, "app.db is open for writing")
        fine = "import os\na = [open('/dev/null', 'w'), open('/dev/urandom', 'rb'), open('main.py')]\n"
        self.zygote(fine + "b = os.open('/', os.O_RDONLY)\n" + ECHO)

    def test_names_all_at_once(self):
        reasons = self.refuses("import os\nends = os.pipe()\na = open('log.txt', 'a')")
        self.assertEqual(len(reasons), 3, reasons)

    def test_names_shared_memory_timers_and_event_loops(self):
        self.refuses("import mmap\na = mmap.mmap(-1, 4096)", "shared memory")
        self.refuses("import signal\nsignal.signal(14, print)\nsignal.alarm(60)", "ITIMER_REAL")
        self.refuses("import asyncio\nasyncio.set_event_loop(asyncio.new_event_loop())", "an event loop of its own")
        loop = """
import asyncio
class Loop(asyncio.SelectorEventLoop): pass
class Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self): return Loop()
asyncio.get_event_loop().close()
asyncio.set_event_loop_policy(Policy())
"""
        self.refuses(loop, "the event loop is a main.Loop")
    def test_starts_when_a_library_ends_its_threads_before_a_fork(self):
        # As OpenBLAS does, which starts its threads when numpy is imported.
        source = """
        import ctypes
        libc = ctypes.CDLL(None)
        thread = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(thread), None, libc.pause, None)
        @ctypes.CFUNCTYPE(None)
        def end():
            if thread.value:
                libc.pthread_cancel(thread)
                libc.pthread_join(thread, None)
                thread.value = 0
        libc.__register_atfork(end, None, None, None)
        """
        self.zygote(source + "def run(): pass\n")


if __name__ == "__main__":
    unittest.main()
