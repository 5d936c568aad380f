// What metering measures: a replica while its process runs, a build while it makes an environment,
// and the storage of a project while it holds the same. Pure.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { PricedResources } from "./prices.ts";
import type { Slice } from "./slices.ts";

/**
 * run: a replica; build: a build that makes an environment; storage: the volume of a project while
 * its size stays.
 */
export type SourceKind = "run" | "build" | "storage";

/** What is not yet metered to its end. */
export type MeteredSource = {
  /** The id of the row that is metered. */
  readonly id: string;
  readonly kind: SourceKind;
  readonly projectId: ProjectId;
  /** Empty: of the project itself. */
  readonly appId: AppId;
  /** What is priced; the GB of a volume are what it holds. */
  readonly resources: PricedResources;
  readonly startMs: number;
  /** Until when it certainly was so. */
  readonly endMs: number;
  /** It has ended: there is nothing after `endMs`. */
  readonly isEnded: boolean;
  /** The last slice that begins at or before `endMs`, and all later ones. */
  readonly known: readonly Slice[];
};

/** The result of one metering step for a source. */
export type Metered = {
  readonly source: MeteredSource;
  /** These replace the known slices. */
  readonly slices: readonly Slice[];
  readonly untilMs: number;
  readonly isDone: boolean;
};

/** provider/region, as far as given. */
export function poolOf({ provider, region }: Pick<PricedResources, "provider" | "region">): string {
  return `${provider ?? ""}${region === null ? "" : `/${region}`}`;
}
