// The end of the platform's log, as people read it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lastLogLines } from "./last-log-lines.ts";

test("lines in JSON are shown as their message, error and fields; others as they are", () => {
  const log = [
    '{"level":30,"time":1795889538952,"migrations":41,"msg":"creating the database"}',
    '{"level":60,"time":1,"err":{"type":"Error","message":"disk \\u001bfull","stack":"at x"},"msg":"no"}',
    '{"level":60,"time":1,"err":"[not an error]","msg":"no"}',
    '{"level":30,"time":1}',
    '{"level":',
    "The platform cannot listen.",
  ];
  assert.deepEqual(lastLogLines(`${log.join("\n")}\n`).split("\n"), [
    'creating the database {"migrations":41}',
    "no disk full",
    '{"level":60,"time":1,"err":"[not an error]","msg":"no"}',
    "",
    '{"level":',
    "The platform cannot listen.",
  ]);
});

test("of a long log only the last lines are shown", () => {
  const lines = Array.from({ length: 100 }, (_, at) => `line ${at}`);
  assert.equal(lastLogLines(lines.join("\n")), lines.slice(-15).join("\n"));
});
