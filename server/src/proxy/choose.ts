// Chooses the replica for the next call, by one of the four algorithms that an app can select. Pure
// except for the round-robin cursor. Only replicas with capacity are chosen, except by
// random-choice-2, which looks at load alone.
import type { LoadBalancingAlgorithm } from "@slipway/contract/app-choices.ts";
import { never } from "#lib/assert.ts";

/** A replica as seen by the choice. */
export type Candidate = {
  /** The number of calls that it works on. */
  readonly running: number;
  /** The maximum number of concurrent calls. */
  readonly concurrency: number;
};

/** The round-robin cursor: the index of the candidate that is tried first. One per app. */
export type RoundRobin = { next: number };

/**
 * The maximum number of calls on one replica, even with random-choice-2, which ignores the app's
 * limit: more calls are a mistake.
 */
const runningMax = 10_000;

/**
 * The index of the chosen replica in `candidates`; -1: none can take a call now. `random` returns
 * numbers from 0 up to, but not including, 1.
 */
export function choose(
  algorithm: LoadBalancingAlgorithm,
  candidates: readonly Candidate[],
  cursor: RoundRobin,
  random: () => number,
): number {
  switch (algorithm) {
    case "round-robin":
      return roundRobin(candidates, cursor);
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

function roundRobin(candidates: readonly Candidate[], cursor: RoundRobin): number {
  const count = candidates.length;
  let index = cursor.next < count ? cursor.next : 0;
  for (let tries = 0; tries < count; tries++) {
    if (hasCapacity(candidates[index] as Candidate)) {
      cursor.next = index + 1;
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
 * Ties go to the first replica. The replica with the fewest calls is skipped if it is full: its
 * concurrency may be lower than that of others.
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

/** Draws two replicas at random, and takes the one with fewer calls. */
function betterOfTwo(candidates: readonly Candidate[], random: () => number): number {
  const count = candidates.length;
  if (count === 0) return -1;
  const first = count === 1 ? 0 : Math.floor(random() * count);
  // The second replica always differs from the first.
  const second = count === 1 ? 0 : (first + 1 + Math.floor(random() * (count - 1))) % count;
  const firstRunning = (candidates[first] as Candidate).running;
  const secondRunning = (candidates[second] as Candidate).running;
  const isFirst = firstRunning === secondRunning ? random() < 0.5 : firstRunning < secondRunning;
  // Even the replica with fewer calls may have the maximum.
  if (Math.min(firstRunning, secondRunning) >= runningMax) return -1;
  return isFirst ? first : second;
}
