// The guide "Releases and rollbacks": its table of states. The walk (guides-walk.test.ts) follows
// its commands.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { releaseStates } from "@slipway/contract/words.ts";

const guide = join(import.meta.dirname, "../../docs/guides/releases.md");

test("the guide names the states that a release can have", async () => {
  const text = await readFile(guide, "utf8");
  for (const state of releaseStates) assert.ok(text.includes(`| \`${state}\` | `), state);
});
