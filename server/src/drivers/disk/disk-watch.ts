// Watches the disk of the data folder. Checks free space continuously. Measures the usage of
// replicas, builds and projects periodically, and at once when free space drops quickly. Ends
// writers that are over a limit or fill the disk, maintains the reserve, and says which new work
// may start.
import type { ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { sizeText } from "#lib/disk-full.ts";
import * as rules from "./disk-decide.ts";
import { defaultReserveBytes, type DiskReserve } from "./disk-reserve.ts";
import { deletedBytes, diskSpace, measure, type DiskSpace, type DiskUsage } from "./disk-usage.ts";
import type { DriverParts } from "#drivers/opened-driver.ts";
import { storageFolders } from "#drivers/removed-folders.ts";

/** A replica or build that writes to the disk. */
export type DiskWriter = {
  readonly kind: "replica" | "build";
  readonly id: string;
  readonly projectId: ProjectId;
  readonly folders: () => readonly string[];
  /** The id of the writer's first process; null when unknown. */
  readonly pid: () => number | null;
  /** Kills the writer. */
  readonly end: (reason: string) => void;
};

export type DiskWatchOptions = Pick<DriverParts, "clock" | "log"> & {
  readonly dataDir: string;
  /** The folder that holds one folder per project. */
  readonly storageDir: string;
  /**
   * `replicaBytes` and `storageBytes`: null is no limit. `reserveBytes`: null is a reserve that is
   * derived from the size of the disk.
   */
  readonly limits: Readonly<
    Record<"replicaBytes" | "storageBytes" | "reserveBytes", number | null>
  >;
  readonly reserve: DiskReserve;
  /** True when sandboxes belong to an ordinary user; see `Sandbox`. */
  readonly isUserOwned: boolean;
};

/** How often free space is checked. */
const checkEveryMs = 500;
/** How often free space is checked while it is below the reserve, or drops quickly. */
const checkSoonMs = 100;
/**
 * Measuring is slow, since it reads all folders: a regular measurement waits for at least this many
 * times the duration of the last one.
 */
const measurePauseFactor = 10;
/** How often to measure when there is a limit, or free space is near the reserve. */
const measureEveryMs = 10_000;
/** How often to measure when there are no limits and free space is far from the reserve. */
const measureSeldomMs = 300_000;
/** When free space drops by this share of the reserve, usage is measured at once. */
const quickShare = 1 / 8;
/** Free space is near the reserve when it is less than this multiple of the reserve. */
const nearFactor = 3;
/** A disk can hold a limited number of files; this share of the number is reserved. */
const filesShare = 0.05;
/**
 * How much space must be free to create the reserve's file again, as a multiple of the reserve. It
 * is more than the whole reserve, so that the file is not created and deleted again and again.
 */
const enoughFactor = 1.25;
/** The disk is full when less than this share of the reserve is free beside the reserve's file. */
const fullShare = 1 / 8;
const nothing: DiskUsage = { bytes: 0, files: 0 };

/** The watch of one data folder. */
export class DiskWatch {
  readonly #options: DiskWatchOptions;
  readonly #writers = new Map<string, DiskWriter>();
  /**
   * The usage that the next measurement is compared with, by id of a project or a writer; see
   * `#remember`.
   */
  readonly #usageBefore = new Map<string, DiskUsage>();
  /**
   * Projects with writers that have ended. Their storage is measured even if no other writer runs;
   * they are forgotten at the next measurement that begins with enough space.
   */
  readonly #projectsOfEnded = new Set<ProjectId>();
  /** Projects whose storage filled the disk, until there is enough space, each with the reason. */
  readonly #blocked = new Map<ProjectId, string>();
  /** The storage limits of projects that have a limit of their own, in bytes. */
  readonly #ownStorageBytes = new Map<ProjectId, number>();
  readonly #loop: Loop;
  /** The limits at the last check; null before the first one. */
  #limits: rules.DiskLimits | null = null;
  #state: rules.DiskState = "enough";
  #freeSpace: rules.FreeSpace = { bytes: 0, files: null };
  /** When the last measurement ended. */
  #measuredAtMs = Number.NEGATIVE_INFINITY;
  /** How long the last measurement took. */
  #measureMs = 0;
  /** The free space when the last measurement ended. */
  #freeAtMeasure: rules.FreeSpace = { bytes: 0, files: null };
  /** True when something has changed that needs a measurement soon. */
  #isChanged = false;
  /** True when the last measurement found no writer to end. */
  #isSettled = false;
  /** Cancels the check that follows after `checkSoonMs`. */
  #cancelSoon: (() => void) | undefined;
  /** The measurement in progress. */
  #measuring: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(options: DiskWatchOptions) {
    this.#options = options;
    const { clock, log } = options;
    this.#loop = new Loop({
      name: "disk",
      intervalMs: checkEveryMs,
      clock,
      log,
      turn: () => this.#turn(),
    });
  }

  /** Resolves when the state of the disk is known. */
  async open(): Promise<void> {
    await this.#turn();
    this.#loop.start();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#cancelSoon?.();
    await this.#loop.stop();
    // The loop's last turn may have planned another check.
    this.#cancelSoon?.();
    await this.#measuring;
  }

  /**
   * Watches a writer until the returned function is called. `isEmpty`: the writer has written
   * nothing yet; otherwise its usage so far is measured first.
   */
  add(writer: DiskWriter, isEmpty: boolean): () => void {
    this.#writers.set(writer.id, writer);
    if (isEmpty) this.#usageBefore.set(writer.id, nothing);
    // Growth is counted from an earlier usage, which the writer or its project may lack.
    if (!isEmpty || !this.#usageBefore.has(writer.projectId)) {
      this.#isChanged = true;
      this.#loop.nudge();
    }
    return () => {
      this.#writers.delete(writer.id);
      this.#usageBefore.delete(writer.id);
      this.#projectsOfEnded.add(writer.projectId);
      // While space is short, a measurement has to show soon whether another writer must end.
      if (this.#state === "enough") return;
      this.#isChanged = true;
      this.#loop.nudge();
    };
  }

  /**
   * Free space on the disk including the reserve's file, and how much of it belongs to the
   * platform.
   */
  get freeSpace(): { readonly bytes: number; readonly reserveBytes: number } {
    return { bytes: this.#freeSpace.bytes, reserveBytes: this.#limits?.reserveBytes ?? 0 };
  }

  /** Why nothing of a project may start now, as a sentence; null: starts are allowed. */
  startRefusal(projectId: ProjectId): string | null {
    return this.#state === "critical"
      ? this.#shortText("nothing is started")
      : (this.#blocked.get(projectId) ?? null);
  }

  /** Why no build may start now; null: builds are allowed. */
  buildRefusal(): string | null {
    return this.#state === "enough" ? null : this.#shortText("nothing is built");
  }

  /** Why the platform should store nothing new for others; null: it may store. */
  storeRefusal(): string | null {
    return this.#state === "critical" ? this.#shortText("nothing new is stored") : null;
  }

  /** Limits the storage of one project, instead of the limit for all projects. */
  limitStorage(projectId: ProjectId, bytes: number): void {
    this.#ownStorageBytes.set(projectId, bytes);
    this.#isChanged = true;
    this.#loop.nudge();
  }

  /** Ends all replicas of a project. */
  endReplicas(projectId: ProjectId, reason: string): void {
    // The list is a copy, since a writer that ends is removed from the map.
    for (const writer of Array.from(this.#writers.values())) {
      if (writer.kind === "replica" && writer.projectId === projectId) writer.end(reason);
    }
  }

  #shortText(what: string): string {
    const { bytes, files } = this.#freeSpace;
    const areFilesShort = files !== null && files < (this.#limits?.reserveFiles ?? 0);
    const left = areFilesShort ? `${files} files` : sizeText(bytes);
    return `The platform's disk is nearly full (room for ${left}), so ${what} until its operator has freed up space.`;
  }

  async #turn(): Promise<void> {
    const disk = await diskSpace(this.#options.dataDir);
    const limits = this.#limitsOf(disk);
    this.#updateState(disk, limits);
    if (this.#measuring === undefined && this.#isMeasureDue(limits))
      this.#measuring = this.#measureAndEnd(limits);
    await this.#keepReserve(disk, limits);
    if (this.#state === "enough" && !this.#hasFallen(limits, quickShare)) return;
    this.#cancelSoon?.();
    this.#cancelSoon = this.#options.clock.after(checkSoonMs, () => this.#loop.nudge());
  }

  #limitsOf(disk: DiskSpace): rules.DiskLimits {
    const { replicaBytes, storageBytes, reserveBytes } = this.#options.limits;
    this.#limits = {
      replicaBytes,
      storageBytes,
      ownStorageBytes: this.#ownStorageBytes,
      reserveBytes: reserveBytes ?? defaultReserveBytes(disk.totalBytes),
      reserveFiles: Math.round(disk.totalFiles * filesShare),
    };
    return this.#limits;
  }

  /** Compares free space with the reserve, and logs a change of the state. */
  #updateState(disk: DiskSpace, limits: rules.DiskLimits): void {
    const previousState = this.#state;
    this.#freeSpace = {
      bytes: disk.freeBytes + this.#options.reserve.heldBytes(),
      files: disk.freeFiles,
    };
    this.#state = rules.diskState(this.#freeSpace, limits);
    if (this.#state === "enough") this.#blocked.clear();
    if (previousState === this.#state) return;
    this.#isChanged = true;
    const facts = {
      freeSpace: sizeText(this.#freeSpace.bytes),
      files: this.#freeSpace.files,
      reserve: sizeText(limits.reserveBytes),
    };
    const { log } = this.#options;
    if (this.#state === "enough") log.info(facts, "there is enough disk space again");
    else log.error({ ...facts, state: this.#state }, "the disk is nearly full: free up space");
  }

  /** True when free space has dropped by this share of the reserve since the last measurement. */
  #hasFallen({ reserveBytes, reserveFiles }: rules.DiskLimits, share: number): boolean {
    const { bytes, files } = this.#freeSpace;
    const before = this.#freeAtMeasure;
    // An unknown number of files counts as 0, and so never as fallen.
    return (
      before.bytes - bytes > reserveBytes * share ||
      (before.files ?? 0) - (files ?? 0) > reserveFiles * share
    );
  }

  #isMeasureDue(limits: rules.DiskLimits): boolean {
    if (this.#writers.size + this.#projectsOfEnded.size === 0) return false;
    const sinceMs = this.#options.clock.monotonicMs() - this.#measuredAtMs;
    const isLimited =
      limits.replicaBytes !== null ||
      limits.storageBytes !== null ||
      this.#ownStorageBytes.size > 0;
    const isNear = this.#freeSpace.bytes < limits.reserveBytes * nearFactor;
    // Without limits, and far from the reserve, no writer has to end.
    const mayEndWriters = isLimited || isNear;
    const share = this.#state === "enough" ? quickShare : rules.growthShare;
    const isUrgent = this.#isChanged || (mayEndWriters && this.#hasFallen(limits, share));
    // The pause before an urgent measurement is as long as the last measurement took.
    if (isUrgent) return sinceMs >= this.#measureMs;
    const everyMs = mayEndWriters ? measureEveryMs : measureSeldomMs;
    return sinceMs >= Math.max(everyMs, this.#measureMs * measurePauseFactor);
  }

  /**
   * Measures, and ends writers that use too much. The checks of free space go on meanwhile, since
   * measuring is slow.
   */
  async #measureAndEnd(limits: rules.DiskLimits): Promise<void> {
    try {
      const growing = await this.#measure();
      if (this.#closing.signal.aborted) return;
      this.#remember(growing, limits);
      const ended = rules
        .endings(growing, this.#freeSpace, limits)
        .flatMap((ending) => this.#end(ending));
      this.#isSettled = ended.length === 0;
    } catch (error) {
      this.#options.log.error({ err: error }, "what was written to the disk could not be measured");
    } finally {
      this.#measuring = undefined;
      this.#loop.nudge();
    }
  }

  /** Measures all writers, and the storage of their projects. */
  async #measure(): Promise<readonly rules.Growing[]> {
    const { clock, storageDir, isUserOwned } = this.#options;
    const beganAtMs = clock.monotonicMs();
    this.#isChanged = false;
    const writers = [...this.#writers.values()].map((writer) => ({
      writer,
      folders: writer.folders(),
    }));
    const projects = new Set(this.#projectsOfEnded);
    for (const { writer } of writers) projects.add(writer.projectId);
    if (this.#state === "enough") this.#projectsOfEnded.clear();
    const storages = new Map<ProjectId, readonly string[]>();
    for (const projectId of projects)
      storages.set(projectId, storageFolders(storageDir, projectId));
    const storagePaths = [...storages.values()].flat();
    const writerPaths = writers.flatMap((each) => each.folders);
    const paths = [...new Set([...storagePaths, ...writerPaths])];
    const usage = await measure(paths, { isUserOwned, signal: this.#closing.signal });
    const growing: rules.Growing[] = [];
    const add = (kind: rules.Growing["kind"], id: string, now: DiskUsage | null): void => {
      if (now === null)
        this.#options.log.warn({ kind, id }, "its files on the disk cannot be counted in time");
      // What was never measured before has not grown.
      const before = this.#usageBefore.get(id) ?? now ?? nothing;
      growing.push({ kind, id, now, before });
    };
    // A folder that does not exist has no entry in `usage`. A folder whose files could not be
    // counted in time has the entry null.
    const sizesOf = (folders: readonly string[]): (DiskUsage | null)[] =>
      folders.map((folder) => {
        const size = usage.get(folder);
        return size === undefined ? nothing : size;
      });
    for (const [projectId, folders] of storages) {
      const hasFolder = folders.some((folder) => usage.has(folder));
      if (hasFolder) add("storage", projectId, sumOf(sizesOf(folders)));
    }
    for (const { writer, folders } of writers) {
      const sizes = sizesOf(folders);
      add(writer.kind, writer.id, sumOf([...sizes, await this.#deletedUsage(writer)]));
    }
    this.#measuredAtMs = clock.monotonicMs();
    this.#measureMs = this.#measuredAtMs - beganAtMs;
    this.#freeAtMeasure = this.#freeSpace;
    return growing;
  }

  /**
   * The usage of deleted files that the writer's processes still have open; null when it cannot be
   * counted in time.
   */
  async #deletedUsage({ pid }: DiskWriter): Promise<DiskUsage | null> {
    const firstPid = process.platform === "linux" ? pid() : null;
    if (firstPid === null) return nothing;
    const { signal } = this.#closing;
    const bytes = await deletedBytes(firstPid, this.#options.dataDir, { signal });
    return bytes === null ? null : { bytes, files: 0 };
  }

  /**
   * Ends a writer, or all writers of a project, and returns those that it ended. It ends none if
   * all have already exited.
   */
  #end({ kind, id, reason, now }: rules.DiskEnding): readonly DiskWriter[] {
    if (kind === "storage" && this.#state !== "enough") this.#blocked.set(id as ProjectId, reason);
    // While there is enough space, a storage can only be over its limit.
    const isOver = kind === "storage" && this.#state === "enough";
    // The project's next replica may run as long as the storage does not exceed this usage. The
    // usage is remembered now, before the present writers end: later it would include what the next
    // replica has written by then, which would not count as growth.
    if (isOver && now !== null) this.#usageBefore.set(id, now);
    const isMeant = (writer: DiskWriter): boolean =>
      kind === "storage" ? writer.projectId === id : writer.id === id;
    const writers = [...this.#writers.values()].filter(isMeant);
    for (const writer of writers) {
      this.#options.log.warn(
        { kind, id: writer.id, reason },
        "ended for what was written to the disk",
      );
      writer.end(reason);
    }
    return writers;
  }

  /**
   * Remembers the usage for the next comparison. In three cases a usage is remembered only if it
   * has decreased: while space is short, so that slow writers are found too; for a build, whose
   * usage counts from its beginning; and for a storage over its limit, which must not grow.
   */
  #remember(growing: readonly rules.Growing[], limits: rules.DiskLimits): void {
    for (const { kind, id, now, before } of growing) {
      const storageBytes = rules.storageLimit(limits, id);
      const hasEnded = kind !== "storage" && !this.#writers.has(id);
      if (now === null || hasEnded) continue;
      const isOver = kind === "storage" && storageBytes !== null && now.bytes > storageBytes;
      const mayRise = kind !== "build" && this.#state === "enough" && !isOver;
      if (!this.#usageBefore.has(id) || mayRise || now.bytes < before.bytes)
        this.#usageBefore.set(id, now);
    }
  }

  /** Deletes the reserve's file when the disk is full, and creates it when space is free again. */
  async #keepReserve({ freeBytes }: DiskSpace, limits: rules.DiskLimits): Promise<void> {
    const { reserve, log } = this.#options;
    const { reserveBytes } = limits;
    const heldBytes = reserve.heldBytes();
    // An app that is filling the disk would take the space of the file too. So the file is deleted
    // only when no writer is left to end and free space does not fall.
    const isCalm =
      this.#writers.size === 0 || (this.#isSettled && !this.#hasFallen(limits, rules.growthShare));
    if (heldBytes > 0 && freeBytes < reserveBytes * fullShare && isCalm) {
      reserve.release();
      log.error("the disk is full: the file that keeps space for the platform was deleted");
    }
    if (heldBytes === 0 && freeBytes > reserveBytes * enoughFactor)
      // The file holds half of the reserve; the other half is free space.
      await reserve.make(Math.round(reserveBytes / 2));
  }
}

/** The sum of the parts; null when one of them is null. */
function sumOf(parts: readonly (DiskUsage | null)[]): DiskUsage | null {
  let sum = nothing;
  for (const part of parts) {
    if (part === null) return null;
    sum = { bytes: sum.bytes + part.bytes, files: sum.files + part.files };
  }
  return sum;
}
