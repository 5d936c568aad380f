// Where web servers of replicas listen: at their own port in networks of their own, at a port of
// the machine's else.
import { installationOf } from "#drivers/app-firewall.ts";
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { describe, it, type TestContext } from "node:test";
import { formatAddress } from "#drivers/address.ts";
import type { Address, Driver } from "#drivers/driver.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { linkPrefix } from "#drivers/process/network.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { newReplicaId } from "#lib/ids.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";
import { askAddress, tcpAddress } from "#test/support/replica-address.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const live = new AbortController().signal;
const detected = await detectSandbox(tmpdir());
const hasNetwork = detected.kind === "namespaces" && detected.network.kind === "own";
const shared: Sandbox[] = [{ kind: "none", reason: "as a test" }];
if (detected.kind === "namespaces")
  shared.push({ ...detected, network: { kind: "shared", reason: "as a test" } });

describe(
  "networks of their own",
  { skip: hasNetwork ? false : "they cannot be had on this machine" },
  () => {
    ownNetworks(detected);
    preparedNetworks(detected);
  },
);
for (const sandbox of shared)
  describe(`a shared network, sandbox: ${sandbox.kind}`, () => customApps(sandbox));

type Stage = {
  readonly fixture: ProcessFixture;
  readonly driver: Driver;
  readonly sink: DriverSink;
};

async function stage(t: TestContext, options: { sandbox: Sandbox }): Promise<Stage> {
  const fixture = new ProcessFixture(options);
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
    await driver.close();
    await fixture.close();
  });
  return { fixture, driver, sink };
}

const customServer = `import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (os.environ["PORT"] + " " + " ".join(sys.argv[1:])).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
host, _, port = sys.argv[-1].rpartition(":") if sys.argv[1:] else ("127.0.0.1", "", os.environ["PORT"])
http.server.HTTPServer((host, int(port)), Handler).serve_forever()
`;

function customApps(sandbox: Sandbox): void {
  it("gives each replica of a custom app a port of its own, on loopback, in place of the one that its entrypoint names", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const artifact = fixture.artifact({ "server.py": customServer });
    const entrypoint = ["python", "server.py", "0.0.0.0:8123"];
    const specs = [1, 2].map(() =>
      replicaSpec({ artifact, runtime: "custom", entrypoint, port: 8123 }),
    );
    const ports = [];
    for (const spec of specs) {
      await driver.start(spec, live);
      const started = await sink.told("started", spec.replicaId);
      assert.equal(started.hint, null);
      const { port } = tcpAddress(started.address);
      assert.equal(await answer(started.address), `${port} 127.0.0.1:${port}`);
      ports.push(port);
    }
    assert.equal(new Set([...ports, 8123]).size, 3);
  });

  it("keeps a port that only the settings name while it is free, else gives another one by PORT and says so", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const blocker = createServer();
    blocker.listen(0, "127.0.0.1");
    await once(blocker, "listening");
    t.after(() => blocker.close());
    const taken = (blocker.address() as { port: number }).port;
    const artifact = fixture.artifact({ "server.py": customServer });
    const spec = replicaSpec({
      artifact,
      runtime: "custom",
      entrypoint: ["sh", "-c", "exec python server.py"],
      port: taken,
    });
    await driver.start(spec, live);
    const started = await sink.told("started", spec.replicaId);
    const { port } = tcpAddress(started.address);
    assert.notEqual(port, taken);
    assert.match(started.hint ?? "", new RegExp(`Port ${taken} is in use .*PORT`));
    assert.equal(await answer(started.address), `${port} `);
  });

  it("gives a web server whose settings name no port a free one by PORT, and leaves its arguments", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const server = `import sys\ndel sys.argv[1:]\n${customServer}`;
    const spec = replicaSpec({
      artifact: fixture.artifact({ "server.py": server }),
      runtime: "custom",
      entrypoint: ["python", "server.py", "--workers", "0"],
      port: 0,
    });
    await driver.start(spec, live);
    const { address } = await sink.told("started", spec.replicaId);
    const { port } = tcpAddress(address);
    assert.notEqual(port, 0);
    assert.equal(await answer(address), `${port} `);
  });
}

function ownNetworks(sandbox: Sandbox): void {
  it("leaves each web server the port and the address that its entrypoint names, whatever others have", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const artifact = fixture.artifact({ "server.py": customServer });
    const addresses = new Set<string>();
    for (const place of ["0.0.0.0:80", "0.0.0.0:80", "127.0.0.1:80", "localhost:80"]) {
      const spec = replicaSpec({
        artifact,
        runtime: "custom",
        entrypoint: ["python", "server.py", place],
        port: 80,
      });
      await driver.start(spec, live);
      const { address, hint } = await sink.told("started", spec.replicaId);
      assert.equal(hint, null);
      assert.equal(await answer(address), `80 ${place}`);
      addresses.add(formatAddress(address));
    }
    assert.equal(addresses.size, 4, "each has an address of its own");
  });

  it("refuses what is sent to a replica that has ended, which would leave by another road of the machine", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const spec = replicaSpec({
      artifact: fixture.artifact({ "server.py": customServer }),
      runtime: "custom" as const,
      entrypoint: ["python", "server.py"],
      port: 0,
    });
    await driver.start(spec, live);
    const { address } = await sink.told("started", spec.replicaId);
    await until("it listens", () => fixture.isReady(address));
    // The machine has other rules only while some replica runs.
    const other = { ...spec, replicaId: newReplicaId("other") };
    await driver.start(other, live);
    await driver.stop(spec.replicaId, { graceMs: 0 });
    await assert.rejects(askAddress(address), { code: "ECONNREFUSED" });
    await assert.rejects(askAddress({ host: "10.213.255.255", port: 80 }), {
      code: "ECONNREFUSED",
    });
  });

  it("gives a web server whose settings name no port one by PORT", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const artifact = fixture.artifact({ "server.py": customServer });
    const spec = replicaSpec({
      artifact,
      runtime: "custom",
      entrypoint: ["python", "server.py"],
      port: 0,
    });
    await driver.start(spec, live);
    assert.equal(await answer((await sink.told("started", spec.replicaId)).address), "8000 ");
  });
}

function preparedNetworks(sandbox: Sandbox): void {
  it("prepares sandboxes for later replicas, which get nothing else by that, uses none whose network is gone, and leaves none behind", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const server = `import os, sys
sys.argv[1:] = [",".join(sorted(os.listdir("/proc/self/fd"))), sys.argv[1]]
${customServer}`;
    const artifact = fixture.artifact({ "server.py": server });
    const start = async (): Promise<{ link: string; said: string }> => {
      const before = linksOf(fixture);
      const entrypoint = ["python", "server.py", "127.0.0.1:80"];
      const spec = replicaSpec({ artifact, runtime: "custom", entrypoint, port: 80 });
      await driver.start(spec, live);
      const { address } = await sink.told("started", spec.replicaId);
      const said = await answer(address);
      const [third, fourth] = tcpAddress(address).host.split(".").slice(2).map(Number);
      const end = [third, fourth].map((byte = 0) => byte.toString(16).padStart(2, "0")).join("");
      const link = linksOf(fixture).find((name) => name.endsWith(end)) ?? "none";
      return { link: before.includes(link) ? "prepared" : link, said };
    };
    const started = (): number => sink.events.filter(({ kind }) => kind === "started").length;
    const first = await start();
    assert.notEqual(first.link, "prepared");
    // A cable is there somewhat before its sandbox is ready.
    await until("a start gets a prepared sandbox", async () => {
      await until("sandboxes are prepared", () => linksOf(fixture).length > started());
      const next = await start();
      assert.equal(next.said, first.said);
      return next.link === "prepared";
    });
    await until("sandboxes are prepared", () => linksOf(fixture).length > started());
    for (const link of linksOf(fixture)) execFileSync("ip", ["link", "del", link]);
    const last = await start();
    assert.deepEqual([last.link === "prepared", last.said], [false, first.said]);
    for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
    await driver.close();
    await until("no network is left", () => linksOf(fixture).length === 0);
  });
}

/** The machine's ends of the cables of the driver's networks. */
function linksOf({ dataDir }: ProcessFixture): string[] {
  const prefix = linkPrefix + installationOf(dataDir);
  return readdirSync("/sys/class/net").filter((name) => name.startsWith(prefix));
}

function answer(address: Address): Promise<string> {
  return until(
    `an answer at ${formatAddress(address)}`,
    async () => (await askAddress(address)).body,
  );
}
