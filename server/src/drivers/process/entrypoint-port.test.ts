// Which arguments of a start command are taken for the port, and which are left alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { replacePort } from "./entrypoint-port.ts";

test("a port that is an argument, or ends one after a colon or an equals sign, is replaced", () => {
  const cases: [string[], string[] | null][] = [
    [
      ["uvicorn", "main:app", "--port", "8000"],
      ["uvicorn", "main:app", "--port", "20001"],
    ],
    [
      ["uvicorn", "main:app", "--port=8000"],
      ["uvicorn", "main:app", "--port=20001"],
    ],
    [
      ["gunicorn", "-b", "0.0.0.0:8000", "main"],
      ["gunicorn", "-b", "0.0.0.0:20001", "main"],
    ],
    [
      ["serve", "tcp://[::]:8000", "--metrics", "8000"],
      ["serve", "tcp://[::]:20001", "--metrics", "20001"],
    ],
    [["serve", "--port", "80001"], null],
    [["serve", "--port", "18000"], null],
    [["serve", "--since", "2000-8000"], null],
    [["sh", "-c", "serve --port 8000"], null],
    [["./8000"], null],
    [["8000"], null],
    [[], null],
  ];
  for (const [given, expected] of cases) assert.deepEqual(replacePort(given, 8000, 20_001), expected, given.join(" "));
});
