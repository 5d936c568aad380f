// `slipway start`: runs the platform in this process until a signal ends it.
import type { Run } from "./command.ts";

/** Its options and its help are the platform's own. */
export const start: Run = async (parameters) => {
  const { runPlatform } = await import("@slipway/server/src/run-platform.ts");
  return await runPlatform(parameters);
};
