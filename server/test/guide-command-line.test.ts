// The guide to the command line, run by bash against a real platform with real apps: what it tells to do works, and prints what it
// shows.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { commandLine } from "./support/command-line.ts";
import { deploy, serveExamples } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatform } from "./support/platform-process.ts";

const guide = join(import.meta.dirname, "../../docs/guides/command-line.md");
const commands = join(import.meta.dirname, "../../cli/bin");

test("what the guide to the command line tells to do works, and prints what it shows", async (t) => {
  const platform = await startPlatform(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  for (const name of ["hello", "stream", "report"]) {
    const { status, log } = await deploy(platform, { name, gitPath: name });
    assert.equal(status, "success", log);
  }
  const blocks = guideBlocks(await readFile(guide, "utf8"));
  const env = { PATH: `${commands}:${process.env["PATH"]}`, HOME: temporaryFolder(t, "home") };
  await runGuide(
    blocks.map((block) => ({ ...block, commands: `{ ${block.commands} } 2>&1` })),
    { dataDir: platform.dataDir, env },
  );

  const { baseUrl, projectId, serviceAccountToken: token, inferenceToken } = platform.bootstrap;
  const slipway = commandLine(t, { baseUrl, projectId, token });
  for (const [words, code, message] of [
    [["call", "helo/run"], 4, /^The project has no app "helo"\. Did you mean hello\?/],
    [["call", "hello/nothing"], 4, /^The call was answered with status 404: /],
    [["call", "hello/run", "name"], 2, /"name" must be of the form name=value/],
    [["call", "hello/run", "name:=Ada"], 2, /The value of name is not valid JSON: Ada/],
    [["call", "hello/run", "--data", "{"], 2, /--data is not valid JSON/],
    [["call", "hello/run", "a=1", "--data", "{}"], 2, /Use either name=value, --data or --file/],
    [["call", "hello/run", "--wait"], 2, /--wait is only for calls with --async/],
  ] as const) {
    const ended = await slipway(words);
    assert.deepEqual([ended.code, ended.stdout], [code, ""], words.join(" "));
    assert.match(ended.stderr, message);
  }
  const shown = await slipway(["call", "hello/run", "name=A\u009b"], { columns: 80 });
  assert.equal(shown.stdout, '{\n  "greeting": "Hello, A\\u009b!"\n}\n');
  const manages = { SLIPWAY_CALL_TOKEN: "x.y.z" };
  const denied = await slipway(["call", "hello/run"], { environment: manages });
  assert.equal(denied.code, 3);
  assert.match(denied.stderr, /slipway keys create <name> --readable/);
  const other = { SLIPWAY_TOKEN: inferenceToken };
  assert.equal((await slipway(["call", `${projectId}-hello/run`], { environment: other })).code, 0);
  const events = await slipway(["call", "stream/run", "count=2", "--stream", "--json"]);
  assert.equal(events.stdout, '{"data":"Number 0"}\n{"data":"Number 1"}\n');
});
