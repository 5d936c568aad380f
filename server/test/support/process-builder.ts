// The process driver's builder, for tests that build without a platform.
import { join } from "node:path";
import { ProcessBuilder, type ProcessBuilderOptions } from "#drivers/process/builder.ts";
import { systemClock } from "#lib/clock.ts";
import { diskWatch } from "./disk-watch.ts";
import { noCgroups } from "./no-cgroups.ts";

type Needed = "pythons" | "toolEnvironment";

/** Builds in `builds` below the folder, without a sandbox unless one is given. */
export function processBuilder(
  folder: string,
  given: Pick<ProcessBuilderOptions, Needed> & Partial<ProcessBuilderOptions>,
): ProcessBuilder {
  return new ProcessBuilder({
    buildsDir: join(folder, "builds"),
    commandTimeoutMs: 120_000,
    runtimeDir: null,
    sandbox: { kind: "none", reason: "the test looks at the builder itself" },
    cgroups: noCgroups,
    disk: diskWatch(folder),
    hidden: [folder],
    clock: systemClock,
    ...given,
  });
}
