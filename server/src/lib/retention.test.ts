// What removes old rows: in full batches as long as there are some, never without end, and not once
// it is to stop.
import assert from "node:assert/strict";
import { test } from "node:test";
import { removeOld, type RemovalStep } from "./retention.ts";

const endless = new AbortController().signal;

/** So many rows, of which each batch takes what it may. */
function rows(
  name: string,
  count: number,
  limits: number[] = [],
): RemovalStep & { readonly limits: number[] } {
  let left = count;
  const remove = async (limit: number): Promise<number> => {
    limits.push(limit);
    const some = Math.min(limit, left);
    left -= some;
    return Promise.resolve(some);
  };
  return { name, remove, batchMax: 10, limits };
}

test("each step goes on until a batch is not full, and rows are counted by name", async () => {
  const some = rows("a", 25);
  const none = rows("b", 0);
  const more = rows("a", 10);
  assert.deepEqual(await removeOld([some, none, more], endless), { a: 35 });
  assert.deepEqual([some.limits, none.limits, more.limits], [[10, 10, 10], [10], [10, 10]]);
});

test("a table that grows as fast as it is emptied does not keep the next one from its turn", async () => {
  const growing = rows("a", Infinity);
  const next = rows("b", 3);
  assert.deepEqual(await removeOld([growing, next], endless), { a: 40_000, b: 3 });
});

test("nothing more is begun once it is to stop", async () => {
  const stopping = new AbortController();
  let begun = 0;
  const step: RemovalStep = {
    name: "a",
    remove: async (limit) => {
      if (++begun === 2) stopping.abort();
      return Promise.resolve(limit);
    },
  };
  async function* steps(): AsyncGenerator<RemovalStep> {
    yield step;
    assert.fail("no step is asked for any more");
  }
  assert.deepEqual(await removeOld(steps(), stopping.signal), { a: 10_000 });
  assert.equal(begun, 2);
});
