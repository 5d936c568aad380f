// `slipway config validate`: what a deployment would refuse is said without a platform.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { commandLine, type Ended } from "./support/command-line.ts";
import { temporaryFolder } from "./support/folder.ts";

/** Nothing listens there: the command asks no platform. */
const nowhere = { baseUrl: "http://127.0.0.1:2", token: "", projectId: "" };

async function validate(t: TestContext, toml: string | null, ...more: string[]): Promise<Ended> {
  const folder = temporaryFolder(t, "app");
  if (toml !== null) writeFileSync(join(folder, "slipway.toml"), toml);
  return await commandLine(t, nowhere)(["config", "validate", folder, ...more]);
}

test("a file that a deployment would take is valid", async (t) => {
  const { code, json } = await validate(t, '[cerebrium.deployment]\nname = "shop"\n', "--json");
  assert.deepEqual(
    [code, json()],
    [0, { file: "slipway.toml", isValid: true, problems: [], warnings: [] }],
  );
});

test("each wrong value is named with what is allowed, and the command fails", async (t) => {
  const toml =
    '[cerebrium.deployment]\nname = "shop"\n[cerebrium.hardware]\ncpu = -1\nmemory = "much"\n';
  const { code, json } = await validate(t, toml, "--json");
  const { isValid, problems } = json() as { isValid: boolean; problems: string[] };
  assert.deepEqual([code, isValid, problems.length], [1, false, 2]);
  assert.match(problems[0] ?? "", /cpu.*must be/);
  assert.match(problems[1] ?? "", /memory.*must be/);
});

test("a name that means nothing is a warning", async (t) => {
  const toml = "[cerebrium.hardware]\ncpus = 2\n";
  const { code, json } = await validate(t, toml, "--json");
  const { isValid, warnings } = json() as { isValid: boolean; warnings: string[] };
  assert.deepEqual([code, isValid, warnings.length], [0, true, 1]);
  assert.match(warnings[0] ?? "", /cpus/);
  const shown = await validate(t, toml);
  assert.match(shown.stderr, /cpus[^]*\nslipway\.toml is valid, but see the warnings above\.\n$/);
});

test("text that is no TOML is refused, and a folder without the file says how to make one", async (t) => {
  const broken = await validate(t, "name =\n");
  assert.equal(broken.code, 2);
  assert.match(broken.stderr, /slipway\.toml/);
  const missing = await validate(t, null);
  assert.notEqual(missing.code, 0);
  assert.match(missing.stderr, /has no slipway\.toml\. To make one: slipway init/);
});
