// When a replica of the process driver has exited, as it is told to whoever counts its time: while
// nobody watched too, and null where nothing tells it.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { test, type TestContext } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const live = new AbortController().signal;
const detected = await detectSandbox(tmpdir());
const none: Sandbox = { kind: "none", reason: "as a test" };
const awayMs = 1_500;

/**
 * Starts a replica, leaves it to itself, and after it is gone and some time has passed looks again:
 * when it is said to have exited.
 */
async function exitUnwatched(
  t: TestContext,
  sandbox: Sandbox,
  given: { readonly script: string; readonly meanwhile: (fixture: ProcessFixture) => void },
): Promise<{
  readonly at: number | null;
  readonly goneBeforeMs: number;
  readonly startedMs: number;
}> {
  const fixture = new ProcessFixture({ sandbox });
  t.after(() => fixture.close());
  const entrypoint = ["sh", "-c", given.script];
  const spec = replicaSpec({ artifact: fixture.artifact({}), runtime: "custom", entrypoint });
  const first = fixture.driver();
  await first.open(new DriverSink());
  const startedMs = Date.now();
  await first.start(spec, live);
  await first.close();
  // Again and again: what is still starting may make a process that was not there a moment ago.
  const isGone = (): boolean => {
    given.meanwhile(fixture);
    return fixture.processes().length === 0;
  };
  await until("it is gone", isGone, { deadlineMs: 60_000 });
  const goneBeforeMs = Date.now();
  await until("some time has passed", () => Date.now() >= goneBeforeMs + awayMs);
  const at = await told(t, fixture, spec.replicaId);
  return { at, goneBeforeMs, startedMs };
}

async function told(
  t: TestContext,
  fixture: ProcessFixture,
  replicaId: ReplicaId,
): Promise<number | null> {
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(() => driver.close());
  const exited = await sink.told("exited", replicaId);
  await driver.forget(replicaId);
  return exited.at;
}

for (const sandbox of detected.kind === "none" ? [none] : [detected, none]) {
  test(`one that exited while the platform was away has the time of its exit (sandbox: ${sandbox.kind})`, async (t) => {
    const quiet = { script: "sleep 0.4; exit 3", meanwhile: () => undefined };
    const { at, goneBeforeMs, startedMs } = await exitUnwatched(t, sandbox, quiet);
    assert.ok(
      at !== null && at >= startedMs + 380 && at <= goneBeforeMs,
      `${at} between ${startedMs + 380} and ${goneBeforeMs}`,
    );
  });

  test(`one that was killed with all of its processes while the platform was away has none (sandbox: ${sandbox.kind})`, async (t) => {
    const kill = (fixture: ProcessFixture): void => {
      // All are halted first, so that none sees another one end and tells of it before it is killed
      // too.
      for (const signal of ["SIGSTOP", "SIGKILL"] as const) {
        for (const line of fixture.processes()) {
          const pid = Number(/^process (\d+)/.exec(line)?.[1]);
          try {
            process.kill(pid, signal);
          } catch {
            // It went with another one.
          }
        }
      }
    };
    const { at } = await exitUnwatched(t, sandbox, { script: "exec sleep 1000", meanwhile: kill });
    assert.equal(at, null);
  });
}
