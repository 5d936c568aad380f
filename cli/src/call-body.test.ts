// The body of a call from pairs of names and values.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsOf } from "./call-body.ts";
import { Refused } from "./refused.ts";

test("values that are JSON are taken as JSON, others as text", () => {
  const pairs = [
    "a=3",
    "b=true",
    "c=null",
    'd=[1,{"x":2}]',
    "e=Ada",
    'f="3"',
    "g=",
    "h=x=y",
    "i:=4",
    "j=03",
    "k=a b",
  ];
  assert.deepEqual(fieldsOf(pairs), {
    a: 3,
    b: true,
    c: null,
    d: [1, { x: 2 }],
    e: "Ada",
    f: "3",
    g: "",
    h: "x=y",
    i: 4,
    j: "03",
    k: "a b",
  });
  assert.deepEqual(Object.keys(fieldsOf(["__proto__=1"])), ["__proto__"]);
});

test("what is no pair, or must be JSON and is not, is refused as misuse", () => {
  for (const [pair, message] of [
    ["name", /"name" must be of the form name=value/],
    ["=x", /"=x" must be/],
    ["n:=x", /The value of n is not valid JSON: x/],
  ] as const) {
    assert.throws(
      () => fieldsOf([pair]),
      (error) => error instanceof Refused && error.exitCode === 2 && message.test(error.message),
    );
  }
});
