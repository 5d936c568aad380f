// App folders in the style of those that people deploy, with what each must answer. Those of
// `folderScenarios` give the same answers on every driver; those of `imageScenarios` need a driver
// that builds images.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { TestContext } from "node:test";
import { WebSocket } from "ws";
import { exampleScenarios, type Scenario } from "./example-scenarios.ts";
import { deploy } from "./examples.ts";
import type { PlatformProcess } from "./platform-process.ts";

const cortexMain = `
from __future__ import annotations
import hashlib, os
from typing import Dict, List, Optional

SALT = "s"

def return_md5(text: str, extra: Optional[List[Dict]] = None) -> str:
    print("hashing", text, flush=True)
    return hashlib.md5((SALT + text).encode()).hexdigest()

def refuse(run_id):
    return {"status_code": 429, "run": run_id, "app": os.environ["APP_NAME"]}

def stream(count: int):
    for number in range(count):
        yield f"data: {number}\\n\\n"
    yield "data: [DONE]\\n\\n"

def where():
    with open("app/main.py") as file:
        return [os.getcwd(), "def where" in file.read()]

def _hidden():
    return "hidden"
`;

const fastapiMain = `
import os
from fastapi import FastAPI, Response

app = FastAPI()
asked = 0

@app.get("/health")
def health():
    return "OK"

@app.get("/ready")
def ready(response: Response):
    global asked
    asked += 1
    response.status_code = 200 if asked > 2 else 503
    return asked

@app.post("/")
def root():
    return {"asked": asked > 2, "port": os.environ["PORT"]}
`;

/** Without packages: answers `GET /` and one message of a WebSocket. */
const socketServer = `
import base64, hashlib, http.server, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        key = self.headers.get("Sec-WebSocket-Key")
        if key is None:
            body = " ".join(sys.argv[1:]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        head = self.rfile.read(2)
        mask = self.rfile.read(4)
        data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(head[1] & 127)))
        self.wfile.write(bytes([0x81, len(data)]) + data.upper())
        self.close_connection = True

http.server.ThreadingHTTPServer(("0.0.0.0", int(os.environ["PORT"])), Handler).serve_forever()
`;

/** Path → content, beside `examples/`. */
export const styleFolders: Readonly<Record<string, string>> = {
  "style-cortex/main.py": cortexMain,
  "style-cortex/cerebrium.toml": `[cerebrium.deployment]
name = "style-cortex"
python_version = "3.11"
include = ["./*", "main.py", "cerebrium.toml"]
exclude = [".*"]
shell_commands = ["echo made > made.txt"]

[cerebrium.hardware]
cpu = 0.5
memory = 0.5
compute = "CPU"
`,
  "style-fastapi/main.py": fastapiMain,
  "style-fastapi/cerebrium.toml": `[cerebrium.deployment]
name = "style-fastapi"
python_version = "3.11"

[cerebrium.runtime.custom]
port = 5000
entrypoint = ["uvicorn", "main:app", "--host", "0.0.0.0", "--port", "5000"]
healthcheck_endpoint = "/health"
readycheck_endpoint = "/ready"

[cerebrium.dependencies.pip]
fastapi = "latest"
uvicorn = "latest"
`,
  "style-socket/server.py": socketServer,
  "style-socket/cerebrium.toml": `[cerebrium.deployment]
name = "style-socket"

[cerebrium.runtime.custom]
port = 8768
entrypoint = "python3 server.py 'two words'"
`,
  "style-dockerfile/Dockerfile": `FROM debian:bookworm-slim
WORKDIR /srv/app
COPY server.py .
RUN test ! -e /srv/app/secret.txt
EXPOSE 8766
CMD ["env", "PORT=8766", "python3", "server.py", "from", "CMD"]
`,
  "style-dockerfile/.dockerignore": "secret.txt\n",
  "style-dockerfile/secret.txt": "not in the image\n",
  "style-dockerfile/server.py": socketServer,
  "style-dockerfile/cerebrium.toml": `[cerebrium.deployment]
name = "style-dockerfile"

[cerebrium.runtime.custom]
port = 0
dockerfile_path = "./Dockerfile"
`,
  "style-apt/main.py": `import shutil\n\ndef which(name: str):\n    return shutil.which(name)\n`,
  "style-apt/cerebrium.toml": `[cerebrium.deployment]
name = "style-apt"

[cerebrium.dependencies.apt]
tree = "latest"
`,
  "style-image/main.py": `def marker():\n    with open("/opt/marker") as file:\n        return file.read().strip()\n`,
};

async function resultOf(response: Response): Promise<unknown> {
  return ((await response.json()) as { result: unknown }).result;
}

async function tryCortex(platform: PlatformProcess): Promise<void> {
  const app = await deploy(platform, { name: "style-cortex", gitPath: "style-cortex" });
  assert.equal(app.status, "success", app.log);
  const call = (path: string, body: unknown = {}): Promise<Response> =>
    platform.call("style-cortex", path, body);
  const hash = createHash("md5").update("stext").digest("hex");
  assert.equal(await resultOf(await call("return_md5", { text: "text", extra: [{ a: 1 }] })), hash);
  const refused = await call("refuse");
  assert.equal(refused.status, 429);
  const run = refused.headers.get("x-request-id");
  assert.match(
    JSON.stringify(await refused.json()),
    new RegExp(`"run":"${run}".*"app":"style-cortex"`),
  );
  assert.equal(
    await (await call("stream", { count: 2 })).text(),
    "data: 0\n\ndata: 1\n\ndata: [DONE]\n\n",
  );
  assert.deepEqual(await resultOf(await call("where")), ["/cortex", true]);
  assert.equal((await call("_hidden")).status, 404);
}

async function tryFastapi(platform: PlatformProcess): Promise<void> {
  const app = await deploy(platform, { name: "style-fastapi", gitPath: "style-fastapi" });
  assert.equal(app.status, "success", app.log);
  const answer = await platform.call("style-fastapi", "");
  assert.deepEqual(await answer.json(), { asked: true, port: "5000" });
}

async function trySocket(platform: PlatformProcess, t: TestContext): Promise<void> {
  const app = await deploy(platform, { name: "style-socket", gitPath: "style-socket" });
  assert.equal(app.status, "success", app.log);
  const answer = await platform.call("style-socket", "", undefined, { method: "GET" });
  assert.equal(await answer.text(), "two words");
  const { baseUrl, projectId, inferenceToken } = platform.bootstrap;
  const socket = new WebSocket(
    `${baseUrl.replace("http", "ws")}/v4/${projectId}/style-socket/any`,
    {
      headers: { authorization: `Bearer ${inferenceToken}` },
    },
  );
  t.after(() => socket.terminate());
  const reply = await new Promise<string>((resolve, reject) => {
    socket.on("error", reject);
    socket.on("open", () => socket.send("ahoy"));
    socket.on("message", (data: Buffer) => resolve(data.toString()));
  });
  assert.equal(reply, "AHOY");
}

async function tryDockerfile(platform: PlatformProcess): Promise<void> {
  const app = await deploy(platform, { name: "style-dockerfile", gitPath: "style-dockerfile" });
  assert.equal(app.status, "success", app.log);
  const answer = await platform.call("style-dockerfile", "", undefined, { method: "GET" });
  assert.equal(await answer.text(), "from CMD");
}

async function tryApt(platform: PlatformProcess): Promise<void> {
  const app = await deploy(platform, { name: "style-apt", gitPath: "style-apt" });
  assert.equal(app.status, "success", app.log);
  assert.equal(
    await resultOf(await platform.call("style-apt", "which", { name: "tree" })),
    "/usr/bin/tree",
  );
}

/** On every driver. */
const folderScenarios: readonly Scenario[] = [
  {
    promise:
      "a cortex folder: plain results, chosen statuses, streams, its folder, private functions",
    needsPackages: false,
    run: tryCortex,
  },
  {
    promise: "a FastAPI folder: calls arrive once its ready check answers 200",
    needsPackages: true,
    run: tryFastapi,
  },
  {
    promise: "a server without packages: a start command as text, a WebSocket",
    needsPackages: false,
    run: trySocket,
  },
];

/** On drivers that build images. */
export const imageScenarios: readonly Scenario[] = [
  {
    promise: "a folder with its own Dockerfile: its CMD starts the app",
    needsPackages: false,
    run: tryDockerfile,
  },
  {
    promise: "a folder with an apt package: the app has the program",
    needsPackages: true,
    run: tryApt,
  },
];

/** All that drivers have in common. */
export const sharedScenarios: readonly Scenario[] = [...exampleScenarios, ...folderScenarios];
