// An open process driver for a test, with what it reports.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { Driver } from "#drivers/driver.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { DriverSink } from "./driver-sink.ts";
import { ProcessFixture } from "./process-fixture.ts";

/** The driver, where its replicas live, and what it has told. */
export type ProcessStage = {
  readonly fixture: ProcessFixture;
  readonly driver: Driver;
  readonly sink: DriverSink;
};

/** An open driver; after the test all replicas are ended, and nothing may be left. */
export async function openProcessStage(
  t: TestContext,
  options: { sandbox: Sandbox; runtimeDir?: string },
): Promise<ProcessStage> {
  const fixture = new ProcessFixture(options);
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    await endAll(driver);
    await driver.close();
    assert.deepEqual(await fixture.remains(), []);
    await fixture.close();
  });
  return { fixture, driver, sink };
}

/** Ends and forgets all replicas. */
export async function endAll(driver: Driver): Promise<void> {
  for (const { replicaId } of await driver.list()) {
    await driver.stop(replicaId, { graceMs: 0 });
    await driver.forget(replicaId);
  }
}
