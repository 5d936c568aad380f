"""What each replica of a zygote has for itself: random numbers, files, event loop, log, processes, descriptors."""

import os
import unittest

from support import Replica
from zygote_support import ZygoteTest

DESCRIPTORS = """
import os
def run():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass
    return [found, os.getpid()]
"""


def kinds(paths):
    """What kinds of descriptors they are, of which each has its path."""
    return sorted(path.partition(":")[0].rpartition("/")[2] for path in paths.values())


class OwnTest(ZygoteTest):
    """What each replica has for itself."""

    def two(self, source, files=None, **options):
        """The answers of `run` in two replicas of one zygote, and in an ordinary one."""
        zygote = self.zygote(source, files)
        forked = [self.forked(zygote, **options).call("run").result for _ in range(2)]
        with Replica(source, files) as ordinary:
            return [*forked, ordinary.call("run").result]

    def test_random_numbers_that_the_app_has_not_seeded(self):
        source = """
        import random, secrets, ssl, tempfile, uuid, multiprocessing
        own = random.Random()
        before = [random.random(), uuid.uuid1(), own.random(), next(tempfile._get_candidate_names())]
        def run():
            drawn = [random.random(), own.random(), secrets.token_hex(), ssl.RAND_bytes(8).hex()]
            key = bytes(multiprocessing.current_process().authkey).hex()
            return drawn + [str(uuid.uuid1()), str(uuid.uuid4()), next(tempfile._get_candidate_names()), key]
        """
        first, second, _ordinary = self.two(source)
        for one, other in zip(first, second):
            self.assertNotEqual(one, other)

    def test_random_numbers_that_the_app_has_seeded(self):
        source = """
        import random
        from random import seed
        seed(42)
        own = [random.Random(7), random.Random()]
        own[1].seed("text")
        again = random.Random()
        again.setstate(own[0].getstate())
        before = random.random()
        def run(): return [random.random(), random.random()] + [one.random() for one in [*own, again]]
        """
        first, second, ordinary = self.two(source)
        self.assertEqual(first, ordinary)
        self.assertEqual(second, ordinary)

    def test_random_numbers_of_numpy(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        source = """
        import numpy
        from numpy.random import SeedSequence, default_rng
        %s
        before = numpy.random.random()
        big = 122807528840384100672342137672332424406
        spawned = default_rng(SeedSequence(5).spawn(1)[0])
        seeded = [default_rng(42), default_rng(big), numpy.random.RandomState(3), spawned]
        own = [default_rng(), numpy.random.RandomState(), numpy.random.Generator(numpy.random.Philox())]
        sequence = SeedSequence()
        def numbers(generators): return [float(one.uniform()) for one in generators]
        def run():
            spawned = int(sequence.spawn(1)[0].generate_state(1)[0])
            return [numbers(seeded), [float(numpy.random.random()), *numbers(own), spawned]]
        """
        first, second, ordinary = self.two(source % "")
        self.assertEqual(first[0], ordinary[0])
        self.assertEqual(second[0], ordinary[0])
        for one, other in zip(first[1], second[1]):
            self.assertNotEqual(one, other)
        first, second, ordinary = self.two(source % "numpy.random.seed(42)")
        self.assertEqual([first[1][0], second[1][0]], [ordinary[1][0]] * 2)
        first, second, _ordinary = self.two(source % "numpy.random.seed(seed=42)\n        numpy.random.seed()")
        self.assertNotEqual(first[1][0], second[1][0])

    def test_random_numbers_of_torch(self):
        stub = """
        import random
        class Generator:  # As torch's: what it draws follows from its seed.
            def __init__(self, seed=67280421310721): self.manual_seed(seed)
            def manual_seed(self, seed): self._seed, self._random = seed, random.Random(seed)
            def initial_seed(self): return self._seed
            def seed(self): self.manual_seed(random.SystemRandom().getrandbits(53))
        default_generator = Generator()
        default_generator.seed()
        """
        source = """
        import torch
        %s
        own, constant = torch.Generator(), torch.Generator()
        own.seed()
        def run(): return [one._random.random() for one in (constant, torch.default_generator, own)]
        """
        first, second, ordinary = self.two(source % "", {"torch.py": stub})
        self.assertEqual([first[0], second[0]], [ordinary[0]] * 2)
        self.assertNotEqual(first[1], second[1])
        self.assertNotEqual(first[2], second[2])
        first, second, ordinary = self.two(source % "torch.default_generator.manual_seed(42)", {"torch.py": stub})
        self.assertEqual([first[1], second[1]], [ordinary[1]] * 2)

    def test_the_place_at_which_a_file_is_read(self):
        source = """
        import os
        data = open("data.txt", "rb", buffering=0)
        data.seek(3)
        inherited = os.open("data.txt", os.O_RDONLY)
        os.set_inheritable(inherited, True)
        kept = [inherited, data.fileno()]
        def run(count): return [data.read(count).decode(), *map(os.get_inheritable, kept)]
        """
        zygote = self.zygote(source, {"data.txt": "0123456789"})
        first, second = self.forked(zygote), self.forked(zygote)
        self.assertEqual(first.call("run", {"count": 4}).result, ["3456", True, False])
        self.assertEqual(second.call("run", {"count": 2}).result, ["34", True, False])
        self.assertEqual(first.call("run", {"count": 4}).result[0], "789")
        self.assertEqual(second.call("run", {"count": 4}).result[0], "5678")

    def test_a_file_that_cannot_be_opened_again_ends_the_start(self):
        source = """
        import os
        fd = os.open("data.txt", os.O_RDONLY)
        def run(): pass
        """
        zygote = self.zygote(source, {"data.txt": "x"})
        os.chmod(zygote.path("data.txt"), 0)
        replica = self.forked(zygote, ready=False)
        if os.geteuid() == 0:
            os.chown(zygote.path("data.txt"), 1, 1)  # Without capabilities root has no way past the mode.
        report = replica.report()
        self.assertIn("data.txt, which main.py has opened, cannot be opened again: Permission denied", report["error"])
        self.assertEqual(replica.wait(), 1)

    def test_the_event_loop_with_what_was_made_for_it_at_import(self):
        source = """
        import asyncio
        async def load(): return "loaded"
        first = asyncio.get_event_loop().run_until_complete(load())
        lock, queue = asyncio.Lock(), asyncio.Queue()
        loop = asyncio.get_event_loop()
        task = loop.create_task(load())
        loop.call_soon_threadsafe(queue.put_nowait, "put")
        async def run():
            async with lock:
                thread = await loop.run_in_executor(None, lambda: "thread")
                return [first, await task, await queue.get(), thread, loop is asyncio.get_running_loop()]
        """
        zygote = self.zygote(source)
        replicas = [self.forked(zygote) for _ in range(2)]
        for replica in replicas:
            self.assertEqual(replica.call("run").result, ["loaded", "loaded", "put", "thread", True])
            self.assertEqual(replica.stderr(), "")
            self.assertEqual(replica.stop(), 0)

    def test_an_event_loop_that_handles_signals(self):
        source = """
        import asyncio, os, signal
        came = asyncio.Event()
        asyncio.get_event_loop().add_signal_handler(signal.SIGUSR1, came.set)
        async def run():
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.wait_for(came.wait(), 10)
            return "came"
        """
        zygote = self.zygote(source)
        for replica in (self.forked(zygote), self.forked(zygote)):
            self.assertEqual(replica.call("run").result, "came")

    def test_logging_that_was_set_up_at_import(self):
        source = """
        import logging, sys
        logging.basicConfig(level="INFO")
        logging.info("imported")
        sys.stdout.write("no line break yet, ")
        def run():
            logging.info("called")
            print("printed")
        """
        zygote = self.zygote(source)
        self.assertEqual(zygote.stderr(), "INFO:root:imported\n")
        framed, plain = self.forked(zygote, log_frames=1), self.forked(zygote)
        for replica in (framed, plain):
            replica.call("run", x_request_id="id")
        self.assertEqual(framed.stderr(), "\x1eid\x1fINFO:root:called\n")
        self.assertEqual(framed.stdout(), "\x1eid\x1fprinted\n")
        self.assertEqual(plain.stderr(), "INFO:root:called\n")
        self.assertEqual(plain.stdout(), "printed\n")
        self.assertEqual(zygote.stdout(), "no line break yet, ")

    def test_the_folder_that_the_app_has_gone_to(self):
        source = "import os\nos.chdir('sub')\ndef run(): return os.getcwd()"
        zygote = self.zygote(source, {"sub/file": ""})
        self.assertEqual(self.forked(zygote).call("run").result, zygote.path("sub"))

    def test_processes_of_the_app(self):
        source = """
        import multiprocessing, subprocess
        def square(number): return number * number
        def run(method):
            with multiprocessing.get_context(method).Pool(2) as pool:
                squares = pool.map(square, range(5))
            done = subprocess.run(["sh", "-c", "echo done; exit 3"], stdout=subprocess.PIPE)
            return [squares, done.stdout.decode(), done.returncode]
        """
        replica = self.forked(self.zygote(source))
        for method in ("fork", "spawn", "forkserver"):
            answer = replica.call("run", {"method": method})
            self.assertEqual(answer.result, [[0, 1, 4, 9, 16], "done\n", 3], replica.stderr())
        self.assertEqual(replica.stderr(), "")

    def test_no_descriptor_of_the_zygote_or_of_other_replicas(self):
        zygote = self.zygote(DESCRIPTORS)
        waiting = self.forked(zygote, go=False)
        with zygote.connect():
            replica = self.forked(zygote)
            found, pid = replica.call("run").result
            with Replica(DESCRIPTORS) as ordinary:
                expected, _pid = ordinary.call("run").result
            # The same kinds as in an ordinary replica: streams, loop, port and a connection.
            self.assertEqual(kinds(found), kinds(expected))
            listing = "/proc/%d/fd" % replica.first
            self.assertEqual(len(os.listdir(listing)), 1)
            shared = set(zygote.descriptors()) & set(found.values())
            numberless = {os.devnull, "anon_inode:[eventpoll]"}
            self.assertEqual(shared - numberless, set())
        waiting.born()

if __name__ == "__main__":
    unittest.main()
