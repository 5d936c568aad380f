// Builds an image again when the engine, or the connection to it, failed during the build. Waits
// for an engine that does not answer.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed, type BuildContext } from "#drivers/builder.ts";
import type { Clock } from "#lib/clock.ts";
import { retry, untilStop } from "#lib/retry.ts";
import { isUnreachable, type Engine } from "./engine.ts";
import { engineIsDown } from "./engine-outage.ts";

/** A failure that neither the app nor its image caused: another try rarely fails in this way. */
export class ConnectionBroke extends BuildFailed {}

/** The maximum number of tries for one image while the connection breaks. */
const triesMax = 3;
/** The pauses after which an engine that does not answer is asked again. */
const pauses = { firstMs: 1000, factor: 2, msMax: 10_000, jitter: 0.1 };
/** How long a try waits for the engine. */
const engineWaitMs = 600_000;

/** Messages of docker's client, of its plugin and of gRPC. */
const broken =
  /Cannot connect to the Docker daemon|error during connect|(?:^|: )unexpected EOF$|rpc error: .*(?:unexpected EOF|transport is closing|error reading from server|data exceeding the limit \d+ bytes|error code: FLOW_CONTROL_ERROR)/m;

/** Whether a message says that the connection to the engine or its builder broke. */
export function saysBroken(message: string): boolean {
  return broken.test(message);
}

type RetryBuild = Pick<BuildContext, "log" | "signal" | "onAgain"> & {
  readonly engine: Pick<Engine, "pings">;
  readonly clock: Clock;
};

/**
 * Calls `build`, at most `triesMax` times, until it succeeds or fails for a reason of its own.
 * Rejects with the reason of the last try, with `BuildFailed` when the engine stays away, or with
 * the reason of `signal`.
 */
export async function retryBuild<Result>(
  options: RetryBuild,
  build: () => Promise<Result>,
): Promise<Result> {
  const { engine, log, signal, onAgain } = options;
  for (let tries = 1; ; tries++) {
    await waitForEngine(options);
    try {
      return await build();
    } catch (error) {
      if (signal.aborted || tries === triesMax) throw error;
      const answers = await engine.pings.ping().then(
        () => true,
        () => false,
      );
      if (answers && !isBroken(error)) throw error;
      log("prepare", "platform", "The connection to the Docker engine broke; trying again.");
      onAgain?.();
    }
  }
}

/** Whether the error shows that the connection to the engine broke. */
function isBroken(error: unknown): boolean {
  if (error instanceof ConnectionBroke || isUnreachable(error)) return true;
  // The message of a `BuildFailed` proves nothing: it may repeat the output of the app's own step.
  if (error instanceof BuildFailed) return isBroken(error.cause);
  return error instanceof Error && saysBroken(error.message);
}

/** Resolves when the engine answers. Rejects with `BuildFailed` when it stays away for too long. */
async function waitForEngine({ engine, log, signal, clock }: RetryBuild): Promise<void> {
  const late = new AbortController();
  const cancel = clock.after(engineWaitMs, () => late.abort(new Error("the engine stays away")));
  const noteSilence = (_error: unknown, tries: number): void => {
    if (tries > 1) return;
    log(
      "prepare",
      "platform",
      "The Docker engine does not answer. The build goes on as soon as it does.",
    );
  };
  const until = {
    ...pauses,
    triesMax: untilStop,
    clock,
    signal: AbortSignal.any([signal, late.signal]),
  };
  // Undefined when one of the signals is aborted.
  const answer = await retry({ ...until, onFailure: noteSilence }, async () => {
    await engine.pings.ping();
    return true;
  });
  cancel();
  signal.throwIfAborted();
  if (answer === true) return;
  throw new BuildFailed(
    `${engineIsDown} The build waited for it for ${engineWaitMs / 60_000} minutes; ${buildAgain} afterwards.`,
  );
}
