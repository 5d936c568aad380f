// When the build log says that uvicorn is told the app's path, and what it says otherwise.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { BuildPlan } from "#drivers/builder.ts";
import { newProjectId } from "#lib/ids.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import type { BuildTools } from "./build-tool.ts";
import { findRootPathUse } from "./root-path.ts";

test("an app that handles paths, or cannot be searched, is not given its path, and the log says which", async (t) => {
  const folder = temporaryFolder(t, "root-path");
  const packages = join(folder, "venv/lib/python3.12/site-packages");
  for (const name of ["uvicorn-0.30.1.dist-info", "starlette-0.40.0.dist-info"])
    mkdirSync(join(packages, name), { recursive: true });
  const brokenDir = join(folder, "bin");
  mkdirSync(brokenDir);
  writeFileSync(join(brokenDir, "grep"), "#!/bin/sh\nexit 2\n", { mode: 0o755 });
  const appDir = join(folder, "app");
  mkdirSync(appDir);
  const logged: string[] = [];
  const isUsed = (path: string): Promise<boolean> => {
    const tools: BuildTools = {
      log: (_stage, _stream, text) => void logged.push(text),
      signal: t.signal,
      environment: { PATH: path },
      timeoutMs: 30_000,
      mask: (text) => text,
      sandbox: { kind: "none", reason: "it runs no code of an app" },
      cgroup: [],
      projectId: newProjectId(),
      homeDir: join(folder, "home"),
      stagingDir: join(folder, "staging"),
      etcDir: join(folder, "etc"),
      hidden: [],
    };
    const plan = { runtime: "custom" } as BuildPlan;
    return findRootPathUse({ plan, tools, appDir, venvDir: join(folder, "venv") });
  };
  writeFileSync(join(appDir, "main.py"), "app = 1\n");
  assert.equal(await isUsed("/usr/bin:/bin"), true);
  assert.equal(await isUsed(`${brokenDir}:/usr/bin:/bin`), false);
  writeFileSync(join(appDir, "main.py"), "print(request.url.path)\n");
  assert.equal(await isUsed("/usr/bin:/bin"), false);
  assert.match(logged[0] ?? "", /^uvicorn is told the app's path/);
  assert.match(logged[1] ?? "", /^The app's files could not be searched for code/);
  assert.match(logged[2] ?? "", /^main\.py handles paths itself/);
});
