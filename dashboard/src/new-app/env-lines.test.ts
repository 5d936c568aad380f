// Reading of pasted variables.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readEnvLines } from "./env-lines.ts";

test("names and values are read as files called .env have them, and other lines are left out", () => {
  const text = `# a comment\nA=1\r\nexport B = "two words"\nC='x=y'\nD=\n\nnot a line\nE="first\\nsecond"`;
  assert.deepEqual(readEnvLines(text), [
    { name: "A", value: "1" },
    { name: "B", value: "two words" },
    { name: "C", value: "x=y" },
    { name: "D", value: "" },
    { name: "E", value: "first\nsecond" },
  ]);
});
