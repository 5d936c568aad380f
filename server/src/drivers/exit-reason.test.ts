// The sentences that owners of apps read when a replica has ended.
import assert from "node:assert/strict";
import { test } from "node:test";
import { exitSummary, type ExitFacts } from "./exit-reason.ts";

const plain: ExitFacts = {
  exitCode: 0,
  startError: null,
  lastErrorLine: null,
  asked: "not",
  endReason: null,
  memoryRanOut: "no",
  memoryGb: 1,
  program: "serve",
  commandProblem: null,
};

const written = (text: string) => ({ text, at: 7, runId: null });

test("a line that is quoted has its time with it, and the sentence that it leaves", () => {
  const quotes = (facts: Partial<ExitFacts>) => exitSummary({ ...plain, ...facts }).quote;
  const reasonWithout = "The app ended with exit code 1.";
  const lastErrorLine = written("ValueError: old");
  assert.deepEqual(quotes({ exitCode: 1, lastErrorLine }), { at: 7, runId: null, reasonWithout });
  assert.equal(quotes({ exitCode: 1, lastErrorLine: written("some last words") }), undefined);
  assert.equal(quotes({ exitCode: 1, lastErrorLine, startError: "ImportError: no x" }), undefined);
  assert.equal(quotes({ exitCode: 137, lastErrorLine, memoryRanOut: "own" }), undefined);
});

test("the sentence says what ended the app, and who", () => {
  const cases: [Partial<ExitFacts>, string, string | null][] = [
    [
      {},
      "The app exited on its own (exit code 0); its start command must keep running to answer calls.",
      null,
    ],
    [
      { exitCode: 1, startError: "ImportError: no x" },
      "The app ended with exit code 1: ImportError: no x.",
      null,
    ],
    [
      { exitCode: 1, lastErrorLine: written("some last words") },
      "The app ended with exit code 1.",
      null,
    ],
    [
      { exitCode: 1, lastErrorLine: written("ValueError: bad") },
      "The app ended with exit code 1: ValueError: bad.",
      null,
    ],
    [
      { exitCode: 137, memoryRanOut: "machine" },
      "The app was killed by the kernel because the machine ran out of memory.",
      "SIGKILL",
    ],
    [{ exitCode: 137 }, "The app was killed (SIGKILL), but not by the platform.", "SIGKILL"],
    [{ exitCode: 139 }, "The app was ended by SIGSEGV.", "SIGSEGV"],
    [{ exitCode: 143, asked: "stopped" }, "The replica was stopped.", "SIGTERM"],
    [{ asked: "stopped" }, "The replica was stopped.", null],
    [
      { exitCode: 7, asked: "stopped" },
      "The replica was stopped; it ended with exit code 7.",
      null,
    ],
    [
      { exitCode: 127 },
      "The start command was not found: serve. Correct the entrypoint, or add the package that has the command to the dependencies.",
      null,
    ],
  ];
  for (const [facts, reason, signal] of cases) {
    const summary = exitSummary({ ...plain, ...facts });
    assert.deepEqual([summary.reason, summary.signal], [reason, signal]);
    assert.equal(summary.exitCode === null, signal !== null, "an exit code or a signal");
  }
  assert.equal(
    exitSummary({ ...plain, exitCode: 127, commandProblem: "It has CRLF." }).reason,
    "It has CRLF.",
  );
  assert.match(
    exitSummary({ ...plain, exitCode: 126 }).reason,
    /^The start command cannot be executed: serve\. Make/,
  );
  assert.match(exitSummary({ ...plain, exitCode: null }).reason, /from outside the platform/);
  assert.match(exitSummary({ ...plain, exitCode: null, asked: "killed" }).reason, /by force/);
});

test("what a program lacks is named, with where to add it", () => {
  const cases: [string, RegExp][] = [
    [
      "ModuleNotFoundError: No module named 'numpy'",
      /'numpy'\. Add .*: numpy = "latest" below \[cerebrium\.dependencies\.pip\]/,
    ],
    ["ModuleNotFoundError: No module named 'sklearn.svm'", /: scikit-learn = "latest" below/],
    [
      "ModuleNotFoundError: No module named 'my_tools'; 'x' is",
      /: my-tools = .* a file in the app's folder \(gitPath\)/,
    ],
    [
      "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
      /Debian package libgl1 on/,
    ],
    [
      "OSError: libx1.so: cannot open shared object file: No such file or directory",
      /Debian package with it on/,
    ],
    [
      "KeyError: 'API_KEY'",
      /: KeyError: 'API_KEY'\. If API_KEY is an environment variable, add it to the secrets of the app/,
    ],
  ];
  for (const [line, expected] of cases) {
    assert.match(exitSummary({ ...plain, exitCode: 1, startError: line }).reason, expected);
    assert.match(
      exitSummary({ ...plain, exitCode: 1, lastErrorLine: written(line) }).reason,
      expected,
    );
  }
  assert.match(
    exitSummary({ ...plain, exitCode: 1, startError: "KeyError: 'key'" }).reason,
    /: KeyError: 'key'\.$/,
  );
});
