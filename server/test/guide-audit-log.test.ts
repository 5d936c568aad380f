// The guide "The audit log": its list of actions. The walk (guides-walk.test.ts) follows its
// commands.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { actionTable } from "@slipway/contract/words.ts";

const guide = join(import.meta.dirname, "../../docs/guides/audit-log.md");

test("the guide lists every action, as the table of actions has it", async () => {
  const text = await readFile(guide, "utf8");
  const rows = Object.entries(actionTable).map(([action, about]) => `| \`${action}\` | ${about} |`);
  const listed = text.split("\n").filter((line) => /^\| `[a-z_]+\.[a-z_]+` \|/.test(line));
  assert.deepEqual(listed, rows, `the guide's list should be:\n${rows.join("\n")}`);
});
