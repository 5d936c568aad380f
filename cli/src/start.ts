// `slipway start`: runs the platform in this process until a signal ends it, and builds the dashboard beside it.
import { buildDashboard } from "./build-dashboard.ts";
import { findCheckout, noPlatformHere } from "./checkout.ts";
import type { Run } from "./command.ts";

/** Passes options and help to the platform. */
export const start: Run = async (parameters, machine) => {
  const { runPlatform } = await import("@slipway/server/src/run-platform.ts").catch((error: unknown) => {
    const isAbsent = error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
    throw isAbsent && error.message.includes("@slipway/server") ? noPlatformHere(error) : error;
  });
  // Arguments ask for help, or are refused.
  if (parameters.length === 0) buildDashboard(findCheckout(machine), process.pid);
  return await runPlatform(parameters);
};
