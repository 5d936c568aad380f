// The lengths that a pattern gives its texts, by hand and for every pattern of the document.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { openApiDocument } from "./openapi.ts";
import { patternLengths } from "./pattern-lengths.ts";

test("a pattern says how long its texts may be", () => {
  const all: [string, { minLength?: number; maxLength?: number }][] = [
    ["^[a-z0-9-]{3,30}$", { minLength: 3, maxLength: 30 }],
    ["^[A-Za-z_][A-Za-z0-9_]{0,99}$", { minLength: 1, maxLength: 100 }],
    ["^(?:\\/[\\x21-\\x7e]{0,499})?$", { maxLength: 500 }],
    ["^(?=.*\\S)[^\\x00-\\x1f]{1,100}$", { minLength: 1, maxLength: 100 }],
    ["^(?![-/.])[^\\x00]{1,200}(?<![/.])$", { minLength: 1, maxLength: 200 }],
    ["^(dev-)?p-[0-9a-f]{8}$", { minLength: 10, maxLength: 14 }],
    ["^(?:ab|cde)f$", { minLength: 3, maxLength: 4 }],
    ["^[^\\0]*$", {}],
    ["^whsec_.*", {}],
    ["a{2}", {}],
  ];
  for (const [pattern, lengths] of all) assert.deepEqual(patternLengths(pattern), lengths, pattern);
});

test("every pattern of the document has its lengths, and what it matches is as long", () => {
  const found = new Map<string, { minLength?: number; maxLength?: number }>();
  const look = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    const { pattern, ...lengths } = node as Record<string, unknown>;
    if (typeof pattern === "string") found.set(pattern, lengths);
    for (const value of Object.values(node)) look(value);
  };
  look(openApiDocument());
  assert.ok(found.size > 50);
  for (const [pattern, { minLength = 0, maxLength = Infinity }] of found) {
    assert.deepEqual(patternLengths(pattern), {
      ...(minLength > 0 ? { minLength } : {}),
      ...(maxLength < Infinity ? { maxLength } : {}),
    });
    // Looking around is beyond the generator.
    if (/\(\?[=!<]/.test(pattern)) continue;
    const texts = fc.sample(fc.stringMatching(new RegExp(pattern)), 20);
    for (const text of texts) {
      assert.ok(text.length >= minLength && text.length <= maxLength, `${pattern}: ${text.length}`);
    }
  }
});
