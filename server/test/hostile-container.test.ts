// What an app in a container must not get, whatever it tries: the attempts of
// support/hostile-app/app.py, and more that are about containers. docs/guides/isolation.md says
// what keeps each kind away.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Driver, ReplicaSpec } from "#drivers/driver.ts";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import { noEngine, openEngine } from "#test/support/docker-engine.ts";
import { DockerFixture } from "#test/support/docker-fixture.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { openLanHost } from "#test/support/lan-host.ts";
import { tcpAddress } from "#test/support/replica-address.ts";

const noRules =
  spawnSync("nft", ["list", "tables"]).status === 0 ? false : "this needs root and nft";
const skip = (await noEngine()) || noRules;
const folder = join(import.meta.dirname, "support/hostile-app");
const programs = ["app.py", "container.py"].map((name) => readFileSync(join(folder, name), "utf8"));
const names = programs.flatMap((text) =>
  [...text.matchAll(/^@attempt\ndef (\w+)/gm)].map(([, name = ""]) => name),
);
const live = new AbortController().signal;
/** For all attempts: many wait for an answer that does not come. */
const triedMs = 240_000;
const attacker = "p-0000000a" as ProjectId;
const victim = "p-0000000b" as ProjectId;

/** What is the image's, or its own in its container. */
const own = new Set([
  "read_accounts_and_passwords_of_the_machine",
  "read_files_of_etc_that_no_program_needs",
  "list_homes_and_data_of_the_machine",
  "read_the_environment_of_the_first_process",
  "trace_the_first_process",
]);

const server = `import os, socket, threading
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("0.0.0.0", int(os.environ["PORT"])))
def answer():
    while True: u.sendto(b"victim", u.recvfrom(100)[1])
threading.Thread(target=answer, daemon=True).start()
s = socket.create_server(("0.0.0.0", int(os.environ["PORT"])))
print("SERVES", flush=True)
while True:
    c, _ = s.accept(); c.sendall(b"victim"); c.close()`;

describe("a hostile app in a container", { skip }, () => {
  const sink = new DriverSink();
  const got = new Map<string, unknown>();
  const closers: (() => unknown)[] = [];
  let fixture: DockerFixture;
  let driver: Driver;

  before(async () => {
    const platform = await listening("127.0.0.1", "platform");
    const rules = {
      allowed: [],
      nameServers: [],
      platform: { host: "127.0.0.1", ports: [portOf(platform)] },
    };
    fixture = await DockerFixture.open({ firewall: rules });
    closers.push(() => fixture.close());
    driver = fixture.driver();
    await driver.open(sink);
    closers.push(async () => {
      for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
      await driver.close();
    });
    const targets = { ...(await openTargets()), platformPort: portOf(platform) };
    const environment = { TARGETS: JSON.stringify(targets), VIRTUAL_ENV: "/usr" };
    // The attempts of the second are made by the first.
    const [first = "", second = ""] = programs;
    const code = first.replace(
      "\nfor function in attempts:",
      `\n${second}\nfor function in attempts:`,
    );
    const spec = fixture.python(code, { projectId: attacker, storage: attacker, environment });
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "DONE", triedMs);
    for (const text of sink.texts(spec.replicaId).filter((line) => line.startsWith("ATTEMPT "))) {
      const { name, got: result } = JSON.parse(text.slice("ATTEMPT ".length)) as {
        name: string;
        got: unknown;
      };
      got.set(name, result);
    }
  });

  after(async () => {
    for (const close of closers.toReversed()) await close();
  });

  for (const name of names.filter((one) => !own.has(one))) {
    const isRight = name === "call_the_platform";
    it(isRight ? "can call the platform" : `cannot ${name.replaceAll("_", " ")}`, () => {
      assert.ok(got.has(name), "it was tried");
      assert.equal(JSON.stringify(got.get(name)), isRight ? '"platform"' : "null");
    });
  }

  it("is told when it has used up its memory", async () => {
    const spec = fixture.python("kept = [bytearray(b'x' * 50_000_000) for _ in range(100)]");
    await driver.start(spec, live);
    assert.match(
      (await sink.told("exited", spec.replicaId)).reason,
      /used up its memory of 0\.25 GB/,
    );
  });

  it("gets its settings as they are, and is not run when they cannot be passed on", async () => {
    const environment = { ODD: "one\ntwo=three", NO: "=" };
    const spec = fixture.python(
      `import os; print(repr(os.environ["ODD"] + os.environ["NO"]), flush=True)`,
      {
        environment,
      },
    );
    await driver.start(spec, live);
    await sink.told("exited", spec.replicaId);
    await driver.forget(spec.replicaId);
    assert.deepEqual(sink.texts(spec.replicaId), [String.raw`'one\ntwo=three='`]);
    // Longer than the kernel lets a variable be: its program is not run.
    const long = fixture.python(`print("RUNS", flush=True)`, {
      environment: { VALUE: "x".repeat(200_000) },
    });
    await driver.start(long, live);
    await sink.told("exited", long.replicaId);
    await driver.forget(long.replicaId);
    assert.ok(!sink.texts(long.replicaId).includes("RUNS"));
    assert.throws(() => fixture.docker("inspect", fixture.nameOf(long)), /No such/);
  });

  it("cannot give options to the engine with its start command", async () => {
    const spec = fixture.python("", { entrypoint: ["--privileged"] });
    await driver.start(spec, live);
    assert.match(
      (await sink.told("exited", spec.replicaId)).reason,
      /start command was not found: --privileged/,
    );
  });

  async function startVictim(
    given: Partial<ReplicaSpec>,
  ): Promise<{ readonly host: string; readonly port: number }> {
    const spec = fixture.python(server, given);
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "SERVES");
    return tcpAddress((await sink.told("started", spec.replicaId)).address);
  }

  /** What the attempts are aimed at. */
  async function openTargets(): Promise<object> {
    const lan = await openLanHost();
    closers.push(() => lan.close());
    const service = await listening("0.0.0.0", "service");
    const datagrams = createSocket("udp4").bind(0, "0.0.0.0");
    datagrams.on("message", (_text, from) => datagrams.send("service", from.port, from.address));
    closers.push(() => datagrams.close());
    const secretFile = join(fixture.dataDir, "secret.key");
    const otherStorage = join(fixture.storageDir, victim, "stored");
    mkdirSync(join(otherStorage, ".."), { recursive: true });
    for (const path of [secretFile, otherStorage]) writeFileSync(path, "a secret");
    const other = await startVictim({
      projectId: victim,
      storage: victim,
      appId: appIdOf(victim, "other"),
    });
    const addresses = Object.values(networkInterfaces()).flatMap((all) =>
      (all ?? [])
        .filter(({ internal, family }) => !internal && family === "IPv4")
        .map(({ address }) => address),
    );
    const { socketPath, hostAddress, dataRoot } = await openEngine();
    return {
      victim: other,
      sibling: await startVictim({ projectId: attacker, storage: attacker }),
      service: {
        port: portOf(service),
        udpPort: datagrams.address().port,
        addresses: [...addresses, hostAddress],
      },
      engine: {
        sockets: [socketPath, "/var/run/docker.sock", "/run/containerd/containerd.sock"],
        dataRoot,
      },
      lan,
      secretFile,
      otherStorage,
      otherCode: "/nonexistent",
      victimSocket: "/nonexistent",
      abstract: "slipway-hostile-container",
      shmKey: 0x51170002,
      dataDir: fixture.dataDir,
      etcFiles: [],
      homeFiles: [],
      disks: readdirSync("/sys/class/block"),
      platformPid: process.pid,
      isUserOwned: false,
    };
  }

  async function listening(host: string, text: string): Promise<Server> {
    const made = createServer((socket) => socket.on("error", () => undefined).end(text)).listen({
      port: 0,
      host,
    });
    closers.push(() => made.close());
    await once(made, "listening");
    return made;
  }
});

function portOf(made: Server): number {
  const address = made.address();
  assert.ok(address !== null && typeof address === "object");
  return address.port;
}
