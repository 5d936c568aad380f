// Builds an image again when the engine, or the connection to it, broke off meanwhile, and waits for an engine that does not answer.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed, type BuildLog } from "#drivers/builder.ts";
import type { Clock } from "#lib/clock.ts";
import { retry, untilStop } from "#lib/retry.ts";
import type { Engine } from "./engine.ts";

/** Neither the app nor its image is at fault: another try rarely meets it. */
export class ConnectionBroke extends BuildFailed {}

/** How often one image is built while the connection breaks. */
const triesMax = 3;
const pauses = { firstMs: 1000, factor: 2, msMax: 10_000, jitter: 0.1 };

type RetryBuild = {
  readonly engine: Pick<Engine, "calls">;
  /** For all tries and pauses. */
  readonly waitMs: number;
  readonly log: BuildLog;
  readonly signal: AbortSignal;
  readonly clock: Clock;
};

/** Rejects with the reason of the last try, with `BuildFailed` when the engine stays away, or with the reason of `signal`. */
export async function retryBuild<Result>(
  options: RetryBuild,
  build: (endsAtMs: number) => Promise<Result>,
): Promise<Result> {
  const { engine, waitMs, log, signal, clock } = options;
  const endsAtMs = clock.monotonicMs() + waitMs;
  for (let tries = 1; ; tries++) {
    await waitForEngine(options, endsAtMs);
    try {
      return await build(endsAtMs);
    } catch (error) {
      if (signal.aborted || tries === triesMax) throw error;
      const answers = await engine.calls.ping().then(
        () => true,
        () => false,
      );
      if (answers && !(error instanceof ConnectionBroke)) throw error;
      log("prepare", "platform", "The connection to the Docker engine broke; trying again.");
    }
  }
}

async function waitForEngine({ engine, waitMs, log, signal, clock }: RetryBuild, endsAtMs: number): Promise<void> {
  const late = new AbortController();
  const cancel = clock.after(endsAtMs - clock.monotonicMs(), () => late.abort(new Error("the engine stays away")));
  const noteSilence = (_error: unknown, tries: number): void => {
    if (tries === 1)
      log("prepare", "platform", "The Docker engine does not answer. The build goes on as soon as it does.");
  };
  const until = { ...pauses, triesMax: untilStop, clock, signal: AbortSignal.any([signal, late.signal]) };
  const answer = await retry({ ...until, onFailure: noteSilence }, async () => (await engine.calls.ping(), true));
  cancel();
  signal.throwIfAborted();
  if (answer === true) return;
  throw new BuildFailed(
    `The Docker engine did not answer within ${Math.round(waitMs / 1000)} s (SLIPWAY_BUILD_TIMEOUT_SECONDS). The operator has to start it; then ${buildAgain}.`,
  );
}
