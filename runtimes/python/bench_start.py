"""Measures how long the runtime takes from the start of its process until it is ready, for one Python.

    python3 bench_start.py [--python PATH] [--rounds N]

Prints the medians in milliseconds: the interpreter alone, `import asyncio, json` (the floor for any asyncio server),
the runtime with an empty app, and the ratio of the last two. The three are measured in turn, so that a busy machine
disturbs them alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def time_command(python, code):
    """Milliseconds from starting `python -c code` to its end."""
    begun = time.perf_counter()
    subprocess.run([python, "-c", code], check=True)
    return (time.perf_counter() - begun) * 1000


def time_ready(python, app):
    """Milliseconds from starting the runtime to its ready line."""
    read_end, write_end = os.pipe()
    environ = dict(
        os.environ,
        PYTHONDONTWRITEBYTECODE="",  # A replica has its byte code.
        SLIPWAY_LISTEN="127.0.0.1:0",
        SLIPWAY_READY_FD=str(write_end),
        SLIPWAY_LOG_FRAMES="1",
    )
    begun = time.perf_counter()
    process = subprocess.Popen([python, os.path.join(HERE, "start.py")], cwd=app, env=environ, pass_fds=(write_end,))
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        stream.readline()  # It listens.
        line = stream.readline()
    spent = (time.perf_counter() - begun) * 1000
    process.terminate()
    process.wait()
    if not json.loads(line)["ready"]:
        raise SystemExit("the runtime did not become ready: " + line)
    return spent


def main():
    """Measures and prints; the exit code is 1 when the ratio is above --most."""
    parser = argparse.ArgumentParser(description="Measures the runtime's start time.")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--most", type=float, default=1.5, help="the ratio that is still good")
    options = parser.parse_args()
    bare, floor, ready = [], [], []
    with tempfile.TemporaryDirectory() as app:
        with open(os.path.join(app, "main.py"), "w") as source:
            source.write("def run():\n    return 1\n")
        for measured in range(options.rounds + 1):
            values = (
                time_command(options.python, "pass"),
                time_command(options.python, "import asyncio, json"),
                time_ready(options.python, app),
            )
            if measured:  # The first round writes the byte code.
                for kept, value in zip((bare, floor, ready), values):
                    kept.append(value)
    middle = [statistics.median(values) for values in (bare, floor, ready)]
    ratio = middle[2] / middle[1]
    print("python %.1f ms, asyncio and json %.1f ms, runtime ready %.1f ms, ratio %.2f" % (*middle, ratio))
    sys.exit(1 if ratio > options.most else 0)


if __name__ == "__main__":
    main()
