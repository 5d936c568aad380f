// The sources that metering measures: a replica while its process runs, a build while it makes an
// environment, and the storage of a project while its size stays the same. Pure.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { PricedResources } from "./prices.ts";
import type { Slice } from "./slices.ts";

/**
 * `run`: a replica; `build`: a build that makes an environment; `storage`: the volume of a project
 * while its size stays the same.
 */
export type SourceKind = "run" | "build" | "storage";

/** A source that is not yet metered to its end. */
export type MeteredSource = {
  /** The id of the row that is metered. */
  readonly id: string;
  readonly kind: SourceKind;
  readonly projectId: ProjectId;
  /** Empty: the source belongs to the project itself. */
  readonly appId: AppId;
  /** The resources that have a price; for a volume, the GB that it holds. */
  readonly resources: PricedResources;
  readonly startMs: number;
  /** The latest time at which the source is known to have run or existed. */
  readonly endMs: number;
  /** True when the source ended at `endMs`; false when it may continue. */
  readonly isEnded: boolean;
  /** The last slice that begins at or before `endMs`, and all later ones. */
  readonly known: readonly Slice[];
};

/** The result of one metering step for a source. */
export type Metered = {
  readonly source: MeteredSource;
  /** The slices that replace the known ones. */
  readonly slices: readonly Slice[];
  /** The source is metered up to this time. */
  readonly untilMs: number;
  /** True when the source has ended and is metered to its end. */
  readonly isDone: boolean;
};

/**
 * The pool as text: `provider/region`, or `provider` without a region; the part before a region is
 * empty without a provider.
 */
export function poolOf({ provider, region }: Pick<PricedResources, "provider" | "region">): string {
  const name = provider ?? "";
  return region === null ? name : `${name}/${region}`;
}
