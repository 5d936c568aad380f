// The process driver on real processes: what outlives the platform and how it is found again,
// ports, exits, secrets.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, watch, type FSWatcher } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { ReplicaSpec, ReplicaUsage } from "#drivers/driver.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { readJson } from "#drivers/json-file.ts";
import { replicaPaths } from "#drivers/process/replica-files.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { Secret } from "#lib/secret.ts";
import { countOf, drawCases } from "#test/support/drawn-cases.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { cortexRuntimeDir, ProcessFixture, python } from "#test/support/process-fixture.ts";
import { askAddress } from "#test/support/replica-address.ts";
import { endAll, openProcessStage as stage } from "#test/support/process-stage.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const noProc = process.platform === "linux" ? false : "this machine has no /proc";
const live = new AbortController().signal;
const graceMs = 20_000;
const detected = await detectSandbox(tmpdir());
const none: Sandbox = { kind: "none", reason: "as a test" };

const sandboxes = detected.kind === "none" ? [none] : [detected, none];
/** Files that a start writes, and what the holder prints about it. */
const momentsMax = 8;
const killRounds = countOf({ what: "moments of a start", complete: 8, short: 3 });

for (const sandbox of drawCases(sandboxes, { what: "kinds of sandbox", max: 1 })) {
  describe(`process driver, sandbox: ${sandbox.kind}`, () => {
    adoption(sandbox);
    environments(sandbox);
    leftProcesses(sandbox);
    cortexApps(sandbox);
  });
}

function adoption(sandbox: Sandbox): void {
  it("finds every replica again wherever a kill hit the platform, and nothing runs that it does not list", async () => {
    const fixture = new ProcessFixture({ sandbox });
    try {
      // Spread over what a start does, from the first folder to the running app.
      for (let round = 0; round < killRounds; round++)
        await killWhileStarting(fixture, {
          afterStarts: 1 + (round % 3),
          moment: Math.floor((round * momentsMax) / killRounds),
        });
      assert.deepEqual(await fixture.remains(), []);
    } finally {
      await fixture.close();
    }
  });

  it("goes on with the output where a killed platform was, missing none of it", async (t) => {
    const fixture = new ProcessFixture({ sandbox });
    // It prints for seconds, so that it is in the midst of it when the platform is killed, also on
    // a busy machine.
    const script =
      "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo line $i; sleep 0.01; done; exec sleep 1000";
    const spec = replicaSpec({
      artifact: fixture.artifact({}),
      runtime: "custom",
      entrypoint: ["sh", "-c", script],
    });
    const holder = spawnHolder(fixture, [spec]);
    let seen = "";
    holder.stdout?.on("data", (chunk: Buffer) => (seen += chunk.toString()));
    const { offsets } = replicaPaths(join(fixture.replicasDir, spec.replicaId));
    const kept = (): number =>
      (readJson(offsets) as { stdout: { offset: number } } | null)?.stdout.offset ?? 0;
    await until("how far it came was written down", () => kept() > 0);
    holder.kill("SIGKILL");
    await once(holder, "close");
    const driver = fixture.driver();
    const sink = new DriverSink();
    await driver.open(sink);
    t.after(async () => {
      await endAll(driver);
      await driver.close();
      await fixture.close();
    });
    await sink.line(spec.replicaId, "line 200");
    const numbers = [...seen.matchAll(/^line line (\d+)$/gm)].map((match) => Number(match[1]));
    const more = sink.texts(spec.replicaId).map((text) => Number(text.slice("line ".length)));
    assert.deepEqual(
      [...new Set([...numbers, ...more])],
      Array.from({ length: 200 }, (_, index) => index + 1),
    );
    assert.ok((more[0] ?? 0) > 1, "not all from the beginning again");
  });
}

function spawnHolder(
  fixture: ProcessFixture,
  specs: readonly ReplicaSpec[],
): ReturnType<typeof spawn> {
  const holder = join(import.meta.dirname, "support/driver-holder.ts");
  return spawn(
    process.execPath,
    [holder, JSON.stringify({ ...fixture.places(), specs, zygote: null })],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
}

async function killWhileStarting(
  fixture: ProcessFixture,
  given: { afterStarts: number; moment: number },
): Promise<void> {
  const specs = Array.from({ length: given.afterStarts + 2 }, () =>
    fixture.spec({ kind: "serves" }),
  );
  const wanted = specs[given.afterStarts - 1]?.replicaId ?? "";
  mkdirSync(fixture.replicasDir, { recursive: true });
  const holder = spawnHolder(fixture, specs);
  const closed = once(holder, "close");
  let left = given.moment;
  const pass = (): void => {
    if (left-- <= 0) holder.kill("SIGKILL");
  };
  // The folder of a start is its first act.
  let inside: FSWatcher | undefined;
  const outside = watch(fixture.replicasDir, (_event, name) => {
    if (name !== wanted || inside !== undefined) return;
    inside = watch(join(fixture.replicasDir, wanted), pass);
    pass();
  });
  holder.stdout?.on("data", () => {
    if (inside !== undefined) pass();
  });
  const [, signal] = (await closed) as [number | null, string | null];
  outside.close();
  inside?.close();
  assert.equal(signal, "SIGKILL", "the platform starts replicas until it is killed");

  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  const owned = await driver.list();
  assert.ok(owned.length >= given.afterStarts - 1, "what was started before is listed");
  await endAll(driver);
  await driver.close();
  await until("no process is left", () => fixture.processes().length === 0);
  assert.deepEqual(await fixture.remains(), []);
}

function environments(sandbox: Sandbox): void {
  it("shows the app its own environment and nothing of the platform's, and writes no secret to the disk", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const spec = replicaSpec({
      artifact: fixture.artifact({
        "show.py": "import os, json; print(json.dumps(dict(os.environ)))",
      }),
      runtime: "custom",
      entrypoint: ["python", "show.py"],
      environment: {
        SECRET: new Secret("tell-nobody"),
        LD_PRELOAD: "/no/such/library.so",
        IFS: "x",
        PATH_EXTRA: "a b\n'c'",
      },
    });
    await driver.start(spec, live);
    const json = await sink.line(spec.replicaId, "{");
    const environment = JSON.parse(json) as Record<string, string>;
    assert.equal(environment["SECRET"], "tell-nobody");
    assert.equal(environment["PATH_EXTRA"], "a b\n'c'");
    assert.equal(environment["IFS"], "x");
    assert.equal(environment["LD_PRELOAD"], "/no/such/library.so");
    assert.equal(environment["APP_NAME"], "driven");
    assert.equal(environment["PROJECT_ID"], spec.projectId);
    assert.equal(environment["BUILD_ID"], spec.buildId);
    assert.equal(environment["LANG"], "C.UTF-8");
    const known =
      /^(SECRET|LD_PRELOAD|IFS|PATH_EXTRA|APP_NAME|PROJECT_ID|BUILD_ID|LANG|PORT|PATH|HOME|USER|LOGNAME|TMPDIR|HF_HOME|VIRTUAL_ENV|PYTHONUNBUFFERED|PWD|SLIPWAY_REPLICA_ID|CUDA_VISIBLE_DEVICES|LC_CTYPE)$/;
    assert.deepEqual(
      Object.keys(environment).filter((name) => !known.test(name)),
      [],
    );
    const dir = join(fixture.replicasDir, spec.replicaId);
    const files = filesOf(dir).filter((file) => !/\/(stdout|stderr)$/.test(file));
    assert.ok(files.some((file) => file.endsWith("/record.json")));
    for (const file of files)
      assert.ok(!readFileSync(file, "utf8").includes("tell-nobody"), `no secret in ${file}`);
  });

  it("refuses variables that no process can be given, and names them", async (t) => {
    const { fixture, driver } = await stage(t, { sandbox });
    const spec = replicaSpec({
      artifact: fixture.artifact({}),
      environment: { "not a name": "1" },
    });
    await assert.rejects(
      driver.start(spec, live),
      /variable "not a name" cannot be set: names of variables have/,
    );
    const huge = replicaSpec({
      artifact: fixture.artifact({}),
      environment: { BIG: "x".repeat(200_000) },
    });
    await assert.rejects(driver.start(huge, live), /variables are too large/);
  });
}

function leftProcesses(sandbox: Sandbox): void {
  it("leaves no process of an app behind, not even one in a session of its own", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    const script = "setsid sleep 1000 & sleep 1000 & echo up; wait";
    const spec = replicaSpec({
      artifact: fixture.artifact({}),
      runtime: "custom",
      entrypoint: ["sh", "-c", script],
    });
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "up");
    await driver.stop(spec.replicaId, { graceMs });
    // Sandboxes may be prepared for the next replicas; they end with the driver.
    assert.deepEqual(fixture.processes(spec.replicaId), []);
  });

  it("leaves nothing of apps that start processes while they end, many at once", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox });
    // Each becomes one program after the other, in sessions of their own; the last one stays unless
    // it is killed.
    const last = "setsid setsid setsid setsid setsid setsid sleep 1000";
    const script = `trap '${last} & (${last} &) ; exit 0' TERM; echo up; while :; do sleep 0.01; done`;
    const artifact = fixture.artifact({});
    const specs = Array.from({ length: 12 }, () =>
      replicaSpec({ artifact, runtime: "custom", entrypoint: ["sh", "-c", script] }),
    );
    await Promise.all(specs.map((spec) => driver.start(spec, live)));
    await Promise.all(specs.map((spec) => sink.line(spec.replicaId, "up")));
    const left: string[] = [];
    const stop = async (spec: ReplicaSpec): Promise<void> => {
      await driver.stop(spec.replicaId, { graceMs });
      left.push(...fixture.processes(spec.replicaId));
    };
    await Promise.all(specs.map((spec) => stop(spec)));
    assert.deepEqual(left, []);
  });
}

function cortexApps(sandbox: Sandbox): void {
  it("runs a cortex app: it answers, its lines belong to their runs, and it ends when it is asked to", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox, runtimeDir: cortexRuntimeDir });
    const main = `print("loaded")
def run(run_id, name: str):
    print("hello", name)
    return name
`;
    const spec = replicaSpec({ artifact: fixture.artifact({ "main.py": main }) });
    await driver.start(spec, live);
    const { address } = await sink.told("started", spec.replicaId);
    await until("it listens", () => fixture.isReady(address));
    const runId = "6f1b7f0e-5a4c-4d6e-9a53-0d4f6a6a2f10";
    const response = await askAddress(address, {
      path: "/run",
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": runId },
      body: JSON.stringify({ name: "you" }),
    });
    assert.equal(response.status, 200);
    assert.equal((JSON.parse(response.body) as { result: string }).result, "you");
    await sink.line(spec.replicaId, "hello you");
    const lines = sink.taken.map(({ text, runId: id }) => [text, id]);
    assert.deepEqual(lines, [
      ["loaded", null],
      ["hello you", runId],
    ]);
    await driver.stop(spec.replicaId, { graceMs });
    assert.equal((await sink.told("exited", spec.replicaId)).exitCode, 0);
  });

  it("says why a cortex app did not start", async (t) => {
    const { fixture, driver, sink } = await stage(t, { sandbox, runtimeDir: cortexRuntimeDir });
    const spec = replicaSpec({
      artifact: fixture.artifact({ "main.py": "import no_such_module\n" }),
    });
    await driver.start(spec, live);
    const exited = await sink.told("exited", spec.replicaId);
    assert.match(
      exited.reason,
      /^The app ended with exit code \d+: .*No module named 'no_such_module'/,
    );
    assert.deepEqual(
      sink.events.map(({ kind }) => kind),
      ["started", "exited"],
    );
  });

  it(
    "measures the processor time and memory of a replica with all its processes",
    { skip: noProc },
    async (t) => {
      const { fixture, driver } = await stage(t, { sandbox });
      const code = `import os, time
held = b"x" * 60_000_000
if os.fork() == 0:
    held = b"y" * 60_000_000
    while True:
        pass
time.sleep(1000)`;
      const spec = replicaSpec({
        artifact: fixture.artifact({}),
        runtime: "custom" as const,
        entrypoint: [python, "-c", code],
      });
      await driver.start(spec, live);
      const usage = async (): Promise<ReplicaUsage | undefined> =>
        (await driver.usage()).get(spec.replicaId);
      await until(
        "it has worked for half a second",
        async () => ((await usage())?.cpuSeconds ?? 0) > 0.5,
      );
      const memoryBytes = (await usage())?.memoryBytes ?? 0;
      assert.ok(memoryBytes > 120_000_000 && memoryBytes < 400_000_000, `${memoryBytes} bytes`);
      await driver.stop(spec.replicaId, { graceMs: 0 });
      assert.equal(await usage(), undefined);
    },
  );
}

/** Not those below `work`, which overlays lock; the platform writes at the top. */
function filesOf(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (entry.isFile()) return [path];
    return entry.isDirectory() && entry.name !== "work" ? filesOf(path) : [];
  });
}
