// What an app at run time must not get, whatever it tries: its attempts stand in
// support/hostile-app/app.py, each with a name. docs/guides/isolation.md says what keeps each kind
// away.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { homedir, networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import type { Driver, ReplicaSpec } from "#drivers/driver.ts";
import { processArtifact } from "#drivers/process/artifact.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { PythonFinder } from "#drivers/process/python-find.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { buildPlan } from "#test/support/build-plan.ts";
import { openLanHost } from "#test/support/lan-host.ts";
import { ProcessFixture, python } from "#test/support/process-fixture.ts";
import { askAddress, tcpAddress } from "#test/support/replica-address.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";
import { folderSource } from "#drivers/source-archive.ts";
import { processBuilder } from "./support/process-builder.ts";

const sandbox = await detectSandbox(tmpdir());
const hasNetwork = sandbox.kind === "namespaces" && sandbox.network.kind === "own";
const app = readFileSync(join(import.meta.dirname, "support/hostile-app/app.py"), "utf8");
const names = [...app.matchAll(/^@attempt\ndef (\w+)/gm)].map(([, name = ""]) => name);
const networkNames = names.slice(0, names.indexOf("make_a_network_of_its_own"));
const live = new AbortController().signal;
/** For all attempts: many wait for an answer that does not come. */
const triedMs = 180_000;
const attacker = "p-0000000a" as ProjectId;
const victim = "p-0000000b" as ProjectId;
const skip = sandbox.kind === "none" ? `this machine has no sandbox: ${sandbox.reason}` : false;
const skipNetwork = hasNetwork ? false : "apps share the network of this machine";

const tools = { PATH: process.env["PATH"] ?? "" };

const server = `import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "6"); self.end_headers(); self.wfile.write(b"victim")
    def log_message(self, *_): pass
http.server.HTTPServer(("0.0.0.0", int(os.environ["PORT"])), Handler).serve_forever()
`;

describe("a hostile app", { skip }, () => {
  const fixture = new ProcessFixture({ sandbox });
  const sink = new DriverSink();
  const got = new Map<string, unknown>();
  const closers: (() => unknown)[] = [() => fixture.close()];
  let driver: Driver;
  let targets: object;

  before(async () => {
    driver = fixture.driver();
    await driver.open(sink);
    closers.push(async () => {
      for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
      await driver.close();
    });
    targets = await placeTargets();
    const spec = specOf(attacker, { "app.py": app }, { TARGETS: JSON.stringify(targets) });
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "DONE", triedMs);
    for (const [name, result] of resultsIn(sink.texts(spec.replicaId))) got.set(name, result);
  });

  after(async () => {
    for (const close of closers.toReversed()) await close();
  });

  it("makes at least 40 attempts", () => assert.ok(names.length >= 40, `${names.length}`));

  for (const name of names) {
    const needsNetwork =
      networkNames.includes(name) && name !== "speak_with_the_socket_of_another_replica";
    it(`cannot ${name.replaceAll("_", " ")}`, { skip: needsNetwork && skipNetwork }, () => {
      assert.ok(got.has(name), "it was tried");
      assert.equal(JSON.stringify(got.get(name)), "null");
    });
  }

  it(
    "does get through where networks are shared, so that the attempts are real ones",
    { skip: skipNetwork },
    async (t) => {
      assert.ok(sandbox.kind === "namespaces");
      const shared = { ...sandbox, network: { kind: "shared", reason: "as a test" } } as const;
      const { told, spec } = await runElsewhere(t, shared, app, {
        TARGETS: JSON.stringify(targets),
      });
      await told.line(spec.replicaId, "DONE", triedMs);
      const through = [...resultsIn(told.texts(spec.replicaId))].filter(
        ([, result]) => result !== null,
      );
      assert.deepEqual(
        through.map(([name]) => name),
        [
          "call_another_replica_at_its_address",
          "call_another_replica_at_every_port_of_its_address",
          "call_a_service_of_the_machine_on_loopback",
          "call_a_service_of_the_machine_on_ipv6_loopback",
          "call_a_service_of_the_machine_by_its_gateway",
          "call_a_service_of_the_machine_by_its_own_addresses",
          "send_a_datagram_to_a_service_of_the_machine",
          "reach_a_host_of_a_private_network",
          "speak_with_an_abstract_socket_of_the_machine",
        ],
      );
    },
  );

  it("gets no more as a command of its build", { skip: skipNetwork }, async () => {
    const lines: string[] = [];
    const pythons = new PythonFinder({ environment: tools });
    const found = (await pythons.all()).find((one) => one.hasPip);
    assert.ok(found !== undefined, "a Python with venv is installed");
    const builder = processBuilder(fixture.dataDir, {
      pythons,
      toolEnvironment: tools,
      sandbox: fixture.places().sandbox,
    });
    const sourceDir = join(fixture.dataDir, "source");
    mkdirSync(sourceDir);
    writeFileSync(join(sourceDir, "app.py"), app);
    const plan = buildPlan({
      appId: appIdOf(attacker, "build"),
      pythonVersion: found.version,
      shellCommands: ["python app.py"],
      environment: { TARGETS: JSON.stringify(targets) },
    });
    const log = (_stage: string, _stream: string, text: string): number => lines.push(text);
    const registryAuth = (): Promise<null> => Promise.resolve(null);
    const source = folderSource(sourceDir);
    await builder.build(plan, { source, log, signal: live, registryAuth, secrets: new Map() });
    const results = resultsIn(lines);
    assert.equal(results.size, names.length, lines.join("\n"));
    // Package installers need to know their index; and the environment that it writes to is its
    // own.
    const expected = new Map<string, unknown>([
      ["change_the_environment_that_builds_share", "written"],
    ]);
    if (existsSync("/etc/pip.conf"))
      expected.set("read_files_of_etc_that_no_program_needs", ["pip.conf"]);
    const through = [...results].filter(([, result]) => result !== null);
    assert.deepEqual(new Map(through), expected);
  });

  it(
    "cannot take the calls of another app by holding all ports",
    { skip: skipNetwork },
    async () => {
      const holder = specOf(attacker, {
        "app.py": `import resource, socket, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = []
for port in list(range(1, 1100)) + list(range(7000, 9100)) + list(range(20000, 30000)):
    one = socket.socket()
    try:
        one.bind(("0.0.0.0", port)); one.listen(1); held.append(one)
    except OSError:
        pass
print("HOLDS", len(held) > 10000, flush=True)
time.sleep(1000)`,
      });
      await driver.start(holder, live);
      await sink.line(holder.replicaId, "HOLDS True");
      const { address } = await startServer(victim);
      const answer = await until(
        "an answer of the app itself",
        async () => (await askAddress(address)).body,
      );
      assert.equal(answer, "victim");
    },
  );

  it(
    "reaches the platform's own port on the machine by the name slipway.internal",
    { skip: skipNetwork },
    async (t) => {
      assert.ok(sandbox.kind === "namespaces" && sandbox.network.kind === "own");
      const platform = createServer((socket) => socket.end("platform"));
      await listening(platform, { port: 0, host: "127.0.0.1" });
      t.after(() => platform.close());
      const network = {
        ...sandbox.network,
        platform: { host: "127.0.0.1", ports: [portOf(platform)] },
      };
      const code = `import socket\nprint("GOT", socket.create_connection(("slipway.internal", ${portOf(platform)}), 20).recv(100).decode(), flush=True)`;
      const { told, spec } = await runElsewhere(t, { ...sandbox, network }, code);
      await told.line(spec.replicaId, "GOT platform");
    },
  );

  it(
    "reaches no other service at the platform's port by a loopback address",
    { skip: skipNetwork },
    async (t) => {
      assert.ok(sandbox.kind === "namespaces" && sandbox.network.kind === "own");
      const other = createServer((socket) => socket.end("service"));
      await listening(other, { port: 0, host: "127.0.0.2" });
      t.after(() => other.close());
      const network = {
        ...sandbox.network,
        platform: { host: "127.0.0.1", ports: [portOf(other)] },
      };
      const code = `import socket
one = socket.socket()
one.settimeout(1)
one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
try:
    one.connect(("127.0.0.2", ${portOf(other)}))
    print("GOT", one.recv(100).decode(), flush=True)
except OSError:
    print("GOT nothing", flush=True)`;
      const { told, spec } = await runElsewhere(t, { ...sandbox, network }, code);
      assert.equal(await told.line(spec.replicaId, "GOT "), "GOT nothing");
    },
  );

  it(
    "reaches an address of a private network that the operator allows",
    { skip: skipNetwork },
    async (t) => {
      assert.ok(sandbox.kind === "namespaces" && sandbox.network.kind === "own");
      const { host, port } = (targets as { lan: { host: string; port: number } }).lan;
      const network = { ...sandbox.network, allowed: [`${host}/32`] };
      const code = `import socket\nprint("GOT", socket.create_connection(("${host}", ${port}), 20).recv(100).decode(), flush=True)`;
      const { told, spec } = await runElsewhere(t, { ...sandbox, network }, code);
      await told.line(spec.replicaId, "GOT lan");
    },
  );

  it("cannot fill the machine's table of connections", { skip: skipNetwork }, async (t) => {
    assert.ok(sandbox.kind === "namespaces" && sandbox.network.kind === "own");
    const { host, port } = (targets as { lan: { host: string; port: number } }).lan;
    const network = { ...sandbox.network, allowed: [`${host}/32`] };
    const code = `import resource, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
answered, silent, open_ones = 0, 0, []
while silent < 20 and answered < ${2 * 4_096}:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    open_ones.append(one)
    one.settimeout(0.2)
    try:
        one.sendto(b"x", ("${host}", ${port}))
        one.recv(1)
        answered += 1
        silent = 0
    except OSError:
        silent += 1
print("HELD BACK" if silent == 20 and answered > 0 else "NOT HELD BACK", flush=True)`;
    const { told, spec } = await runElsewhere(t, { ...sandbox, network }, code);
    assert.equal(await told.line(spec.replicaId, "HELD BACK", 90_000), "HELD BACK");
  });

  /** Runs an app of the attacker's on another driver. */
  async function runElsewhere(
    t: TestContext,
    other: Sandbox,
    code: string,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<{ told: DriverSink; spec: ReplicaSpec }> {
    const place = new ProcessFixture({ sandbox: other });
    const elsewhere = place.driver();
    const told = new DriverSink();
    await elsewhere.open(told);
    t.after(async () => {
      for (const { replicaId } of await elsewhere.list())
        await elsewhere.stop(replicaId, { graceMs: 0 });
      await elsewhere.close();
      await place.close();
    });
    const artifact = place.artifact({ "app.py": code });
    const entrypoint = ["python", "app.py"];
    const spec = replicaSpec({
      artifact,
      projectId: attacker,
      runtime: "custom",
      entrypoint,
      environment,
    });
    await elsewhere.start(spec, live);
    return { told, spec };
  }

  /** What the attempts are aimed at. */
  async function placeTargets(): Promise<object> {
    const target = await startServer(victim);
    const { service, datagrams, abstract } = await openServices();
    const lan = hasNetwork ? await openLanHost() : null;
    if (lan !== null) closers.push(() => lan.close());
    const secretFile = join(fixture.dataDir, "secret.key");
    writeFileSync(secretFile, "a secret");
    const otherStorage = join(fixture.dataDir, "storage", victim, "stored.txt");
    mkdirSync(join(otherStorage, ".."), { recursive: true });
    writeFileSync(otherStorage, "of another project");
    const shmKey = 0x51170001;
    const shm = execFileSync("python3", [
      "-c",
      `import ctypes; print(ctypes.CDLL(None).shmget(${shmKey}, 4096, 0o1666))`,
    ]);
    closers.push(() =>
      execFileSync("python3", [
        "-c",
        `import ctypes; ctypes.CDLL(None).shmctl(${Number(shm)}, 0, None)`,
      ]),
    );
    return {
      victim: { host: tcpAddress(target.address).host, port: tcpAddress(target.address).port },
      victimSocket: join(fixture.replicasDir, target.spec.replicaId, "listen/app.sock"),
      service: {
        port: portOf(service),
        udpPort: datagrams.address().port,
        addresses: Object.values(networkInterfaces()).flatMap((all) =>
          (all ?? [])
            .filter(({ internal, family }) => !internal && family === "IPv4")
            .map(({ address }) => address),
        ),
      },
      lan: lan ?? { host: "127.0.0.1", port: 1 },
      abstract,
      secretFile,
      otherStorage,
      shmKey,
      dataDir: fixture.dataDir,
      otherCode: join(processArtifact(target.spec.artifact).appDir, "app.py"),
      etcFiles: [
        "shadow",
        "gshadow",
        "sudoers",
        "machine-id",
        "pip.conf",
        "npmrc",
        "ssh",
        "cron.d",
        "apt",
        "fstab",
        "environment",
        "ssl/private",
        "default",
        "pam.d",
      ],
      // Where an interpreter or the data folder stands in a home, that folder is shown.
      homeFiles: readdirSync(homedir())
        .map((name) => join(homedir(), name))
        .filter((path) => !python.startsWith(path) && !fixture.dataDir.startsWith(path)),
      disks: readdirSync("/sys/class/block"),
      platformPid: process.pid,
      isUserOwned: sandbox.kind === "namespaces" && sandbox.isUserOwned,
    };
  }

  /** Services of the machine. */
  async function openServices() {
    const service = createServer((socket) => socket.end("service"));
    const datagrams = createSocket("udp4");
    datagrams.on("message", (_text, from) => datagrams.send("service", from.port, from.address));
    datagrams.bind(0, "0.0.0.0");
    const abstract = `slipway-hostile-${process.pid}`;
    const unix = createServer((socket) => socket.end("abstract"));
    await Promise.all([
      listening(service, { port: 0, host: "::" }),
      listening(unix, { path: `\0${abstract}` }),
    ]);
    closers.push(
      () => service.close(),
      () => unix.close(),
      () => datagrams.close(),
    );
    return { service, datagrams, abstract };
  }

  function specOf(
    projectId: ProjectId,
    files: Record<string, string>,
    environment: Record<string, string> = {},
  ): ReplicaSpec {
    const artifact = fixture.artifact(files);
    return replicaSpec({
      artifact,
      projectId,
      runtime: "custom",
      entrypoint: ["python", "app.py"],
      environment,
    });
  }

  async function startServer(projectId: ProjectId) {
    const spec = specOf(projectId, { "app.py": server });
    await driver.start(spec, live);
    return { spec, address: (await sink.told("started", spec.replicaId)).address };
  }
});

function resultsIn(lines: readonly string[]): Map<string, unknown> {
  const found = lines.filter((line) => line.startsWith("ATTEMPT "));
  const results = found.map(
    (line) => JSON.parse(line.slice("ATTEMPT ".length)) as { name: string; got: unknown },
  );
  return new Map(results.map(({ name, got }) => [name, got]));
}

async function listening(
  made: Server,
  options: { port?: number; host?: string; path?: string },
): Promise<void> {
  made.listen(options);
  await once(made, "listening");
}

function portOf(made: Server): number {
  const address = made.address();
  assert.ok(address !== null && typeof address === "object");
  return address.port;
}
