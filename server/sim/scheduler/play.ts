// Plays a load to a contender, and measures what callers wait and what replicas cost.
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { loadAppId, type Contender } from "./contender.ts";
import { hourSeconds, type LoadCall } from "./load-shapes.ts";

/** What came out of a load. */
export type Played = {
  /** Over all calls. */
  readonly waitedSeconds: number;
  readonly waitP99Ms: number;
  readonly waitMsMax: number;
  /** The share of calls that had to wait. */
  readonly waitedShare: number;
  readonly replicaSeconds: number;
  /** How often the number of replicas grew or fell from one second to the next. */
  readonly changes: number;
  /** Replicas at each second of the hour. */
  readonly curve: readonly number[];
};

/** After the hour, until the last replica could be gone. */
const tailSeconds = 300;
const sampleMs = 100;

/** Plays all calls, then waits until there is no replica, for at most `tailSeconds`. */
export async function play(
  calls: readonly LoadCall[],
  open: (clock: VirtualClock) => Promise<Contender> | Contender,
): Promise<Played> {
  const clock = new VirtualClock();
  const contender = await open(clock);
  const waits: number[] = [];
  contender.proxy.onBegin = (waitedMs) => void waits.push(waitedMs);
  arrive(clock, contender, calls);
  const counts: number[] = [];
  const sample = (): void => {
    counts.push(contender.replicaCount());
    clock.after(sampleMs, sample);
  };
  sample();
  await clock.advance((hourSeconds + tailSeconds) * 1000);
  await Promise.all([contender.stop(), clock.advance(10_000)]);
  if (waits.length !== calls.length)
    throw new Error(`${waits.length} of ${calls.length} calls began`);
  return resultOf(waits, counts);
}

function arrive(clock: VirtualClock, { proxy }: Contender, calls: readonly LoadCall[]): void {
  const next = (index: number): void => {
    const call = calls[index];
    if (call === undefined) return;
    clock.after(call.atMs - clock.monotonicMs(), () => {
      proxy.call(loadAppId, call.durationMs);
      next(index + 1);
    });
  };
  next(0);
}

function resultOf(waits: number[], counts: readonly number[]): Played {
  const sorted = waits.toSorted((left, right) => left - right);
  const curve = counts.filter((_, index) => index % (1000 / sampleMs) === 0);
  return {
    waitedSeconds: waits.reduce((sum, one) => sum + one, 0) / 1000,
    waitP99Ms: sorted[Math.floor(sorted.length * 0.99)] ?? 0,
    waitMsMax: sorted.at(-1) ?? 0,
    waitedShare: waits.filter((one) => one > 0).length / Math.max(1, waits.length),
    replicaSeconds: counts.reduce((sum, one) => sum + one, 0) * (sampleMs / 1000),
    changes: curve.filter((count, second) => second > 0 && count !== curve[second - 1]).length,
    curve,
  };
}
