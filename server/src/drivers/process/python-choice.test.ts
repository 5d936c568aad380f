// Which Python an app gets.
import assert from "node:assert/strict";
import { test } from "node:test";
import { choosePython, type Python } from "./python-choice.ts";

function python(version: string, patch = 1, given: Partial<Python> = {}): Python {
  return {
    path: `/opt/${version}.${patch}/bin/python`,
    version,
    patch,
    hasVenv: true,
    hasPip: true,
    ...given,
  };
}

const installed = [
  python("3.7"),
  python("3.9", 18),
  python("3.11", 2, { hasPip: false }),
  python("3.11", 7),
  python("3.13"),
];

test("the version that was asked for is taken, the newest and whole one of it", () => {
  const choice = choosePython({ version: "3.11", isGiven: true, installed, needsPip: true });
  assert.ok(choice.ok);
  assert.deepEqual([choice.python.patch, choice.warning], [7, null]);
});

test("without packages one that cannot install any will do, with them one that can comes first", () => {
  const two = [python("3.11", 9, { hasPip: false }), python("3.11", 2)];
  const patch = (needsPip: boolean): number => {
    const choice = choosePython({ version: "3.11", isGiven: true, installed: two, needsPip });
    return choice.ok ? choice.python.patch : -1;
  };
  assert.deepEqual([patch(false), patch(true)], [9, 2]);
});

test("one that was asked for and is not there is refused with those that are", () => {
  const choice = choosePython({ version: "3.10", isGiven: true, installed, needsPip: false });
  assert.deepEqual(choice, {
    ok: false,
    reason:
      "Python 3.10 is not installed on the build machine; installed: 3.9, 3.11, 3.13. Set pythonVersion to one of them, or ask the operator to install 3.10.",
  });
});

test("in place of a default comes the nearest newer one, else the newest, with a warning", () => {
  const instead = (version: string): string => {
    const choice = choosePython({ version, isGiven: false, installed, needsPip: false });
    assert.ok(choice.ok && choice.warning !== null);
    return choice.python.version;
  };
  assert.deepEqual(
    [instead("3.10"), instead("3.12"), instead("3.14"), instead("3.8")],
    ["3.11", "3.13", "3.13", "3.9"],
  );
});

test("without any usable one the operator is named", () => {
  for (const none of [[], [python("3.7")], [python("3.11", 1, { hasVenv: false })]]) {
    const choice = choosePython({
      version: "3.11",
      isGiven: false,
      installed: none,
      needsPip: false,
    });
    assert.match(choice.ok ? "" : choice.reason, /^No usable Python is installed/);
  }
});
