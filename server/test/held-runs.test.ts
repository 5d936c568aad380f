// Fetching, settling and stopping held runs: with the real Python runtime, and with servers that
// say strange things.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import {
  connect,
  createServer as createSocketServer,
  type AddressInfo,
  type Socket,
} from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import type { Address } from "#drivers/driver.ts";
import { systemClock } from "#lib/clock.ts";
import { newRunId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { heldIdOf, heldLineOf, type HeldId } from "#runs/held-id.ts";
import { HeldRuns } from "#runs/held-runs.ts";
import { cleanLast } from "./support/clean-last.ts";
import { temporaryFolder } from "./support/folder.ts";
import { cortexRuntimeDir, python } from "./support/process-fixture.ts";
import { until } from "./support/until.ts";

/** Creates the id of the first attempt of a new run. */
function newHeldId(): HeldId {
  return heldIdOf(newRunId(), 1);
}

function runOf(heldId: HeldId): string {
  return heldId.slice(0, heldId.indexOf("."));
}

const app = `
import asyncio, os, time

def echo(value): return value

def status(status_code): return {"status_code": status_code}

def wait():
    open("began", "w").close()
    while not os.path.exists("go"): time.sleep(0.003)
    return "waited"

async def wait_later():
    open("began", "w").close()
    while not os.path.exists("go"): await asyncio.sleep(0.003)
    return "waited"

def swallows():
    while True:
        try:
            open("began", "w").close()
            while not os.path.exists("go"): time.sleep(0.003)
            return
        except BaseException: pass

def words():
    yield "one"
    yield "two"

def breaks():
    yield "one"
    raise ValueError("in between")

def large(): return "x" * 40_000_000
`;

/** A replica of the app in a process of its own. */
class Cortex {
  readonly address: Address;
  readonly #folder: string;

  private constructor(address: Address, folder: string) {
    this.address = address;
    this.#folder = folder;
  }

  static async start(t: TestContext): Promise<Cortex> {
    const folder = temporaryFolder(t, "cortex");
    writeFileSync(join(folder, "main.py"), app);
    const environment = { ...process.env, SLIPWAY_LISTEN: "127.0.0.1:0", SLIPWAY_READY_FD: "3" };
    const child = spawn(python, [join(cortexRuntimeDir, "start.py")], {
      cwd: folder,
      env: environment,
      stdio: ["ignore", "ignore", "ignore", "pipe"],
    });
    const exited = once(child, "exit");
    t.after(async () => {
      child.kill("SIGKILL");
      await exited;
    });
    const ready = child.stdio[3];
    assert(ready !== null && ready !== undefined && "read" in ready);
    const [line] = (await once(createInterface({ input: ready }), "line")) as [string];
    const { port } = JSON.parse(line) as { readonly port: number };
    return new Cortex({ host: "127.0.0.1", port }, folder);
  }

  /** Sends a held call on a connection of its own, as the platform does. */
  async send(functionName: string, heldId: HeldId, body: object = {}): Promise<Socket> {
    const socket = connect(this.address);
    await once(socket, "connect");
    const text = JSON.stringify(body);
    const head = `POST /${functionName} HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${runOf(heldId)}\r\n`;
    socket.write(`${head}${heldLineOf(1)}Content-Length: ${text.length}\r\n\r\n${text}`);
    return socket;
  }

  /** The same, and the platform is lost once the answer begins. */
  async call(functionName: string, heldId: HeldId, body?: object): Promise<void> {
    const socket = await this.send(functionName, heldId, body);
    await once(socket, "data");
    socket.destroy();
  }

  /** The same, and the platform is lost once the function runs. */
  async leave(functionName: string, heldId: HeldId): Promise<void> {
    const socket = await this.send(functionName, heldId);
    await until("the function runs", () => existsSync(join(this.#folder, "began")));
    socket.destroy();
  }

  finish(): void {
    writeFileSync(join(this.#folder, "go"), "");
  }
}

function makeHeldRuns(t: TestContext): HeldRuns {
  const heldRuns = new HeldRuns({ clock: systemClock, log: silentLog });
  cleanLast(t, () => heldRuns.close());
  return heldRuns;
}

function options(changes: { signal?: AbortSignal; bytesMax?: number; waitMs?: number } = {}) {
  return { signal: new AbortController().signal, bytesMax: 1_000_000, waitMs: 20_000, ...changes };
}

async function listen(
  t: TestContext,
  server: Server | ReturnType<typeof createSocketServer>,
): Promise<Address> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    if ("closeAllConnections" in server) server.closeAllConnections();
    server.close();
  });
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
}

/** A server that says what it is told to. */
function serve(t: TestContext, listener: RequestListener): Promise<Address> {
  return listen(t, createServer(listener));
}

void test("A run whose platform is lost goes on, and its answer is fetched by the next one", async (t) => {
  const heldRuns = makeHeldRuns(t);
  for (const name of ["wait", "wait_later"]) {
    const cortex = await Cortex.start(t);
    const heldId = newHeldId();
    await cortex.leave(name, heldId);
    const attached = [0, 1].map(() => heldRuns.attach(cortex.address, heldId, options()));
    cortex.finish();
    for (const answer of await Promise.all(attached)) {
      assert(answer.kind === "answered" && answer.body !== null);
      assert.deepEqual([answer.status, answer.contentType], [200, "application/json"]);
      assert.equal(answer.bodyBytes, answer.body.length);
      const { run_id: id, result } = JSON.parse(answer.body.toString()) as {
        run_id: string;
        result: string;
      };
      assert.deepEqual([id, result], [runOf(heldId), "waited"]);
    }
  }
});

void test("Answers come as the app gave them: statuses, streams, no body, and those that are too long", async (t) => {
  const cortex = await Cortex.start(t);
  const heldRuns = makeHeldRuns(t);
  const fetched = async (name: string, body: object, bytesMax?: number) => {
    const heldId = newHeldId();
    await cortex.call(name, heldId, body);
    return await heldRuns.attach(
      cortex.address,
      heldId,
      options(bytesMax === undefined ? {} : { bytesMax }),
    );
  };
  const teapot = await fetched("status", { status_code: 418 });
  assert(teapot.kind === "answered" && teapot.status === 418);
  const failed = await fetched("status", { unknown: 1 });
  assert(failed.kind === "answered" && failed.status === 422);
  const nothing = { kind: "answered", contentType: null, body: Buffer.alloc(0), bodyBytes: 0 };
  assert.deepEqual(await fetched("status", { status_code: 204 }), { ...nothing, status: 204 });
  const notFound = await fetched("status", { status_code: 404 });
  assert(notFound.kind === "answered" && notFound.status === 404);
  const words = await fetched("words", {});
  assert(words.kind === "answered");
  assert.equal(words.contentType, "text/event-stream; charset=utf-8");
  assert.equal(words.body?.toString(), "data: one\n\ndata: two\n\n");
  const long = await fetched("echo", { value: "x".repeat(5_000) }, 5_000);
  assert(long.kind === "answered" && long.body === null && long.bodyBytes > 5_000);
  const large = await fetched("large", {}, 100_000_000);
  assert(large.kind === "answered" && large.body === null && large.bodyBytes > 40_000_000);
  const broken = await fetched("breaks", {});
  assert(broken.kind === "answered" && broken.status === 500);
  assert.match(JSON.parse(String(broken.body)).message, /^[A-Z]\w+: /);
});

void test("What is acknowledged is forgotten, many runs at a time", async (t) => {
  const cortex = await Cortex.start(t);
  const heldRuns = makeHeldRuns(t);
  const heldIds = Array.from({ length: 120 }, () => newHeldId());
  for (const heldId of heldIds) await cortex.call("echo", heldId, { value: 1 });
  const kinds = () =>
    Promise.all(
      heldIds.map(
        async (heldId) => (await heldRuns.attach(cortex.address, heldId, options())).kind,
      ),
    );
  assert.deepEqual(new Set(await kinds()), new Set(["answered"]));
  for (const heldId of heldIds) heldRuns.acknowledge(cortex.address, heldId);
  await until("all are forgotten", async () => (await kinds()).every((kind) => kind === "unknown"));
  const unknown = await heldRuns.attach(cortex.address, newHeldId(), options());
  assert.deepEqual(unknown, { kind: "unknown", hasForgotten: false });
});

void test("What is left to acknowledge is said at the end", async (t) => {
  const cortex = await Cortex.start(t);
  const heldRuns = new HeldRuns({ clock: systemClock, log: silentLog });
  const heldId = newHeldId();
  await cortex.call("echo", heldId, { value: 1 });
  heldRuns.acknowledge(cortex.address, heldId);
  await heldRuns.close();
  const attached = await makeHeldRuns(t).attach(cortex.address, heldId, options());
  assert.deepEqual(attached, { kind: "unknown", hasForgotten: false });
});

void test("A cancel stops plain and async functions, and says when one does not stop or is not there", async (t) => {
  for (const name of ["wait", "wait_later", "swallows"]) {
    const cortex = await Cortex.start(t);
    const heldRuns = makeHeldRuns(t);
    const heldId = newHeldId();
    await cortex.leave(name, heldId);
    assert.equal(
      await heldRuns.cancel(cortex.address, heldId),
      name === "swallows" ? "running" : "stopped",
      name,
    );
    assert.equal(await heldRuns.cancel(cortex.address, newHeldId()), "unknown");
    cortex.finish();
    const attached = await heldRuns.attach(cortex.address, heldId, options());
    assert(attached.kind === "answered" && attached.status === (name === "swallows" ? 200 : 500));
  }
});

void test("A wait ends at its deadline, when it is aborted, and when the platform stops", async (t) => {
  const address = await serve(t, () => undefined);
  const heldRuns = makeHeldRuns(t);
  const heldId = newHeldId();
  const late = await heldRuns.attach(address, heldId, options({ waitMs: 20 }));
  assert.deepEqual(late, { kind: "lost", reason: "the replica did not answer in time" });
  const abort = new AbortController();
  const aborted = heldRuns.attach(address, heldId, options({ signal: abort.signal }));
  abort.abort();
  assert.equal((await aborted).kind, "lost");
  assert.equal(
    (await heldRuns.attach(address, heldId, options({ signal: abort.signal }))).kind,
    "lost",
  );
  const last = heldRuns.attach(address, heldId, options());
  const cancel = heldRuns.cancel(address, heldId);
  await heldRuns.close();
  assert.equal((await last).kind, "lost");
  assert.equal(await cancel, "unknown");
});

void test("A replica that is gone, closes or talks nonsense is lost, and harms nobody", async (t) => {
  const heldRuns = makeHeldRuns(t);
  const held = { "slipway-held": "1" };
  const long = "x".repeat(10_000);
  const answers: readonly RequestListener[] = [
    (_, response) => response.writeHead(200, { "content-length": "2" }).end("{}"),
    (_, response) => response.writeHead(404, { "content-length": "2" }).end("{}"),
    (_, response) => response.writeHead(404).end(`{"has_forgotten": false}`.padEnd(100_000)),
    (_, response) => response.writeHead(404).end(`{"has_forgotten": "no"}`),
    (_, response) =>
      response.writeHead(200, { ...held, "slipway-body-bytes": "-1", "content-length": "0" }).end(),
    (_, response) =>
      response
        .writeHead(200, { ...held, "content-length": "5" })
        .end("abcde", () => response.destroy()),
    (_, response) =>
      void response
        .writeHead(200, { ...held, "content-length": "5" })
        .write("abc", () => response.destroy()),
    (_, response) =>
      void response.writeHead(200, held).write("without a length", () => response.end()),
    (_, response) =>
      response.writeHead(200, { ...held, "x-long": long.repeat(2), "content-length": "0" }).end(),
    (_, response) => response.destroy(),
  ];
  for (const [index, listener] of answers.entries()) {
    const address = await serve(t, listener);
    const attached = await heldRuns.attach(address, newHeldId(), options());
    assert.equal(
      attached.kind,
      index === 5 ? "answered" : "lost",
      `answer ${index}: ${JSON.stringify(attached)}`,
    );
    assert.equal(await heldRuns.cancel(address, newHeldId()), "unknown");
    heldRuns.acknowledge(address, newHeldId());
  }
  const closed = createServer();
  const nobody = await listen(t, closed);
  closed.close();
  assert.deepEqual(await heldRuns.attach(nobody, newHeldId(), options()), {
    kind: "lost",
    reason: "the replica could not be asked (ECONNREFUSED)",
  });
  const raw = await listen(
    t,
    createSocketServer((socket) =>
      socket.on("error", () => undefined).end("HTTP/9.9 none of your business\r\n\r\n"),
    ),
  );
  assert.equal((await heldRuns.attach(raw, newHeldId(), options())).kind, "lost");
});

void test("A kept connection that the replica has closed meanwhile is no failure", async (t) => {
  const sockets: Socket[] = [];
  const body = `{"message": "", "has_forgotten": false}`;
  const server = createSocketServer((socket) => {
    sockets.push(socket.on("error", () => undefined));
    let requests = 0;
    socket.on("data", () => {
      // The second request on a connection meets its end.
      if (++requests === 2) socket.resetAndDestroy();
      else socket.write(`HTTP/1.1 404 Not Found\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    });
  });
  const address = await listen(t, server);
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  const heldRuns = makeHeldRuns(t);
  for (let turn = 1; turn <= 3; turn++) {
    const attached = await heldRuns.attach(address, newHeldId(), options());
    assert.deepEqual(attached, { kind: "unknown", hasForgotten: false });
  }
  assert(sockets.length >= 2);
});
