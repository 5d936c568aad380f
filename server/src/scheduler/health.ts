// Monitors one replica. Polls quickly until its ready check passes. From then on, a replica with a
// health check is checked periodically: unless it is ready it gets no calls, and unless it is
// healthy it is replaced. One without a health check is not checked again.
import type { Address } from "#drivers/driver.ts";
import type { ReplicaChecks } from "#drivers/readiness.ts";
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { Clock } from "#lib/clock.ts";
import type { Probe, ProbeAnswer } from "./probe.ts";

export type HealthChecks = ReplicaChecks & { readonly address: Address };

export type HealthEvents = {
  readonly onReady: () => void;
  /** Called after each check while the replica is not ready yet, with the reason. */
  readonly onNotReady: (reason: string) => void;
  /** Called when the result of the replica's ready check changes. */
  readonly onRouted: (isRouted: boolean) => void;
  /** Called when the replica's health check fails too often in a row; no checks follow. */
  readonly onUnhealthy: (reason: string) => void;
};

/**
 * The pauses between ready checks: a fast start is noticed within milliseconds, and a slow start
 * with a delay of a tenth of its duration.
 */
const readyPauses: Backoff = { firstMs: 5, factor: 2, msMax: 50, jitter: 0 };
/** How long the pause of a slow start is, as a part of the time that the start has taken. */
const slowShare = 1 / 10;
/** The longest pause of a slow start. */
const slowMsMax = 500;
/** How long one ready check may take before the replica is ready. */
const readyTimeoutMs = 2000;
/** The interval of checks of a ready replica: the default of Kubernetes liveness checks. */
const checkIntervalMs = 10_000;
/** The interval after a failed check: shorter, since calls may wait for the replica. */
const unroutedIntervalMs = 1000;
/** A single-threaded server does not answer while it computes, and must not count as dead. */
const checkTimeoutMs = 10_000;
/** After so many failed health checks in a row, a replica is replaced. */
const failuresMax = 5;

type Watch = {
  readonly checks: HealthChecks;
  /** True when the replica has been ready before. */
  readonly isReady: boolean;
  readonly events: HealthEvents;
  readonly probe: Probe;
  readonly clock: Clock;
  readonly signal: AbortSignal;
};

/** Monitors until `signal` is aborted or the replica is unhealthy; never rejects. */
export async function watchHealth(watch: Watch): Promise<void> {
  if (!watch.isReady && !(await waitUntilReady(watch))) return;
  await checkRegularly(watch);
}

/**
 * True once the replica is ready; false: `signal` was aborted before. The health check must pass,
 * too: a replica that fails it would soon be ended.
 */
async function waitUntilReady({ checks, events, probe, clock, signal }: Watch): Promise<boolean> {
  const { address, ready, health } = checks;
  const endpoints = health === null || health === ready ? [ready] : [ready, health];
  const beganMs = clock.monotonicMs();
  for (let attempt = 1; !signal.aborted; attempt++) {
    let answer: ProbeAnswer = { ok: true };
    const attemptBeganMs = clock.monotonicMs();
    for (const endpoint of endpoints) {
      // The health check may take as long here as it may once the replica is ready.
      const timeoutMs = endpoint === ready ? readyTimeoutMs : checkTimeoutMs;
      if (answer.ok) answer = await probe({ address, endpoint, timeoutMs, signal });
    }
    if (signal.aborted) return false;
    if (answer.ok) {
      events.onReady();
      return true;
    }
    events.onNotReady(answer.reason);
    // The cortex runtime answers a ready check only when the app is imported. A check that took so
    // long was waiting for that, as the next one will be, so no pause is needed between them.
    if (clock.monotonicMs() - attemptBeganMs >= readyTimeoutMs) continue;
    const slowMs = Math.min(slowMsMax, Math.round((clock.monotonicMs() - beganMs) * slowShare));
    // The pauses have no jitter, so the random number does not matter.
    const fastMs = backoffMs(readyPauses, attempt, 0.5);
    await pause(clock, Math.max(slowMs, fastMs), signal);
  }
  return false;
}

/** Checks a ready replica; returns at once if its app has no health check. */
async function checkRegularly({ checks, events, probe, clock, signal }: Watch): Promise<void> {
  const { ready, health: healthPath } = checks;
  if (healthPath === null) return;
  const check = (endpoint: string): Promise<ProbeAnswer> =>
    probe({ address: checks.address, endpoint, timeoutMs: checkTimeoutMs, signal });
  let isRouted = true;
  let failures = 0;
  while (!signal.aborted) {
    const hasPassed = isRouted && failures === 0;
    await pause(clock, hasPassed ? checkIntervalMs : unroutedIntervalMs, signal);
    if (signal.aborted) return;
    const health = await check(healthPath);
    const readiness = ready === healthPath ? health : await check(ready);
    if (signal.aborted) return;
    if (readiness.ok !== isRouted) {
      isRouted = readiness.ok;
      events.onRouted(isRouted);
    }
    failures = health.ok ? 0 : failures + 1;
    if (!health.ok && failures >= failuresMax) {
      events.onUnhealthy(`Its health check failed ${failures} times in a row. ${health.reason}`);
      return;
    }
  }
}

/** Resolves after the time, or when the signal is aborted. */
function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return clock.sleep(ms, signal).catch(() => undefined);
}
