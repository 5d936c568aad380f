// Starts from zygotes while processes are killed: the zygote, the process that attaches a replica,
// the replica, the platform. No start is lost without a reason, and nothing is left behind.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { StartRefused, type Driver, type ReplicaSpec } from "#drivers/driver.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { newReplicaId } from "#lib/ids.ts";
import { countOf } from "#test/support/drawn-cases.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { cortexRuntimeDir, ProcessFixture } from "#test/support/process-fixture.ts";
import { endAll } from "#test/support/process-stage.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const sandbox = await detectSandbox(tmpdir());
const isPossible = sandbox.kind === "namespaces" && !sandbox.isUserOwned && sandbox.hasOverlays;
const skip = isPossible ? false : "zygotes need root and overlays";
const live = new AbortController().signal;

const app = "def run():\n    return 1\n";
/** How many replicas a round starts at once. */
const startsPerRound = 5;
const rounds = countOf({ what: "rounds of kills beside forks", complete: 200, short: 6 });
/** The changes in a replica's folder after which the platform is killed. */
const platformKills = countOf({
  what: "kills of the platform beside forks",
  complete: 12,
  short: 3,
});

function specsOf(fixture: ProcessFixture): { next(): ReplicaSpec } {
  const artifact = fixture.artifact({ "main.py": app });
  const spec = replicaSpec({ artifact, runtime: "cortex", entrypoint: [] });
  return { next: () => ({ ...spec, replicaId: newReplicaId("forked") }) };
}

/** The processes of an installation by what they are. */
function processesOf(fixture: ProcessFixture, part: string): number[] {
  return fixture
    .processes()
    .filter((text) => text.includes(part))
    .map((text) => Number(/^process (\d+)/.exec(text)?.[1]));
}

const victims = {
  "the zygotes": (fixture: ProcessFixture) => processesOf(fixture, "start.py"),
  "a replica's first process": (fixture: ProcessFixture, spec: ReplicaSpec) => {
    try {
      const line = readFileSync(join(fixture.replicasDir, spec.replicaId, "pid"), "utf8");
      return [Number.parseInt(line, 10)].filter((pid) => pid > 1);
    } catch {
      return [];
    }
  },
  nobody: () => [],
};

async function killBesideStarts(driver: Driver, fixture: ProcessFixture, round: number) {
  const { next } = specsOf(fixture);
  await driver.zygotes?.prepare(next(), live);
  const specs = Array.from({ length: startsPerRound }, next);
  const [first] = specs;
  assert.ok(first);
  const starts = Promise.allSettled(specs.map((spec) => driver.start(spec, live)));
  const names = Object.keys(victims) as (keyof typeof victims)[];
  const victim = victims[names[round % names.length] ?? "nobody"];
  // The moment moves on with each round.
  for (let turn = 0; turn < round; turn++) await new Promise((resolve) => setImmediate(resolve));
  for (const pid of victim(fixture, first)) kill(pid);
  for (const outcome of await starts)
    if (outcome.status === "rejected") assert.ok(outcome.reason instanceof StartRefused);
  await endAll(driver);
  for (const { id } of driver.zygotes?.list() ?? []) driver.zygotes?.end(id);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

describe("starts from zygotes", { skip }, () => {
  it("lose nothing when processes are killed beside them", async () => {
    const fixture = new ProcessFixture({ sandbox, runtimeDir: cortexRuntimeDir });
    const driver = fixture.driver();
    await driver.open(new DriverSink());
    try {
      for (let round = 0; round < rounds; round++) await killBesideStarts(driver, fixture, round);
    } finally {
      await driver.close();
    }
    await until("no process is left", () => fixture.processes().length === 0);
    assert.deepEqual(await fixture.remains(), []);
    await fixture.close();
  });

  it("are found again wherever a kill hit the platform", async () => {
    const fixture = new ProcessFixture({ sandbox, runtimeDir: cortexRuntimeDir });
    for (let moment = 0; moment < platformKills; moment++) await killPlatform(fixture, moment);
    await fixture.close();
  });
});

async function killPlatform(fixture: ProcessFixture, moment: number): Promise<void> {
  const { next } = specsOf(fixture);
  const specs = [next(), next(), next()];
  const wanted = specs[1]?.replicaId ?? "";
  mkdirSync(fixture.replicasDir, { recursive: true });
  const options = { ...fixture.places(), specs, zygote: next() };
  const holder = spawn(
    process.execPath,
    [join(import.meta.dirname, "support/driver-holder.ts"), JSON.stringify(options)],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  let left = moment;
  const watcher = watch(fixture.replicasDir, { recursive: true }, (_event, name) => {
    if (name?.startsWith(wanted) && left-- <= 0) holder.kill("SIGKILL");
  });
  await once(holder, "close");
  watcher.close();
  const driver = fixture.driver();
  await driver.open(new DriverSink());
  const owned = await driver.list();
  assert.ok(owned.length >= 1, "what was started before is listed");
  await endAll(driver);
  await driver.close();
  await until("no process is left", () => fixture.processes().length === 0);
  assert.deepEqual(await fixture.remains(), []);
}
