// The guide "Scaling": the command of its simulation is there. The walk (guides-walk.test.ts)
// follows its other commands.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const projectDir = join(import.meta.dirname, "../..");

test("the program that the guide plays all loads with is there", () => {
  const text = readFileSync(join(projectDir, "docs/guides/scaling.md"), "utf8");
  // It plays for minutes; its own test plays a part.
  const [, command = ""] = /<!-- simulation -->\n```sh\n(.*)\n```/.exec(text) ?? [];
  assert.ok(existsSync(join(projectDir, command.split(" ").at(-1) ?? "")), command);
});
