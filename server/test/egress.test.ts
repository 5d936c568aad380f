// What the setting egressCidrs lets apps reach, with both drivers: from inside processes and
// containers, which try hosts beside this machine that stand for the internet, a private network
// and a name server.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { after, before, describe, it, type TestContext } from "node:test";
import { text } from "node:stream/consumers";
import { hostAddress, hostName, installationOf, type Firewall } from "#drivers/app-firewall.ts";
import type { Driver, ReplicaSpec } from "#drivers/driver.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { linkPrefix } from "#drivers/process/network.ts";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { noEngine } from "#test/support/docker-engine.ts";
import { DockerFixture } from "#test/support/docker-fixture.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { openLanHost } from "#test/support/lan-host.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";
import { tcpAddress } from "#test/support/replica-address.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const live = new AbortController().signal;
const detected = await detectSandbox(tmpdir());
const hasNetwork = detected.kind === "namespaces" && detected.network.kind === "own";
const noProcesses = hasNetwork
  ? false
  : "replicas cannot have networks of their own on this machine";
const noRules =
  spawnSync("nft", ["list", "tables"]).status === 0 ? false : "this needs root and nft";
const noContainers = (await noEngine()) || noRules;
const projectId = "p-0123abcd" as ProjectId;

/**
 * Tries what each connection names, a list of [kind, host, port] as a line, and answers what it
 * got.
 */
const prober = `import concurrent.futures, json, os, socket
def reach(kind, host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as client:
        try:
            client.settimeout(3)
            client.connect((host, port))
            client.sendall(b"names")
            return client.recv(100).decode()
        except OSError:
            return None
server = socket.create_server(("0.0.0.0", int(os.environ["PORT"])))
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    while True:
        asked, _ = server.accept()
        with asked:
            line = asked.makefile().readline()
            if line: asked.sendall(json.dumps([*pool.map(lambda one: reach(*one), json.loads(line))]).encode())
`;

/** What the drivers have in common here. */
type Fixture = { readonly dataDir: string; driver(): Driver; close(): Promise<void> };
type Kind = {
  readonly name: string;
  readonly skip: string | false;
  open(rules: Rules): Promise<Fixture>;
  spec(fixture: Fixture, given: Partial<ReplicaSpec>): ReplicaSpec;
};
type Rules = Pick<Firewall, "allowed" | "nameServers" | "platform">;

const processes: Kind = {
  name: "processes",
  skip: noProcesses,
  open: (rules) => {
    assert.ok(detected.kind === "namespaces" && detected.network.kind === "own");
    const sandbox = { ...detected, network: { ...detected.network, ...rules } };
    return Promise.resolve(new ProcessFixture({ sandbox }));
  },
  spec: (fixture, given) => {
    assert.ok(fixture instanceof ProcessFixture);
    const artifact = fixture.artifact({ "server.py": prober });
    return replicaSpec({
      artifact,
      runtime: "custom",
      entrypoint: ["python", "server.py"],
      ...given,
    });
  },
};

const containers: Kind = {
  name: "containers",
  skip: noContainers,
  open: (firewall) => DockerFixture.open({ firewall }),
  spec: (fixture, given) => {
    assert.ok(fixture instanceof DockerFixture);
    return fixture.python(prober, given);
  },
};

/** What apps try, by name: kind, host and port. */
type Targets = Readonly<Record<string, readonly [string, string, number]>>;
type Surroundings = { readonly targets: Targets; readonly rules: Rules; close(): Promise<void> };

async function openSurroundings(): Promise<Surroundings> {
  const platform = createServer((socket) => socket.on("error", () => undefined).end("platform"));
  const service = createServer((socket) => socket.on("error", () => undefined).end("service"));
  platform.listen(0, "127.0.0.1");
  service.listen(0, "0.0.0.0");
  await Promise.all([once(platform, "listening"), once(service, "listening")]);
  const [one, other, lan] = await Promise.all([
    openLanHost("203.0.113"),
    openLanHost("198.51.100"),
    openLanHost(),
  ]);
  const [port, servicePort] = [platform, service].map(
    (server) => (server.address() as AddressInfo).port,
  ) as [number, number];
  return {
    targets: {
      internet: ["tcp", one.host, one.port],
      otherInternet: ["tcp", other.host, other.port],
      names: ["udp", lan.host, 53],
      lan: ["tcp", lan.host, lan.port],
      service: ["tcp", hostAddress, servicePort],
      platform: ["tcp", hostName, port],
    },
    rules: { allowed: [], nameServers: [lan.host], platform: { host: "127.0.0.1", ports: [port] } },
    async close() {
      platform.close();
      service.close();
      for (const host of [one, other, lan]) await host.close();
    },
  };
}

type App = { readonly host: string; readonly port: number };

async function openStage(t: TestContext, kind: Kind, { targets, rules }: Surroundings) {
  const fixture = await kind.open(rules);
  cleanLast(t, () => fixture.close());
  const sink = new DriverSink();
  const open = async (): Promise<Driver> => {
    const driver = fixture.driver();
    await driver.open(sink);
    return driver;
  };
  let driver = await open();
  cleanLast(t, async () => {
    for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
    await driver.close();
  });
  return {
    fixture,
    async start(egressCidrs: readonly string[] | null, app = "limited"): Promise<App> {
      const spec = kind.spec(fixture, { egressCidrs, appId: appIdOf(projectId, app) });
      await driver.start(spec, live);
      return tcpAddress((await sink.told("started", spec.replicaId)).address);
    },
    /** The names of the targets that the app reaches. */
    reached: (app: App): Promise<string[]> =>
      until("the app answers a call", async () => {
        const socket = connect(app);
        socket.write(`${JSON.stringify(Object.values(targets))}\n`);
        const got = JSON.parse(await text(socket)) as unknown[];
        return Object.keys(targets).filter((_, index) => got[index] !== null);
      }),
    /** As if the platform had ended and started again. */
    async reopen(): Promise<void> {
      await driver.close();
      driver = await open();
    },
  };
}

const open = ["internet", "otherInternet", "names", "platform"];

for (const kind of drawCases([processes, containers], { what: "drivers", max: 1 })) {
  describe(`what apps may reach that run as ${kind.name}`, { skip: kind.skip }, () => {
    let surroundings: Surroundings;
    before(async () => {
      surroundings = await openSurroundings();
    });
    after(() => surroundings.close());
    narrowed(kind, () => surroundings);
    kept(kind, () => surroundings);
  });
}

function narrowed(kind: Kind, beside: () => Surroundings): void {
  const hostOf = (name: string): string => beside().targets[name]?.[1] ?? "";

  it("an empty list closes all but the platform, a range all others, and apps beside it have the internet", async (t) => {
    const { start, reached } = await openStage(t, kind, beside());
    const none = await start([]);
    const one = await start([`${hostOf("internet")}/32`, "192.0.2.0/24"], "one");
    const other = await start(null, "other");
    assert.deepEqual(await reached(none), ["platform"]);
    assert.deepEqual(await reached(one), ["internet", "names", "platform"]);
    assert.deepEqual(await reached(other), open);
    assert.deepEqual(await reached(none), ["platform"]);
  });

  it("no range opens what is closed to all apps", async (t) => {
    const { start, reached } = await openStage(t, kind, beside());
    assert.deepEqual(await reached(await start(["0.0.0.0/0"])), open);
    const closed = await start(["192.168.0.0/16", "169.254.0.0/16", "127.0.0.0/8"], "private");
    assert.deepEqual(await reached(closed), ["names", "platform"]);
  });

  it("a replica of an earlier release keeps its ranges beside one of the next", async (t) => {
    const { start, reached } = await openStage(t, kind, beside());
    const first = await start([]);
    const next = await start(null);
    const last = await start([`${hostOf("otherInternet")}/32`]);
    assert.deepEqual(await reached(first), ["platform"]);
    assert.deepEqual(await reached(next), open);
    assert.deepEqual(await reached(last), ["otherInternet", "names", "platform"]);
  });
}

function kept(kind: Kind, beside: () => Surroundings): void {
  it("the rules are in force again after a flush, in the next process of the platform too", async (t) => {
    const { fixture, start, reached, reopen } = await openStage(t, kind, beside());
    const none = await start([]);
    const flush = (): unknown =>
      execFileSync("nft", [
        "delete",
        "table",
        "inet",
        `slipway_${installationOf(fixture.dataDir)}`,
      ]);
    const isClosed = async (): Promise<boolean> => String(await reached(none)) === "platform";
    flush();
    await until("the rules are back", isClosed);
    await reopen();
    flush();
    await until("the rules are back", isClosed);
  });

  if (kind !== processes) return;
  it("sandboxes that were prepared before are limited too", async (t) => {
    const { fixture, start, reached } = await openStage(t, kind, beside());
    await start(null, "first");
    let count = 1;
    const prefix = linkPrefix + installationOf(fixture.dataDir);
    const links = (): string[] =>
      readdirSync("/sys/class/net").filter((name) => name.startsWith(prefix));
    const limited = await until("a limited app gets a prepared sandbox", async () => {
      await until("sandboxes are prepared", () => links().length > count);
      const prepared = links();
      count++;
      const app = await start([]);
      const [third, fourth] = app.host.split(".").slice(2).map(Number);
      const end = [third, fourth].map((byte = 0) => byte.toString(16).padStart(2, "0")).join("");
      return prepared.includes(prefix + end) ? app : null;
    });
    assert.deepEqual(await reached(limited), ["platform"]);
  });
}

it("nothing is started whose limits could not be kept", { skip: noProcesses }, async (t) => {
  assert.ok(detected.kind === "namespaces");
  const sandbox = { ...detected, network: { kind: "shared", reason: "as a test" } } as const;
  const fixture = new ProcessFixture({ sandbox });
  cleanLast(t, () => fixture.close());
  const driver = fixture.driver();
  await driver.open(new DriverSink());
  cleanLast(t, () => driver.close());
  await assert.rejects(driver.start(processes.spec(fixture, { egressCidrs: [] }), live), {
    name: "StartRefused",
    message: /^egressCidrs is set, but what an app reaches cannot be limited here: as a test\. /,
  });
});
