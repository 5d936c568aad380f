// Messages advise requests: each of them exists.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { routes } from "@slipway/contract/routes.ts";

const root = join(import.meta.dirname, "../..");
const advice = /\b(GET|POST|PUT|PATCH|DELETE) …((?:\/[\w{}…-]+)+)/g;

/** `/apps/{app}/builds` → `/apps/{}/builds`. */
function plain(path: string): string {
  return path.replaceAll(/\{[^}]*\}/g, "{}");
}

test("each request that a message names is one that the management API takes", async () => {
  const known = Object.values(routes).map(({ method, path }) => [method, plain(path)] as const);
  const isKnown = (method: string, end: string): boolean =>
    known.some((route) => route[0] === method && route[1].endsWith(plain(end)));
  let count = 0;
  for (const folder of ["server/src", "contract/src", "cli/src", "runtimes/python", "docs"]) {
    for (const entry of await readdir(join(root, folder), {
      recursive: true,
      withFileTypes: true,
    })) {
      if (!entry.isFile() || !/\.(?:ts|js|py|md)$/.test(entry.name)) continue;
      const file = join(entry.parentPath, entry.name);
      for (const [said, method = "", end = ""] of (await readFile(file, "utf8")).matchAll(advice)) {
        count++;
        assert.ok(
          isKnown(method, end),
          `${file} names ${said}, which is not in contract/src/routes.ts`,
        );
      }
    }
  }
  assert.ok(count > 20, String(count));
});
