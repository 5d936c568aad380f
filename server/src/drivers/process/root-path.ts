// Decides whether uvicorn is given the path under which clients reach the app, so that links which
// the app generates, such as those of FastAPI's /docs, point there. uvicorn reads that path from a
// variable and puts it in front of the request paths that the app sees, so it is given only to apps
// that expect this.
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { BuildPlan } from "#drivers/builder.ts";
import { runTool, type BuildTools } from "./build-tool.ts";

/** The first versions in which the path that an app sees begins with its root path (ASGI 2.3). */
const versionsMin = { uvicorn: [0, 26], starlette: [0, 35] } as const;
/** Matches code that reads request paths itself: such code would see other paths than before. */
const ownPaths = "root_path|url\\.path|\\[.path.\\]|X-Forwarded-Prefix";

/** Whether uvicorn may be told the app's path. The build log says that it is told, or why not. */
export async function findRootPathUse(build: {
  readonly plan: BuildPlan;
  readonly tools: BuildTools;
  readonly appDir: string;
  readonly venvDir: string;
}): Promise<boolean> {
  const { plan, tools, appDir, venvDir } = build;
  if (plan.runtime !== "custom" || !(await areInstalled(venvDir))) return false;
  const command = ["grep", "-rlE", "-m", "1", "--include=*.py", ownPaths, "."] as const;
  const search = await runTool(tools, { command, cwd: appDir, stage: "code", isQuiet: true });
  const exitCode = search.end.kind === "exited" ? search.end.exitCode : null;
  tools.log("code", "platform", textOf(exitCode, search.output));
  return exitCode === grepCodes.nothing;
}

/** What grep's exit codes say; any other says that it could not search. */
const grepCodes = { found: 0, nothing: 1 };

function textOf(exitCode: number | null, output: string): string {
  if (exitCode === grepCodes.nothing)
    return "uvicorn is told the app's path (UVICORN_ROOT_PATH), so that links such as those of /docs lead below it.";
  const [line = ""] = output.split("\n");
  const why =
    exitCode === grepCodes.found
      ? `${line.replace("./", "")} handles paths itself`
      : "The app's files could not be searched for code that handles paths itself";
  return `${why}, so uvicorn is not told the app's path; see docs/guides/web-apps.md.`;
}

/** Whether the environment has both packages, each in a version that is new enough. */
async function areInstalled(venvDir: string): Promise<boolean> {
  // The only folder in `lib` is named after the Python, such as python3.11.
  const [python = ""] = await readdir(join(venvDir, "lib")).catch(() => []);
  const names = await readdir(join(venvDir, "lib", python, "site-packages")).catch(() => []);
  return Object.entries(versionsMin).every(([name, [majorMin, minorMin]]) => {
    const form = new RegExp(`^${name}-(\\d+)\\.(\\d+).*\\.dist-info$`, "i");
    return names.some((entry) => {
      const [, major = "", minor = ""] = form.exec(entry) ?? [];
      if (Number(major) > majorMin) return true;
      return major === String(majorMin) && Number(minor) >= minorMin;
    });
  });
}
