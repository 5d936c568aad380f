"""The thread pool and the interruption of a plain function."""

import sys
import threading
import time
import unittest

import support
from slipway_cortex.workers import Interrupted, Interruptible, Workers


class WorkersTest(unittest.TestCase):
    def test_runs_every_job_in_at_most_so_many_threads(self):
        workers = Workers(4)
        lock = threading.Lock()
        done, names, running, most = [], set(), [0], [0]

        def job(number):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
                names.add(threading.get_ident())
            time.sleep(0)
            with lock:
                running[0] -= 1
                done.append(number)

        for number in range(500):
            workers.submit(lambda number=number: job(number))
        support.until(lambda: len(done) == 500)
        self.assertEqual(sorted(done), list(range(500)))
        self.assertLessEqual(most[0], 4)
        self.assertLessEqual(len(names), 4)

    def test_reuses_an_idle_thread(self):
        workers = Workers(10)
        for _ in range(20):
            finished = threading.Event()
            workers.submit(finished.set)
            self.assertTrue(finished.wait(support.DEADLINE_SECONDS))
            support.until(lambda: workers._idle == 1)
        self.assertEqual(workers._threads, 1)

    def test_survives_jobs_that_raise(self):
        workers = Workers(1)
        finished = threading.Event()

        def leave():
            raise SystemExit(1)

        lost = []
        workers.submit(leave, lost.append)
        workers.submit(leave)
        workers.submit(finished.set)
        self.assertTrue(finished.wait(support.DEADLINE_SECONDS))
        self.assertIsInstance(lost[0], SystemExit)


class InterruptTest(unittest.TestCase):
    def test_stops_a_function_that_computes(self):
        mark = Interruptible()
        began = threading.Event()
        seen = []

        def work():
            mark.enter()
            try:
                began.set()
                while True:
                    try:
                        sum(range(100))
                    except Exception:
                        seen.append("caught")
            except Interrupted:
                seen.append("interrupted")
            finally:
                mark.leave()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.assertTrue(began.wait(support.DEADLINE_SECONDS))
        self.assertTrue(mark.interrupt())
        thread.join(support.DEADLINE_SECONDS)
        self.assertFalse(thread.is_alive())
        self.assertEqual(seen, ["interrupted"])
        self.assertFalse(mark.interrupt())

    def test_strikes_at_once_when_it_came_before_the_function(self):
        mark = Interruptible()
        self.assertTrue(mark.interrupt())
        with self.assertRaises(Interrupted):
            mark.enter()
        mark.leave()
        self.assertFalse(mark.interrupt())

    def test_never_strikes_after_the_function_has_ended(self):
        marks, within, after = [None], [0], [0]
        ended = threading.Event()

        def interrupts():
            while not ended.is_set():
                if marks[0] is not None:
                    marks[0].interrupt()

        thread = threading.Thread(target=interrupts)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        enough = time.monotonic() + 3.0
        deadline = time.monotonic() + 60.0  # Where the processors are busy, the first strike may take this long.
        try:
            thread.start()
            while within[0] < 30 and time.monotonic() < (enough if within[0] > 0 else deadline):
                self.run_marked(marks, within, after)
        finally:
            ended.set()
            thread.join()
            sys.setswitchinterval(interval)
        self.assertGreaterEqual(within[0], 1)
        self.assertEqual(after[0], 0)

    def run_marked(self, marks, within, after):
        """Runs a little function under a new mark; counts whether an interruption struck before or after its end."""
        mark = Interruptible()
        left = False
        try:
            mark.enter()
            marks[0] = mark
            sum(range(50))
            mark.leave()
            left = True
            for _ in range(50):
                str(mark)
        except Interrupted:
            (after if left else within)[0] += 1
            mark.leave()


if __name__ == "__main__":
    unittest.main()
