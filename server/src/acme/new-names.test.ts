// How many new names of one project get certificates in a week.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProjectId } from "#lib/ids.ts";
import { NewNames } from "./new-names.ts";

const dayMs = 86_400_000;
const nowMs = Date.UTC(2026, 0, 31);
const project = "p-00000001" as ProjectId;
const other = "p-00000002" as ProjectId;
const ordered = (projectId: ProjectId | null, daysAgo: number) => ({
  project_id: projectId,
  first_order_at: new Date(nowMs - daysAgo * dayMs),
});

test("a project's new names wait until its orders of the last week are fewer than the maximum", () => {
  const rows = [ordered(project, 2), ordered(project, 6), ordered(project, 7), ordered(null, 1)];
  const names = new NewNames([...rows, { project_id: null, first_order_at: null }], {
    max: 3,
    nowMs,
  });
  assert.equal(names.take(project), null);
  assert.deepEqual(names.take(project), { waitUntilMs: nowMs + dayMs });
  assert.equal(names.take(other), null);
});

test("after the maximum was lowered, names wait until enough orders are a week old", () => {
  const rows = [1, 2, 3, 4].map((daysAgo) => ordered(project, daysAgo));
  const names = new NewNames(rows, { max: 2, nowMs });
  assert.deepEqual(names.take(project), { waitUntilMs: nowMs + 5 * dayMs });
});
