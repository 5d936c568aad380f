"""Measures how many calls of a trivial function per second the runtime answers, for one Python.

    python3 bench_calls.py [--python PATH] [--seconds S] [--profile]

The client is a process of its own that keeps each connection busy with one call at a time. --profile prints where the
runtime's event loop spends its time instead.
"""

import argparse
import json
import multiprocessing
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
APP = """
def plain(name="world"):
    return {"greeting": name}

async def waits(name="world"):
    return {"greeting": name}
"""
PROFILED = """
import cProfile, pstats, sys, atexit
sys.argv[:] = [%r]
profile = cProfile.Profile()
atexit.register(lambda: pstats.Stats(profile).sort_stats("tottime").print_stats(25))
import asyncio
forever = asyncio.BaseEventLoop.run_forever
def run_forever(self):
    profile.enable()
    try:
        forever(self)
    finally:
        profile.disable()
asyncio.BaseEventLoop.run_forever = run_forever
sys.path.insert(0, %r)
from slipway_cortex.boot import run
run(%r)
"""


def start(python, app, profile):
    """The runtime's process and its port."""
    read_end, write_end = os.pipe()
    environ = dict(
        os.environ,
        PYTHONDONTWRITEBYTECODE="",  # A replica has its byte code.
        SLIPWAY_LISTEN="127.0.0.1:0",
        SLIPWAY_READY_FD=str(write_end),
        SLIPWAY_LOG_FRAMES="1",
    )
    script = os.path.join(HERE, "start.py")
    command = [python, "-c", PROFILED % (script, HERE, HERE)] if profile else [python, script]
    process = subprocess.Popen(command, cwd=app, env=environ, pass_fds=(write_end,))
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        return process, json.loads(stream.readline())["port"]


def drive(port, function, connections, seconds, out):
    """Puts (calls answered, seconds it took, latency of the middle call in ms) into the queue `out`."""
    body = b'{"name": "Berta"}'
    request = b"POST /%b HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (function.encode(), len(body), body)
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(request)
        selector.register(client, selectors.EVENT_READ, [time.perf_counter()])
    spent = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for key, _events in selector.select(1):
            answer = key.fileobj.recv(65536)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit("unexpected answer: %r" % answer[:200])
            now = time.perf_counter()
            spent.append(now - key.data[0])
            key.data[0] = now
            key.fileobj.sendall(request)
    spent.sort()
    out.put((len(spent), time.perf_counter() - begun, spent[len(spent) // 2] * 1000))


def main():
    """Measures and prints one line per function and number of connections."""
    parser = argparse.ArgumentParser(description="Measures calls per second.")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as app:
        with open(os.path.join(app, "main.py"), "w") as source:
            source.write(APP)
        process, port = start(options.python, app, options.profile)
        try:
            for function in ("plain", "waits"):
                for connections in (1, 50):
                    out = multiprocessing.Queue()
                    client = multiprocessing.Process(
                        target=drive, args=(port, function, connections, options.seconds, out)
                    )
                    client.start()
                    calls, seconds, middle = out.get(timeout=options.seconds + 30)
                    client.join()
                    print(
                        "%s, %d connection(s): %.0f calls/s, middle latency %.2f ms"
                        % (function, connections, calls / seconds, middle)
                    )
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
