// Which names get certificates when there are too many.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenNames } from "./wanted-names.ts";

const ofProject = (project: string | null, count: number) =>
  Array.from({ length: count }, (_, index) => ({ name: `${project ?? "own"}-${index}`, project }));

test("projects share the names that get certificates, after the platform's own", () => {
  const names = [...ofProject("a", 5), ...ofProject("b", 1), ...ofProject("c", 3)];
  const all = [...names, ...ofProject(null, 1)];
  const chosen = (max: number) => chosenNames(all, max).map(({ name }) => name);
  assert.equal(chosen(10).length, 10);
  assert.deepEqual(chosen(6), ["own-0", "a-0", "b-0", "c-0", "a-1", "c-1"]);
  assert.deepEqual(chosen(9).slice(6), ["a-2", "c-2", "a-3"]);
});
