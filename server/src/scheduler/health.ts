// Watches one replica: asks quickly until its ready check passes, then from time to time whether it is still ready (else no
// calls are sent to it) and still healthy (else it is replaced).
import type { Address } from "#drivers/driver.ts";
import type { ReplicaChecks } from "#drivers/readiness.ts";
import { backoffMs, type Backoff } from "#lib/backoff.ts";
import type { Clock } from "#lib/clock.ts";
import type { Probe, ProbeAnswer } from "./probe.ts";

export type HealthChecks = ReplicaChecks & { readonly address: Address };

export type HealthEvents = {
  readonly onReady: () => void;
  /** Whether its ready check passes; called when that changes. */
  readonly onRouted: (isRouted: boolean) => void;
  /** Its health check failed too often in a row; nothing is asked after it. */
  readonly onUnhealthy: (reason: string) => void;
};

/** One that is ready within milliseconds is found within milliseconds; a slow one is found late by a tenth of its start. */
const readyPauses: Backoff = { firstMs: 5, factor: 2, msMax: 50, jitter: 0 };
const slowShare = 1 / 10;
const slowMsMax = 500;
const readyTimeoutMs = 2000;
/** As long as Kubernetes waits between liveness checks by default. */
const checkIntervalMs = 10_000;
/** Calls may wait for a replica whose ready check fails. */
const unroutedIntervalMs = 1000;
/** A server with one thread answers nothing while it computes; that must not look like death too soon. */
const checkTimeoutMs = 10_000;
const failuresMax = 5;

/** Watches until `signal` is aborted or the replica is unhealthy; never rejects. `isReady`: it was found ready before. */
export async function watchHealth(given: {
  readonly checks: HealthChecks;
  readonly isReady: boolean;
  readonly events: HealthEvents;
  readonly probe: Probe;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}): Promise<void> {
  if (!given.isReady && !(await waitUntilReady(given))) return;
  await checkOn(given);
}

type Watch = Parameters<typeof watchHealth>[0];

async function waitUntilReady({ checks, events, probe, clock, signal }: Watch): Promise<boolean> {
  const { address, ready: endpoint } = checks;
  const beganMs = clock.monotonicMs();
  for (let attempt = 1; !signal.aborted; attempt++) {
    const answer = await probe({ address, endpoint, timeoutMs: readyTimeoutMs, signal });
    if (signal.aborted) return false;
    if (answer.ok) {
      events.onReady();
      return true;
    }
    const slowMs = Math.min(slowMsMax, Math.round((clock.monotonicMs() - beganMs) * slowShare));
    await pause(clock, Math.max(slowMs, backoffMs(readyPauses, attempt, 0.5)), signal);
  }
  return false;
}

async function checkOn({ checks, events, probe, clock, signal }: Watch): Promise<void> {
  const { ready, health: healthPath } = checks;
  if (healthPath === null) return;
  const ask = (endpoint: string): Promise<ProbeAnswer> =>
    probe({ address: checks.address, endpoint, timeoutMs: checkTimeoutMs, signal });
  let isRouted = true;
  let failures = 0;
  while (!signal.aborted) {
    await pause(clock, isRouted && failures === 0 ? checkIntervalMs : unroutedIntervalMs, signal);
    if (signal.aborted) return;
    const health = await ask(healthPath);
    const readiness = ready === healthPath ? health : await ask(ready);
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

/** Resolves after the time or when the signal is aborted. */
function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return clock.sleep(ms, signal).catch(() => undefined);
}
