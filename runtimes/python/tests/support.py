"""What the tests share: a real replica process, a raw HTTP client, and waiting for a condition with a deadline."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time

RUNTIME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEADLINE_SECONDS = 20.0

if RUNTIME not in sys.path:
    sys.path.insert(0, RUNTIME)


def until(condition, what="the condition"):
    """Returns the first true value of condition(); fails when there is none before the deadline."""
    end = time.monotonic() + DEADLINE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s did not come true within %g s" % (what, DEADLINE_SECONDS))
        select.select([], [], [], 0.003)


class Replica:
    """A runtime process over a temporary app folder.

    `source` is main.py; `files` further files; `settings` are SLIPWAY_* variables without the prefix; `environ` others.
    With ready=True (the default) it is ready when the constructor returns.
    """

    def __init__(self, source, files=None, ready=True, environ=None, python_options=(), **settings):
        self.folder = tempfile.mkdtemp(prefix="slipway-cortex-")
        self.app = os.path.join(self.folder, "app")
        os.mkdir(self.app)
        for name, text in dict(files or {}, **({} if source is None else {"main.py": source})).items():
            path = os.path.join(self.app, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(textwrap.dedent(text))
        self._ready_read, ready_write = os.pipe()
        variables = {"SLIPWAY_" + name.upper(): str(value) for name, value in settings.items()}
        variables.setdefault("SLIPWAY_LISTEN", "127.0.0.1:0")
        variables["SLIPWAY_READY_FD"] = str(ready_write)
        # What an app that is ended by force leaves in its temporary folder goes with the test's own.
        temporary = os.path.join(self.folder, "tmp")
        os.mkdir(temporary)
        variables = dict(os.environ, PYTHONUNBUFFERED="", TMPDIR=temporary, **variables)
        variables.update(environ or {})
        self._outputs = [open(os.path.join(self.folder, name), "wb") for name in ("stdout", "stderr")]
        self.process = subprocess.Popen(
            [sys.executable, *python_options, os.path.join(RUNTIME, "start.py")],
            cwd=self.app,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=self._outputs[0],
            stderr=self._outputs[1],
            pass_fds=(ready_write,),
        )
        os.close(ready_write)
        self.port = None
        if ready:
            report = self.report()
            if not report.get("ready"):
                self.close()
                raise AssertionError("the replica is not ready: %r" % (report,))

    def report(self):
        """The last line that the runtime writes on the ready descriptor, parsed; {} when there was none."""
        text = b""
        while not text.endswith(b"\n") or b'"ready"' not in text:
            if not select.select([self._ready_read], [], [], DEADLINE_SECONDS)[0]:
                raise AssertionError("no ready report; stderr: %s" % self.stderr())
            data = os.read(self._ready_read, 4096)
            if not data:
                break
            text += data
        self.reports = [json.loads(line) for line in text.decode().splitlines()]
        report = self.reports[-1] if self.reports else {}
        self.port = report.get("port", self.port)
        return report

    def stdout(self):
        """What the process has written to standard output."""
        return self._read("stdout")

    def stderr(self):
        """What the process has written to standard error."""
        return self._read("stderr")

    def _read(self, name):
        with open(os.path.join(self.folder, name), "rb") as source:
            return source.read().decode("utf-8", "backslashreplace")

    def path(self, name):
        """The path of a file in the app's folder."""
        return os.path.join(self.app, name)

    def client(self):
        """A new connection."""
        return Client(self.port)

    def client_at(self, path):
        """A new connection to a replica that listens at a Unix socket."""
        return Client(path)

    def call(self, function, body=None, **fields):
        """One call on a connection of its own: the Answer."""
        with self.client() as client:
            return client.call(function, body, **fields)

    def get(self, path):
        """GET on a connection of its own: the Answer."""
        with self.client() as client:
            client.send(request("GET", path))
            return client.answer()

    def stop(self):
        """SIGTERM, then the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        """The exit code, once the process has ended."""
        return self.process.wait(DEADLINE_SECONDS)

    def close(self):
        """Ends the process, whatever it does, and removes the folder."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ready_read)
        for output in self._outputs:
            output.close()
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()


def request(method, path, body=b"", **fields):
    """The bytes of a request. Fields are given with underscores; a Content-Length is added when there is a body."""
    fields.setdefault("host", "replica")
    if body and "transfer_encoding" not in fields:
        fields.setdefault("content_length", len(body))
    lines = ["%s %s HTTP/1.1" % (method, path)]
    lines += ["%s: %s" % (name.replace("_", "-"), value) for name, value in fields.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Answer:
    """A parsed answer; `complete` is False when the connection ended before the body did."""

    def __init__(self, status, fields, body, complete):
        self.status = status
        self.fields = fields
        self.body = body
        self.complete = complete

    def json(self):
        """The body as JSON."""
        return json.loads(self.body.decode())

    @property
    def result(self):
        """The result in a call's envelope."""
        assert self.status == 200, (self.status, self.body)
        return self.json()["result"]

    @property
    def message(self):
        """The message of a refusal or failure."""
        return self.json()["message"]


class Client:
    """One connection."""

    extension = b""  # Of the latest chunk.

    def __init__(self, port):
        if isinstance(port, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(DEADLINE_SECONDS)
            self.socket.connect(port)
        else:
            self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, data):
        """Sends bytes."""
        self.socket.sendall(data)

    def call(self, function, body=None, **fields):
        """Calls a function and reads the Answer."""
        self.send(request("POST", "/" + function, json.dumps({} if body is None else body).encode(), **fields))
        return self.answer()

    def more(self):
        """Reads what comes next into the buffer; False at the end of the connection."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def take(self, mark):
        """The bytes up to `mark`, which is dropped; None when the connection ends before."""
        while mark not in self.buffer:
            if not self.more():
                return None
        data, _mark, self.buffer = self.buffer.partition(mark)
        return data

    def exactly(self, count):
        """That many bytes, or fewer at the end of the connection."""
        pieces, have = [], 0
        while have + len(self.buffer) < count:
            have += len(self.buffer)
            pieces.append(self.buffer)
            self.buffer = b""
            if not self.more():
                break
        pieces.append(self.buffer[: count - have])
        self.buffer = self.buffer[count - have :]
        data = b"".join(pieces)
        return data

    def head(self):
        """Status and fields of the next answer."""
        head = self.take(b"\r\n\r\n")
        if head is None:
            raise AssertionError("the connection ended before an answer; got %r" % self.buffer)
        lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:])
        return int(lines[0].split(" ")[1]), fields

    def chunk(self):
        """The next chunk; b"" for the last one, None when the connection ends instead."""
        line = self.take(b"\r\n")
        if line is None:
            return None
        size, _mark, self.extension = line.partition(b";")
        size = int(size, 16)
        data = self.exactly(size)
        self.exactly(2)
        return data if len(data) == size else None

    def answer(self, head_only=False):
        """The next answer, with its body."""
        status, fields = self.head()
        if head_only or status in (204, 304):
            return Answer(status, fields, b"", True)
        if fields.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                data = self.chunk()
                if not data:
                    answer = Answer(status, fields, body, data is not None)
                    answer.extension = self.extension
                    return answer
                body += data
        if "content-length" in fields:
            body = self.exactly(int(fields["content-length"]))
            return Answer(status, fields, body, len(body) == int(fields["content-length"]))
        while self.more():
            pass
        body, self.buffer = self.buffer, b""
        return Answer(status, fields, body, True)

    def ended(self):
        """Whether the server closes the connection without sending any more."""
        return not self.buffer and not self.more()

    def close(self):
        """Closes the connection."""
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()
