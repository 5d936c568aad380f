"""The start of a real replica: what answers meanwhile, failed imports, settings, and what the app finds in place."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from support import RUNTIME, Client, Replica, request, until

WAITS = """
import os, time
print("importing", flush=True)
end = time.monotonic() + 20
while not os.path.exists("go") and time.monotonic() < end:
    time.sleep(0.003)
def run(value=None):
    return value
"""
FAILED = "|| ERROR || Failure to initialize user app || END ERROR ||\n"


def free_port(test):
    """A port that nothing listens on, and that no other program is given while the test runs."""
    probe = socket.socket()
    test.addCleanup(probe.close)
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    if sys.platform != "linux":  # Elsewhere nobody could listen on a port that is kept like this.
        probe.close()
    return port


class StartingTest(unittest.TestCase):
    def starting(self, source=WAITS, **options):
        """A replica whose import has begun, with its port known."""
        port = free_port(self)
        replica = Replica(source, ready=False, listen="127.0.0.1:%d" % port, **options)
        self.addCleanup(replica.close)
        replica.port = port
        until(lambda: "importing" in replica.stdout())
        return replica

    def test_answers_that_it_is_alive_while_it_imports_and_that_it_is_ready_as_soon_as_it_is(self):
        replica = self.starting()
        early = replica.client()
        self.addCleanup(early.close)
        early.send(request("GET", "/_slipway/ready"))
        self.assertEqual(replica.get("/_slipway/health").status, 200)
        with replica.client() as client:
            client.send(request("HEAD", "/_slipway/health"))
            self.assertEqual(client.answer(head_only=True).status, 200)
            self.assertTrue(client.ended())
        open(replica.path("go"), "w").close()
        self.assertEqual(early.answer().message, "ready")
        self.assertEqual(replica.report(), {"ready": True, "port": replica.port})
        self.assertEqual(replica.reports[0], {"listening": True, "port": replica.port})
        self.assertEqual(replica.get("/_slipway/ready").status, 200)

    @unittest.skipUnless(sys.platform == "linux", "it counts descriptors in /proc")
    def test_drops_questions_whether_it_is_ready_that_nobody_waits_for(self):
        replica = self.starting()
        descriptors = "/proc/%d/fd" % replica.process.pid
        before = len(os.listdir(descriptors))
        clients = [replica.client() for _ in range(20)]
        for client in clients:
            client.send(request("GET", "/_slipway/ready"))
        until(lambda: len(os.listdir(descriptors)) == before + 20)
        for client in clients:
            client.close()
        until(lambda: len(os.listdir(descriptors)) == before)
        open(replica.path("go"), "w").close()
        self.assertEqual(replica.report(), {"ready": True, "port": replica.port})

    def test_keeps_calls_that_come_meanwhile(self):
        replica = self.starting()
        clients = [replica.client() for _ in range(5)]
        call = request("POST", "/run", b'{"value": "early"}')
        clients[0].send(call)
        clients[1].send(call[:20])
        clients[2].send(call * 2)
        clients[3].send(b"NONSENSE\r\n\r\n")
        clients[4].send(request("GET", "/_slipway/ready")[:-2])
        self.assertEqual(replica.get("/_slipway/health").status, 200)
        clients[1].send(call[20:30])
        self.assertEqual(replica.get("/_slipway/health").status, 200)
        open(replica.path("go"), "w").close()
        replica.report()
        clients[1].send(call[30:])
        clients[4].send(b"\r\n")
        self.assertEqual([clients[index].answer().result for index in (0, 1, 2, 2)], ["early"] * 4)
        self.assertEqual(clients[3].answer().status, 400)
        self.assertEqual(clients[4].answer().message, "ready")
        for client in clients:
            client.close()

    def test_ends_when_it_is_told_to_while_it_imports(self):
        replica = self.starting("import atexit\natexit.register(print, 'atexit ran')\n" + WAITS)
        self.assertEqual(replica.stop(), 143)
        self.assertFalse(replica.report()["ready"])
        self.assertIn("atexit ran", replica.stdout())
        self.assertNotIn(FAILED, replica.stderr())

    def test_ends_at_once_when_it_is_told_twice(self):
        swallow = """
        import time
        while True:
            try:
                print("importing", flush=True)
                # Short ones: a signal just before a sleep begins is seen after it.
                while True:
                    time.sleep(0.01)
            except BaseException:
                print("swallowed", flush=True)
        """
        replica = self.starting(swallow)
        replica.process.send_signal(signal.SIGTERM)
        until(lambda: "swallowed" in replica.stdout())
        self.assertEqual(replica.stop(), 143)


class FailureTest(unittest.TestCase):
    def fails(self, source, error, files=None, log_frames=1):
        """Starts an app that cannot be imported; its standard error."""
        with Replica(source, files, ready=False, log_frames=log_frames) as replica:
            report = replica.report()
            self.assertEqual(replica.wait(), 1)
            self.assertEqual((report["ready"], report["error"]), (False, error))
            log = replica.stderr()
            message = error.partition(": ")[2]
            self.assertTrue(log.endswith(FAILED + "|| ERROR || Error: %s || END ERROR ||\n" % message), log)
            self.assertNotIn("slipway_cortex", log)
            self.assertNotIn("start.py", log)
            return log

    def test_shows_the_app_s_traceback_and_the_known_lines(self):
        log = self.fails(
            "def load():\n    import nowhere_at_all\nload()", "ModuleNotFoundError: No module named 'nowhere_at_all'"
        )
        self.assertTrue(log.startswith("Traceback (most recent call last):\n  File "), log)
        self.assertIn("line 3, in <module>", log)
        self.assertIn("line 2, in load", log)

    def test_shows_errors_of_modules_and_of_syntax(self):
        log = self.fails("import part", "ValueError: no", {"part.py": "raise ValueError('no')"})
        self.assertIn("part.py", log)
        with Replica("def run(:\n    pass", ready=False) as replica:
            self.assertTrue(replica.report()["error"].startswith("SyntaxError: "))
            self.assertEqual(replica.wait(), 1)
            self.assertIn("def run(:", replica.stderr())

    def test_says_that_main_is_missing(self):
        with Replica(None, {"app.py": ""}, ready=False) as replica:
            self.assertIn("there is no main.py", replica.report()["error"])
            self.assertEqual(replica.wait(), 1)
            self.assertIn("there is no main.py", replica.stderr())

    def test_refuses_a_main_that_has_nothing_to_call(self):
        files = {"part.py": "def run(): pass"}
        for source in ("", "from part import run", "def _run(): pass", "class Run: pass"):
            with Replica(source, files, ready=False) as replica:
                self.assertTrue(replica.report()["error"].startswith("main.py has no public function, so "))
                self.assertEqual(replica.wait(), 1)
                self.assertIn("|| ERROR || Error: main.py has no public function", replica.stderr())

    def test_says_that_the_app_left(self):
        for leave, error in (
            ("raise SystemExit(0)", "SystemExit: main.py called sys.exit(0) while it was imported"),
            ("import sys; sys.exit('bye')", "SystemExit: main.py called sys.exit('bye') while it was imported"),
            ("raise SystemExit(143)", "SystemExit: main.py called sys.exit(143) while it was imported"),
        ):
            self.assertIn("line 1, in <module>", self.fails(leave, error))

    def test_keeps_a_message_of_many_lines_on_one(self):
        with Replica("raise ValueError('a\\nb\\n  c' + 'x' * 5000)", ready=False) as replica:
            replica.wait()
            self.assertIn("|| ERROR || Error: a b cxxx", replica.stderr())
            self.assertLess(len(replica.stderr().splitlines()[-1]), 2100)

    def test_points_at_modules_that_cannot_be_reached(self):
        with Replica("import token\ntoken.make()", {"token.py": "def make(): pass"}, ready=False) as replica:
            replica.wait()
            self.assertIn("token.py cannot be imported by that name", replica.stderr())

    def test_ends_although_a_thread_of_the_app_does_not(self):
        source = """
        import threading
        threading.Thread(target=threading.Event().wait, args=(60,)).start()
        raise ValueError("no")
        """
        with Replica(source, ready=False, grace_seconds=0.3) as replica:
            self.assertFalse(replica.report()["ready"])
            self.assertEqual(replica.wait(), 1)


class SettingTest(unittest.TestCase):
    def test_refuses_settings_that_cannot_be_used(self):
        for name, value in (
            ("listen", "nowhere"),
            ("listen", "127.0.0.1:70000"),
            ("listen", "127.0.0.1:x"),
            ("concurrency", "0"),
            ("concurrency", "many"),
            ("grace_seconds", "-1"),
            ("grace_seconds", "nan"),
            ("max_body_bytes", "1e6"),
        ):
            with Replica("", ready=False, **{name: value}) as replica:
                self.assertIn("SLIPWAY_" + name.upper(), replica.report()["error"])
                self.assertEqual(replica.wait(), 2)
                self.assertIn(repr(value), replica.stderr())

    def test_says_that_the_port_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            with Replica("", ready=False, listen=address) as replica:
                self.assertIn("cannot listen on " + address, replica.report()["error"])
                self.assertEqual(replica.wait(), 2)

    def test_listens_on_other_families(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            self.skipTest("no IPv6 here: %s" % error)
        with Replica("def run(): return 1", listen="[::1]:0") as replica:
            with socket.create_connection(("::1", replica.port), 20) as client:
                client.sendall(request("POST", "/run"))
                self.assertTrue(client.recv(1000).startswith(b"HTTP/1.1 200"))

    def test_starts_without_a_ready_descriptor_or_with_a_useless_one(self):
        for fd in (None, "99", "x", "1"):
            port = free_port(self)
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "main.py"), "w") as out:
                    out.write("def run(): return 1")
                environ = dict(os.environ, SLIPWAY_LISTEN="127.0.0.1:%d" % port)
                if fd is not None:
                    environ["SLIPWAY_READY_FD"] = fd
                process = subprocess.Popen([sys.executable, os.path.join(RUNTIME, "start.py")], cwd=folder, env=environ)
                try:
                    with until(lambda port=port: self.connected(port)) as client:
                        self.assertEqual(client.call("run").result, 1)
                finally:
                    process.kill()
                    process.wait()

    def connected(self, port):
        """A client of that port, or None while nothing listens."""
        try:
            return Client(port)
        except ConnectionRefusedError:
            return None

    def test_says_which_port_it_took_when_nobody_could_know(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "main.py"), "w") as file:
                file.write("def run(): pass")
            environ = dict(os.environ, SLIPWAY_LISTEN="127.0.0.1:0")
            command = [sys.executable, os.path.join(RUNTIME, "start.py")]
            process = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE)
            try:
                line = process.stderr.readline().decode()
                self.assertIn("listening on port", line)
                Client(int(line.split()[-1])).close()
            finally:
                process.kill()
                process.communicate()


class SurroundingsTest(unittest.TestCase):
    def test_gives_the_app_the_place_it_expects(self):
        source = """
        import os, sys
        def look():
            return {
                "path": sys.path, "argv": sys.argv, "folder": os.getcwd(), "name": __name__, "main": run.__module__,
                "environ": sorted(name for name in os.environ if name.startswith("SLIPWAY_")),
                "inheritable": [fd for fd in range(3, 64) if is_inheritable(fd)],
            }
        def is_inheritable(fd):
            try:
                return os.get_inheritable(fd)
            except OSError:
                return False
        def run(): pass
        if __name__ == "__main__":
            raise SystemExit("run as a script")
        """
        for options in ((), ("-P",) if sys.version_info >= (3, 11) else ("-s",)):
            with Replica(source, python_options=options, concurrency=3) as replica:
                found = replica.call("look").result
                folder = os.path.realpath(replica.app)
                self.assertEqual((found["path"][0], found["folder"]), (folder, folder))
                self.assertEqual(found["argv"], [os.path.join(folder, "main.py")])
                self.assertEqual([entry for entry in found["path"] if RUNTIME in entry], found["path"][-1:])
                self.assertEqual((found["name"], found["main"]), ("main", "main"))
                self.assertEqual((found["environ"], found["inheritable"]), ([], []))

    def test_leaves_every_module_name_to_the_app(self):
        names = "server http app start boot service settings listen workers calls streams queue uuid connection".split()
        files = {name + ".py": "NAME = %r" % name for name in names}
        source = "import %s\ndef run(): return [module.NAME for module in (%s)]" % (", ".join(names), ", ".join(names))
        with Replica(source, files) as replica:
            self.assertEqual(replica.call("run").result, names)
            replica.call("run", {"unknown": 1})
            replica.call("run")

    def test_lends_the_secrets_module_only_where_there_is_none(self):
        source = """
        from cerebrium import get_secret
        def run(name):
            return get_secret(name)
        """
        with Replica(source, environ={"TOKEN": "secret"}) as replica:
            self.assertEqual(replica.call("run", {"name": "TOKEN"}).result, "secret")
            answer = replica.call("run", {"name": "OTHER"})
            self.assertEqual(answer.status, 500)
            self.assertIn("the secret 'OTHER' is not set", answer.message)
        with Replica(source, {"cerebrium.py": "def get_secret(name): return 'own'"}) as replica:
            self.assertEqual(replica.call("run", {"name": "TOKEN"}).result, "own")

    def test_lets_the_app_use_event_loops_while_it_is_imported(self):
        source = """
        import asyncio
        async def load():
            return "loaded"
        first = asyncio.get_event_loop().run_until_complete(load())
        lock = asyncio.Lock()
        task = asyncio.get_event_loop().create_task(load())
        second = asyncio.run(load())
        async def run():
            async with lock:
                return [first, second, await task]
        """
        with Replica(source) as replica:
            self.assertEqual(replica.call("run").result, ["loaded"] * 3)
            self.assertEqual(replica.stderr(), "")
        source = "import asyncio\nasyncio.get_event_loop().close()\nasync def run(): return 1"
        with Replica(source) as replica:
            self.assertEqual(replica.call("run").result, 1)

    def test_imports_in_the_main_thread(self):
        source = """
        import signal, threading
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        where = threading.current_thread() is threading.main_thread()
        def run(): return where
        """
        with Replica(source) as replica:
            self.assertIs(replica.call("run").result, True)

    def test_lets_the_app_s_processes_work(self):
        source = """
        import multiprocessing, pickle
        def square(number): return number * number
        class Thing:
            def __init__(self, number): self.number = number
        def run(method):
            with multiprocessing.get_context(method).Pool(2) as pool:
                squares = pool.map(square, range(5))
            return [squares, pickle.loads(pickle.dumps(Thing(3))).number, pickle.loads(pickle.dumps(square)) is square]
        """
        with Replica(source) as replica:
            for method in ("fork", "spawn", "forkserver"):
                self.assertEqual(replica.call("run", {"method": method}).result, [[0, 1, 4, 9, 16], 3, True])
            self.assertEqual(replica.stderr(), "")


class ReportTest(unittest.TestCase):
    def test_is_two_lines_of_json(self):
        with Replica("", ready=False) as replica:
            text = b""
            while text.count(b"\n") < 2:
                text += os.read(replica._ready_read, 1)
            for line in text.splitlines():
                self.assertEqual(line, json.dumps(json.loads(line.decode())).encode())
            self.assertEqual(os.read(replica._ready_read, 100), b"", "the descriptor is closed after the lines")


if __name__ == "__main__":
    unittest.main()
