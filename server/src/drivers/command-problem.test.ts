// Which program is missing when a start command ends with 127, by what shells and others print.
import assert from "node:assert/strict";
import { test } from "node:test";
import { commandProblem, type CommandFacts } from "./command-problem.ts";

const files: Readonly<Record<string, string>> = {
  "./crlf.sh": "#!/bin/sh\r\necho\r\n",
  "./nowhere.sh": "#!/opt/nowhere/bin/python3 -u\n",
  "./env.sh": "#!/usr/bin/env pythonX\n",
  "./plain.sh": "echo\n",
  "./program": "\x7fELF\x02",
};

function problem(given: Partial<CommandFacts>): Promise<string | null> {
  const readBegin = (path: string): Promise<Buffer | null> =>
    Promise.resolve(path in files ? Buffer.from(files[path] ?? "", "latin1") : null);
  return commandProblem({ exitCode: 127, program: "sh", lastErrorLine: null, readBegin, ...given });
}

test("the missing program is named in whatever words it was missed", async () => {
  const lines = [
    "sh: 1: srv: not found",
    "/bin/sh: 1: exec: srv: not found",
    "start.sh: 3: srv: not found",
    "bash: line 1: srv: command not found",
    "start.sh: line 3: srv: command not found",
    "sh: srv: not found",
    "/usr/bin/env: ‘srv’: No such file or directory",
    "env: can't execute 'srv': No such file or directory",
    "[FATAL tini (7)] exec srv failed: No such file or directory",
    "bash: line 1: srv: No such file or directory",
    "./start.sh: line 2: srv: cannot execute: required file not found",
    "./start.sh: srv: bad interpreter: No such file or directory",
  ];
  for (const lastErrorLine of lines)
    assert.match(
      (await problem({ lastErrorLine })) ?? lastErrorLine,
      /the program srv, which it runs, was not found/,
    );
});

test("a file that is there is told apart from one that is not", async () => {
  const cases: [string, RegExp][] = [
    ["./crlf.sh", /^\.\/crlf\.sh has line endings of Windows \(CRLF\)/],
    [
      "./nowhere.sh",
      /^The first line of \.\/nowhere\.sh asks for the program \/opt\/nowhere\/bin\/python3, which was not/,
    ],
    ["./env.sh", /asks for the program pythonX, which was not found/],
    ["./program", /is a program for another system/],
  ];
  for (const [program, expected] of cases) {
    assert.match((await problem({ program })) ?? "", expected);
    assert.match(
      (await problem({ lastErrorLine: `sh: 1: ${program}: not found` })) ?? "",
      expected,
    );
  }
  assert.match(
    (await problem({ lastErrorLine: "start.sh: line 2: $'uvicorn\\r': command not found" })) ?? "",
    /CRLF/,
  );
});

test("a start command that is not there itself is left to its own sentence", async () => {
  for (const lastErrorLine of [
    null,
    "sh: 30: exec: srv: not found",
    "[FATAL tini (7)] exec srv failed: No such file or directory",
  ])
    assert.equal(await problem({ program: "srv", lastErrorLine }), null);
  assert.equal(await problem({ exitCode: 1, lastErrorLine: "sh: 1: srv: not found" }), null);
  assert.match((await problem({})) ?? "", /a program that it runs was not found/);
});
