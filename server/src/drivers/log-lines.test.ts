// Output cut into lines: whole however it is read, bounded, and with the runs that lines belong to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cutLines, unfinishedLine } from "./log-lines.ts";

const lineBytesMax = 65_536;
const reading = { isCutting: false, isEnd: false, hasFrames: false };
const texts = (buffer: Buffer, given = reading): string[] =>
  cutLines(buffer, given).lines.map(({ text }) => text);

test("an unfinished line is left for the next time, and is a line at the end", () => {
  const buffer = Buffer.from("one\ntwo\r\n\nrest");
  assert.deepEqual(cutLines(buffer, reading), {
    lines: [
      { runId: null, text: "one", end: 3 },
      { runId: null, text: "two", end: 8 },
      { runId: null, text: "", end: 9 },
    ],
    bytes: 10,
    isCutting: false,
  });
  assert.deepEqual(texts(buffer, { ...reading, isEnd: true }), ["one", "two", "", "rest"]);
  assert.deepEqual(texts(Buffer.from("one\n"), { ...reading, isEnd: true }), ["one"]);
});

test("output cut anywhere gives the same lines as in one piece", () => {
  const whole = Buffer.concat([
    Buffer.from("a\nbä\n\r\n"),
    Buffer.alloc(lineBytesMax + 5, "x"),
    Buffer.from("\nlast"),
  ]);
  const expected = texts(whole, { ...reading, isEnd: true });
  assert.equal(expected.length, 5);
  for (const step of [1000, 4096, lineBytesMax - 1, lineBytesMax, lineBytesMax + 1, 100_000]) {
    const found: string[] = [];
    let isCutting = false;
    // A file that grows by `step` and is read from where it was left.
    for (let offset = 0, end = step; offset < whole.length; end += step) {
      const isEnd = end >= whole.length;
      const cut = cutLines(whole.subarray(offset, Math.min(end, whole.length)), {
        ...reading,
        isCutting,
        isEnd,
      });
      found.push(...cut.lines.map(({ text }) => text));
      offset += cut.bytes;
      isCutting = cut.isCutting;
      if (isEnd) break;
    }
    assert.deepEqual(found, expected, `in steps of ${step}`);
  }
});

test("many short lines are cut in parts", () => {
  const buffer = Buffer.from("y\n".repeat(12_000));
  const one = cutLines(buffer, reading);
  const two = cutLines(buffer.subarray(10_000), { ...reading, isEnd: true });
  assert.deepEqual([one.lines.length, one.bytes, one.isCutting], [5000, 10_000, false]);
  assert.deepEqual([two.lines.length, two.bytes], [5000, 10_000]);
});

test("a line is not cut inside a character", () => {
  const buffer = Buffer.from(`${"x".repeat(lineBytesMax - 1)}äää\n`);
  assert.deepEqual(texts(buffer), ["x".repeat(lineBytesMax - 1)]);
});

test("frames name the run of a line, where the runtime writes them", () => {
  const id = "0c44b97c-22ba-4da0-b9eb-8a9b60fc66be";
  const buffer = Buffer.from(
    `\x1e${id}\x1fin a run\n\x1e\x1f\x1eodd\nplain\n\x1eno end\n\x1e<script>\x1fx\n`,
  );
  const { lines } = cutLines(buffer, { ...reading, hasFrames: true });
  assert.deepEqual(
    lines.map(({ runId, text }) => ({ runId, text })),
    [
      { runId: id, text: "in a run" },
      { runId: null, text: "\x1eodd" },
      { runId: null, text: "plain" },
      { runId: null, text: "\x1eno end" },
      { runId: null, text: "\x1e<script>\x1fx" },
    ],
  );
  assert.equal(lines.at(-1)?.end, buffer.length - 1);
  assert.equal(texts(buffer)[0], `\x1e${id}\x1fin a run`);
});

test("of a line only what follows its last carriage return counts", () => {
  const run = "\x1e0c44b97c-22ba-4da0-b9eb-8a9b60fc66be\x1f";
  const cases: [string, string][] = [
    ["10%\r20%\n", "20%"],
    ["\r10%\r20%\r\n", "20%"],
    ["10%\r\r\n", "10%"],
    ["\r\n", ""],
    [`${run}10%\r20%\n`, "20%"],
  ];
  for (const [given, text] of cases)
    assert.deepEqual(texts(Buffer.from(given), { ...reading, hasFrames: true }), [text]);
});

test("a line that is written again and again needs no more room than one", () => {
  const state = "#".repeat(1000);
  const buffer = Buffer.from(`before\n${`\r${state}`.repeat(100)}`);
  const { lines, bytes, isCutting } = cutLines(buffer, reading);
  assert.deepEqual(
    [lines.map(({ text }) => text), bytes, isCutting],
    [["before"], buffer.length - 1000, false],
  );
  assert.deepEqual(texts(Buffer.concat([buffer.subarray(bytes), Buffer.from("!\n")])), [
    `${state}!`,
  ]);
});

test("an unfinished line is what a reader would see of it, and bounded", () => {
  const line = (text: string): string | undefined => unfinishedLine(Buffer.from(text), false)?.text;
  assert.deepEqual(
    [line("..."), line("10%\r20%\r"), line(" \r"), line("")],
    ["...", "20%", undefined, undefined],
  );
  assert.equal(line(`a${".".repeat(2000)}`), `… ${".".repeat(2000)}`);
});
