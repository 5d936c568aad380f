// Build plans for tests of builders.
import type { BuildPlan } from "#drivers/builder.ts";
import { newBuildId } from "#lib/ids.ts";

/** A cortex app without packages and commands; `given` overrides fields. */
export function buildPlan(
  given: Partial<BuildPlan> & Pick<BuildPlan, "appId" | "pythonVersion">,
): BuildPlan {
  return {
    buildId: newBuildId(),
    runtime: "cortex",
    isPythonVersionGiven: true,
    startsClean: false,
    useUv: false,
    requirements: [],
    project: null,
    aptPackages: [],
    condaPackages: [],
    preBuildCommands: [],
    shellCommands: [],
    baseImage: "debian:bookworm-slim",
    dockerfilePath: null,
    entrypoint: [],
    secretNames: [],
    environment: { APP_NAME: "app" },
    ...given,
  };
}
