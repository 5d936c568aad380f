// Our contender: the whole scheduler, on the driver and the rows of the simulation.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { BuildId, ProjectId, ReleaseId } from "#lib/ids.ts";
import { everythingAllowed } from "#test/support/everything-allowed.ts";
import type { SchedulerRoute } from "#scheduler/app-state.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import { FakeDriver, goodScript } from "#test/support/fake-driver.ts";
import type { VirtualClock } from "#test/support/virtual-clock.ts";
import { MemoryRows } from "./memory-rows.ts";
import { SimPlatform } from "./sim-platform.ts";
import { callsPerReplica, coldMs, lineLengthMax, loadAppId, type Contender } from "./contender.ts";
import { firstRoute } from "#test/support/first-route.ts";

/** Scales an app with these settings. */
export async function openOurs(
  clock: VirtualClock,
  changes: Partial<AppSettings>,
): Promise<Contender> {
  const projectId = "p-00000000" as ProjectId;
  const settings = settingsWith({
    maxReplicaCount: 2000,
    replicaConcurrency: callsPerReplica,
    ...changes,
  });
  const live = { releaseId: "release" as ReleaseId, buildId: "build" as BuildId, settings };
  const route: SchedulerRoute = { ...firstRoute, appId: loadAppId, projectId, live };
  const rows = new MemoryRows();
  rows.releases.set(live.releaseId, {
    ...live,
    projectId,
    appId: loadAppId,
    artifact: { kind: "fake" },
  });
  const driver = new FakeDriver({
    clock,
    script: () => ({ ...goodScript, createMs: 50, readyMs: coldMs }),
  });
  const platform = new SimPlatform({
    clock,
    driver,
    rows,
    allowance: everythingAllowed,
    mutation: null,
    lineLengthMax,
    onRetire: () => undefined,
    routes: { byAppId: () => route, all: () => [route], onChange: () => () => undefined },
    probe: ({ address }) =>
      Promise.resolve(
        driver.answers(address) ? { ok: true } : { ok: false, reason: "It does not answer." },
      ),
  });
  const { proxy } = platform;
  driver.busy = (replicaId) => proxy.running(replicaId);
  void platform.start();
  await clock.advance(0);
  return { proxy, replicaCount: () => driver.running().length, stop: () => platform.stop() };
}
