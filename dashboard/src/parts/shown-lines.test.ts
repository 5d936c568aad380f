// Which lines a page holds while a log grows at its end and is read back to its beginning.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogLine } from "./log-view.tsx";
import { linesMax, noLines, withNewer, withOlder } from "./shown-lines.ts";

const lines = (from: number, count: number): LogLine[] =>
  Array.from({ length: count }, (_, index) => ({
    key: String(from + index),
    at: "2026-06-15T12:00:00Z",
    text: `line ${from + index}`,
    source: "",
    kind: "stdout",
  }));
const ends = (all: readonly LogLine[]) => [all.length, all[0]?.key, all.at(-1)?.key];

test("beyond the bound new lines push out the first ones, which cannot be read again", () => {
  const opened = withOlder(noLines, { lines: lines(0, 10), lastId: "9", token: "before 0" });
  const full = withNewer(opened, lines(10, linesMax - 10));
  assert.deepEqual([full.added, full.token], [10, "before 0"]);
  const more = withNewer(full, lines(linesMax, 3));
  assert.deepEqual(ends(more.lines), [linesMax, "3", String(linesMax + 2)]);
  assert.deepEqual([more.added, more.token, more.isCut], [7, undefined, false]);
});

test("who reads far back loses the newest lines, and gets no others until they begin anew", () => {
  const full = withNewer(noLines, lines(10, linesMax));
  const back = withOlder(full, { lines: lines(0, 10), lastId: "9", token: undefined });
  assert.deepEqual(ends(back.lines), [linesMax, "0", String(linesMax - 1)]);
  assert.deepEqual([back.added, back.isCut], [10, true]);
  assert.equal(withNewer(back, lines(linesMax + 10, 5)), back);
});
