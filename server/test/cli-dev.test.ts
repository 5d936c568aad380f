// `slipway dev` with real Pythons: it runs an app, again at each save, says what is wrong, and
// leaves nothing behind.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { request, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { test } from "node:test";
import { toolEnvironmentOf } from "#config.ts";
import { temporaryFolder } from "./support/folder.ts";
import { isAlive } from "./support/is-alive.ts";
import { packageIndexAnswers } from "./support/package-index.ts";
import { zipOf } from "./support/raw-zip.ts";
import { commandsAt, type RunningCommand } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const toml = '[cerebrium.deployment]\nname = "hello"\n';
const answering = (text: string): string => `import os

def run(name: str = "world"):
    print("called by", name)
    return [${JSON.stringify(text)}, os.environ.get("COLOUR"), os.getpid()]
`;

/** The newest URL that it has told, after `count` starts. */
async function urlAfter(running: RunningCommand, count: number): Promise<string> {
  const form = /runs at (http:\S+) \(ready after/g;
  return await until(`start ${count}`, () => [...running.stderr().matchAll(form)][count - 1]?.[1], {
    deadlineMs: 60_000,
  });
}

async function call(url: string): Promise<[string, string | null, number]> {
  const response = await fetch(`${url}/run`, { method: "POST", body: '{"name": "Ada"}' });
  return ((await response.json()) as { result: [string, string | null, number] }).result;
}

/** What a page gets whose own name leads to this machine. */
async function answerAt(url: string, host: string): Promise<{ status: number; message: unknown }> {
  const asking = request(`${url}/run`, { method: "POST", headers: { host } });
  asking.end("{}");
  const [response] = (await once(asking, "response")) as [IncomingMessage];
  const { message } = (await json(response)) as { message?: unknown };
  return { status: response.statusCode ?? 0, message };
}

/** A wheel of the package `greeter`, whose `greeting` is the text. */
function greeter(text: string): Buffer {
  return zipOf({
    "greeter.py": `greeting = ${JSON.stringify(text)}\n`,
    "greeter-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n",
    "greeter-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "greeter-1.0.dist-info/RECORD": "",
  });
}

test("an app runs, and again at each save of a file that belongs to it; Ctrl-C leaves no process", async (t) => {
  const folder = temporaryFolder(t, "app");
  const write = (path: string, text: string): void => writeFileSync(join(folder, path), text);
  write("main.py", answering("one"));
  write("slipway.toml", toml);
  write(".gitignore", "ignored.txt\n");
  const slipway = commandsAt(t);
  const running = slipway(["dev", folder]);
  const url = await urlAfter(running, 1);
  const [text, , pid] = await call(url);
  assert.equal(text, "one");
  const coded = { method: "POST", headers: { "content-encoding": "gzip" }, body: gzipSync("{}") };
  const refused = await fetch(`${url}/run`, coded);
  assert.equal(refused.status, 415);
  assert.match(
    await refused.text(),
    /Content-Encoding \\"gzip\\", but functions take bodies only as they are/,
  );
  assert.deepEqual(await answerAt(url, "evil.test"), {
    status: 403,
    message:
      "Host is 'evil.test', but only an IP address or localhost is answered here, such as http://127.0.0.1 with the port",
  });
  assert.equal((await answerAt(url, "localhost:8000")).status, 200);
  await until("its output is shown", () => running.stdout().includes("called by Ada"));

  write("ignored.txt", "does not count");
  mkdirSync(join(folder, "__pycache__"), { recursive: true });
  write("__pycache__/x.pyc", "neither");
  write(".env", "COLOUR=blue\n");
  assert.equal(await urlAfter(running, 2), url);
  assert.deepEqual((await call(url)).slice(0, 2), ["one", "blue"]);
  assert.ok(!isAlive(pid));

  write("main.py", "this is no Python\n");
  await until("the failure is told", () =>
    /The app has ended: it exited with code 1\. Waiting/.test(running.stderr()),
  );
  assert.match(running.stderr(), /SyntaxError/);
  write("slipway.toml", "[cerebrium");
  await until("the TOML is told", () =>
    /slipway\.toml is not valid TOML at line 1.*\nWaiting for/.test(running.stderr()),
  );
  write("slipway.toml", toml);
  write("main.py", answering("two"));
  await urlAfter(running, 3);
  const [again, , lastPid] = await call(url);
  assert.equal(again, "two");
  running.interrupt();
  assert.equal((await running.ended).code, 130);
  assert.ok(!isAlive(lastPid));
  await assert.rejects(fetch(url));
});

test("a server of the app's own runs where its port is free, and what it has started ends with it", async (t) => {
  const folder = temporaryFolder(t, "app");
  const custom = `[cerebrium.runtime.custom]\nport = 8765\nentrypoint = ["python", "server.py", "--port", "8765"]\n`;
  const server = `import http.server, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[2]), bind="127.0.0.1")
`;
  writeFileSync(join(folder, "server.py"), server);
  writeFileSync(join(folder, ".slipwayignore"), "pids\n");
  writeFileSync(
    join(folder, "slipway.toml"),
    `${toml + custom}[slipway.storage]\npath = "/data"\n`,
  );
  const slipway = commandsAt(t);
  const first = slipway(["dev", folder]);
  const firstUrl = await urlAfter(first, 1);
  assert.match(
    first.stderr(),
    /storage of the app's own\. At \/data it sees this machine's folder\./,
  );
  const pids = readFileSync(join(folder, "pids"), "utf8").split(" ").map(Number);
  const second = slipway(["dev", folder]);
  assert.notEqual(await urlAfter(second, 1), firstUrl);
  const both = [...pids, ...readFileSync(join(folder, "pids"), "utf8").split(" ").map(Number)];
  for (const running of [first, second]) running.interrupt();
  for (const running of [first, second]) assert.equal((await running.ended).code, 130);
  assert.equal(both.length, 4);
  for (const pid of both) assert.ok(!isAlive(pid), String(pid));

  const taken = await slipway(["dev", folder, "--port", "no"]).ended;
  assert.deepEqual(
    [taken.code, taken.stderr],
    [2, '--port is "no", but must be a port from 1 to 65535.\n'],
  );
});

test("a server that one text starts listens on this machine alone, as one of a list does", async (t) => {
  const slipway = commandsAt(t);
  const server = `import http.server, os, sys
open("bound", "w").write(sys.argv[1])
http.server.test(http.server.SimpleHTTPRequestHandler, port=int(os.environ["PORT"]), bind=sys.argv[1])
`;
  const text = '"python server.py 0.0.0.0"';
  for (const entrypoint of [text, `[${text}]`, `["sh", "-c", ${text}, "8765"]`]) {
    const folder = temporaryFolder(t, "app");
    writeFileSync(join(folder, "server.py"), server);
    writeFileSync(join(folder, ".slipwayignore"), "bound\n");
    const custom = `[cerebrium.runtime.custom]\nport = 8765\nentrypoint = ${entrypoint}\n`;
    writeFileSync(join(folder, "slipway.toml"), toml + custom);
    const running = slipway(["dev", folder]);
    await urlAfter(running, 1);
    assert.equal(readFileSync(join(folder, "bound"), "utf8"), "127.0.0.1", entrypoint);
    running.interrupt();
    assert.equal((await running.ended).code, 130);
  }
});

test("packages are installed once, and what is missing is named", async (t) => {
  const folder = temporaryFolder(t, "app");
  const write = (path: string, content: string | Buffer): void =>
    writeFileSync(join(folder, path), content);
  write("greeter-1.0-py3-none-any.whl", greeter("from a package"));
  write("requirements.txt", "./greeter-1.0-py3-none-any.whl\n");
  write(
    "main.py",
    answering("one")
      .replace('"one"', "greeter.greeting")
      .replace("import os", "import os, greeter"),
  );
  write("slipway.toml", toml);
  const slipway = commandsAt(t);
  for (const installs of [true, false]) {
    const running = slipway(["dev", folder]);
    assert.equal((await call(await urlAfter(running, 1)))[0], "from a package");
    assert.equal(/^Installing 1 package into /m.test(running.stderr()), installs);
    running.interrupt();
    assert.equal((await running.ended).code, 130);
  }
  write("slipway.toml", `${toml}python_version = "3.99"\n`);
  const running = slipway(["dev", folder]);
  const isTold = (form: RegExp) => () => form.test(running.stderr());
  await until(
    "a Python",
    isTold(/^python3\.99 with its venv module is not on this machine.*slipway doctor\nWaiting/m),
  );
  write("slipway.toml", `${toml}[cerebrium.dependencies.pip]\n"no such" = "1"\n`);
  await until("a package", isTold(/no such.*a package name such as numpy/));
  running.interrupt();
  assert.equal((await running.ended).code, 130);
});

test("packages that only pyproject.toml names are installed, as builds do", async (t) => {
  const reason = await packageIndexAnswers();
  if (reason !== false) return t.skip(reason);
  const folder = temporaryFolder(t, "app");
  const write = (path: string, content: string | Buffer): void =>
    writeFileSync(join(folder, path), content);
  const project =
    '[project]\nname = "hello"\nversion = "1"\ndependencies = ["greeter @ file://FOLDER/FILE"]\n';
  const file = "greeter-1.0-py3-none-any.whl";
  write(file, greeter("of a project"));
  write("pyproject.toml", project.replace("FOLDER", folder).replace("FILE", file));
  write(
    "main.py",
    answering("one")
      .replace('"one"', "greeter.greeting")
      .replace("import os", "import os, greeter"),
  );
  write("slipway.toml", toml);
  const running = commandsAt(t, { env: toolEnvironmentOf(process.env) })(["dev", folder]);
  assert.equal((await call(await urlAfter(running, 1)))[0], "of a project", running.stderr());
  assert.match(running.stderr(), /^Installing the packages of pyproject\.toml into /m);
  running.interrupt();
  assert.equal((await running.ended).code, 130);
});
