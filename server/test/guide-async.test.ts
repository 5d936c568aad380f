// The guide "Async runs and webhooks": its table of limits. The walk (guides-walk.test.ts) follows
// its commands.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { settingTable } from "#config-table.ts";

const guide = join(import.meta.dirname, "../../docs/guides/async-runs-and-webhooks.md");

test("the guide's table of limits has the defaults of the settings", async () => {
  const rows = (await readFile(guide, "utf8")).matchAll(
    /^\| [^|]+ \| [^|\d\n]*(\d+)\b[^|\n]* \| `(SLIPWAY_\w+)` \|$/gm,
  );
  const shown = [...rows].map(([, value, name = ""]) => [name, value]);
  assert.ok(shown.length >= 6, `the guide names ${shown.length} settings`);
  const defaults: Readonly<Record<string, { readonly default: string | null }>> = settingTable;
  assert.deepEqual(
    shown,
    shown.map(([name = ""]) => [name, defaults[name]?.default]),
  );
});
