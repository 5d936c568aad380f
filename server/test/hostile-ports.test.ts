// Where replicas share the machine's network: a port that another program has taken gets no byte of
// a replica's calls.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { test, type TestContext } from "node:test";
import type { Address } from "#drivers/driver.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { systemClock } from "#lib/clock.ts";
import { ReplicaConnection } from "#proxy/replica-connection.ts";
import { Deadlines } from "#proxy/deadlines.ts";
import { networkProbe } from "#scheduler/probe.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";
import { tcpAddress } from "#test/support/replica-address.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const detected = await detectSandbox(tmpdir());
const network = { kind: "shared", reason: "as a test" } as const;
const sandboxes: Sandbox[] = [{ kind: "none", reason: "as a test" }];
if (detected.kind === "namespaces") sandboxes.push({ ...detected, network });

/** Listens at once or never, by a process that it starts, as servers with workers do. */
const server = `import os, socket, sys, time
if os.fork():
    os.wait()
    sys.exit(0)
if "NOW" not in os.environ:
    time.sleep(1000)
one = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
print("listens", flush=True)
while True:
    client, _ = one.accept()
    client.recv(1000)
    client.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 3\\r\\n\\r\\nown")
    client.close()
`;

for (const sandbox of sandboxes) {
  test(`a port that another program took before the app is no sign of life and gets no call (${sandbox.kind})`, async (t) => {
    const { address } = await startServer(t, sandbox, {});
    const { port } = tcpAddress(address);
    const taken: string[] = [];
    const thief = createServer((socket) =>
      socket.on("data", (bytes) => taken.push(bytes.toString())),
    );
    await listening(thief, port);
    t.after(() => thief.close());
    const probe = networkProbe(systemClock);
    const signal = new AbortController().signal;
    for (const endpoint of ["", "/health"]) {
      const answer = await probe({ address, endpoint, timeoutMs: 20_000, signal });
      assert.deepEqual(answer, {
        ok: false,
        reason: `The app does not listen on port ${port} yet.`,
      });
    }
    assert.equal(await connectionTo(t, address), "lost: another program listens at its port");
    assert.deepEqual(taken, []);
  });

  test(`the app's own listener is known as its own, also that of a process which it started (${sandbox.kind})`, async (t) => {
    const { address, sink, replicaId } = await startServer(t, sandbox, { NOW: "1" });
    await sink.line(replicaId, "listens");
    const probe = networkProbe(systemClock);
    const answer = await probe({
      address,
      endpoint: "/",
      timeoutMs: 20_000,
      signal: new AbortController().signal,
    });
    assert.deepEqual(answer, { ok: true });
    assert.equal(await connectionTo(t, address), "connected");
  });

  test(`listeners at other addresses of its port keep no calls from the app (${sandbox.kind})`, async (t) => {
    const { address, sink, replicaId } = await startServer(t, sandbox, { NOW: "1" });
    await sink.line(replicaId, "listens");
    const { port } = tcpAddress(address);
    for (const place of [{ host: "127.0.0.2" }, { host: "::", ipv6Only: true }]) {
      const other = createServer();
      other.listen({ port, ...place });
      await once(other, "listening");
      t.after(() => other.close());
    }
    assert.equal(await connectionTo(t, address), "connected");
  });
}

async function startServer(
  t: TestContext,
  sandbox: Sandbox,
  environment: Readonly<Record<string, string>>,
) {
  const fixture = new ProcessFixture({ sandbox });
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
    await driver.close();
    await fixture.close();
  });
  const artifact = fixture.artifact({ "app.py": server });
  const spec = replicaSpec({
    artifact,
    runtime: "custom",
    entrypoint: ["python", "app.py", "8000"],
    environment,
  });
  await driver.start(spec, new AbortController().signal);
  const { address } = await sink.told("started", spec.replicaId);
  return { address, sink, replicaId: spec.replicaId };
}

/** What becomes of a connection of the proxy's. */
async function connectionTo(t: TestContext, address: Address): Promise<string> {
  const deadlines = new Deadlines(systemClock);
  t.after(() => deadlines.stop());
  let outcome = "";
  const connection = new ReplicaConnection({
    address,
    deadlines,
    readBuffer: Buffer.alloc(1024),
    nowMs: systemClock.monotonicMs(),
    onIdleEnd: () => undefined,
  });
  const ignored = (): void => undefined;
  const user = {
    onInformation: ignored,
    onHead: ignored,
    onPiece: ignored,
    onEnd: ignored,
    onDrain: ignored,
    onRead: ignored,
  };
  connection.use(
    {
      ...user,
      onConnected: () => (outcome = "connected"),
      onBroken: (error) => (outcome = `broken: ${String(error)}`),
      onLost: ({ reason }) => (outcome = `lost: ${reason}`),
    },
    { isHead: false, isUpgrade: false },
  );
  t.after(() => connection.destroy());
  return until("the connection is made or lost", () => outcome);
}

async function listening(made: Server, port: number): Promise<void> {
  made.listen({ port, host: "127.0.0.1" });
  await once(made, "listening");
}
