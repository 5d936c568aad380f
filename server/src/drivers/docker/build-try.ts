// What surrounds one try of a build: the network of its steps, a folder of its own, and the watch
// that limits what its steps use and ends it before the disk is full. Nothing of it is left
// afterwards.
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
  /** Ends builds that fill the disk; without it nothing does. */
  readonly disk?: Pick<DiskWatch, "add" | "storeRefusal">;
  readonly clock: Clock;
  readonly log: Log;
};

/** One build, with what its tries share. */
export type ImageBuild = {
  readonly plan: BuildPlan;
  readonly context: BuildContext;
  /** What scripts in the steps have found out: a later try does not run finished steps again. */
  readonly facts: Map<string, string>;
  /** For all tries together. */
  readonly timeoutMs: number;
  /** How much of that is left; at least 1. */
  readonly leftMs: () => number;
};

/** One try. The signal of its context is aborted when the build is, or by `end`. */
export type BuildTry = ImageBuild & {
  /** For what this try writes; the platform's alone, and removed after it. */
  readonly dir: string;
  /** Ends this try with this reason. */
  readonly end: (reason: BuildFailed) => void;
};

/** How often the steps of a build, and the room on the disk, are looked at. */
const lookEveryMs = 100;

/** Surrounds `act`, which makes the image. */
export async function tryBuild<Result>(
  parts: BuildTryParts,
  build: ImageBuild,
  act: (current: BuildTry) => Promise<Result>,
): Promise<Result> {
  const { plan, context } = build;
  const dir = join(parts.buildsDir, plan.buildId);
  const ended = new AbortController();
  const signal = AbortSignal.any([context.signal, ended.signal]);
  const end = (reason: BuildFailed): void => ended.abort(reason);
  const current: BuildTry = { ...build, context: { ...context, signal }, dir, end };
  const leaveNetwork = await enterBuildNetwork(parts);
  try {
    // A try that was killed with the platform has left it.
    await removeFolder(dir);
    await mkdir(join(dir, clientFolder), { recursive: true, mode: 0o700 });
    return await whileWatched(parts, current, () => act(current));
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
  const turn = (): Promise<void> => {
    steps?.look();
    // When this is reached, the disk watch has already ended those that have written the most.
    const refusal = disk?.storeRefusal() ?? null;
    if (refusal !== null) end(new BuildFailed(`${refusal} Then ${buildAgain}.`));
    return Promise.resolve();
  };
  const loop = new Loop({
    name: "steps of an image build",
    intervalMs: lookEveryMs,
    turn,
    clock,
    log,
  });
  const removeWriter = disk?.add(writer, true);
  loop.start();
  try {
    return await act();
  } finally {
    await loop.stop();
    removeWriter?.();
  }
}
