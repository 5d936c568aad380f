// Single settings as texts of inputs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { appFields } from "@slipway/contract/app-fields.ts";
import { textOfValue, valueOfText } from "./setting-text.ts";

test("a text becomes a value of the field's kind; what is no number goes to the platform as it is", () => {
  assert.deepEqual(
    [
      valueOfText("2", appFields.cpu),
      valueOfText("many", appFields.cpu),
      valueOfText("true", appFields.disableAuth),
      valueOfText("CPU, TURING_T4", appFields.compute),
      valueOfText("", appFields.cpu),
      valueOfText("", appFields.gitPath),
    ],
    [2, "many", true, ["CPU", "TURING_T4"], null, ""],
  );
});

test("what an input shows of a value becomes the same value again", () => {
  for (const [field, value] of [
    [appFields.cpu, 2.5],
    [appFields.disableAuth, false],
    [appFields.compute, ["CPU", "TURING_T4"]],
  ] as const) {
    assert.deepEqual(valueOfText(textOfValue(value), field), value);
  }
});
