// The line that a person needs, in what real programs print when they fail.
import assert from "node:assert/strict";
import { test } from "node:test";
import { failingLine } from "./failing-line.ts";

const outputs: readonly (readonly [string, string, string])[] = [
  [
    "pip, with hints below",
    "Collecting x\nERROR: HTTP error 500 while getting https://i/x.whl\n\n[notice] A new release of pip is available\n[notice] To update, run: pip install --upgrade pip\n",
    "ERROR: HTTP error 500 while getting https://i/x.whl",
  ],
  [
    "a source package that cannot be compiled",
    "  src/x.c:3:10: error: unknown type name 'foo'\n  1 error generated.\n  [end of output]\nnote: This error originates from a subprocess\nerror: subprocess-exited-with-error\nERROR: Failed building wheel for x\n",
    "src/x.c:3:10: error: unknown type name 'foo'",
  ],
  [
    "a source package whose setup says why, with no word for an error",
    "  × Getting requirements to build wheel did not run successfully.\n  │ exit code: 1\n  ╰─> [1 lines of output]\n      no license file\n      [end of output]\n  note: not a problem with pip.\nerror: subprocess-exited-with-error\n× Getting requirements to build wheel did not run successfully.\n│ exit code: 1\n╰─> See above for output.\n",
    "no license file",
  ],
  [
    "uv",
    "error: Failed to fetch: `https://i/x`\n  Caused by: dns\n  × Failed to download\n  ├─▶ Failed to fetch\n  ╰─▶ HTTP status server error (502 Bad Gateway)\nhint: try again\n",
    "╰─▶ HTTP status server error (502 Bad Gateway)",
  ],
  [
    "git",
    "Cloning into 'x'...\nfatal: protocol error: bad line length\ncleaning up\n",
    "fatal: protocol error: bad line length",
  ],
  [
    "apt",
    "Reading package lists...\nE: Sub-process /usr/bin/dpkg returned an error code (1)\nDone\n",
    "E: Sub-process /usr/bin/dpkg returned an error code (1)",
  ],
  [
    "Python",
    "Traceback (most recent call last):\n  File \"x\"\nKeyError: 'TOKEN'\n",
    "KeyError: 'TOKEN'",
  ],
  [
    "npm",
    "npm ERR! code E401\nnpm ERR! Incorrect or missing password.\n\n",
    "npm ERR! Incorrect or missing password.",
  ],
  ["anything else", "one\ntwo\n\n", "two"],
  ["nothing", "\n \n", ""],
];

for (const [what, output, line] of outputs) {
  test(`the failing line is found: ${what}`, () => assert.equal(failingLine(output), line));
}

test("a long line without spaces takes no time", () => {
  assert.equal(failingLine(`${"a".repeat(1_000_000)}\n`).length, 2000);
});
