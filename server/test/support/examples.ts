// The folder `examples/` as a repository behind a real git server, and apps created from it.
import { spawnSync } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { startGitServer } from "./git-server.ts";
import type { CalledPlatform } from "./platform-process.ts";
import { until } from "./until.ts";

const examplesDir = join(import.meta.dirname, "../../../examples");

/** Serves `examples/` and `more` as `acme/examples`; returns the template for SLIPWAY_GIT_URL. */
export async function serveExamples(
  t: TestContext,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const server = await startGitServer(t);
  await server.createRepo("acme", "examples", { ...(await exampleFiles()), ...more });
  return server.urlTemplate;
}

/** Relative path → content of every file below `examples/`. */
async function exampleFiles(): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const entry of await readdir(examplesDir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.parentPath.includes("__pycache__")) continue;
    const path = join(entry.parentPath, entry.name);
    files[path.slice(examplesDir.length + 1)] = await readFile(path, "utf8");
  }
  return files;
}

/**
 * Creates an app and waits until its first build has ended; returns its ids, the final status and
 * the build log.
 */
export async function deploy(
  platform: CalledPlatform,
  body: Record<string, unknown>,
): Promise<{ appId: string; buildId: string; status: string; log: string }> {
  const { projectId } = platform.bootstrap;
  const created = await platform.api("POST", `/v2/projects/${projectId}/apps/git`, {
    gitRepo: "acme/examples",
    ...body,
  });
  if (created.status !== 201)
    throw new Error(`create answered ${created.status} ${JSON.stringify(created.body)}`);
  const { appId, buildId } = created.body as { appId: string; buildId: string };
  const path = `/v2/projects/${projectId}/apps/${appId}/builds/${buildId}`;
  const readLog = async (): Promise<string> => {
    const logs = (await platform.api("GET", `${path}/logs`)).body.logs as { log: string }[];
    return logs.map((line) => line.log).join("\n");
  };
  let status = "";
  const isEnded = async (): Promise<boolean> => {
    status = String((await platform.api("GET", path)).body.status);
    return !["pending", "building", "initializing"].includes(status);
  };
  await until(`build of ${appId} ends`, isEnded, { deadlineMs: 300_000 }).catch(
    async (error: unknown) => {
      const processes = spawnSync("ps", ["-eo", "pid,ppid,etimes,stat,wchan:20,args"], {
        encoding: "utf8",
      }).stdout;
      throw new Error(`its log: ${await readLog()}\n${processes}`, { cause: error });
    },
  );
  return { appId, buildId, status, log: await readLog() };
}

/** The number of running replicas of the app, as the API reports it. */
export async function replicaCount(platform: CalledPlatform, appId: string): Promise<number> {
  const { body } = await platform.api(
    "GET",
    `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/containers`,
  );
  return (body as unknown[]).length;
}
