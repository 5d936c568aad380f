// What is metered: a replica while its process runs, and a build while it makes an environment. Pure.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { PricedResources } from "./prices.ts";
import type { Slice } from "./slices.ts";

/** run: a replica; build: the making of an environment. */
export type SourceKind = "run" | "build";

/** One replica or build whose time has not been metered to its end. */
export type MeteredSource = {
  /** Of the replica or the build. */
  readonly id: string;
  readonly kind: SourceKind;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly resources: PricedResources;
  readonly startMs: number;
  /** Up to when it surely ran. */
  readonly endMs: number;
  /** It has ended: nothing comes after `endMs`. */
  readonly isEnded: boolean;
  /** The last slice that begins at or before `endMs`, and all after it. */
  readonly known: readonly Slice[];
};

/** What becomes of a source in one step of metering. */
export type Metered = {
  readonly source: MeteredSource;
  /** In place of those that were known. */
  readonly slices: readonly Slice[];
  readonly untilMs: number;
  readonly isDone: boolean;
};

/** provider/region, as far as they are given. */
export function poolOf({ provider, region }: Pick<PricedResources, "provider" | "region">): string {
  return provider === null
    ? region === null
      ? ""
      : `/${region}`
    : region === null
      ? provider
      : `${provider}/${region}`;
}
