// Deploys, rollbacks, scale-downs and kills of the platform while calls, streams and WebSockets
// run: none of them fails but those in flight in the killed platform itself. In full with
// `SLIPWAY_TEST_LOAD=<calls a second>`; see CONTRIBUTING.md.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { LoadOfCalls } from "./support/load-of-calls.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

const wanted = Number(process.env["SLIPWAY_TEST_LOAD"] ?? "0");
const isFull = wanted > 0;
const callsPerSecond = isFull ? wanted : 40;
const rounds = isFull
  ? { deploys: 20, rollbacks: 10, scaleDowns: 20, kills: 5 }
  : { deploys: 3, rollbacks: 1, scaleDowns: 2, kills: 1 };
const deadlineMs = 120_000;

/**
 * A web server of the standard library: an answer, a stream of ten parts, an echoing WebSocket;
 * each tells its version.
 */
const server = (version: number): string => `
import asyncio, base64, hashlib

VERSION = "v${version}"

async def echo(reader, writer, key):
    proof = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    writer.write(("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
                  f"Sec-WebSocket-Accept: {proof}\\r\\n\\r\\n").encode())
    while True:
        first, second = await reader.readexactly(2)
        mask = await reader.readexactly(4)
        await reader.readexactly(second & 127)
        if first & 15 == 8:
            writer.write(b"\\x88\\x00")
            return
        writer.write(b"\\x81" + bytes([len(VERSION)]) + VERSION.encode())

async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin1")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\\r\\n")[1:])}
            path = head.split(" ")[1]
            if path.startswith("/socket"):
                await echo(reader, writer, fields["sec-websocket-key"])
                return
            if path.startswith("/stream"):
                writer.write(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
                for _ in range(10):
                    writer.write(f"{len(VERSION) + 1:x}\\r\\n{VERSION} \\r\\n".encode())
                    await writer.drain()
                    await asyncio.sleep(0.1)
                writer.write(b"0\\r\\n\\r\\n")
            else:
                writer.write(f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(VERSION)}\\r\\n\\r\\n{VERSION}".encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()

async def main():
    async with await asyncio.start_server(serve, "0.0.0.0", 8000) as listener:
        await listener.serve_forever()

asyncio.run(main())
`;

/** The app under its load. */
async function openLoad(t: TestContext) {
  const git = await startGitServer(t);
  await git.createRepo("team", "loaded", { "server.py": server(1), "requirements.txt": "" });
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const { projectId } = platform.bootstrap;
  const settings = {
    runtime: "custom",
    entrypoint: ["python", "server.py"],
    port: 8000,
    disableAuth: true,
  };
  const scaling = {
    maxReplicaCount: 4,
    minReplicaCount: 1,
    replicaConcurrency: 200,
    cooldownPeriodSeconds: 1,
  };
  const first = await deploy(platform, {
    name: "loaded",
    gitRepo: "team/loaded",
    ...settings,
    ...scaling,
  });
  assert.equal(first.status, "success", first.log);
  const load = new LoadOfCalls({
    urlOf: () => `${platform.bootstrap.apiUrl}/v4/${projectId}/loaded`,
    callsPerSecond,
  });
  t.after(() => load.end());
  const path = `/v2/projects/${projectId}/apps/${projectId}-loaded`;
  const api = async (method: string, below: string, body?: unknown): Promise<Json> => {
    const answer = await platform.api(method, `${path}${below}`, body);
    assert.ok(
      answer.status < 300,
      `${method} ${below}: ${answer.status} ${JSON.stringify(answer.body)}`,
    );
    return answer.body;
  };
  return { git, platform, load, api };
}

/** What is done under the load. */
function actionsOn({ git, platform, load, api }: Awaited<ReturnType<typeof openLoad>>) {
  let version = 1;
  const releases = async (): Promise<Json[]> => (await api("GET", "/releases")).items;
  const liveNumber = async (): Promise<number> =>
    (await releases()).find(({ state }) => state === "live")?.number;
  const serving = async (): Promise<number> =>
    ((await api("GET", "/containers")) as Json[]).filter(
      ({ containerState }) => containerState === "RUNNING",
    ).length;
  const reach = (what: string, holds: () => Promise<boolean>) => until(what, holds, { deadlineMs });
  return {
    async deploys(round: number): Promise<void> {
      await api("PATCH", "", { rollOutDurationSeconds: round % 2 === 0 ? 0 : 2 });
      await git.push("team", "loaded", { "server.py": server(++version) });
      const { buildId } = await api("POST", "/builds", {});
      await reach(
        "it is deployed",
        async () => (await api("GET", `/builds/${buildId}`)).status === "success",
      );
      await reach("it is live", async () => (await releases())[0]?.state === "live");
    },
    async rollbacks(): Promise<void> {
      const before = await liveNumber();
      await api("POST", "/rollback", {});
      assert.notEqual(await liveNumber(), before);
    },
    async scaleDowns(): Promise<void> {
      await api("PATCH", "", { minReplicaCount: 3 });
      await reach("three replicas serve", async () => (await serving()) >= 3);
      await api("PATCH", "", { minReplicaCount: 1 });
      await reach("fewer replicas serve", async () => (await serving()) < 3);
    },
    async kills(): Promise<void> {
      load.down();
      await platform.end("SIGKILL");
      await platform.restart();
      load.up();
    },
  };
}

/** Twenty deploys take minutes. */
const timeout = isFull ? 3_600_000 : 240_000;

test(
  "deploys, rollbacks, scale-downs and kills fail no call but those in the killed platform",
  { timeout },
  async (t) => {
    const under = await openLoad(t);
    const actions = actionsOn(under);
    const roundsMax = Math.max(...Object.values(rounds));
    for (let round = 0; round < roundsMax; round++) {
      for (const name of Object.keys(actions) as (keyof typeof actions)[]) {
        // Each is spread evenly over all rounds.
        const part = rounds[name] / roundsMax;
        if (Math.floor((round + 1) * part) === Math.floor(round * part)) continue;
        await actions[name](round);
        t.diagnostic(`${name} in round ${round + 1}; ${under.load.failed} calls have failed`);
      }
    }
    const report = await under.load.end();
    t.diagnostic(JSON.stringify({ ...report, failures: report.failures.length, callsPerSecond }));
    assert.deepEqual(report.failures, []);
    assert.ok(report.calls > 0 && report.streams > 0 && report.sockets > 0);
    assert.ok(report.versions > rounds.deploys, `${report.versions} versions answered`);
  },
);
