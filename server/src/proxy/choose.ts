// Chooses the replica for the next call: the four algorithms that an app can select. Pure except
// for the round-robin cursor. A replica is chosen only while it has capacity, except by
// random-choice-2, which looks at load alone.
import type { LoadBalancingAlgorithm } from "@slipway/contract/app-choices.ts";
import { never } from "#lib/assert.ts";

/** A replica as seen by the choice. */
export type Candidate = {
  readonly running: number;
  /** The maximum number of concurrent calls. */
  readonly concurrency: number;
};

/** The round-robin cursor; one per app. */
export type RoundRobin = { next: number };

/**
 * Applies even to random-choice-2, which ignores the app's limit: more calls than this on one
 * replica are a mistake.
 */
export const runningMax = 10_000;

/**
 * The index of the chosen replica in `candidates`; -1: none can take a call now. `random` is in [0,
 * 1).
 */
export function choose(
  algorithm: LoadBalancingAlgorithm,
  candidates: readonly Candidate[],
  turn: RoundRobin,
  random: () => number,
): number {
  switch (algorithm) {
    case "round-robin":
      return roundRobin(candidates, turn);
    case "first-available":
      return firstWithCapacity(candidates);
    case "min-connections":
      return fewestRunning(candidates);
    case "random-choice-2":
      return betterOfTwo(candidates, random);
    default:
      return never(algorithm);
  }
}

function hasCapacity(candidate: Candidate): boolean {
  return candidate.running < candidate.concurrency;
}

function roundRobin(candidates: readonly Candidate[], turn: RoundRobin): number {
  const count = candidates.length;
  let index = turn.next < count ? turn.next : 0;
  for (let tries = 0; tries < count; tries++) {
    if (hasCapacity(candidates[index] as Candidate)) {
      turn.next = index + 1;
      return index;
    }
    index = index + 1 === count ? 0 : index + 1;
  }
  return -1;
}

function firstWithCapacity(candidates: readonly Candidate[]): number {
  for (let index = 0; index < candidates.length; index++) {
    if (hasCapacity(candidates[index] as Candidate)) return index;
  }
  return -1;
}

/**
 * Ties go to the first. Full replicas are skipped, because concurrency may differ within one app.
 */
function fewestRunning(candidates: readonly Candidate[]): number {
  let best = -1;
  let bestRunning = Number.POSITIVE_INFINITY;
  for (let index = 0; index < candidates.length; index++) {
    const candidate = candidates[index] as Candidate;
    if (candidate.running < bestRunning && hasCapacity(candidate)) {
      best = index;
      bestRunning = candidate.running;
    }
  }
  return best;
}

function betterOfTwo(candidates: readonly Candidate[], random: () => number): number {
  const count = candidates.length;
  if (count === 0) return -1;
  const one = count === 1 ? 0 : Math.floor(random() * count);
  // The second pick is always a different replica.
  const other = count === 1 ? 0 : (one + 1 + Math.floor(random() * (count - 1))) % count;
  const oneRunning = (candidates[one] as Candidate).running;
  const otherRunning = (candidates[other] as Candidate).running;
  const isOne = oneRunning === otherRunning ? random() < 0.5 : oneRunning < otherRunning;
  if (Math.min(oneRunning, otherRunning) >= runningMax) return -1;
  return isOne ? one : other;
}
