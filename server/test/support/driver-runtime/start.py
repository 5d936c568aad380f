"""Replaces the cortex runtime in tests of drivers: reports its address in the same way, and behaves as configured in the
file `behaviour.json` beside the app's code. Small, so that tests and measurements cover the driver."""

import json
import os
import signal
import socket
import sys

with open("behaviour.json") as file:
    behaviour = json.load(file)

for line in behaviour.get("lines", []):
    print(line, flush=True)

if behaviour["kind"] == "exits":
    with open("output", "rb") as file:
        sys.stdout.buffer.write(file.read())
    sys.stdout.flush()
    os._exit(behaviour["exitCode"])

wake, waker = socket.socketpair()
if behaviour["kind"] == "ignores_stop":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: waker.send(b"x"))
listen = os.environ["SLIPWAY_LISTEN"]
if listen.startswith("unix:"):
    server = socket.socket(socket.AF_UNIX)
    server.bind(listen[len("unix:") :])
    server.listen()
    port = 0
else:
    server = socket.create_server(("127.0.0.1", int(listen.rpartition(":")[2])))
    port = server.getsockname()[1]
fd = int(os.environ["SLIPWAY_READY_FD"])
os.write(fd, json.dumps({"listening": True, "port": port}).encode() + b"\n")
os.write(fd, json.dumps({"ready": True, "port": port}).encode() + b"\n")
os.close(fd)
wake.recv(1)
