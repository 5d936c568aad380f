// What refusals show of a value: enough to know it again, no key in a URL.
import assert from "node:assert/strict";
import { test } from "node:test";
import { shown } from "./refusal.ts";

test("a value is shown on one line, and cut", () => {
  assert.equal(shown("a\nb"), '"a\\nb"');
  assert.equal(shown("x".repeat(100)), `"${"x".repeat(80)}"…`);
  assert.equal(shown(["a", 1, null]), '["a", 1, null]');
  assert.equal(shown({ password: "swordfish" }), "an object");
});

test("a URL is shown without its user and its query", () => {
  for (const [given, text] of [
    ["https://user:swordfish@git.example.org/a/b", "https://[…]@git.example.org/a/b"],
    ["https://swordfish@git.example.org/a/b.git", "https://[…]@git.example.org/a/b.git"],
    ["https://user:swordf@ish@git.example.org", "https://[…]@git.example.org"],
    ["https://git.example.org/a/b?token=swordfish&x=/y?z", "https://git.example.org/a/b?[…]"],
    ["https://git.example.org/@scope/a", "https://git.example.org/@scope/a"],
    ["git@git.example.org:a/b", "git@git.example.org:a/b"],
    ["is it so? yes", "is it so? yes"],
  ] as const) {
    assert.equal(shown(given), JSON.stringify(text));
    assert.equal(shown([given]), `[${JSON.stringify(text)}]`);
  }
  for (const endless of ["://", "//", "//@", "@", "?"]) shown(endless.repeat(400_000));
  const long = `https://user:${"swordfish".repeat(20)}@git.example.org`;
  assert.doesNotMatch(shown(long), /swordfish/, "taken out before it is cut");
});
