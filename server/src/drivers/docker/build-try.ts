// Prepares one try of a build and cleans up after it: the network of its steps, a folder of its
// own, and a loop that limits what its steps use and ends the try before the disk is full.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed, type BuildContext, type BuildPlan } from "#drivers/builder.ts";
import type { DiskWatch, DiskWriter } from "#drivers/disk/disk-watch.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { Clock } from "#lib/clock.ts";
import { projectIdOf } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import { clientFolder } from "./build-client.ts";
import { BuildSteps, stepMark, type StepLimits } from "./build-limits.ts";
import { enterBuildNetwork, type BuildNetwork } from "./build-network.ts";
import type { KeyedNames } from "./keyed-names.ts";

export type BuildTryParts = BuildNetwork & {
  /** Absolute path; holds a folder for each running build. */
  readonly buildsDir: string;
  readonly names: KeyedNames;
  /** The limits of each step; null: this machine's cgroups cannot be set. */
  readonly limits: StepLimits | null;
  /** Ends builds that fill the disk. */
  readonly disk: Pick<DiskWatch, "add" | "storeRefusal">;
  readonly clock: Clock;
  readonly log: Log;
};

/** One build, and the things that its tries share. */
export type ImageBuild = {
  readonly plan: BuildPlan;
  readonly context: BuildContext;
  /** The results of scripts in steps. A later try needs them, since finished steps are cached. */
  readonly facts: Map<string, string>;
  /** The time for all tries together. */
  readonly timeoutMs: number;
  /** How much of the time is left; at least 1. */
  readonly leftMs: () => number;
};

/** One try. Its context's signal is aborted when the build is aborted, or by `end`. */
export type BuildTry = ImageBuild & {
  /** A folder for the files of this try. Only the platform may read it; removed after the try. */
  readonly dir: string;
  /** Ends this try with this reason. */
  readonly end: (reason: BuildFailed) => void;
};

/** How often the steps of a build, and the free space on the disk, are checked. */
const checkEveryMs = 100;

/** Prepares a try, calls `act`, which makes the image, and cleans up. */
export async function tryBuild<Result>(
  parts: BuildTryParts,
  build: ImageBuild,
  act: (buildTry: BuildTry) => Promise<Result>,
): Promise<Result> {
  const { plan, context } = build;
  const dir = join(parts.buildsDir, plan.buildId);
  const ended = new AbortController();
  const signal = AbortSignal.any([context.signal, ended.signal]);
  const end = (reason: BuildFailed): void => ended.abort(reason);
  const buildTry: BuildTry = { ...build, context: { ...context, signal }, dir, end };
  const leaveNetwork = await enterBuildNetwork(parts);
  try {
    // The folder exists if an earlier try was killed together with the platform.
    await removeFolder(dir);
    await mkdir(join(dir, clientFolder), { recursive: true, mode: 0o700 });
    return await whileWatched(parts, buildTry, () => act(buildTry));
  } finally {
    await leaveNetwork();
    await removeFolder(dir);
  }
}

async function whileWatched<Result>(
  { limits, names, disk, clock, log }: BuildTryParts,
  { plan, dir, end }: BuildTry,
  act: () => Promise<Result>,
): Promise<Result> {
  const steps = limits === null ? null : new BuildSteps(limits, stepMark(names, plan));
  const writer: DiskWriter = {
    kind: "build",
    id: plan.buildId,
    projectId: projectIdOf(plan.appId),
    folders: () => [dir, ...(steps?.written ?? [])],
    pid: () => null,
    end: (reason) => end(new BuildFailed(reason)),
  };
  const check = (): Promise<void> => {
    steps?.look();
    // The last resort: by then, the disk watch has already ended the programs that write the most.
    const refusal = disk.storeRefusal();
    if (refusal !== null) end(new BuildFailed(`${refusal} Then ${buildAgain}.`));
    return Promise.resolve();
  };
  const loop = new Loop({
    name: "steps of an image build",
    intervalMs: checkEveryMs,
    turn: check,
    clock,
    log,
  });
  // The folder of the try has just been made, so the writer counts as empty.
  const removeWriter = disk.add(writer, true);
  loop.start();
  try {
    return await act();
  } finally {
    await loop.stop();
    removeWriter();
  }
}
