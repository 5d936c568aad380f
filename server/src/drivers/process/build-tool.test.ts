// What a tool of a build prints, as the build's log and its messages show it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { newProjectId } from "#lib/ids.ts";
import { runTool, type BuildTools } from "./build-tool.ts";

test("no output of a tool shows where the platform keeps its data, whether it is logged or not", async () => {
  const logged: string[] = [];
  const tools: BuildTools = {
    log: (_stage, _stream, text) => void logged.push(text),
    signal: new AbortController().signal,
    environment: { PATH: "/usr/bin:/bin" },
    timeoutMs: 30_000,
    mask: (text) => text,
    sandbox: { kind: "none", reason: "it runs no code of an app" },
    cgroup: [],
    projectId: newProjectId(),
    homeDir: "/nowhere/home",
    stagingDir: "/nowhere/staging",
    etcDir: "/nowhere/etc",
    hidden: ["/nowhere"],
  };
  const command = ["cp", "/nowhere/builds/seed", "/nowhere/builds/env"] as const;
  const run = { command, cwd: "/", stage: "prepare" } as const;
  const quiet = await runTool(tools, { ...run, isQuiet: true });
  assert.equal(quiet.isOk, false);
  assert.match(quiet.output, /…\/builds\/seed/);
  assert.doesNotMatch(quiet.output, /nowhere/);
  assert.deepEqual(logged, []);
  await runTool(tools, run);
  assert.deepEqual(logged, [quiet.output.trimEnd()]);
});
