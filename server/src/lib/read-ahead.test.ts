// What is made ahead, and that nothing is left of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readAhead } from "./read-ahead.ts";

function source(count: number, log: string[]): AsyncGenerator<number> {
  return (async function* () {
    try {
      for (let number = 1; number <= count; number++) {
        log.push(`made ${number}`);
        yield number;
      }
    } finally {
      log.push("ended");
    }
  })();
}

test("parts come in order, each made while the one before is used, and no sooner", async () => {
  const log: string[] = [];
  for await (const number of readAhead(source(3, log))) {
    await Promise.resolve();
    log.push(`used ${number}`);
  }
  assert.deepEqual(log, ["made 1", "made 2", "used 1", "made 3", "used 2", "ended", "used 3"]);
});

test("whoever stops in the midst ends the source", async () => {
  const log: string[] = [];
  for await (const number of readAhead(source(100, log))) if (number === 2) break;
  assert.equal(log.at(-1), "ended");
  assert.ok(log.length <= 4);
});

test("a failure comes in its turn", async () => {
  const parts: number[] = [];
  const broken = readAhead(
    (async function* () {
      yield 1;
      throw new Error("broken");
    })(),
  );
  await assert.rejects(async () => {
    for await (const part of broken) parts.push(part);
  }, /broken/);
  assert.deepEqual(parts, [1]);
});
