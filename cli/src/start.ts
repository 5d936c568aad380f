// `slipway start`: runs the platform in this process until a signal ends it, and builds the
// dashboard beside it.
import { buildDashboard } from "./build-dashboard.ts";
import { findInstallation, noPlatformHere, type Installation } from "./installation.ts";
import { commonOptions, type Run } from "./command.ts";
import { helpOf } from "./help.ts";

const about = `Run the platform in this terminal until Ctrl-C, as npm start does. It has no options: environment variables configure it,
and docs/settings.md lists them, as slipway start --settings does.`;

const explained = {
  name: "start",
  about,
  examples: ["start", "start --settings"],
  options: { settings: { value: null, about: "List the environment variables." } },
};

/** Passes nothing on but what asks for the platform's own help. */
export const start: Run = async (parameters, machine) => {
  if (parameters.some((one) => one === "--help" || one === "-h")) {
    machine.print(helpOf(explained, { help: commonOptions.help }));
    return 0;
  }
  const isSettings = parameters.length === 1 && parameters[0] === "--settings";
  const { runPlatform } = await import("@slipway/server/src/run-platform.ts").catch(
    (error: unknown) => {
      const isAbsent =
        error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
      throw isAbsent && error.message.includes("@slipway/server") ? noPlatformHere(error) : error;
    },
  );
  // Arguments ask for help, or are refused.
  if (parameters.length === 0) prepare(findInstallation(machine));
  return await runPlatform(isSettings ? ["--help"] : parameters);
};

function prepare(installation: Installation): void {
  buildDashboard(installation, process.pid);
  // In a checkout it is `.slipway` in the working folder, as with `npm start`.
  if (!installation.isCheckout) process.env["SLIPWAY_DATA_DIR"] = installation.dataDir;
}
