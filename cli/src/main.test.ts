// The command line as it is run: what it prints where, and its exit codes.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("main.ts", import.meta.url));

function slipway(...parameters: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...parameters], {
    encoding: "utf8",
    timeout: 60_000,
  });
  return { status, stdout, stderr };
}

test("the help names every command and goes to standard output", () => {
  const { status, stdout } = slipway("--help");
  assert.equal(status, 0);
  for (const word of ["start", "--help", "--version"]) assert.ok(stdout.includes(word), word);
});

test("the version is the one of the package", () => {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.deepEqual(slipway("--version"), { status: 0, stdout: `${manifest.version}\n`, stderr: "" });
});

test("without a command the help goes to standard error and the code is 2", () => {
  const { status, stdout, stderr } = slipway();
  assert.deepEqual([status, stdout], [2, ""]);
  assert.match(stderr, /^Usage: slipway/);
});

test("an unknown command is refused with the one that was meant", () => {
  assert.deepEqual(slipway("strat"), {
    status: 2,
    stdout: "",
    stderr: '"strat" is not a command; did you mean start? See slipway --help.\n',
  });
});

test("start shows the settings when it is asked for help", () => {
  const { status, stdout } = slipway("start", "--help");
  assert.equal(status, 0);
  assert.match(stdout, /SLIPWAY_PORT/);
});
