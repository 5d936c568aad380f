// How much each volume may hold, and how much it held at the last count.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import type { Files } from "#drivers/storage-files.ts";
import { sizeText } from "#lib/disk-full.ts";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";
import { LruMap } from "#lib/lru-map.ts";
import { readSize, readSizes } from "./volume-store.ts";
import type { Foundation } from "#store/foundation.ts";

export type VolumeSpaceOptions = Pick<Foundation, "db" | "clock"> & {
  /** Null: only apps reach the files of volumes. */
  readonly files: Pick<Files, "usedBytes"> | null;
  /** Ends replicas that write beyond the limit. */
  readonly disk: { limitStorage(projectId: ProjectId, bytes: number): void };
  readonly ownerKeyOf: OwnerKeyOf;
  /** The operator's limit, which no volume may exceed; null: none. */
  readonly bytesMax: number | null;
};

/** What a count has found, and how long it is valid. `bytes` null: there are too many files. */
type Count = { readonly bytes: number | null; readonly untilMs: number };

/** Bytes of a GB, in which volumes are sized. */
export const gbBytes = 1e9;
/** Counting is slow: a count is valid for at least this many times as long as it took. */
const countValidFactor = 20;
/** The minimum time for which a count is valid. */
const freshMs = 10_000;
/** The maximum number of volumes whose counts are kept, and of counts that wait for their turn. */
const volumesMax = 1_000;
/** How many counts run at the same time: they keep the disk busy. */
const countsAtOnce = 2;

/** The size, limit and used bytes of every project's volume. */
export class VolumeSpace {
  readonly #options: VolumeSpaceOptions;
  readonly #sizesGb = new Map<ProjectId, number>();
  readonly #counted = new LruMap<ProjectId, Count>(volumesMax);
  /** The counts under way; not those that began before files were removed. */
  readonly #counting = new Map<ProjectId, Promise<number | null>>();
  /** The key is an owner, of whose volumes only one is counted at a time. */
  readonly #gate = new Gate({ max: countsAtOnce, keyMax: 1, waitingMax: volumesMax });
  readonly #closing = new AbortController();

  constructor(options: VolumeSpaceOptions) {
    this.#options = options;
  }

  /** Loads the sizes and limits the volumes. Call it once, before apps run. */
  async open(): Promise<void> {
    for (const { projectId, sizeGb } of await readSizes(this.#options.db))
      this.#setSize(projectId, sizeGb);
  }

  /** Ends the counts under way. */
  close(): void {
    this.#closing.abort();
    this.#gate.close();
  }

  /** The largest size that a volume may have, in GB; null: any. */
  get sizeGbMax(): number | null {
    const { bytesMax } = this.#options;
    return bytesMax === null ? null : bytesMax / gbBytes;
  }

  /** The size of a volume in GB; null: limited only by the disk. */
  sizeGb(projectId: ProjectId): number | null {
    const ownGb = this.#sizesGb.get(projectId) ?? null;
    const max = this.sizeGbMax;
    if (ownGb === null) return max;
    if (max === null) return ownGb;
    // The operator may have lowered the maximum since the size was set.
    return Math.min(ownGb, max);
  }

  /** Reads the size again after it was changed. */
  async sizeChanged(projectId: ProjectId): Promise<void> {
    const sizeGb = await readSize(this.#options.db, projectId);
    if (sizeGb !== null) this.#setSize(projectId, sizeGb);
  }

  /**
   * The bytes that a volume holds. Null: there are too many files to count them in time, too many
   * counts wait, or only apps reach the files. `isNew`: the result of the last count is not used,
   * even if it is still valid, but a count that is under way is.
   */
  async usedBytes(projectId: ProjectId, { isNew = false } = {}): Promise<number | null> {
    if (this.#options.files === null) return null;
    const counted = this.#counted.get(projectId);
    if (!isNew && counted !== undefined && counted.untilMs > this.#options.clock.monotonicMs())
      return counted.bytes;
    return await (this.#counting.get(projectId) ?? this.#beginCount(projectId));
  }

  /** Adds bytes that the platform has written to the volume. */
  noteWritten(projectId: ProjectId, bytes: number): void {
    const counted = this.#counted.get(projectId);
    if (counted === undefined || counted.bytes === null) return;
    this.#counted.set(projectId, { ...counted, bytes: counted.bytes + bytes });
  }

  /** Forgets the last count after a removal: the next caller counts again. */
  noteRemoved(projectId: ProjectId): void {
    this.#counted.delete(projectId);
    // What is being counted may be gone by now.
    this.#counting.delete(projectId);
  }

  /**
   * Throws `Fault("too_large" | "not_usable")` when the volume must not hold that many bytes more.
   */
  async requireSpace(projectId: ProjectId, bytes: number): Promise<void> {
    const sizeGb = this.sizeGb(projectId);
    if (sizeGb === null) return;
    const used = await this.usedBytes(projectId);
    if (used === null)
      throw new Fault(
        "not_usable",
        "The volume holds so many files that they cannot be counted: remove some first.",
      );
    if (used + bytes <= sizeGb * gbBytes) return;
    const text = `The volume holds ${sizeText(used)} of ${sizeGb} GB, and this takes ${sizeText(bytes)}: remove files, or resize the volume. What was removed counts until its space is free, which takes some seconds.`;
    throw new Fault("too_large", text);
  }

  /** Begins a count, whose result is kept unless files are removed meanwhile. */
  #beginCount(projectId: ProjectId): Promise<number | null> {
    const counting = this.#count(projectId);
    const isCurrent = (): boolean => this.#counting.get(projectId) === result;
    const result = counting
      .then((count) => {
        if (count !== null && isCurrent()) this.#counted.set(projectId, count);
        return count?.bytes ?? null;
      })
      .finally(() => {
        if (isCurrent()) this.#counting.delete(projectId);
      });
    this.#counting.set(projectId, result);
    return result;
  }

  /** Counts when it is this owner's turn; null: too many counts wait, or the platform stops. */
  async #count(projectId: ProjectId): Promise<Count | null> {
    const { clock, files, ownerKeyOf } = this.#options;
    const leave = await this.#gate.enter({ key: await ownerKeyOf(projectId) });
    if (leave === null) return null;
    try {
      const beganMs = clock.monotonicMs();
      const bytes = (await files?.usedBytes(projectId, this.#closing.signal)) ?? null;
      const endedMs = clock.monotonicMs();
      const untilMs = endedMs + Math.max(freshMs, (endedMs - beganMs) * countValidFactor);
      return { bytes, untilMs };
    } finally {
      leave();
    }
  }

  #setSize(projectId: ProjectId, sizeGb: number): void {
    this.#sizesGb.set(projectId, sizeGb);
    // The size is set by now, so that the default only satisfies the compiler.
    this.#options.disk.limitStorage(projectId, (this.sizeGb(projectId) ?? sizeGb) * gbBytes);
  }
}
