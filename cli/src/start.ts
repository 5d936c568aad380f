// `slipway start`: runs the platform in this process until a signal ends it.
import type { Run } from "./command.ts";

/** Passes options and help to the platform. */
export const start: Run = async (parameters) => {
  const { runPlatform } = await import("@slipway/server/src/run-platform.ts");
  return await runPlatform(parameters);
};
