// Versions in package.json files, lock files and documents.
import assert from "node:assert/strict";
import { test } from "node:test";
import { documentWithVersion, isNewer, lockWithVersion, manifestWithVersion } from "./versions.ts";

test("the version of the project's own packages changes, and no other", () => {
  const manifest = {
    name: "@slipway/cli",
    version: "0.1.0",
    dependencies: { "@slipway/server": "0.1.0", pg: "0.1.0" },
  };
  assert.deepEqual(JSON.parse(manifestWithVersion(JSON.stringify(manifest), "0.2.0")), {
    name: "@slipway/cli",
    version: "0.2.0",
    dependencies: { "@slipway/server": "0.2.0", pg: "0.1.0" },
  });
  const lock = {
    name: "slipway-workspace",
    packages: {
      "": { name: "slipway-workspace" },
      cli: manifest,
      "node_modules/pg": { version: "0.1.0" },
    },
  };
  assert.deepEqual(JSON.parse(lockWithVersion(JSON.stringify(lock), "0.2.0")), {
    name: "slipway-workspace",
    packages: {
      "": { name: "slipway-workspace" },
      cli: JSON.parse(manifestWithVersion(JSON.stringify(manifest), "0.2.0")),
      "node_modules/pg": { version: "0.1.0" },
    },
  });
});

test("a document shows the new version, and one that does not show the earlier one is refused", () => {
  const versions = { from: "0.1.0", to: "0.2.0" };
  const text = 'client: "slipway/0.1.0 (linux x64)"\n0.1.0\n10.1.0.0/16 and 0.1.0.7\n';
  assert.equal(
    documentWithVersion("a.md", text, versions),
    text.replaceAll(/(?<=slipway\/|\n)0\.1\.0(?=\n| )/g, "0.2.0"),
  );
  assert.throws(() => documentWithVersion("a.md", "0x1y0\n", versions), {
    message: /^a\.md shows no "slipway\/0\.1\.0"/,
  });
});

test("versions are three numbers, compared as numbers", () => {
  for (const [version, than] of [
    ["0.2.0", "0.1.9"],
    ["0.10.0", "0.9.9"],
    ["1.0.0", "0.99.0"],
    ["0.1.1", "0.1.0"],
  ] as const) {
    assert.equal(isNewer(version, than), true, `${version} and ${than}`);
    assert.equal(isNewer(than, version), false, `${than} and ${version}`);
  }
  assert.equal(isNewer("0.1.0", "0.1.0"), false);
  for (const wrong of ["v0.2.0", "0.2", "0.2.0-rc.1", "0.02.0", "", "next"]) {
    assert.throws(() => isNewer(wrong, "0.1.0"), {
      message: /is not a version; write three numbers/,
    });
  }
});
