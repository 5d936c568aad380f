// The shapes of answers about roll-outs.
import { z } from "zod";
import { rollOutStates } from "./words.ts";

const time = z.iso.datetime();

/**
 * The calls that replicas of a release have worked on since the platform started; `failures`:
 * status 500 or above, or broken off.
 */
const releaseCalls = z.strictObject({ calls: z.int().min(0), failures: z.int().min(0) });

/** A roll-out; `release` and `fromRelease` are numbers of releases. */
export const rollOut = z.strictObject({
  state: z.enum(rollOutStates),
  release: z.int(),
  fromRelease: z.int(),
  /** Percent of the calls that the new release is to get in this step. */
  share: z.int(),
  /** Percent of the calls that it gets now: less while its replicas start. */
  currentShare: z.int(),
  durationSeconds: z.number(),
  calls: z.strictObject({ release: releaseCalls, fromRelease: releaseCalls }),
  startedAt: time,
  /** When the share grows next; null while it is paused, and after its end. */
  nextStepAt: time.nullable(),
  endedAt: time.nullable(),
  /** Why it ended, unless it finished. */
  reason: z.string().nullable(),
});
