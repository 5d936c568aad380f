// Watches the disk of the data folder. Checks free space continuously; measures what replicas,
// builds and projects use periodically, and at once when free space drops quickly. Ends writers
// that are over a limit or fill the disk, maintains the reserve, and says which new work may start.
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
  /** Kills it. */
  readonly end: (reason: string) => void;
};

export type DiskWatchOptions = Pick<DriverParts, "clock" | "log"> & {
  readonly dataDir: string;
  /** One folder per project. */
  readonly storageDir: string;
  /** Null: no limit; for the reserve: derived from the size of the disk. */
  readonly limits: Readonly<
    Record<"replicaBytes" | "storageBytes" | "reserveBytes", number | null>
  >;
  readonly reserve: DiskReserve;
  /** As in `Sandbox`. */
  readonly isUserOwned: boolean;
};

const lookEveryMs = 500;
/** While space is short, or drops quickly. */
const lookSoonMs = 100;
/** Scanning all files is slow: spend at most one part in this many of all time on it. */
const measureShare = 10;
const measureEveryMs = 10_000;
/** When only the reserve matters. */
const measureSeldomMs = 300_000;
/**
 * Shares of the reserve: a larger drop since the last measurement triggers one at once; `nearShare`
 * says how close to the reserve that applies.
 */
const quickShare = 1 / 8;
const nearShare = 3;
const filesShare = 0.05;
/**
 * Recreate the file only with this much more than the reserve free, to avoid creating and deleting
 * it in turns.
 */
const enoughShare = 1.25;
const nothing: DiskUsage = { bytes: 0, files: 0 };

/** The watch of one data folder. */
export class DiskWatch {
  readonly #options: DiskWatchOptions;
  readonly #writers = new Map<string, DiskWriter>();
  /** Usage when there was last enough space, by folder of a project or id of a writer. */
  readonly #before = new Map<string, DiskUsage>();
  /** Projects with writers that ended since the last measurement with enough space. */
  readonly #recent = new Set<ProjectId>();
  /** Projects whose storage filled the disk, until there is space again. */
  readonly #blocked = new Map<ProjectId, string>();
  /** What the storage of projects with a limit of their own may hold. */
  readonly #ownStorageBytes = new Map<ProjectId, number>();
  readonly #loop: Loop;
  #limits: rules.DiskLimits | null = null;
  #state: rules.DiskState = "enough";
  #freeSpace: rules.FreeSpace = { bytes: 0, files: null };
  #measuredAtMs = Number.NEGATIVE_INFINITY;
  #measureMs = 0;
  #freeAtMeasure: rules.FreeSpace = { bytes: 0, files: null };
  #isNew = false;
  /** The last measurement found no writer to end. */
  #isSettled = false;
  #cancelSoon: (() => void) | undefined;
  #measuring: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(options: DiskWatchOptions) {
    this.#options = options;
    const { clock, log } = options;
    this.#loop = new Loop({
      name: "disk",
      intervalMs: lookEveryMs,
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
    this.#cancelSoon?.();
    await this.#measuring;
  }

  /**
   * Returns a function that removes the writer. `isEmpty`: it has written nothing yet; otherwise
   * its current usage is measured first.
   */
  add(writer: DiskWriter, isEmpty: boolean): () => void {
    this.#writers.set(writer.id, writer);
    if (isEmpty) this.#before.set(writer.id, nothing);
    if (!isEmpty || !this.#before.has(writer.projectId)) {
      this.#isNew = true;
      this.#loop.nudge();
    }
    return () => {
      this.#writers.delete(writer.id);
      this.#recent.add(writer.projectId);
      if (this.#state === "enough") return;
      this.#isNew = true;
      this.#loop.nudge();
      this.#before.delete(writer.id);
    };
  }

  /**
   * Free space on the disk including the reserve's file, and how much of it belongs to the
   * platform.
   */
  get freeSpace(): { readonly bytes: number; readonly reserveBytes: number } {
    return { bytes: this.#freeSpace.bytes, reserveBytes: this.#limits?.reserveBytes ?? 0 };
  }

  /** Why nothing of a project may start now, as a sentence; null when it may. */
  startRefusal(projectId: ProjectId): string | null {
    return this.#state === "critical"
      ? this.#shortText("nothing is started")
      : (this.#blocked.get(projectId) ?? null);
  }

  /** Why no build may start now. */
  buildRefusal(): string | null {
    return this.#state === "enough" ? null : this.#shortText("nothing is built");
  }

  /** Why the platform should store nothing new for others. */
  storeRefusal(): string | null {
    return this.#state === "critical" ? this.#shortText("nothing new is stored") : null;
  }

  /** What the storage of a project may hold, instead of what all may. */
  limitStorage(projectId: ProjectId, bytes: number): void {
    this.#ownStorageBytes.set(projectId, bytes);
    this.#isNew = true;
    this.#loop.nudge();
  }

  /** Ends all replicas of a project. */
  endReplicas(projectId: ProjectId, reason: string): void {
    for (const writer of Array.from(this.#writers.values())) {
      if (writer.kind === "replica" && writer.projectId === projectId) writer.end(reason);
    }
  }

  #shortText(what: string): string {
    const { bytes, files } = this.#freeSpace;
    const left =
      files !== null && files < (this.#limits?.reserveFiles ?? 0)
        ? `${files} files`
        : sizeText(bytes);
    return `The platform's disk is nearly full (room for ${left}), so ${what} until its operator has freed up space.`;
  }

  async #turn(): Promise<void> {
    const disk = await diskSpace(this.#options.dataDir);
    const limits = this.#limitsOf(disk);
    this.#look(disk, limits);
    if (this.#measuring === undefined && this.#isMeasureDue(limits))
      this.#measuring = this.#act(limits);
    await this.#keepReserve(disk, limits);
    if (this.#state === "enough" && !this.#hasFallen(limits, quickShare)) return;
    this.#cancelSoon?.();
    this.#cancelSoon = this.#options.clock.after(lookSoonMs, () => this.#loop.nudge());
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

  #look(disk: DiskSpace, limits: rules.DiskLimits): void {
    const before = this.#state;
    this.#freeSpace = {
      bytes: disk.freeBytes + this.#options.reserve.heldBytes(),
      files: disk.freeFiles,
    };
    this.#state = rules.diskState(this.#freeSpace, limits);
    if (this.#state === "enough") this.#blocked.clear();
    if (before === this.#state) return;
    this.#isNew = true;
    const said = {
      freeSpace: sizeText(this.#freeSpace.bytes),
      files: this.#freeSpace.files,
      reserve: sizeText(limits.reserveBytes),
    };
    if (this.#state === "enough") this.#options.log.info(said, "there is enough disk space again");
    else
      this.#options.log.error(
        { ...said, state: this.#state },
        "the disk is nearly full: free up space",
      );
  }

  /** True when free space dropped since the last measurement. */
  #hasFallen({ reserveBytes, reserveFiles }: rules.DiskLimits, share: number): boolean {
    const { bytes, files } = this.#freeSpace;
    const before = this.#freeAtMeasure;
    return (
      before.bytes - bytes > reserveBytes * share ||
      (before.files ?? 0) - (files ?? 0) > reserveFiles * share
    );
  }

  #isMeasureDue(limits: rules.DiskLimits): boolean {
    if (this.#writers.size + this.#recent.size === 0) return false;
    const sinceMs = this.#options.clock.monotonicMs() - this.#measuredAtMs;
    const isLimited =
      limits.replicaBytes !== null ||
      limits.storageBytes !== null ||
      this.#ownStorageBytes.size > 0;
    const isNear = this.#freeSpace.bytes < limits.reserveBytes * nearShare;
    const share = this.#state === "enough" ? quickShare : rules.growthShare;
    if (this.#isNew || ((isLimited || isNear) && this.#hasFallen(limits, share)))
      return sinceMs >= this.#measureMs;
    const everyMs = isLimited || isNear ? measureEveryMs : measureSeldomMs;
    return sinceMs >= Math.max(everyMs, this.#measureMs * measureShare);
  }

  /** Runs concurrently with the checks of free space, since counting files is slow. */
  async #act(limits: rules.DiskLimits): Promise<void> {
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

  async #measure(): Promise<readonly rules.Growing[]> {
    const { clock, storageDir, isUserOwned } = this.#options;
    const beganAtMs = clock.monotonicMs();
    this.#isNew = false;
    const writers = [...this.#writers.values()].map((writer) => ({
      writer,
      folders: writer.folders(),
    }));
    const projects = [
      ...new Set([...this.#recent, ...writers.map(({ writer }) => writer.projectId)]),
    ];
    if (this.#state === "enough") this.#recent.clear();
    const storages = new Map(
      projects.map((projectId) => [projectId, storageFolders(storageDir, projectId)]),
    );
    const folders = [
      ...new Set([...[...storages.values()].flat(), ...writers.flatMap((one) => one.folders)]),
    ];
    const usage = await measure(folders, { isUserOwned, signal: this.#closing.signal });
    const growing: rules.Growing[] = [];
    const add = (kind: rules.Growing["kind"], id: string, now: DiskUsage | null): void => {
      if (now === null)
        this.#options.log.warn({ kind, id }, "its files on the disk cannot be counted in time");
      growing.push({ kind, id, now, before: this.#before.get(id) ?? now ?? nothing });
    };
    const sizesOf = (measured: readonly string[]): (DiskUsage | null)[] =>
      measured.map((folder) => usage.get(folder) ?? (usage.has(folder) ? null : nothing));
    for (const [id, measured] of storages) {
      if (measured.some((folder) => usage.has(folder)))
        add("storage", id, sumOf(sizesOf(measured)));
    }
    for (const { writer, folders } of writers) {
      const sizes = sizesOf(folders);
      add(writer.kind, writer.id, sumOf([...sizes, await this.#deleted(writer)]));
    }
    this.#measuredAtMs = clock.monotonicMs();
    this.#measureMs = this.#measuredAtMs - beganAtMs;
    this.#freeAtMeasure = this.#freeSpace;
    return growing;
  }

  async #deleted({ pid }: DiskWriter): Promise<DiskUsage | null> {
    const first = process.platform === "linux" ? pid() : null;
    const bytes =
      first === null ? 0 : await deletedBytes(first, this.#options.dataDir, this.#closing.signal);
    return bytes === null ? null : { bytes, files: 0 };
  }

  /** Returns the writers that it ends: none for a project whose replicas have already exited. */
  #end({ kind, id, reason, now }: rules.DiskEnding): readonly DiskWriter[] {
    if (kind === "storage" && this.#state !== "enough") this.#blocked.set(id as ProjectId, reason);
    // The next replica may run as long as it does not increase that.
    else if (kind === "storage" && now !== null) this.#before.set(id, now);
    const writers = [...this.#writers.values()].filter(
      (one) => (kind === "storage" ? one.projectId : one.id) === id,
    );
    for (const writer of writers) {
      this.#options.log.warn(
        { kind, id: writer.id, reason },
        "ended for what was written to the disk",
      );
      writer.end(reason);
    }
    return writers;
  }

  /** While space is short, the old values stay, so that slow writers are found too. */
  #remember(growing: readonly rules.Growing[], limits: rules.DiskLimits): void {
    for (const { kind, id, now, before } of growing) {
      const storageBytes = rules.storageLimit(limits, id);
      if (now === null || (kind !== "storage" && !this.#writers.has(id))) continue;
      const isOver = kind === "storage" && storageBytes !== null && now.bytes > storageBytes;
      const mayRise = kind !== "build" && this.#state === "enough" && !isOver;
      if (!this.#before.has(id) || mayRise || now.bytes < before.bytes) this.#before.set(id, now);
    }
  }

  async #keepReserve({ freeBytes }: DiskSpace, limits: rules.DiskLimits): Promise<void> {
    const { reserve, log } = this.#options;
    const { reserveBytes } = limits;
    const heldBytes = reserve.heldBytes();
    // Otherwise an app that fills the disk would take that space too.
    const isCalm =
      this.#writers.size === 0 || (this.#isSettled && !this.#hasFallen(limits, rules.growthShare));
    if (heldBytes > 0 && freeBytes < reserveBytes / 8 && isCalm) {
      reserve.release();
      log.error("the disk is full: the file that keeps room for the platform was deleted");
    }
    if (heldBytes === 0 && freeBytes > reserveBytes * enoughShare)
      await reserve.make(Math.round(reserveBytes / 2));
  }
}

/** Null when any part is null. */
function sumOf(parts: readonly (DiskUsage | null)[]): DiskUsage | null {
  return parts.reduce(
    (sum, part) => sum && part && { bytes: sum.bytes + part.bytes, files: sum.files + part.files },
    nothing,
  );
}
