// Completing a lock file; and the project's own lock file is complete.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { projectDir } from "#tidy/tree.ts";
import { completeLock, missingPackages, type LockFile } from "./complete-lock.ts";

const lock: LockFile = {
  packages: {
    "": {},
    "node_modules/linter": {
      version: "1.0.0",
      dev: true,
      optionalDependencies: {
        "@linter/binding-linux-x64-gnu": "1.0.0",
        "@linter/binding-linux-arm64-musl": "1.0.0",
      },
    },
    "node_modules/@linter/binding-linux-x64-gnu": { version: "1.0.0", optional: true },
  },
};

test("an optional package that is locked nowhere is missing", () => {
  assert.deepEqual(missingPackages(lock), [
    { name: "@linter/binding-linux-arm64-musl", version: "1.0.0", isForDevelopment: true },
  ]);
});

test("a completed lock file lacks nothing and names the platform", () => {
  const whole = completeLock(lock);
  assert.deepEqual(missingPackages(whole), []);
  assert.deepEqual(whole.packages["node_modules/@linter/binding-linux-arm64-musl"], {
    version: "1.0.0",
    cpu: ["arm64"],
    dev: true,
    libc: ["musl"],
    optional: true,
    os: ["linux"],
  });
  assert.deepEqual(completeLock(whole), whole);
});

test("a package whose name tells no platform is refused by name", () => {
  const odd = {
    packages: {
      "node_modules/a": { version: "1.0.0", optionalDependencies: { "a-extra": "2.0.0" } },
    },
  };
  assert.throws(() => completeLock(odd), /a-extra@2\.0\.0 is missing/);
});

test("the lock files of the project and of the dashboard name the packages of every platform, and no registry", () => {
  for (const name of ["package-lock.json", "dashboard/package-lock.json"]) {
    const text = readFileSync(join(projectDir, name), "utf8");
    assert.deepEqual(missingPackages(JSON.parse(text) as LockFile), [], name);
    assert.doesNotMatch(text, /"resolved": "http/, name);
  }
});
