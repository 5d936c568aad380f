"""How replicas of a zygote end, what is left of them, and what they are in namespaces of their own."""

import os
import signal
import subprocess
import sys
import unittest

from support import RUNTIME, until
from zygote_support import ALL_NAMESPACES, ZygoteTest, children_of, is_there

ECHO = "def run(value=None): return value"


def without_capabilities(pid):
    """Whether a process has neither effective nor permitted capabilities."""
    with open("/proc/%d/status" % pid) as source:
        sets = dict(line.split(":\t", 1) for line in source.read().splitlines() if line.startswith("Cap"))
    return int(sets["CapEff"], 16) == int(sets["CapPrm"], 16) == 0


class EndTest(ZygoteTest):
    def test_tells_how_the_app_s_process_ended(self):
        source = """
        import atexit, os, signal
        atexit.register(lambda: print("atexit ran", flush=True))
        def crash(): os.kill(os.getpid(), signal.SIGSEGV)
        def leave(): os._exit(9)
        def run(): return 1
        """
        zygote = self.zygote(source)
        for function, code in (("crash", 139), ("leave", 9)):
            replica = self.forked(zygote)
            with replica.client() as client:
                client.send(b"POST /%s HTTP/1.1\r\nhost: x\r\n\r\n" % function.encode())
                self.assertEqual(replica.wait(), code)
        replica = self.forked(zygote)
        self.assertEqual(replica.call("run").result, 1)
        self.assertEqual(replica.stop(), 0)
        self.assertEqual(replica.stdout(), "atexit ran\n")
        self.assertEqual(zygote.stdout(), "")
        until(lambda: not children_of(zygote.process.pid))

    def test_drains_on_sigterm_and_calls_the_app_s_own_handler(self):
        source = """
        import os, signal, time
        signal.signal(signal.SIGTERM, lambda *_: print("own handler", flush=True))
        def wait():
            print("began", flush=True)
            end = time.monotonic() + 20
            while not os.path.exists("go") and time.monotonic() < end:
                time.sleep(0.003)
            return "waited"
        """
        zygote = self.zygote(source)
        replica = self.forked(zygote)
        with replica.client() as client:
            client.send(b"POST /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            until(lambda: "began" in replica.stdout())
            os.kill(replica.app, signal.SIGTERM)
            os.kill(replica.first, signal.SIGTERM)  # Only noted.
            until(lambda: replica.get("/_slipway/ready").status == 503)
            open(zygote.path("go"), "w").close()
            self.assertEqual(client.answer().result, "waited")
        self.assertEqual(replica.wait(), 0)
        self.assertIn("own handler", replica.stdout())

    def test_a_zygote_ends_on_sigterm_and_its_replicas_go_on(self):
        zygote = self.zygote("import signal\nsignal.signal(signal.SIGTERM, print)\n" + ECHO)
        replica = self.forked(zygote)
        self.assertEqual(zygote.stop(), -signal.SIGTERM)
        self.assertEqual(replica.call("run", {"value": 1}).result, 1)
        self.assertEqual(replica.stop(), 0)

    def test_leaves_nothing_when_nobody_waits_for_the_start_any_more(self):
        zygote = self.zygote(ECHO)
        before = zygote.descriptors()
        replica = zygote.start(go=False)
        replica.born()
        replica.close()
        replica = zygote.start(go=False)
        replica.born()
        replica.connection.sendall(b"no\n")
        self.assertIsNone(replica.line())
        replica.close()
        with zygote.connect() as connection:
            connection.sendall(b'{"names')
        until(lambda: not children_of(zygote.process.pid))
        until(lambda: zygote.descriptors() == before)

    def test_many_starts_at_once_leave_nothing(self):
        zygote = self.zygote(ECHO)
        before = zygote.descriptors()
        replicas = [zygote.start(go=False) for _ in range(200)]
        try:
            for replica in replicas:
                replica.born()
            self.assertEqual(len({replica.first for replica in replicas}), 200)
            until(lambda: zygote.descriptors() == before)
            for replica in replicas[:4]:
                replica.connection.sendall(b"go\n")
            for replica in replicas[:4]:
                self.assertTrue(replica.report()["ready"])
                self.assertEqual(replica.call("run", {"value": 1}).result, 1)
                self.assertEqual(replica.line(), "running")
                replica.app = children_of(replica.first)[0]
                self.assertEqual(replica.stop(), 0)
        finally:
            for replica in replicas:
                replica.close()
        until(lambda: not children_of(zygote.process.pid))
        self.assertEqual(zygote.descriptors(), before)
        self.assertEqual(zygote.stderr(), "")


@unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "only root makes namespaces")
class NamespaceTest(ZygoteTest):
    SOURCE = """
    import os, subprocess
    def run(): return [os.getpid(), os.getppid()]
    def leave_one(): return subprocess.Popen(["sleep", "60"], start_new_session=True).pid
    def leave_orphan(): subprocess.check_call(["sh", "-c", "sleep 60 &"], start_new_session=True)
    """

    def replica(self, zygote):
        """One in namespaces of its own; it answers at a Unix socket, as it has a network of its own."""
        return self.forked(zygote, namespaces=ALL_NAMESPACES, listen="unix:%s/replica" % zygote.folder)

    def test_has_its_own_processes_and_no_capabilities(self):
        zygote = self.zygote(self.SOURCE)
        replica = self.replica(zygote)
        with replica.client_at(zygote.folder + "/replica") as client:
            self.assertEqual(client.call("run").result, [2, 1])
        for pid in (replica.first, replica.app):
            self.assertTrue(without_capabilities(pid))
        self.assertFalse(without_capabilities(zygote.process.pid))
        for kind in ("pid", "mnt", "ipc", "net"):
            pids = (replica.app, zygote.process.pid)
            self.assertNotEqual(*(os.readlink("/proc/%d/ns/%s" % (pid, kind)) for pid in pids))

    def test_removes_orphans_that_have_ended(self):
        zygote = self.zygote(self.SOURCE)
        replica = self.replica(zygote)
        with replica.client_at(zygote.folder + "/replica") as client:
            client.call("leave_orphan")
        until(lambda: len(children_of(replica.first)) == 2)
        (orphan,) = set(children_of(replica.first)) - {replica.app}
        os.kill(orphan, signal.SIGKILL)
        until(lambda: children_of(replica.first) == [replica.app])

    def test_gives_the_app_another_process_id_than_the_zygote_s(self):
        # As first process of a namespace, whose first child has id 2.
        code = "from slipway_cortex.zygote_process import fork_app; import os\npid = fork_app(2)\n"
        code += "print(pid, flush=True) if pid else os._exit(0)"
        command = ["unshare", "--pid", "--fork", sys.executable, "-c", code]
        done = subprocess.run(command, cwd=RUNTIME, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(done.stdout, b"3\n")

    def test_ends_the_other_processes_when_it_is_stopped(self):
        zygote = self.zygote(self.SOURCE)
        replica = self.replica(zygote)
        with replica.client_at(zygote.folder + "/replica") as client:
            client.call("leave_one")
        (other,) = children_of(replica.app)
        os.kill(replica.first, signal.SIGTERM)
        self.assertEqual(replica.stop(), 0)
        until(lambda: not is_there(other) and not is_there(replica.first))

if __name__ == "__main__":
    unittest.main()
