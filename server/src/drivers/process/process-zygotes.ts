// The zygotes of this machine: makes them, finds the one that a replica can be started from, and
// keeps the folder of each until the last of its replicas has ended. The scheduler decides which
// are made, and how long they stay.
import { createHash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ReplicaSpec, ZygoteReport, ZygoteState, Zygotes } from "#drivers/driver.ts";
import type { DiskWatch } from "#drivers/disk/disk-watch.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { waitUpTo } from "#lib/with-deadline.ts";
import { addAbortListener } from "node:events";
import { Attachers, machinePython } from "./attachers.ts";
import type { ForkSource } from "./fork-launch.ts";
import type { Launched } from "./launch.ts";
import { isAlive, signal } from "./process-table.ts";
import { readPid, readRecord, replicaPaths } from "./replica-files.ts";
import { homePath, type LaunchContext } from "./replica-program.ts";
import type { Namespaces, Sandbox } from "./sandbox.ts";
import { canOverlay, codeAlias } from "./sandbox-view.ts";
import { isBelow } from "./system-mounts.ts";
import { launchZygote, Zygote, type ZygoteOptions } from "./zygote.ts";

export type ProcessZygotesOptions = {
  readonly sandbox: Sandbox;
  /** Has one folder for each zygote. */
  readonly zygotesDir: string;
  /** The resources of a launch; zygotes have no cards. */
  readonly context: () => Omit<LaunchContext, "signal" | "claim" | "replicasDir">;
  readonly disk: DiskWatch;
  readonly clock: Clock;
  readonly log: Log;
};

/** How long zygotes without replicas may take to end, before they are killed. */
const endWaitMs = 10_000;

type Held = {
  readonly zygote: Zygote;
  /** See `keyOf`. */
  readonly key: string;
  readonly spec: Pick<ReplicaSpec, "appId" | "releaseId">;
  usedAtMs: number;
};

/** The zygotes of the process driver. `#drivers/zygotes.ts` documents the methods. */
export class ProcessZygotes implements Zygotes {
  readonly unavailable: string | null;
  readonly #options: ProcessZygotesOptions;
  readonly #attachers: Attachers;
  /** Zygotes that are ready, by key. */
  readonly #ready = new Map<string, Held>();
  /** All zygotes whose processes may still run, by id. */
  readonly #all = new Map<ReplicaId, Zygote>();
  /** Resolves for each zygote when its processes have ended and its folder is removed. */
  readonly #removed = new Map<ReplicaId, Promise<void>>();
  /** When what is left of a zygote is killed, if it has no replica then. */
  readonly #endsAtMs = new Map<ReplicaId, number>();

  constructor(options: ProcessZygotesOptions) {
    this.#options = options;
    this.#attachers = new Attachers(options);
    this.unavailable = whyUnavailable(options);
  }

  /**
   * Removes what an earlier process of the platform has left, except for the folders of zygotes
   * whose replicas still run.
   */
  async open(isUsed: (id: ReplicaId) => boolean): Promise<void> {
    const { zygotesDir, sandbox } = this.#options;
    // Without a sandbox there never was a zygote.
    if (sandbox.kind === "none") return;
    await mkdir(zygotesDir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(zygotesDir)) {
      const paths = replicaPaths(join(zygotesDir, name));
      const record = readRecord(paths);
      if (record === null) {
        const identity = readPid(paths);
        if (identity !== null && isAlive(identity)) signal(identity.pid, "SIGKILL");
        await removeFolder(paths.dir);
        continue;
      }
      const zygote = this.#watch(sandbox, { child: null, paths, record });
      if (isUsed(record.replicaId)) this.#drop(zygote);
      else zygote.kill();
    }
  }

  has(spec: ReplicaSpec): boolean {
    return this.sourceFor(spec) !== null;
  }

  /** The zygote that a replica of `spec` can be forked from; null: there is none. */
  sourceFor(spec: ReplicaSpec): ForkSource | null {
    if (!isForkable(spec)) return null;
    const held = this.#ready.get(keyOf(spec));
    if (held === undefined) return null;
    held.usedAtMs = this.#options.clock.monotonicMs();
    return held.zygote.source;
  }

  async prepare(spec: ReplicaSpec, signal: AbortSignal): Promise<ZygoteReport> {
    const { sandbox, disk, clock, zygotesDir, context } = this.#options;
    const { unavailable } = this;
    if (unavailable !== null || sandbox.kind !== "namespaces")
      return { kind: "failed", reason: unavailable ?? "there is no sandbox" };
    if (!isForkable(spec)) return { kind: "failed", reason: "only cortex apps without GPUs fork" };
    const { compute, cpuCores, memoryGb, tier } = spec;
    let launched: Launched;
    try {
      launched = await launchZygote(spec, {
        ...context(),
        sandbox,
        replicasDir: zygotesDir,
        claim: { compute, cpuCores, memoryGb, tier, pool: "", gpus: [] },
        signal,
      });
    } catch (error) {
      return { kind: "failed", reason: (error as Error).message };
    }
    const zygote = this.#watch(sandbox, launched);
    const removeWriter = disk.add(
      {
        kind: "replica",
        id: spec.replicaId,
        projectId: spec.projectId,
        folders: () => [launched.paths.dir],
        pid: () => zygote.pid,
        end: () => this.#drop(zygote),
      },
      true,
    );
    void zygote.gone.then(removeWriter);
    using _kill = addAbortListener(signal, () => zygote.kill());
    const report = await zygote.report;
    if (report.kind !== "ready" || signal.aborted) {
      zygote.kill();
      return report;
    }
    const key = keyOf(spec);
    const before = this.#ready.get(key);
    if (before !== undefined) this.#drop(before.zygote);
    const { appId, releaseId } = spec;
    this.#ready.set(key, {
      zygote,
      key,
      spec: { appId, releaseId },
      usedAtMs: clock.monotonicMs(),
    });
    void zygote.gone.then(() => this.#forget(zygote));
    return report;
  }

  list(): readonly ZygoteState[] {
    return [...this.#ready.values()].map(({ zygote, spec, usedAtMs }) => ({
      id: zygote.id,
      ...spec,
      memoryBytes: zygote.memoryBytes(),
      usedAtMs,
    }));
  }

  end(id: ReplicaId): void {
    const zygote = this.#all.get(id);
    if (zygote !== undefined) this.#drop(zygote);
  }

  /** Whether the id is a zygote's. */
  isZygote(id: string): boolean {
    return this.#all.has(id as ReplicaId);
  }

  /** Whether a prepared start has a network. */
  get hasNetwork(): boolean {
    return !this.#attachers.isEmpty;
  }

  /** Looks at all zygotes. Kills what is left of one that has ended and has no replica any more. */
  look(isUsed: (id: ReplicaId) => boolean): void {
    const nowMs = this.#options.clock.monotonicMs();
    for (const zygote of this.#all.values()) {
      zygote.look();
      const endsAtMs = this.#endsAtMs.get(zygote.id) ?? Number.POSITIVE_INFINITY;
      if (nowMs > endsAtMs && !isUsed(zygote.id)) zygote.kill();
    }
  }

  /** Ends all zygotes. Their folders stay until the next start if their replicas still run. */
  async close(isUsed: (id: ReplicaId) => boolean): Promise<void> {
    const zygotes = [...this.#all.values()];
    for (const zygote of zygotes) this.#drop(zygote);
    const unused = zygotes.filter(({ id }) => !isUsed(id));
    const removals = Promise.all(unused.flatMap(({ id }) => this.#removed.get(id) ?? []));
    await waitUpTo(this.#options.clock, endWaitMs, removals);
    for (const zygote of unused) zygote.kill();
    await waitUpTo(this.#options.clock, endWaitMs, removals);
    await Promise.all(zygotes.map((zygote) => zygote.close()));
    await this.#attachers.close();
  }

  #watch(sandbox: Namespaces, launched: Pick<ZygoteOptions, "child" | "paths" | "record">): Zygote {
    const { clock, log } = this.#options;
    const zygote = new Zygote({
      ...launched,
      sandbox,
      attachers: this.#attachers,
      clock,
      onFault: (error) => log.error({ err: error }, "could not look at a zygote"),
    });
    this.#all.set(zygote.id, zygote);
    const removed = zygote.gone
      .then(() => zygote.remove())
      .catch((error: unknown) => log.error({ err: error }, "could not remove a zygote"))
      .finally(() => {
        for (const known of [this.#all, this.#removed, this.#endsAtMs]) known.delete(zygote.id);
      });
    this.#removed.set(zygote.id, removed);
    return zygote;
  }

  #drop(zygote: Zygote): void {
    this.#forget(zygote);
    this.#endsAtMs.set(zygote.id, this.#options.clock.monotonicMs() + endWaitMs);
    zygote.end();
  }

  #forget(zygote: Zygote): void {
    for (const held of this.#ready.values())
      if (held.zygote === zygote) this.#ready.delete(held.key);
  }
}

function whyUnavailable({ sandbox, zygotesDir }: ProcessZygotesOptions): string | null {
  if (sandbox.kind === "none") return sandbox.reason;
  if (sandbox.isUserOwned) return "the platform is not root";
  if (!sandbox.hasOverlays) return "the file system of the data folder takes no overlays";
  if (!existsSync(machinePython)) return `the machine has no ${machinePython}`;
  if (!["x64", "arm64"].includes(process.arch)) return "only x86-64 and arm64 are supported";
  if (!canOverlay(zygotesDir) || Buffer.byteLength(zygotesDir) > dirBytesMax)
    return `the path of the data folder has a comma, colon or backslash, or is too long`;
  return null;
}

/** Whether replicas of `spec` can be forked at all. */
function isForkable({ runtime, gpuCount, storagePath }: ReplicaSpec): boolean {
  // The mounts of a fork would hide storage in these folders.
  const isHidden = storagePath !== null && remounted.some((folder) => isBelow(storagePath, folder));
  return runtime === "cortex" && gpuCount === 0 && !isHidden;
}

/** Folders over which a fork gets mounts of its own. */
const remounted = ["/tmp", "/var/tmp", "/dev", "/run", homePath, codeAlias];
/** An option of an overlay has at most 255 bytes: this, and the rest of a folder's path. */
const dirBytesMax = 160;

/** The same for two replicas that one zygote can fork. A hash, since it contains secrets. */
function keyOf(spec: ReplicaSpec): string {
  const environment = Object.entries(spec.environment)
    .map(([name, value]) => [name, value instanceof Secret ? value.reveal() : value])
    .toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  const { appId, releaseId, buildId, appName, artifact, storage, storagePath, egressCidrs } = spec;
  const same = { appId, releaseId, buildId, appName, artifact, storage, storagePath, egressCidrs };
  return createHash("sha256")
    .update(JSON.stringify([same, environment]))
    .digest("hex");
}
