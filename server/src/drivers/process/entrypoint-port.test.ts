// Which arguments of a start command are taken for the port or for every address, and which are
// left alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { keepOnLoopback, replacePort } from "./entrypoint-port.ts";

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
  for (const [given, expected] of cases)
    assert.deepEqual(replacePort(given, 8000, 20_001), expected, given.join(" "));
});

test("every address becomes the loopback address, and nothing else does", () => {
  const cases: [string, string][] = [
    ["0.0.0.0", "127.0.0.1"],
    ["--host=0.0.0.0", "127.0.0.1"],
    ["0.0.0.0:8000", "127.0.0.1:8000"],
    ["tcp://0.0.0.0:8000/x", "tcp://127.0.0.1:8000/x"],
    ["serve --host 0.0.0.0 --port 8000", "serve --host 127.0.0.1 --port 8000"],
    ["serve --host :: --port 8000", "serve --host 127.0.0.1 --port 8000"],
    ["serve '::'", "serve '127.0.0.1'"],
    ["HOST=:: serve --bind=[::]:8000", "HOST=127.0.0.1 serve --bind=127.0.0.1:8000"],
    ["serve --bind [::] -v", "serve --bind 127.0.0.1 -v"],
    ["serve :8000 --to ':8001'", "serve 127.0.0.1:8000 --to '127.0.0.1:8001'"],
    ["::", "127.0.0.1"],
    ["[::]", "127.0.0.1"],
    ["--bind=[::]:8000", "127.0.0.1:8000"],
    ["--host=::", "127.0.0.1"],
    [":8000", "127.0.0.1:8000"],
    ["--addr=:8000", "127.0.0.1:8000"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["10.0.0.0.0", "10.0.0.0.0"],
    ["0.0.0.01", "0.0.0.01"],
    ["::1", "::1"],
    ["main::app", "main::app"],
    ["std::", "std::"],
    ["python -c 'print(rows[::], rows[::] )'", "python -c 'print(rows[::], rows[::] )'"],
    ["serve --host ::1 main::app a:8000 x", "serve --host ::1 main::app a:8000 x"],
    ["main:app", "main:app"],
    ["a:8000", "a:8000"],
  ];
  for (const [given, expected] of cases) {
    const option = /^--\w+=/.exec(given)?.[0] ?? "";
    assert.deepEqual(keepOnLoopback(["serve", given]), ["serve", `${option}${expected}`], given);
  }
  assert.deepEqual(keepOnLoopback(["0.0.0.0", "x"]), ["0.0.0.0", "x"]);
});
