"""Runs the runtime's tests under every Python from 3.8 on that is found on this machine.

    python3 run.py [--ends | --python PATH...] [--pattern test_*.py]

Prints the result of each, the output of those that fail, and at last a line `N passed, N failed, N skipped`.
The exit code is 0 only if something passed, nothing failed, and every Python that is found starts (with --ends: the two).
"""

import argparse
import concurrent.futures
import glob
import io
import json
import os
import re
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
OLDEST = (3, 8)
PROBE = "import sys; print(sys.version_info[0], sys.version_info[1], sys.implementation.name, sys.executable)"
PROBE_SECONDS = 20
TESTS_SECONDS = 600  # On a busy machine; a few minutes are usual.


def candidates():
    """Paths of what may be Pythons: on the PATH, and below pyenv's folder."""
    found = []
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if os.path.basename(folder) != "shims":  # pyenv's shell scripts; the real ones are found below.
            found += glob.glob(os.path.join(folder, "python3*"))
    found += glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3"))
    named = re.compile(r"python3(\.\d+)?$")
    return [path for path in found if named.match(os.path.basename(path)) and os.access(path, os.X_OK)]


def probe(path):
    """((major, minor), real path) of a Python that starts, or None; of another one than CPython the version is (0, 0)."""
    try:
        done = subprocess.run(
            [path, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PROBE_SECONDS
        )
        major, minor, name, executable = done.stdout.decode().strip().split(" ", 3)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return (int(major), int(minor)) if name == "cpython" else (0, 0), executable


def pythons():
    """The Pythons to test, one per version, oldest first: [((major, minor), path)]; and paths of those that do not start."""
    found, broken = {}, []
    for path in sorted({os.path.realpath(path) for path in candidates()}):
        answer = probe(path)
        if answer is None:
            broken.append(path)
        elif answer[0] >= OLDEST:
            found.setdefault(*answer)
    return sorted(found.items()), broken


class Result(unittest.TextTestResult):
    """Counts what passed, too."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def run_here(pattern):
    """Runs the tests in this interpreter; the last line is JSON: passed, failed, skipped (a list of reasons)."""
    sys.path[:0] = [HERE, os.path.dirname(HERE)]
    suite = unittest.defaultTestLoader.discover(HERE, pattern=pattern, top_level_dir=HERE)
    output = io.StringIO()
    result = unittest.TextTestRunner(stream=output, resultclass=Result).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    if failed:
        print(output.getvalue())
    skipped = ["%s: %s" % (test, reason) for test, reason in result.skipped]
    print(json.dumps({"passed": result.passed, "failed": failed, "skipped": skipped}))
    return 1 if failed else 0


def run_with(version, path, pattern):
    """Runs the tests in the Python at `path`: (version, path, seconds, output, counts or None when it broke)."""
    begun = time.monotonic()
    command = [path, os.path.abspath(__file__), "--here", "--pattern", pattern]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TESTS_SECONDS)
        output = done.stdout.decode("utf-8", "replace").rstrip()
        text, _break, last = output.rpartition("\n")
        counts = json.loads(last)
    except subprocess.TimeoutExpired as error:
        text, counts = (
            "no end within %d s\n%s" % (TESTS_SECONDS, (error.stdout or b"").decode("utf-8", "replace")),
            None,
        )
    except ValueError:
        text, counts = output, None
    return version, path, time.monotonic() - begun, text, counts


def main():
    """Runs everything, two Pythons at a time."""
    parser = argparse.ArgumentParser(description="Runs the tests of the Python runtime.")
    parser.add_argument("--python", action="append", help="only this Python; may be repeated")
    parser.add_argument("--ends", action="store_true", help="only the oldest and the newest Python that are found")
    parser.add_argument("--pattern", default="test_*.py", help="which test files")
    parser.add_argument("--here", action="store_true", help="run in this interpreter (used by this script)")
    options = parser.parse_args()
    if options.here:
        return run_here(options.pattern)
    chosen, broken = pythons()
    if options.ends and len(chosen) > 2:
        print("Of %d Pythons only the oldest and the newest; for all: python3 %s" % (len(chosen), sys.argv[0]))
        chosen = [chosen[0], chosen[-1]]
    if options.python:
        chosen, broken = [probe(path) for path in options.python], []
        if None in chosen:
            parser.error("--python %s does not start" % options.python[chosen.index(None)])
    passed = failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for version, path, seconds, text, counts in pool.map(lambda one: run_with(*one, options.pattern), chosen):
            if text:
                print(text)
            if counts is None:
                counts = {"passed": 0, "failed": 1, "skipped": []}
            for reason in counts["skipped"]:
                print("  skipped " + reason)
            print(
                "Python %d.%d (%s): %d passed, %d failed, %d skipped in %.1f s"
                % (*version, path, counts["passed"], counts["failed"], len(counts["skipped"]), seconds),
                flush=True,
            )
            passed += counts["passed"]
            failed += counts["failed"]
            skipped += len(counts["skipped"])
    for path in broken:
        print("not tested: %s does not start" % path)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 0 if passed and not failed and (options.ends or not broken) else 1


if __name__ == "__main__":
    sys.exit(main())
