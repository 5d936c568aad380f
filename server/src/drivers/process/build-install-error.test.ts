// What pip and uv say when they fail, in words for the app's owner.
import assert from "node:assert/strict";
import { test } from "node:test";
import { explainInstallFailure } from "./build-install-error.ts";

const cases: [string, RegExp][] = [
  [
    "ERROR: Could not find a version that satisfies the requirement nump==1 (from versions: none)\nERROR: No matching distribution found for nump==1",
    /^There is no nump==1 that works with this Python: check/,
  ],
  [
    "  × No solution found when resolving dependencies:\n  ╰─▶ Because nump was not found in the package registry and you require nump, we can conclude",
    /^There is no nump that works with/,
  ],
  [
    "WARNING: Retrying after connection broken by 'NewConnectionError(': Failed to establish a new connection: [Errno 111] Connection refused')': /simple/six/\nERROR: No matching distribution found for six",
    /^The package index cannot be reached/,
  ],
  [
    "ERROR: Cannot install a and b because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible",
    /versions conflict/,
  ],
  ["ERROR: Failed building wheel for llvmlite", /^llvmlite has no prebuilt package/],
  ["OSError: [Errno 28] No space left on device", /disk .* is full/],
  ["nothing known", /^The packages could not be installed: the installer ended with exit code 2/],
];

test("the cause is named, with what to do", () => {
  for (const [output, expected] of cases)
    assert.match(explainInstallFailure(output, "ended with exit code 2"), expected);
});
