// Which steps get which secrets, and what a build's output shows of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Secret } from "#lib/secret.ts";
import { maskOf, secretsOfPackages } from "./build-secrets.ts";

const secrets = (values: Readonly<Record<string, string>>) =>
  new Map(Object.entries(values).map(([name, value]) => [name, new Secret(value)]));

test("packages get the secrets that their lines name, and those that pip and uv read", () => {
  const all = secrets({
    TOKEN: "1",
    USER_NAME: "2",
    HF_TOKEN: "3",
    PIP_INDEX_URL: "4",
    UV_INDEX_X_PASSWORD: "5",
  });
  const lines = [
    "--extra-index-url https://${USER_NAME}:${TOKEN}@index.example/simple",
    "six",
    "# $HF_TOKEN",
  ];
  assert.deepEqual(
    [...secretsOfPackages(all, lines).keys()],
    ["TOKEN", "USER_NAME", "PIP_INDEX_URL", "UV_INDEX_X_PASSWORD"],
  );
});

test("a value is hidden as it is, in an address, in JSON and in base64 wherever it stands", () => {
  const value = 'p@ss/w"rd+õ-2026';
  const mask = maskOf(secrets({ TOKEN: value }));
  const encoded = [0, 1, 2, 3].map((before) =>
    Buffer.from(`${"u".repeat(before)}${value}:tail`).toString("base64"),
  );
  const shown = [
    value,
    `https://u:${encodeURIComponent(value)}@host`,
    JSON.stringify({ value }),
    ...encoded,
  ];
  for (const text of shown) {
    const masked = mask(`before ${text} after ${text}`);
    assert.match(masked, /^before .*\[secret\].* after .*\[secret\]/, text);
    for (const part of [value.slice(0, 5), encodeURIComponent(value).slice(0, 6)])
      assert.ok(!masked.includes(part), masked);
  }
  for (const text of encoded) assert.ok(mask(text).replace("[secret]", "").length < 16, mask(text));
});

test("of a value with lines, each line is hidden; of two, the longer first; a short one is shown", () => {
  const key = "-----BEGIN KEY-----\nc2VzYW1lLW9wZW4=\n-----END KEY-----\n";
  const mask = maskOf(
    secrets({ KEY: key, SHORT: "abcd", LONG: "abcdefgh", VERSION: "3.7", EMPTY: "" }),
  );
  assert.equal(mask("x c2VzYW1lLW9wZW4= x"), "x [secret] x");
  assert.equal(mask("abcdefgh abcdx"), "[secret] [secret]x");
  assert.equal(mask("six==3.7"), "six==3.7");
  const long = Array.from({ length: 40 }, (_, index) => `part${index}`).join(".");
  const wrapped =
    Buffer.from(`${long}\n`)
      .toString("base64")
      .match(/.{1,76}/g) ?? [];
  assert.ok(wrapped.length > 3);
  for (const line of wrapped.slice(0, -1))
    assert.equal(maskOf(secrets({ LONG: long }))(line), "[secret]");
  assert.equal(maskOf(new Map())("text"), "text");
});
