// `slipway start`: runs the platform in this process until a signal ends it.
import { noPlatformHere } from "./checkout.ts";
import type { Run } from "./command.ts";

/** Passes options and help to the platform. */
export const start: Run = async (parameters) => {
  const { runPlatform } = await import("@slipway/server/src/run-platform.ts").catch((error: unknown) => {
    const isAbsent = error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
    throw isAbsent && error.message.includes("@slipway/server") ? noPlatformHere(error) : error;
  });
  return await runPlatform(parameters);
};
