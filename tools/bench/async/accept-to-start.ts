// Latency from the answer that a run is accepted until it starts, on a warm and nearly idle app.
// Runs arrive over HTTP one by one at a steady rate, and the contender records when each starts.
import { Gathered, type Rounds, type Scene } from "./accept-and-finish.ts";
import { quantile } from "./closed-loop.ts";
import { addOne, type Contender } from "./contender.ts";
import { monotonicMs } from "./monotonic.ts";
import type { Starts } from "./queue-peer.ts";

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
  scene: Scene,
): Promise<Rounds<Started>> {
  const gathered = new Gathered<Started>(scene.print);
  for (let round = 0; round <= scene.options.rounds; round++) {
    for (const contender of contenders) {
      const one = await oneRound(contender, scene.options.seconds);
      const line = `begins ${one.startedP50Ms.toFixed(2)} ms after it is accepted, p99 ${one.startedP99Ms.toFixed(2)} ms`;
      // The first round warms up: node compiles hot code.
      if (round > 0) gathered.add(contender.name, one, line);
    }
  }
  return gathered.rounds;
}

type Sent = { readonly id: string; readonly sentMs: number; readonly acceptedMs: number };

async function oneRound(contender: Contender, seconds: number): Promise<Started> {
  await contender.work();
  const asked = contender.asked(0);
  const beganMs = monotonicMs();
  const sent = Array.from({ length: seconds * perSecond }, async (_, index): Promise<Sent> => {
    // With jitter, so that no timer runs in step with it.
    const atMs = beganMs + ((index + Math.random()) * 1000) / perSecond;
    await new Promise((resolve) => setTimeout(resolve, atMs - monotonicMs()));
    const sentMs = monotonicMs();
    const id = await addOne(asked);
    return { id, sentMs, acceptedMs: monotonicMs() };
  });
  const all = await Promise.all(sent);
  await contender.rest();
  return summary(all, await contender.starts());
}

function summary(all: readonly Sent[], starts: Starts): Started {
  const times = all.map(({ id, sentMs, acceptedMs }) => {
    const startedMs = starts[id];
    if (startedMs === undefined) throw new Error(`run ${id} has not begun`);
    return {
      accepted: acceptedMs - sentMs,
      started: Math.max(0, startedMs - acceptedMs),
      whole: startedMs - sentMs,
    };
  });
  const of = (name: "accepted" | "started" | "whole", share: number): number =>
    quantile(
      times.map((time) => time[name]),
      share,
    );
  return {
    acceptedP50Ms: of("accepted", 0.5),
    startedP50Ms: of("started", 0.5),
    startedP99Ms: of("started", 0.99),
    sentToStartedP50Ms: of("whole", 0.5),
  };
}
