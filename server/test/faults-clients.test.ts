// Clients that hold connections: heads and bodies that come byte by byte, connections that say
// nothing or are half closed, and answers of megabytes that nobody reads. Others are answered
// meanwhile, the deadlines of the listener close what holds on, and the memory is free afterwards.
// In full (SLIPWAY_TEST_FAULTS=full): 12,000 connections, which the platform closes by its
// deadlines itself; else some hundreds, which go by themselves, and shorter deadlines at a listener
// alone.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { WebSocketServer, WebSocket } from "ws";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import type { PlatformProcess } from "#test/support/platform-process.ts";
import {
  bedTokens,
  bothWays,
  helloPath,
  httpReplica,
  openProxyBed,
  type RawClient,
} from "#test/support/proxy-bed.ts";
import { until } from "#test/support/until.ts";

const isFull = process.env["SLIPWAY_TEST_FAULTS"] === "full";
const megabyte = 1_048_576;
/** More than the buffers of a connection take. */
const bytes = 60 * megabyte;
const times = { headMs: 250, bodyMs: 250, stalledMs: 400, keepAliveMs: 400 };

/** Sends one byte after the other until the connection is closed. */
async function trickle(client: RawClient): Promise<void> {
  await until("it is closed", () => {
    if (!client.isClosed && !client.isEnded) client.send("a");
    return client.isClosed || client.isEnded;
  });
}

test(
  "a head and a body that come byte by byte are answered 408 and closed",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { times, fallback: (request) => request.resume() });
    const head = await bed.connect();
    head.send("GET /v2/x HTTP/1.1\r\nHost: test\r\nX: ");
    await trickle(head);
    assert.match(head.text, /^HTTP\/1\.1 408 .*The head of the request took too long/s);
    for (const framing of ["Content-Length: 100000", "Transfer-Encoding: chunked"]) {
      const body = await bed.connect();
      body.send(`POST /v2/x HTTP/1.1\r\nHost: test\r\n${framing}\r\n\r\n`);
      if (framing.startsWith("T")) body.send("ffff\r\n");
      await trickle(body);
      assert.match(
        body.text,
        /^HTTP\/1\.1 408 .*"message":"The body of the request took too long/s,
      );
    }
  }),
);

test(
  "a body that goes on for ever behind its call's answer is closed",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { times });
    bed.setReplicas(await httpReplica(t, (_request, response) => response.end("no, thanks")));
    for (const path of [`${helloPath}/run`, "/v4/p-00000001/nobody/run"]) {
      const client = await bed.connect();
      client.ask(`POST ${path}`, ["Content-Length: 60000"], "begun");
      await client.sees("\r\n\r\n");
      await trickle(client);
    }
  }),
);

test(
  "a client that takes nothing of its answer is closed, and its replica is free again",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { times });
    const answers: ServerResponse[] = [];
    bed.setReplicas(
      await httpReplica(t, (_request, response) => {
        answers.push(response);
        const more = (): void => {
          let hasRoom = true;
          while (hasRoom) hasRoom = response.write(Buffer.alloc(65_536));
        };
        response.on("drain", more);
        more();
      }),
    );
    const client = await bed.connect();
    client.socket.pause();
    client.ask(`GET ${helloPath}/run`);
    await until("the app answers", () => answers.length === 1);
    await until("the place is free", () => bed.proxy.apps.demandOf(bed.appId).running === 0);
    await until("the app sees that nobody reads", () => answers[0]?.destroyed);
    assert.equal(bed.finished[0]?.outcome, "client_gone");
  }),
);

test("an answer of the management API that is not taken is closed, one that is taken slowly is not", async (t) => {
  const whole: (boolean | null)[] = [];
  const bed = await openProxyBed(t, {
    times,
    fallback: (_request, response) => {
      const index = whole.push(null) - 1;
      response.on("close", () => (whole[index] = response.writableFinished));
      response.end(Buffer.alloc(bytes));
    },
  });
  const slow = await bed.connect();
  slow.ask("GET /v2/x");
  let room = 0;
  slow.socket.on("data", (chunk) => {
    room -= chunk.length;
    if (room <= 0) slow.socket.pause();
  });
  await until("the first is answered", () => whole.length === 1);
  const client = await bed.connect();
  client.socket.pause();
  client.ask("GET /v2/x");
  const takeMore = (): boolean => {
    room = 2 * megabyte;
    slow.socket.resume();
    return slow.text.length > bytes;
  };
  await until("the one that is not taken is over", () => (takeMore(), whole[1] === false));
  await until("the slow one has all", takeMore);
  await until("it is over", () => whole[0] !== null);
  assert.deepEqual(whole, [true, false]);
});

test("whoever waits for an app or talks over a WebSocket may be silent for longer than that", async (t) => {
  const bed = await openProxyBed(t, {
    times,
    settings: { runtime: "custom", replicaConcurrency: 10 },
  });
  const answers: ServerResponse[] = [];
  const sockets = new WebSocketServer({ noServer: true });
  const server = createServer((_request, response) => answers.push(response));
  server.on("upgrade", (request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, (one) =>
      one.on("message", (data) => one.send(data)),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  bed.setReplicas((server.address() as AddressInfo).port);
  const clients = [await bed.connect(), await bed.connect()];
  clients[0]?.ask(`GET ${helloPath}/run`);
  clients[1]?.ask(
    `POST ${helloPath}/run`,
    ["Transfer-Encoding: chunked"],
    "4\r\nbody\r\n0\r\n\r\n",
  );
  const chat = new WebSocket(`ws://127.0.0.1:${bed.port}${helloPath}/chat`, {
    headers: { authorization: `Bearer ${bedTokens.project}` },
  });
  t.after(() => chat.terminate());
  await once(chat, "open");
  await until("the app works on both", () => answers.length === 2);
  const silent = await bed.connect();
  const untilMs = performance.now() + 3 * times.stalledMs;
  await until("a longer time has passed", () => performance.now() > untilMs);
  await silent.sawEnd();
  for (const answer of answers) answer.end("done");
  for (const client of clients) await client.sees("done");
  chat.send("still there");
  const [said] = (await once(chat, "message")) as [Buffer];
  assert.equal(said.toString(), "still there");
});

// From here on a whole platform.

const counts = isFull
  ? { heads: 5_000, bodies: 5_000, idle: 2_000, half: 200, silentReaders: 200 }
  : { heads: 150, bodies: 150, idle: 100, half: 20, silentReaders: 40 };
/** What one connection may cost, and what may stay of all. */
const bytesEachMax = 0.75 * megabyte;
const bytesLeftMax = 24 * megabyte;
const rssLeftMax = 200 * megabyte;
const closedWaitMs = 300_000;
/** Files, the database's connections, replicas', and those of the test. */
const descriptorsMax = 150;

const app = `def warm():
    return 1

def stream():
    for _ in range(512):
        yield "x" * 65536

def large():
    return "x" * (8 * 1048576)
`;

type Memory = { readonly rss: number; readonly used: number };

async function memoryOf(platform: PlatformProcess): Promise<Memory> {
  const before = platform.output().length;
  process.kill(platform.pid(), "SIGUSR2");
  const said = await until("it says what memory it needs", () =>
    /^memory (.*)$/m.exec(platform.output().slice(before)),
  );
  return JSON.parse(said[1] ?? "") as Memory;
}

function descriptorsOf(platform: PlatformProcess): number {
  return readdirSync(`/proc/${platform.pid()}/fd`).length;
}

/**
 * Connections that hold on to the platform; `send` is what each says first, `more` what it says
 * again and again.
 */
class Crowd {
  readonly #sockets = new Set<Socket>();
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  get open(): number {
    return this.#sockets.size;
  }

  async add(
    count: number,
    send: (index: number) => string,
    how: { isHalf?: boolean; reads?: boolean } = {},
  ): Promise<void> {
    const atOnce = 250;
    for (let begun = 0; begun < count; begun += atOnce) {
      const few = Math.min(atOnce, count - begun);
      await Promise.all(
        Array.from({ length: few }, (_, index) => this.#connect(send(begun + index), how)),
      );
    }
  }

  /** One more byte of each, for those that send slowly. */
  trickle(): void {
    for (const socket of this.#sockets) if (socket.writable) socket.write("a");
  }

  leave(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async #connect(
    first: string,
    { isHalf = false, reads = true }: { isHalf?: boolean; reads?: boolean },
  ): Promise<void> {
    const socket = connect({ host: "127.0.0.1", port: this.#port, allowHalfOpen: isHalf });
    this.#sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => this.#sockets.delete(socket));
    if (reads) socket.resume();
    await once(socket, "connect");
    if (first !== "") socket.write(first, "latin1");
    if (isHalf) socket.end();
  }
}

type Stage = { readonly platform: PlatformProcess; readonly port: number; readonly bearer: string };

async function stage(t: TestContext): Promise<Stage> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", { "main.py": app });
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const common = {
    gitRepo: "acme/app",
    pythonVersion: "3.11",
    cooldownPeriodSeconds: 600,
    maxReplicaCount: 1,
  };
  for (const [name, settings] of [
    ["work", { replicaConcurrency: 4 }],
    ["busy", { replicaConcurrency: 1000, responseGracePeriodSeconds: 60 }],
  ] as const) {
    const { status, log } = await deploy(platform, { name, ...common, ...settings });
    assert.equal(status, "success", log);
  }
  await platform.end("SIGTERM");
  await platform.restart({ entry: join(import.meta.dirname, "support/measured-platform.ts") });
  const { baseUrl, inferenceToken } = platform.bootstrap;
  return {
    platform,
    port: Number(new URL(baseUrl).port),
    bearer: `Authorization: Bearer ${inferenceToken}`,
  };
}

/** Everybody else is answered. */
async function othersAreAnswered({ platform }: Stage): Promise<void> {
  const { baseUrl, projectId, ownerEmail, ownerPassword } = platform.bootstrap;
  assert.equal((await platform.call("work", "warm", {})).status, 200);
  assert.equal((await platform.call("work", "warm?async=true", {})).status, 202);
  assert.equal((await platform.api("GET", `/v2/projects/${projectId}/apps`)).status, 200);
  const body = JSON.stringify({ email: ownerEmail, password: ownerPassword });
  const headers = { "content-type": "application/json" };
  assert.equal(
    (await fetch(`${baseUrl}/v2/auth/sign-in`, { method: "POST", headers, body })).status,
    200,
  );
  assert.equal((await fetch(`${baseUrl}/healthz`)).status, 200);
}

/** All crowds at once; in full they stay until the platform closes them. */
async function crowded(on: Stage): Promise<{ readonly peak: Memory; readonly held: number }> {
  const { platform, port, bearer } = on;
  const { projectId } = platform.bootstrap;
  const callPath = (name: string): string => `/v4/${projectId}/${name}`;
  const post = (path: string): string =>
    `POST ${path} HTTP/1.1\r\nHost: test\r\n${bearer}\r\nContent-Type: application/json\r\n`;
  const bodies = [
    "/v2/auth/sign-in",
    `${callPath("busy")}/warm`,
    `${callPath("busy")}/warm?async=true`,
  ];
  const slow = new Crowd(port);
  const quiet = new Crowd(port);
  await slow.add(counts.heads, () => `GET ${callPath("work")}/warm HTTP/1.1\r\nHost: test\r\nX: `);
  await slow.add(
    counts.bodies,
    (index) => `${post(bodies[index % bodies.length] ?? "")}Content-Length: 50000\r\n\r\n{`,
  );
  await quiet.add(counts.idle, (index) =>
    index % 2 === 0 ? "" : "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n",
  );
  await quiet.add(
    counts.half,
    () => `${post(`${callPath("busy")}/warm`)}Content-Length: 2\r\n\r\n{}`,
    {
      isHalf: true,
    },
  );
  const answers = [`${callPath("busy")}/stream`, `${callPath("busy")}/large`];
  const request = (index: number): string =>
    `${post(answers[index % 2] ?? "")}Content-Length: 2\r\n\r\n{}`;
  await quiet.add(counts.silentReaders, request, { reads: false });
  const held = slow.open + quiet.open;
  slow.trickle();
  await othersAreAnswered(on);
  const peak = await memoryOf(platform);
  if (isFull) {
    // Clients that read nothing do not notice that they are disconnected.
    const areClosed = (): boolean => (
      slow.trickle(),
      slow.open === 0 && descriptorsOf(platform) < descriptorsMax
    );
    await until("the platform has closed all of them", areClosed, { deadlineMs: closedWaitMs });
  }
  slow.leave();
  quiet.leave();
  return { peak, held };
}

test(
  "thousands of slow clients hold up nobody, and leave nothing behind",
  { timeout: 900_000 },
  async (t) => {
    const on = await stage(t);
    const { platform } = on;
    await othersAreAnswered(on);
    await crowded(on);
    const descriptors = descriptorsOf(platform);
    await until("they are gone", () => descriptorsOf(platform) < descriptorsMax);
    const before = await memoryOf(platform);
    const { peak, held } = await crowded(on);
    const inMb = ({ rss, used }: Memory): string =>
      `${Math.round(used / megabyte)} MB used, ${Math.round(rss / megabyte)} MB in all`;
    t.diagnostic(
      `${held} connections (${descriptors} descriptors); before: ${inMb(before)}; meanwhile: ${inMb(peak)}`,
    );
    assert.ok(peak.used - before.used < held * bytesEachMax, `they cost ${inMb(peak)}`);
    await until("their connections are gone", () => descriptorsOf(platform) < descriptorsMax);
    const isBack = async (): Promise<boolean> => {
      const { rss, used } = await memoryOf(platform);
      return used < before.used + bytesLeftMax && rss < before.rss + rssLeftMax;
    };
    await until("the memory is free again", isBack, { deadlineMs: 60_000 });
    t.diagnostic(`afterwards: ${inMb(await memoryOf(platform))}`);
    await othersAreAnswered(on);
  },
);
