// Decides which replicas and builds to end because of what they wrote to the disk: writers over a
// limit and, when space is short, the writers that have grown most since there was enough space.
// Pure.
import { sizeText } from "#lib/disk-full.ts";
import type { DiskUsage } from "./disk-usage.ts";

/** Limits for writers, null for none, and how much to keep free. */
export type DiskLimits = {
  readonly replicaBytes: number | null;
  readonly storageBytes: number | null;
  /** The storage limits of projects that have their own. */
  readonly ownStorageBytes: ReadonlyMap<string, number>;
  readonly reserveBytes: number;
  /** How many more files must still be possible on the disk. */
  readonly reserveFiles: number;
};

/**
 * One or more folders that grow together: those of a replica or build, or the storage of a project,
 * shared by its replicas.
 */
export type Growing = {
  readonly kind: "replica" | "build" | "storage";
  /** Id of the replica, build or project. */
  readonly id: string;
  /** Null: not measured before the timeout. */
  readonly now: DiskUsage | null;
  /** The usage from which growth is counted: usually when there was last enough space. */
  readonly before: DiskUsage;
};

/** Free space, including the reserve itself. */
export type FreeSpace = { readonly bytes: number; readonly files: number | null };

export type DiskState = "enough" | "short" | "critical";

/** A replica or build to end, or a project whose replicas and builds are to end. */
export type DiskEnding = {
  readonly kind: Growing["kind"];
  readonly id: string;
  readonly reason: string;
  readonly now: DiskUsage | null;
};

type Measured = Growing & { readonly now: DiskUsage };

/** Below this share of the reserve only the platform's own work continues. */
const criticalShare = 1 / 4;
/** A share of the reserve: smaller growth since there was enough space does not count. */
export const growthShare = 1 / 64;
/** Smaller growth does not count, however small the reserve is. */
const growthBytesMin = 1_048_576;
const growthFilesMin = 1000;

/**
 * `short`: less than the reserve. `critical`: so little that the platform stores nothing new for
 * others.
 */
export function diskState(freeSpace: FreeSpace, limits: DiskLimits): DiskState {
  const { bytes, files } = freeSpace;
  // The reserve may be 0.
  const bytesShare = bytes / Math.max(1, limits.reserveBytes);
  const filesShare = files === null ? 1 : files / Math.max(1, limits.reserveFiles);
  const share = Math.min(bytesShare, filesShare);
  if (share < criticalShare) return "critical";
  return share < 1 ? "short" : "enough";
}

/**
 * The writers to end now, each with the reason for its owner. A writer that cannot be measured in
 * time counts as filling the disk; otherwise having many files would be the way to fill it.
 */
export function endings(
  growing: readonly Growing[],
  freeSpace: FreeSpace,
  limits: DiskLimits,
): readonly DiskEnding[] {
  const measured = growing.filter((writer): writer is Measured => writer.now !== null);
  const overLimits: DiskEnding[] = [];
  for (const writer of measured) {
    const reason = overLimit(writer, limits);
    if (reason !== null) overLimits.push(endingOf(writer, reason));
  }
  // Nobody else has to end before the end of these writers shows whether space is still short.
  if (overLimits.length > 0 || diskState(freeSpace, limits) === "enough") return overLimits;
  // True when there are enough bytes, but too few more files are possible.
  const areFilesShort =
    freeSpace.files !== null &&
    freeSpace.files < limits.reserveFiles &&
    freeSpace.bytes >= limits.reserveBytes;
  const slow = growing
    .filter(({ now }) => now === null)
    .map((writer) => endingOf(writer, slowReason(writer, freeSpace, areFilesShort)));
  const growth = ({ now, before }: Measured): number =>
    areFilesShort ? now.files - before.files : now.bytes - before.bytes;
  const growthMin = areFilesShort
    ? Math.max(growthFilesMin, limits.reserveFiles * growthShare)
    : Math.max(growthBytesMin, limits.reserveBytes * growthShare);
  const growthMax = Math.max(...measured.map(growth), 0);
  if (growthMax < growthMin) return slow;
  // Writers that fill the disk at a similar pace end together.
  const culprits = measured.filter((writer) => growth(writer) >= growthMax / 2);
  return [
    ...culprits.map((writer) => endingOf(writer, grownReason(writer, freeSpace, areFilesShort))),
    ...slow,
  ];
}

function endingOf({ kind, id, now }: Growing, reason: string): DiskEnding {
  return { kind, id, now, reason };
}

/**
 * Why a writer is over its limit; null: it is not. A project over its limit may continue as long as
 * its storage does not grow by more than `growthBytesMin`, so that its apps can delete the excess.
 */
function overLimit({ kind, id, now, before }: Measured, limits: DiskLimits): string | null {
  const { replicaBytes } = limits;
  if (kind === "storage") {
    const storageBytes = storageLimit(limits, id);
    if (storageBytes === null || now.bytes <= Math.max(storageBytes, before.bytes + growthBytesMin))
      return null;
    const hasOwnLimit = limits.ownStorageBytes.has(id);
    const setting = hasOwnLimit ? "the size of its volume" : "SLIPWAY_STORAGE_LIMIT_GB";
    return `The project's storage holds ${sizeText(now.bytes)}, more than its limit of ${sizeText(storageBytes)} (${setting}): delete files in /persistent-storage or in its apps' own storage; it must not grow.`;
  }
  // Folders that a build shares with others already had content when it began.
  const written = kind === "build" ? now.bytes - before.bytes : now.bytes;
  if (replicaBytes === null || written <= replicaBytes) return null;
  const what = kind === "build" ? "The build" : "The replica";
  const alternative = kind === "build" ? "" : ", or keep files in /persistent-storage";
  return `${what} has written ${sizeText(written)} to the disk (its files, home and /tmp), more than its limit of ${sizeText(replicaBytes)} (SLIPWAY_REPLICA_DISK_GB): make it write less${alternative}.`;
}

/** The maximum bytes of the storage of a project; null: no limit. */
export function storageLimit(
  { ownStorageBytes, storageBytes }: Pick<DiskLimits, "ownStorageBytes" | "storageBytes">,
  projectId: string,
): number | null {
  return ownStorageBytes.get(projectId) ?? storageBytes;
}

function nearlyFull(freeSpace: FreeSpace, areFilesShort: boolean): string {
  const left = areFilesShort ? `${freeSpace.files} more files` : sizeText(freeSpace.bytes);
  return `The machine's disk is nearly full (room for ${left})`;
}

function grownReason(
  { kind, now, before }: Measured,
  freeSpace: FreeSpace,
  areFilesShort: boolean,
): string {
  const grown = areFilesShort
    ? `${now.files - before.files} files`
    : sizeText(now.bytes - before.bytes);
  const advice = "make it write less, or ask the operator for a larger disk";
  const start = nearlyFull(freeSpace, areFilesShort);
  if (kind === "storage")
    return `${start}, and the project's storage has grown by ${grown}: delete files in /persistent-storage or in its apps' own storage, ${advice}.`;
  const what = kind === "build" ? "this build" : "this replica";
  return `${start}, and ${what} has written ${grown}: ${advice}.`;
}

function slowReason({ kind }: Growing, freeSpace: FreeSpace, areFilesShort: boolean): string {
  const what = { storage: "the project's storage", build: "this build", replica: "this replica" }[
    kind
  ];
  return `${nearlyFull(freeSpace, areFilesShort)}, and ${what} holds so many files that they cannot be counted in time: keep fewer files, or ask the operator for a larger disk.`;
}
