// Which texts count as nested too deeply: brackets within strings do not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isTooDeep } from "./json-depth.ts";

const jsonDepthMax = 100;
const nested = (depth: number, open = "[", close = "]"): string =>
  open.repeat(depth) + close.repeat(depth);

test("JSON may be nested to the limit and not beyond, in arrays and objects, whatever its strings hold", () => {
  assert.equal(isTooDeep(nested(jsonDepthMax)), false);
  assert.equal(isTooDeep(nested(jsonDepthMax + 1)), true);
  assert.equal(isTooDeep(nested(jsonDepthMax + 1, '{"a":', "}")), true);
  assert.equal(isTooDeep("[".repeat(500_000)), true);
  assert.equal(isTooDeep(JSON.stringify({ a: nested(1000), b: `"\\${nested(1000)}\\"` })), false);
  assert.equal(isTooDeep(`[${"[],".repeat(1000)}[]]`), false);
  assert.equal(isTooDeep(`["\\\\",${nested(jsonDepthMax)}]`), true);
});
