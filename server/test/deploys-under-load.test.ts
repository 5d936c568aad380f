// Deploys, rollbacks, scale-downs and kills of the platform while calls, streams and WebSockets run: none of them fails
// but those in flight in the killed platform itself. In full with `SLIPWAY_TEST_LOAD=<calls a second>`; see CONTRIBUTING.md.
import assert from "node:assert/strict";
import { test } from "node:test";
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

/** A web server of the standard library: an answer, a stream of ten parts, an echoing WebSocket; each tells its version. */
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

/** Twenty deploys take minutes. */
const timeout = isFull ? 3_600_000 : 240_000;

test(
  "deploys, rollbacks, scale-downs and kills of the platform fail no call that was not in the killed one",
  {
    timeout,
  },
  async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("team", "loaded", { "server.py": server(1), "requirements.txt": "" });
    const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
    const { projectId } = platform.bootstrap;
    const path = `/v2/projects/${projectId}/apps/${projectId}-loaded`;
    const api = async (method: string, below: string, body?: unknown): Promise<Json> => {
      const answer = await platform.api(method, `${path}${below}`, body);
      assert.ok(answer.status < 300, `${method} ${below}: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body;
    };
    const settings = { runtime: "custom", entrypoint: ["python", "server.py"], port: 8000, disableAuth: true };
    const scaling = { maxReplicaCount: 4, minReplicaCount: 1, replicaConcurrency: 200, cooldownPeriodSeconds: 1 };
    const first = await deploy(platform, { name: "loaded", gitRepo: "team/loaded", ...settings, ...scaling });
    assert.equal(first.status, "success", first.log);
    const load = new LoadOfCalls({
      urlOf: () => `${platform.bootstrap.apiUrl}/v4/${projectId}/loaded`,
      callsPerSecond,
    });
    t.after(() => load.end());

    let version = 1;
    const release = async (): Promise<number> =>
      (await api("GET", "/releases")).items.find((one: Json) => one.state === "live")?.number;
    const actions = {
      async deploys(count: number): Promise<void> {
        await api("PATCH", "", { rollOutDurationSeconds: count % 2 === 0 ? 0 : 2 });
        await git.push("team", "loaded", { "server.py": server(++version) });
        const { buildId } = await api("POST", "/builds", {});
        await until("it is deployed", async () => (await api("GET", `/builds/${buildId}`)).status === "success", {
          deadlineMs,
        });
        await until("it is live", async () => (await api("GET", "/releases")).items[0].state === "live", {
          deadlineMs,
        });
      },
      async rollbacks(): Promise<void> {
        const before = await release();
        await api("POST", "/rollback", {});
        assert.notEqual(await release(), before);
      },
      async scaleDowns(): Promise<void> {
        const serving = async (): Promise<number> => {
          const replicas = (await api("GET", "/containers")) as unknown as Json[];
          return replicas.filter(({ containerState }) => containerState === "RUNNING").length;
        };
        await api("PATCH", "", { minReplicaCount: 3 });
        await until("three replicas serve", async () => (await serving()) >= 3, { deadlineMs });
        await api("PATCH", "", { minReplicaCount: 1 });
        await until("fewer replicas serve", async () => (await serving()) < 3, { deadlineMs });
      },
      async kills(): Promise<void> {
        load.down();
        await platform.end("SIGKILL");
        await platform.restart();
        load.up();
      },
    };
    for (let round = 0; round < Math.max(...Object.values(rounds)); round++) {
      for (const name of Object.keys(actions) as (keyof typeof actions)[]) {
        // Spread evenly over all rounds.
        const share = rounds[name] / Math.max(...Object.values(rounds));
        if (Math.floor((round + 1) * share) > Math.floor(round * share)) {
          await actions[name](round);
          t.diagnostic(`${name} in round ${round + 1}, ${load.failed} calls have failed`);
        }
      }
    }
    const report = await load.end();
    t.diagnostic(JSON.stringify({ ...report, failures: report.failures.length, callsPerSecond }));
    assert.deepEqual(report.failures, []);
    assert.ok(report.calls > 0 && report.streams > 0 && report.sockets > 0);
    assert.ok(report.versions > rounds.deploys, `${report.versions} versions answered`);
  },
);
