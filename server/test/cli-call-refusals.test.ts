// What `slipway call` refuses, and how it says so, against a real platform with real apps. The walk
// (guides-walk.test.ts) follows the commands of the guide to the command line.
import assert from "node:assert/strict";
import { test } from "node:test";
import { commandLine } from "./support/command-line.ts";
import { deploy, serveExamples } from "./support/examples.ts";
import { startPlatform } from "./support/platform-process.ts";

test("a call that cannot work is refused with the reason, and what an app answers is shown safely", async (t) => {
  const platform = await startPlatform(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  for (const name of ["hello", "stream"]) {
    const { status, log } = await deploy(platform, { name, gitPath: name });
    assert.equal(status, "success", log);
  }
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
