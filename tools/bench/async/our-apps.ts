// The apps that the benchmark's runs call. They answer at once, or not before a time given in the
// request, so that a backlog can build up first. One is a custom app with as little Python overhead
// as possible; the other is a cortex app.

/**
 * Files of the custom app's repository. Its server understands exactly what the platform's proxy
 * sends.
 */
export const customApp = {
  "slipway.toml": `[cerebrium.deployment]
name = "bench-custom"
python_version = "3.11"
[cerebrium.scaling]
min_replicas = 1
max_replicas = 1
replica_concurrency = 200
[cerebrium.runtime.custom]
port = 8765
entrypoint = ["python3", "main.py"]
healthcheck_endpoint = "/health"
readycheck_endpoint = "/health"
`,
  "main.py": `import asyncio
import json
import os
import time

starts = {}


def answer(body):
    return b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body)


class Calls(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""

    def data_received(self, data):
        self.buffer += data
        end = self.buffer.find(b"\\r\\n\\r\\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        found = head.find(b"\\r\\ncontent-length:")
        length = int(head[found + 17 :].split(b"\\r", 1)[0]) if found >= 0 else 0
        if len(self.buffer) < end + 4 + length:
            return
        body = self.buffer[end + 4 :]
        self.buffer = b""
        if head.startswith(b"get /starts"):
            self.transport.write(answer(json.dumps(starts).encode()))
            starts.clear()
        elif head.startswith(b"post"):
            self.run(head, body)
        else:
            self.transport.write(answer(b"{}"))

    def run(self, head, body):
        now = time.monotonic()
        found = head.find(b"\\r\\nx-request-id:")
        starts[head[found + 15 :].split(b"\\r", 1)[0].strip().decode()] = now * 1000
        wait = json.loads(body).get("open_at", 0) - now
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self.transport.write, answer(b'{"result":"done"}'))
        else:
            self.transport.write(answer(b'{"result":"done"}'))


async def main():
    server = await asyncio.get_running_loop().create_server(Calls, "0.0.0.0", int(os.environ.get("PORT", "8765")))
    await server.serve_forever()


asyncio.run(main())
`,
} as const;

/** Files of the cortex app's repository. */
export const cortexApp = {
  "slipway.toml": `[cerebrium.deployment]
name = "bench-cortex"
python_version = "3.11"
[cerebrium.scaling]
min_replicas = 1
max_replicas = 1
replica_concurrency = 200
`,
  "main.py": `import asyncio
import time

begun = {}


async def run(open_at: float = 0, prompt: str = "", run_id: str = ""):
    now = time.monotonic()
    begun[run_id] = now * 1000
    if open_at > now:
        await asyncio.sleep(open_at - now)
    return "done"


def starts():
    found = dict(begun)
    begun.clear()
    return found
`,
} as const;

/** Files of an app whose runs all wait: it works on one at a time, which never ends. */
export const busyApp = {
  ...customApp,
  "slipway.toml": customApp["slipway.toml"]
    .replace("bench-custom", "bench-busy")
    .replace("replica_concurrency = 200", "replica_concurrency = 1"),
} as const;
