// What the command palette finds, and in which order.
import assert from "node:assert/strict";
import { test } from "node:test";
import { matching, matchScore } from "./match.ts";

const names = ["Usage", "image-resize", "Settings", "Résumé reader", "staging"];
const found = (typed: string): string[] => matching(typed, names, (name) => name);

test("the start of a text comes before the start of a word, the inside of one, and scattered letters", () => {
  assert.deepEqual(
    matching("re", ["more", "image-resize", "r-x-e", "reader"], (name) => name),
    ["reader", "image-resize", "more", "r-x-e"],
  );
});

test("each typed word has to fit, in any order and without regard to case and accents", () => {
  assert.deepEqual(found("RESIZE image"), ["image-resize"]);
  assert.deepEqual(found("resume"), ["Résumé reader"]);
  assert.deepEqual(found("image nothing"), []);
});

test("letters that are left out between typed ones do no harm, but wrong order does", () => {
  assert.deepEqual(found("stgs"), ["Settings"]);
  assert.equal(matchScore("sgts", "Settings"), null);
});

test("while nothing is typed, everything is found in its order", () => {
  assert.deepEqual(found("  "), names);
});
