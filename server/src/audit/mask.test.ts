// What the audit log may keep: no secrets, bounded, storable.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Secret } from "#lib/secret.ts";
import { cutText, maskChanges } from "./mask.ts";

test("secrets are masked by the field's name and by being one, at any depth", () => {
  const masked = maskChanges({
    password: { old: "old-pass", new: "new-pass" },
    githubToken: { new: "gh-token" },
    docker_auth: { new: { auths: "deep-auth" } },
    settings: {
      new: {
        list: [{ "API-Key": "api-key" }],
        env: { NAME: "env-value" },
        cpu: 2,
        handed: new Secret("wrapped"),
      },
    },
  });
  assert.deepEqual(masked, {
    password: { old: "[secret]", new: "[secret]" },
    githubToken: { new: "[secret]" },
    docker_auth: { new: "[secret]" },
    settings: {
      new: { list: [{ "API-Key": "[secret]" }], env: "[secret]", cpu: 2, handed: "[secret]" },
    },
  });
});

test("a field that was empty or is emptied shows as such", () => {
  assert.deepEqual(maskChanges({ password: { old: null, new: "x" } }), {
    password: { old: null, new: "[secret]" },
  });
});

test("whatever is recorded stays small", () => {
  const long = maskChanges({
    text: { new: "x".repeat(5_000) },
    list: { new: Array.from({ length: 500 }, () => 1) },
  });
  assert.equal((long["text"] as { new: string }).new.length, 1_000);
  const { new: list } = long["list"] as { new: unknown[] };
  assert.deepEqual([list.length, list[99], list[100]], [101, 1, "[400 more]"]);
  let deep: object = {};
  for (let level = 0; level < 50; level++) deep = { deep };
  assert.ok(JSON.stringify(maskChanges({ deep: { new: deep } })).includes("[too deep]"));
  const wide = Object.fromEntries(
    Array.from({ length: 90 }, (_, index) => [`f${index}`, { new: "y".repeat(900) }]),
  );
  const cut = maskChanges(wide);
  assert.equal(cut["f89"], "[too large]");
  assert.ok(JSON.stringify(cut).length < 32_000);
});

test("no field goes without a trace, whatever it is named and however many there are", () => {
  assert.deepEqual(maskChanges({ ["__proto__"]: { new: 1 } }), { ["__proto__"]: { new: 1 } });
  const many = Object.fromEntries(
    Array.from({ length: 1_000 }, (_, index) => [`F${index}`, { new: new Secret("x") }]),
  );
  const masked = maskChanges(many);
  assert.deepEqual(Object.keys(masked), Object.keys(many));
  assert.deepEqual([masked["F99"], masked["F100"]], [{ new: "[secret]" }, "[too many]"]);
  const longNames = Array.from(
    { length: 1_000 },
    (_, index) => [`${index}${"n".repeat(199)}`, { new: 1 }] as const,
  );
  const cut = maskChanges(Object.fromEntries(longNames));
  assert.ok(JSON.stringify(cut).length < 32_000);
  assert.deepEqual(cut["(more fields)"], { new: 1_001 - Object.keys(cut).length });
  const inner = maskChanges({
    it: { new: Object.fromEntries(longNames.map(([name]) => [name.slice(0, 9), 1])) },
  });
  assert.equal((inner["it"] as { new: Record<string, number> }).new["(more)"], 900);
});

test("text that PostgreSQL cannot hold is made holdable", () => {
  assert.equal(cutText("a\0b"), "ab");
  assert.equal(cutText("\ud800"), "\ufffd");
  assert.equal(cutText("abcdef", 4), "abc…");
});
