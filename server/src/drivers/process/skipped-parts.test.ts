// The arithmetic of parts of an output file that were skipped.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bytesOf,
  joinedParts,
  nextPart,
  rangesOutside,
  readUpTo,
  timeAt,
  type SkippedPart,
} from "./skipped-parts.ts";

const part: SkippedPart = {
  from: 100,
  to: 200,
  fromAt: 1000,
  toAt: 2000,
  isCutting: false,
  dropped: 0,
};

test("lines of a part have times in their order, between those around it", () => {
  assert.deepEqual(
    [100, 150, 200, 300].map((offset) => timeAt(part, offset)),
    [1000, 1500, 2000, 2000],
  );
});

test("what is between parts may be freed", () => {
  const parts = [part, { ...part, from: 300, to: 400 }];
  assert.equal(bytesOf(parts), 200);
  const freed = [
    { from: 0, to: 100 },
    { from: 200, to: 300 },
    { from: 400, to: 500 },
  ];
  assert.deepEqual(rangesOutside(parts, 500), freed);
});

test("the number of a part without lines goes to the part that begins there", () => {
  const next = { ...part, from: 200, to: 300, dropped: 1 };
  assert.deepEqual(joinedParts([{ ...part, from: 200, dropped: 7 }, next]), [
    { ...next, dropped: 8 },
  ]);
  const apart = [
    { ...part, from: 200, dropped: 7 },
    { ...next, from: 250 },
  ];
  assert.deepEqual(joinedParts(apart), apart);
  assert.deepEqual(joinedParts([part, next]), [part, next], "times of each part stay as they are");
});

test("the newest part is read first, but for one of which only the number of dropped lines is left", () => {
  const newer = { ...part, from: 300, to: 400 };
  assert.equal(nextPart([part, newer]), newer);
  const empty = { ...part, from: 200, dropped: 7 };
  assert.equal(nextPart([empty, newer]), empty);
  assert.equal(readUpTo(empty, 200, { isCutting: false, dropped: 7 }), null);
  const more = readUpTo({ ...empty, dropped: 9 }, 200, { isCutting: false, dropped: 7 });
  assert.deepEqual(more, { ...empty, dropped: 2, fromAt: 2000 });
  const cut = readUpTo({ ...part, isCutting: true, dropped: 7 }, 100, {
    isCutting: false,
    dropped: 7,
  });
  assert.deepEqual(cut, { ...part, isCutting: true }, "nothing of it was read yet");
});
