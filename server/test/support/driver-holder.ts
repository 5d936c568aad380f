// A process that holds a process driver, as the platform does, for tests that kill it: starts
// replicas one after the other and prints their ids to standard output. `node driver-holder.ts
// <options as JSON>`.
import { ProcessDriver } from "#drivers/process/driver.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import type { ReplicaSpec } from "#drivers/driver.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { diskWatch } from "./disk-watch.ts";
import { noCgroups } from "./no-cgroups.ts";
import { widePlacement } from "./wide-placement.ts";

/** The options of the holder. */
export type HolderOptions = {
  readonly installationId: string;
  readonly dataDir: string;
  readonly replicasDir: string;
  readonly storageDir: string;
  readonly runtimeDir: string;
  readonly sandbox: Sandbox;
  readonly specs: readonly ReplicaSpec[];
  /** Makes a zygote first; null: none. */
  readonly zygote: ReplicaSpec | null;
};

/** JSON has no maps. */
const revive = (name: string, value: unknown): unknown => (name === "egress" ? new Map() : value);
const { specs, zygote, ...folders } = JSON.parse(process.argv[2] ?? "", revive) as HolderOptions;
const driver = new ProcessDriver({
  ...folders,
  disk: diskWatch(folders.dataDir),
  cgroups: noCgroups,
  placement: widePlacement(),
  clock: systemClock,
  log: silentLog,
});
await driver.open({
  event: (event) => process.stdout.write(`${event.kind} ${event.replicaId}\n`),
  lines: (lines) => {
    for (const { text } of lines) process.stdout.write(`line ${text}\n`);
    return Promise.resolve();
  },
});
if (zygote !== null) await driver.zygotes.prepare(zygote, new AbortController().signal);
for (const spec of specs) await driver.start(spec, new AbortController().signal);
