// Latency from the answer that a run is accepted until it starts, on a warm and nearly idle app.
// Runs arrive over HTTP one by one at a steady rate, and the contender records when each starts.
import { openLoop } from "#bench/harness/open-loop.ts";
import { alternate } from "#bench/harness/rounds.ts";
import { quantile } from "#bench/harness/statistics.ts";
import { addOne, type Contender } from "./contender.ts";
import { monotonicMs } from "./monotonic.ts";
import type { Rounds, Scene } from "./scene.ts";

/**
 * One round, in milliseconds. A run may start before the answer has reached the caller: that counts
 * as zero.
 */
export type Started = {
  readonly acceptedP50Ms: number;
  readonly startedP50Ms: number;
  readonly startedP99Ms: number;
  readonly sentToStartedP50Ms: number;
};

const perSecond = 100;

/** Runs all rounds. Rejects when a run did not start. */
export async function acceptToStart(
  contenders: readonly Contender[],
  { options, print }: Scene,
): Promise<Rounds<Started>> {
  const { rounds, seconds } = options;
  const cases = contenders.map(
    (contender) => [contender.name, () => oneRound(contender, seconds)] as const,
  );
  const show = ({ startedP50Ms, startedP99Ms }: Started): string =>
    `begins ${startedP50Ms.toFixed(2)} ms after it is accepted, p99 ${startedP99Ms.toFixed(2)} ms`;
  return await alternate(Object.fromEntries(cases), { rounds, print, show });
}

async function oneRound(contender: Contender, seconds: number): Promise<Started> {
  await contender.work();
  const request = contender.runRequest(0);
  const add = async () => {
    const sentMs = monotonicMs();
    const id = await addOne(request);
    return { id, sentMs, acceptedMs: monotonicMs() };
  };
  const isOver = (sent: number): boolean => sent >= seconds * perSecond;
  // Runs that arrive together would wait for each other.
  const calls = await openLoop(add, { rate: perSecond, isOver, tickMs: 1 });
  await contender.rest();
  const starts = await contender.starts();
  const times = calls.map(({ answer: { id, sentMs, acceptedMs } }) => {
    const startedMs = starts[id];
    if (startedMs === undefined) throw new Error(`run ${id} has not begun`);
    return {
      accepted: acceptedMs - sentMs,
      started: Math.max(0, startedMs - acceptedMs),
      whole: startedMs - sentMs,
    };
  });
  const started = times.map((time) => time.started);
  return {
    acceptedP50Ms: quantile(
      times.map((time) => time.accepted),
      0.5,
    ),
    startedP50Ms: quantile(started, 0.5),
    startedP99Ms: quantile(started, 0.99),
    sentToStartedP50Ms: quantile(
      times.map((time) => time.whole),
      0.5,
    ),
  };
}
