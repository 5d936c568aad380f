// What the Docker driver does when somebody else acts on its engine: containers are killed,
// removed, paused or restarted, networks removed, the engine ends; and what an image asks of the
// engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Driver, ReplicaSpec } from "#drivers/driver.ts";
import { labels } from "#drivers/docker/container-spec.ts";
import { Secret } from "#lib/secret.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import {
  baseImage,
  makeBase,
  noEngine,
  openEngine,
  openRegistry,
} from "#test/support/docker-engine.ts";
import { DockerFixture } from "#test/support/docker-fixture.ts";
import { runDocker } from "#test/support/dockerd.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { startRelay } from "#test/support/socket-relay.ts";
import { startOwnEngine } from "#test/support/own-engine.ts";
import { until } from "#test/support/until.ts";
import { diskWatch } from "./support/disk-watch.ts";

const skip = await noEngine();
const live = new AbortController().signal;
const engineWaitMs = 90_000;

type Stage = {
  readonly fixture: DockerFixture;
  readonly driver: Driver;
  readonly sink: DriverSink;
};

async function openStage(
  t: TestContext,
  given: Parameters<typeof DockerFixture.open>[0] = {},
): Promise<Stage> {
  const fixture = await DockerFixture.open(given);
  cleanLast(t, () => fixture.close());
  const driver = fixture.driver();
  cleanLast(t, () => driver.close());
  const sink = new DriverSink();
  await driver.open(sink);
  return { fixture, driver, sink };
}

async function startServing({ fixture, driver, sink }: Stage): Promise<ReplicaSpec> {
  const spec = fixture.spec({ kind: "serves" });
  await driver.start(spec, live);
  const { address } = await sink.told("started", spec.replicaId);
  assert.ok(address !== null);
  await until("it is ready", () => fixture.isReady(address), { deadlineMs: engineWaitMs });
  return spec;
}

function exitsOf({ sink }: Stage, { replicaId }: ReplicaSpec): string[] {
  return sink.events.flatMap((one) =>
    one.kind === "exited" && one.replicaId === replicaId ? [one.reason] : [],
  );
}

for (const [deed, words, reason] of [
  ["killed", ["kill"], "The app was killed (SIGKILL), but not by the platform."],
  ["removed", ["rm", "-f"], /removed from outside the platform|not by the platform/],
  ["restarted", ["restart", "-t", "0"], /restarted from outside the platform|not by the platform/],
] as const) {
  test(
    `a container that somebody has ${deed} is reported once, and leaves nothing`,
    { skip },
    async (t) => {
      const stage = await openStage(t);
      const spec = await startServing(stage);
      stage.fixture.docker(...words, stage.fixture.nameOf(spec));
      const exited = await stage.sink.told("exited", spec.replicaId);
      if (typeof reason === "string") assert.equal(exited.reason, reason);
      else assert.match(exited.reason, reason);
      assert.equal(exited.isExternal, true);
      await stage.driver.stop(spec.replicaId, { graceMs: 0 });
      await stage.driver.forget(spec.replicaId);
      assert.equal(exitsOf(stage, spec).length, 1);
      assert.deepEqual(await stage.fixture.remains(), []);
    },
  );
}

test("events that break off while the engine is asked are followed again", { skip }, async (t) => {
  const engine = await openEngine();
  const following = new Set<Socket>();
  let breaks = 1;
  const socketPath = await startRelay(t, engine.socketPath, (asked, client) => {
    if (asked.includes("/events?")) following.add(client);
    if (!asked.includes("/containers/json?") || following.size === 0 || breaks-- <= 0) return;
    for (const one of following) one.destroy();
    following.clear();
  });
  const stage = await openStage(t, { engine: { ...engine, socketPath } });
  await until("events are followed again", () => breaks <= 0 && following.size > 0, {
    deadlineMs: engineWaitMs,
  });
  const spec = await startServing(stage);
  stage.fixture.docker("kill", stage.fixture.nameOf(spec));
  assert.equal((await stage.sink.told("exited", spec.replicaId)).isExternal, true);
  await stage.driver.forget(spec.replicaId);
});

test("a replica that somebody has paused can be stopped", { skip }, async (t) => {
  const stage = await openStage(t);
  const spec = await startServing(stage);
  stage.fixture.docker("pause", stage.fixture.nameOf(spec));
  await stage.driver.stop(spec.replicaId, { graceMs: 50 });
  await stage.driver.forget(spec.replicaId);
  assert.deepEqual(await stage.fixture.remains(), []);
});

test("the network of an app is made again when somebody has removed it", { skip }, async (t) => {
  const stage = await openStage(t);
  const { replicaId } = await startServing(stage);
  await stage.driver.stop(replicaId, { graceMs: 0 });
  await stage.driver.forget(replicaId);
  const filter = `--filter=label=${labels.instance}=${stage.fixture.installationId}`;
  stage.fixture.docker("network", "rm", stage.fixture.docker("network", "ls", "-q", filter));
  const next = await startServing(stage);
  await stage.driver.stop(next.replicaId, { graceMs: 0 });
});

test("a runtime that is not there refuses the start and leaves nothing", { skip }, async (t) => {
  const { fixture, driver } = await openStage(t);
  const spec = fixture.spec({ kind: "serves" });
  await assert.rejects(
    driver.start({ ...spec, containerRuntime: "v2" }, live),
    /^StartRefused: containerRuntime is v2, .* not-there .*\(SLIPWAY_RUNTIME_V2\).* only .*\btraced\b/,
  );
  assert.deepEqual(await fixture.remains(), []);
});

test("nothing starts while the rules of apps' networks cannot be set", { skip }, async (t) => {
  const firewall = { allowed: ["no range"], nameServers: [], platform: null };
  const { fixture, driver } = await openStage(t, { firewall });
  await assert.rejects(
    driver.start(fixture.spec({ kind: "serves" }), live),
    /^StartRefused: The rules for what the app may reach could not be set/,
  );
  assert.deepEqual(await fixture.remains(), []);
});

test(
  "a container that writes more than it may is ended, and one that starts processes gets no more",
  { skip },
  async (t) => {
    const fixture = await DockerFixture.open();
    cleanLast(t, () => fixture.close());
    const { dataDir } = fixture;
    const disk = diskWatch(dataDir, { replicaBytes: 30e6 });
    await disk.open();
    cleanLast(t, () => disk.close());
    const driver = fixture.driver({ disk });
    cleanLast(t, () => driver.close());
    const sink = new DriverSink();
    await driver.open(sink);
    // Four thousand processes take their time on a busy machine.
    const endWaitMs = 150_000;
    const end = async (
      code: string,
      memoryGb: number,
    ): Promise<{ reason: string; texts: string[] }> => {
      const spec = fixture.python(code, { memoryGb });
      await driver.start(spec, live);
      const { reason } = await sink.told("exited", spec.replicaId, endWaitMs);
      await driver.forget(spec.replicaId);
      return { reason, texts: sink.texts(spec.replicaId) };
    };
    const fills = `import time
with open("/tmp/much", "wb") as file:
    for _ in range(60): file.write(bytes(1_000_000))
time.sleep(600)`;
    const hides = fills
      .replace("for _", "import os; os.unlink(file.name)\n    for _")
      .replace("bytes(1_000_000))", "bytes(1_000_000)); file.flush()\n    time.sleep(600)");
    for (const code of [fills, hides])
      assert.match(
        (await end(code, 0.25)).reason,
        /more than its limit of 30 MB \(SLIPWAY_REPLICA_DISK_GB\)/,
      );
    const forks = `import os, signal, sys
children = []
try:
    while len(children) < 5000:
        child = os.fork()
        if child == 0: signal.pause()
        children.append(child)
except BlockingIOError: pass
print(len(children), flush=True)
for child in children: os.kill(child, signal.SIGKILL)
sys.exit(3)`;
    const { texts, reason } = await end(forks, 4);
    const started = Number(texts[0]);
    assert.ok(started > 4000 && started < 4096, `${texts.join()}; ${reason}`);
  },
);

test(
  "an image that somebody has removed comes back from the operator's registry",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const { host, username, password, push } = await openRegistry(t);
    const base = makeBase(t, engine, "pushed");
    const image = runDocker(engine, "image", "inspect", "--format={{.Id}}", base);
    const reference = push(engine, base, "apps:one");
    const auth = new Secret(`${username}:${password}`);
    const stage = await openStage(t, { registry: { name: `${host}/apps`, auth } });
    runDocker(engine, "image", "rm", "--force", image);
    const spec = {
      ...stage.fixture.spec({ kind: "serves" }),
      artifact: stage.fixture.artifact({ image, reference }),
    };
    await stage.driver.start(spec, live);
    assert.notEqual((await stage.sink.told("started", spec.replicaId)).address, null);
    await stage.driver.stop(spec.replicaId, { graceMs: 0 });
    await stage.driver.forget(spec.replicaId);
    assert.deepEqual(await stage.fixture.remains(), []);
    runDocker(engine, "image", "rm", "--force", image);
    const artifact = stage.fixture.artifact({ image });
    await assert.rejects(
      stage.driver.start({ ...spec, artifact }, live),
      /The image of the build is no longer/,
    );
  },
);

test("another installation on the engine is left alone", { skip }, async (t) => {
  const one = await openStage(t);
  const other = await openStage(t);
  const spec = await startServing(one);
  await startServing(other).then(({ replicaId }) => other.driver.stop(replicaId, { graceMs: 0 }));
  const again = other.fixture.driver();
  await other.driver.close();
  await again.open(other.sink);
  const listed = (await again.list()).map(({ replicaId }) => replicaId);
  assert.ok(!listed.includes(spec.replicaId), "it is not listed elsewhere");
  await again.close();
  assert.deepEqual(
    (await one.driver.list()).map(({ state }) => state),
    ["running"],
  );
  assert.equal(
    one.fixture.docker("inspect", "--format={{.State.Running}}", one.fixture.nameOf(spec)),
    "true",
  );
  await one.driver.stop(spec.replicaId, { graceMs: 0 });
});

const server = `import signal, sys, time
def end(*_):
    print("ending", flush=True); time.sleep(0.5); print("ended", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, end); print("up", flush=True)
while True: signal.pause()`;
const manager = `import signal, subprocess, sys; child = subprocess.Popen(["python3", "-c", sys.argv[1]])
def end(*_): child.send_signal(signal.SIGTERM); child.wait(); print("manager ended", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, end)
while True: signal.pause()`;

test(
  "a server is asked to end behind a shell too, and once where its manager asks it",
  { skip },
  async (t) => {
    const { fixture, driver, sink } = await openStage(t);
    const cases: [string[], string[]][] = [
      [
        ["python3", "-c", server],
        ["ending", "ended"],
      ],
      [
        ["sh", "-c", 'python3 -c "$1"; exit $?', "sh", server],
        ["ending", "ended"],
      ],
      [
        ["sh", "-c", 'setsid python3 -c "$1" & wait', "sh", server],
        ["ending", "ended"],
      ],
      [
        ["python3", "-c", manager, server],
        ["ending", "ended", "manager ended"],
      ],
    ];
    for (const [entrypoint, expected] of cases) {
      const spec = fixture.python("", { entrypoint });
      await driver.start(spec, live);
      await sink.line(spec.replicaId, "up");
      await driver.stop(spec.replicaId, { graceMs: 60_000 });
      assert.match((await sink.told("exited", spec.replicaId)).reason, /^The replica was stopped/);
      await driver.forget(spec.replicaId);
      const printed = sink.taken.filter(
        (line) => line.replicaId === spec.replicaId && line.stream === "stdout",
      );
      assert.deepEqual(
        printed.map(({ text }) => text),
        ["up", ...expected],
      );
    }
    const stubborn = `import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print("up", flush=True); signal.pause()`;
    const spec = fixture.python("", {
      entrypoint: ["sh", "-c", 'python3 -c "$1"; exit', "sh", stubborn],
    });
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "up");
    await driver.stop(spec.replicaId, { graceMs: 1500 });
    assert.match((await sink.told("exited", spec.replicaId)).reason, /did not stop in time/);
  },
);

test(
  "a server on another port, or on the container's own address, is found there",
  { skip },
  async (t) => {
    const { fixture, driver, sink } = await openStage(t);
    const listens = (host: string, port: number): ReplicaSpec =>
      fixture.python(
        `import signal, socket; server = socket.create_server(("${host}", ${port})); print("up", flush=True); signal.pause()`,
        { port: 8000 },
      );
    const cases: [ReplicaSpec, RegExp | null][] = [
      [listens("0.0.0.0", 8000), null],
      [
        listens("0.0.0.0", 9000),
        /^It listens on port 9000: set port = 9000, or have it listen on 8000\.$/,
      ],
      [listens("127.0.0.1", 8000), /^It listens on port 8000 of 127\.0\.0\.1 only/],
    ];
    for (const [spec, expected] of cases) {
      await driver.start(spec, live);
      await sink.line(spec.replicaId, "up");
      const found = await driver.whyUnreached(spec.replicaId);
      if (expected === null) assert.equal(found, null);
      else assert.match(found ?? "", expected);
      await driver.stop(spec.replicaId, { graceMs: 0 });
      assert.equal(await driver.whyUnreached(spec.replicaId), null);
    }
  },
);

test("what a start command lacks is named", { skip }, async (t) => {
  const { fixture, driver, sink } = await openStage(t);
  const write = (name: string, text: string): string =>
    `printf '${text}' >/tmp/${name}; chmod +x /tmp/${name}; `;
  const cases: [string[], RegExp][] = [
    [
      ["no-such-program"],
      /^The start command was not found: no-such-program\. Correct the entrypoint/,
    ],
    [
      ["sh", "-c", "no-such-program; exit"],
      /the program no-such-program, which it runs, was not found\./,
    ],
    [
      ["sh", "-c", `${write("crlf.sh", "#!/bin/sh\\r\\n")} exec /tmp/crlf.sh`],
      /^\/tmp\/crlf\.sh has line endings of Windows/,
    ],
    [
      ["sh", "-c", `${write("nowhere.sh", "#!/opt/sh\\n")} exec /tmp/nowhere.sh`],
      /\/tmp\/nowhere\.sh asks for the program \/opt\/sh,/,
    ],
  ];
  for (const [entrypoint, form] of cases) {
    const spec = fixture.python("", { entrypoint });
    await driver.start(spec, live);
    assert.match((await sink.told("exited", spec.replicaId)).reason, form);
    await driver.forget(spec.replicaId);
  }
});

test("an unfinished line does not repeat the lines of the other stream", { skip }, async (t) => {
  const { fixture, driver, sink } = await openStage(t);
  const spec = fixture.python(`import sys, time
sys.stdout.write("?" * 20000); sys.stdout.flush()
for n in range(20): print(n, file=sys.stderr, flush=True)
time.sleep(1000)`);
  await driver.start(spec, live);
  await sink.line(spec.replicaId, "19");
  await driver.stop(spec.replicaId, { graceMs: 0 });
  await driver.forget(spec.replicaId);
  // On a busy machine the unfinished line is there for so long that its end is delivered, too.
  const texts = sink.texts(spec.replicaId).filter((text) => !text.startsWith("… "));
  assert.deepEqual(texts, [...Array.from({ length: 20 }, (_, n) => `${n}`), "?".repeat(20_000)]);
});

test(
  "an image sets neither its labels nor checks that the engine runs, and its volumes are removed",
  { skip },
  async (t) => {
    const stage = await openStage(t);
    const { fixture, driver } = stage;
    const made = `made-${fixture.installationId}`;
    const name = `taken-${fixture.installationId}`;
    const changes = [
      `LABEL ${labels.instance}=other ${labels.replica}=other ${labels.project}=p-ffffffff`,
      // As in an event of the engine.
      'LABEL Action=kill "Actor.ID"=other',
      "HEALTHCHECK --interval=10ms CMD true",
      "VOLUME /more /persistent-storage",
      "USER root",
    ];
    fixture.docker("create", "--name", made, baseImage, "true");
    cleanLast(t, () => void fixture.docker("rm", "-v", made));
    fixture.docker("commit", ...changes.flatMap((change) => ["--change", change]), made, name);
    cleanLast(t, () => void fixture.docker("rmi", "-f", name));
    const spec = fixture.python(
      `import os, sys, time
print("is", os.getuid() == 0, os.path.isdir("/more"), flush=True)
while not os.path.exists("/tmp/end"): time.sleep(0.01)
sys.exit(3)`,
      { artifact: fixture.artifact({ image: name }) },
    );
    await driver.start(spec, live);
    await stage.sink.line(spec.replicaId, "is False True");
    const form = `--format={{.Config.Healthcheck.Test}} {{index .Config.Labels "${labels.instance}"}} {{range .Mounts}}{{.Type}}={{.Name}} {{end}}`;
    const seen = fixture.docker("inspect", form, fixture.nameOf(spec));
    const volume = /volume=(\w+)/.exec(seen)?.[1] ?? "";
    assert.ok(seen.startsWith(`[NONE] ${fixture.installationId} `), seen);
    assert.equal([...seen.matchAll(/volume=/g)].length, 1, "the storage is the project's");
    fixture.docker("exec", fixture.nameOf(spec), "sh", "-c", "touch /tmp/end");
    const { isExternal, reason } = await stage.sink.told("exited", spec.replicaId);
    assert.deepEqual([isExternal ?? false, reason], [false, "The app ended with exit code 3."]);
    await driver.forget(spec.replicaId);
    assert.equal(fixture.docker("volume", "ls", "-q", "--filter", `name=${volume}`), "");
  },
);

test(
  "what runs when the engine ends is reported once, and what it lost track of is removed",
  { skip },
  async (t) => {
    const engine = await startOwnEngine(t);
    const stage = await openStage(t, { engine: engine.current });
    const { fixture, driver } = stage;
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      const spec = await startServing(stage);
      // As if the engine had ended before it could answer the request to create this one.
      const given = [`${labels.instance}=${fixture.installationId}`, `${labels.replica}=lost`];
      fixture.docker("create", ...given.flatMap((one) => ["--label", one]), baseImage, "true");
      await engine.end(signal);
      await until("the driver knows", () => driver.outage() !== null);
      await engine.start();
      await stage.sink.told("exited", spec.replicaId);
      await driver.forget(spec.replicaId);
      assert.equal(exitsOf(stage, spec).length, 1);
      await until("the lost one is removed", async () => (await fixture.remains()).length === 0);
      await until("the driver knows that it is back", () => driver.outage() === null);
    }
    const last = await startServing(stage);
    const pid = Number(readFileSync(join(dirname(engine.current.dataRoot), "docker.pid"), "utf8"));
    process.kill(pid, "SIGSTOP");
    try {
      await until("the driver knows that it hangs", () => driver.outage() !== null, {
        deadlineMs: 60_000,
      });
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await until("the driver knows that it answers", () => driver.outage() === null);
    assert.equal(exitsOf(stage, last).length, 0);
    await driver.stop(last.replicaId, { graceMs: 0 });
    await driver.forget(last.replicaId);
    assert.deepEqual(await fixture.remains(), []);
  },
);
