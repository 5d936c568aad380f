// The comparison of one load: the same calls to each contender, and what each made of them.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { callsPerReplica, coldMs } from "./contender.ts";
import { KnativeContender } from "./knative-contender.ts";
import { callsOf, type LoadShape } from "./load-shapes.ts";
import { openOurs } from "./our-contender.ts";
import { perfectLine } from "./perfect-line.ts";
import { play, type Played } from "./play.ts";

/** What a contender made of a load. */
export type Result = Pick<
  Played,
  "waitedSeconds" | "waitP99Ms" | "replicaSeconds" | "changes" | "curve"
>;

/** One load. `slipway` is set to Knative's target; `defaults` is an app that sets nothing. */
export type Compared = {
  readonly shape: LoadShape;
  readonly calls: number;
  readonly slipway: Result;
  readonly defaults: Result;
  readonly knative: Result;
  readonly perfect: Result;
};

/** The contenders, as the fields of `Compared`. */
export const contenders = ["slipway", "defaults", "knative", "perfect"] as const;

/** Each load is drawn three times, and the results are means. */
export const seeds = [1, 2, 3] as const;

/** Our settings in the comparison: Knative's target; what is not set has its default. */
export const comparedSettings = {
  scalingTarget: 70,
  cooldownPeriodSeconds: 20,
} as const satisfies Partial<AppSettings>;

/** Plays one hour to everybody, or in short without `defaults`, which then is as `slipway`. */
export async function compareLoad(
  shape: LoadShape,
  seed: number,
  { isShort }: { readonly isShort: boolean },
): Promise<Compared> {
  const calls = callsOf(shape, seed);
  const perfect = perfectLine(calls, { callsPerReplica, coldMs });
  const slipway = await play(calls, (clock) => openOurs(clock, comparedSettings));
  return {
    shape,
    calls: calls.length,
    slipway,
    defaults: isShort ? slipway : await play(calls, (clock) => openOurs(clock, {})),
    knative: await play(calls, (clock) => new KnativeContender(clock)),
    perfect: { ...perfect, waitedSeconds: 0, waitP99Ms: 0, changes: 0 },
  };
}

/** Returns the means of several hours of one load; the curves are those of the first hour. */
export function means(hours: readonly Compared[]): Compared {
  const [first] = hours;
  if (first === undefined) throw new Error("there is no hour to take a mean of");
  const mean = (numberOf: (hour: Compared) => number): number =>
    hours.reduce((sum, hour) => sum + numberOf(hour), 0) / hours.length;
  const resultOf = (who: (typeof contenders)[number]): Result => ({
    waitedSeconds: mean((hour) => hour[who].waitedSeconds),
    waitP99Ms: mean((hour) => hour[who].waitP99Ms),
    replicaSeconds: mean((hour) => hour[who].replicaSeconds),
    changes: mean((hour) => hour[who].changes),
    curve: first[who].curve,
  });
  return {
    shape: first.shape,
    calls: Math.round(mean(({ calls }) => calls)),
    slipway: resultOf("slipway"),
    defaults: resultOf("defaults"),
    knative: resultOf("knative"),
    perfect: resultOf("perfect"),
  };
}
