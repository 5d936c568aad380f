// What is shown of texts that others chose.
import assert from "node:assert/strict";
import { test } from "node:test";
import { plainText } from "./plain-text.ts";

test("codes for terminals are left out, with the links and titles that they hold", () => {
  assert.equal(plainText("\x1b[1;31mred\x1b[0m, \x1b]0;title\x07bold"), "red, bold");
  assert.equal(plainText("\x1b(B\x1b[mplain"), "plain");
  assert.equal(plainText("\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\"), "here");
});

test("characters that hide or turn around what is near them are visible", () => {
  assert.equal(plainText("a\bb\rc\u202egpj.exe\u2066"), "a\ufffdb\ufffdc\ufffdgpj.exe\ufffd");
  assert.equal(plainText("tab\tand “quotes” – 漢字 😀"), "tab\tand “quotes” – 漢字 😀");
});
