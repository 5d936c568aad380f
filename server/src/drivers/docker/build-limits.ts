// Limits what the steps of image builds use. The engine's builder takes no limits, so they are set on the cgroup of each step as
// soon as it runs. Needs root, and an engine on this machine.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { limitGroup, type CgroupLimits } from "#drivers/process/cgroup.ts";
import { groupOfProcess } from "#drivers/process/cgroup-detect.ts";
import { readText } from "#drivers/process/read-text.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";

export type StepLimits = {
  /** Where the engine keeps its data. */
  readonly engineRoot: string;
  readonly limits: CgroupLimits;
  readonly clock: Clock;
  readonly log: Log;
};

/** A host name in all steps of this instance's builds, by which they are told from the builds of others. */
export function stepMark(instanceId: string): string {
  return `${instanceId}.build.slipway.internal`;
}

/** A step can use more than its limits for about so long. */
const lookEveryMs = 100;

/** Limits the steps with the mark while `act` runs. */
export async function limitSteps<Result>(
  { engineRoot, limits, clock, log }: StepLimits,
  mark: string,
  act: () => Promise<Result>,
): Promise<Result> {
  const folder = join(engineRoot, "buildkit/executor");
  const done = new Set<string>();
  const turn = (): Promise<void> => {
    for (const id of runningSteps(folder).filter((one) => !done.has(one) && isMarked(folder, one, mark))) {
      if (limitStep(id, limits)) done.add(id);
    }
    return Promise.resolve();
  };
  const loop = new Loop({ name: "limits of build steps", intervalMs: lookEveryMs, turn, clock, log });
  loop.start();
  try {
    return await act();
  } finally {
    await loop.stop();
  }
}

/** BuildKit has a folder for each step that runs, beside files that steps share. */
function runningSteps(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** What the step itself chooses is in this file too, but quotes in it are escaped. */
function isMarked(folder: string, id: string, mark: string): boolean {
  const start = `"source":"${folder}/hosts`;
  const [, rest = ""] = readText(join(folder, id, "config.json")).split(start, 2);
  return readText(`${folder}/hosts${rest.split('"', 1)[0]}`).includes(mark);
}

/** False while the step does not run yet, or uses more than the limit at the moment. */
function limitStep(id: string, limits: CgroupLimits): boolean {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const group = groupOfProcess(pid, id);
    if (group.length === 0) continue;
    try {
      limitGroup(group, limits);
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EBUSY") return false;
      // It has ended.
      if (code === "ENOENT" || code === "ENODEV") return true;
      throw error;
    }
  }
  return false;
}
