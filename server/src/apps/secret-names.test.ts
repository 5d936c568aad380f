// Which names of secrets are refused, and what is said about others.
import assert from "node:assert/strict";
import { test } from "node:test";
import { secretNameRefusal, secretNameWarning } from "./secret-names.ts";

test("a name that no app survives is refused with what to do instead", () => {
  assert.match(secretNameRefusal("PATH") ?? "", /^A secret cannot be called PATH: .*\$PATH/);
  assert.match(
    secretNameRefusal("PYTHONHOME") ?? "",
    /^A secret cannot be called PYTHONHOME: .*PYTHONPATH/,
  );
  for (const name of ["path", "PYTHONPATH", "LD_PRELOAD", "constructor", "1BAD", "API_KEY"]) {
    assert.equal(secretNameRefusal(name), null, name);
  }
});

test("a name with a trap is explained, and others are not", () => {
  const explained = [
    "1BAD",
    "a.b",
    "a-b",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "HOME",
    "PORT",
    "SLIPWAY_LISTEN",
  ];
  for (const name of explained) assert.ok((secretNameWarning(name) ?? "").startsWith(name), name);
  for (const name of [
    "API_KEY",
    "_",
    "a1",
    "HF_TOKEN",
    "PYTHONPATH",
    "toString",
    "__proto__",
    "OLD_KEY",
  ]) {
    assert.equal(secretNameWarning(name), null, name);
  }
});
