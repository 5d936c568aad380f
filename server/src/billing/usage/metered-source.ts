// What metering measures: a replica while its process runs, and a build while it makes an environment. Pure.
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { PricedResources } from "./prices.ts";
import type { Slice } from "./slices.ts";

/** run: a replica; build: a build that makes an environment. */
export type SourceKind = "run" | "build";

/** A replica or build that is not yet metered to its end. */
export type MeteredSource = {
  /** Of the replica or the build. */
  readonly id: string;
  readonly kind: SourceKind;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly resources: PricedResources;
  readonly startMs: number;
  /** Until when it certainly ran. */
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
  return provider === null
    ? region === null
      ? ""
      : `/${region}`
    : region === null
      ? provider
      : `${provider}/${region}`;
}
