// Maps the error that ended a build to its final state and reason. Pure.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { Fault } from "#lib/fault.ts";
import type { BuildEnd } from "./build-states.ts";
import { StartFailed } from "./trial.ts";

/** Says why the platform itself stopped a build. It is the abort reason of the build's signal. */
export class BuildStopped extends Error {
  override readonly name = "BuildStopped";
  readonly why: "cancelled" | "timeout" | "lease_lost" | "stopping";
  /** A sentence for the app's owner; null: `why` says enough. */
  readonly reason: string | null;

  constructor(why: BuildStopped["why"], reason: string | null = null) {
    super(`the work on the build was ended: ${why}`);
    this.why = why;
    this.reason = reason;
  }
}

export type BuildEnding =
  | {
      readonly kind: "end";
      readonly to: Exclude<BuildEnd, "success">;
      readonly reason: string;
      /** True when the platform itself failed. */
      readonly isUnexpected: boolean;
    }
  /** Another worker owns the build: nothing is written. */
  | { readonly kind: "leave" }
  /** The platform is stopping; the build returns to the queue. */
  | { readonly kind: "put_back" };

/** The last line of the log of a failed build, by final state. */
const endLines = {
  build_failure: "Error: App build failed",
  init_failure: "Error: App failed to start",
  init_timeout: "Error: App did not become ready in time",
} as const;

/** The last lines of the log of a build that has not succeeded. */
export function lastLines(to: Exclude<BuildEnd, "success">, reason: string): readonly string[] {
  return to === "cancelled" ? [reason] : [`Error: ${reason}`, endLines[to]];
}

/** Decides the ending from the error. `timeoutMs` is the timeout of the build. */
export function endingOf(error: unknown, timeoutMs: number): BuildEnding {
  if (error instanceof BuildStopped) {
    if (error.why === "lease_lost") return { kind: "leave" };
    if (error.why === "stopping") return { kind: "put_back" };
    if (error.why === "cancelled") return end("cancelled", error.reason ?? "Cancelled.");
    return end(
      "build_failure",
      `The build took longer than ${Math.round(timeoutMs / 1000)} s (SLIPWAY_BUILD_TIMEOUT_SECONDS). The last lines show what took so long; make it faster and ${buildAgain}.`,
    );
  }
  if (error instanceof StartFailed) return end(error.end, error.message);
  const isRefused =
    error instanceof Fault && (error.code === "invalid" || error.code === "not_usable");
  if (error instanceof BuildFailed || isRefused) {
    // Only a message with the advice to build again names this path.
    const hasAdvice = error.message.includes("…/apps/{app}");
    const reason = hasAdvice ? error.message : `${error.message} Fix that, then ${buildAgain}.`;
    return end("build_failure", reason);
  }
  return {
    ...end(
      "build_failure",
      `The platform itself failed during the build. Please ${buildAgain}; if it fails again, ask the operator to look for the build's id in the platform's log.`,
    ),
    isUnexpected: true,
  };
}

function end(
  to: Exclude<BuildEnd, "success">,
  reason: string,
): BuildEnding & { readonly kind: "end" } {
  return { kind: "end", to, reason, isUnexpected: false };
}
