// Which migrations are still to be applied.
import assert from "node:assert/strict";
import { test } from "node:test";
import { planMigrations } from "./migrate.ts";

test("a migration between applied ones is refused, not skipped", () => {
  const migration = (name: string) => ({ name, sql: "", checksum: name });
  const known = ["0001-a", "0002-b", "0003-c"].map(migration);
  assert.deepEqual(
    planMigrations(known, known.slice(0, 1)).map(({ name }) => name),
    ["0002-b", "0003-c"],
  );
  assert.throws(
    () => planMigrations(known, [migration("0001-a"), migration("0003-c")]),
    /0003-c, .* before 0002-b/,
  );
});
