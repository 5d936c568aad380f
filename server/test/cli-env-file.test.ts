// Values of .env files: those that Docker Compose and python-dotenv both read, and a refusal where
// the two differ.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { readEnvFile } from "@slipway/cli/src/env-file.ts";
import { Refused } from "@slipway/cli/src/refused.ts";
import { ahead } from "#test/support/ahead.ts";
import { makeFolder, removeFolder } from "#test/support/folder.ts";
import { packageIndexAnswers } from "#test/support/package-index.ts";

const installMs = 240_000;
const run = promisify(execFile);

/**
 * The reader of Docker Compose (compose-go 2.16.2) was asked for each of them once, python-dotenv
 * is asked below.
 */
const readAlike: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
  ['K="{\\"a\\": 1}"', { K: '{"a": 1}' }],
  ["PASSWORD=a#b", { PASSWORD: "a#b" }],
  ["K=https://x:y@h/?a=1#frag", { K: "https://x:y@h/?a=1#frag" }],
  ["K=#fff", { K: "#fff" }],
  ["K=a # comment", { K: "a" }],
  ['K="a # b" # comment', { K: "a # b" }],
  ["K='a # b'#comment", { K: "a # b" }],
  ["# one\n\n  export K = v  \nL=\nM=''", { K: "v", L: "", M: "" }],
  ["K=\"one\ntwo\n\"\nL='three\nfour'", { K: "one\ntwo\n", L: "three\nfour" }],
  ["K=one\r\nL='two'\r\n", { K: "one", L: "two" }],
  ['K="a\\nb\\tc\\\\d\\xe"', { K: "a\nb\tc\\d\\xe" }],
  ["K='a\\nb\\'c'", { K: "a\\nb'c" }],
  ["K=a\\nb\\\\c", { K: "a\\nb\\\\c" }],
  ["K='pa$sword$$1'", { K: "pa$sword$$1" }],
  ["K=cost 5$ or $ 6", { K: "cost 5$ or $ 6" }],
  ["K=`a b`\nL=a\"b\"'c'", { K: "`a b`", L: "a\"b\"'c'" }],
  ['K={"a": [1, "b"]}', { K: '{"a": [1, "b"]}' }],
  ["K=1\nK=2", { K: "2" }],
  ["\ufeffK=grüße", { K: "grüße" }],
  ["a.b-c=1\n_=2", { "a.b-c": "1", _: "2" }],
];

/** The text, the line that the refusal names, and what it says. */
const refusals: readonly (readonly [string, number, RegExp])[] = [
  ["A=1\nK=$2b$12$abc", 2, /has a \$.*single quotes/],
  ['K="a$b"', 1, /has a \$/],
  ['K="a\\$b"', 1, /has a \$/],
  ["K=${HOME}", 1, /has a \$/],
  ["K='${HOME}'", 1, /has \$\{ in single quotes/],
  ["K='a\\\\b'", 1, /two backslashes/],
  ['K="a\\\'b"', 1, /\\' or \\0/],
  ['K="a\\0b"', 1, /\\' or \\0/],
  ["K= # comment", 1, /has a # after a space/],
  ["K=a\t# comment", 1, /has a # after a tab/],
  ["K=\u00a0a", 1, /a blank that is no space/],
  ["K=ä\n\n  K", 3, /not of the form NAME=value/],
  ["K: v", 1, /not of the form/],
  ["'K'=v", 1, /not of the form/],
  ["export =v", 1, /not of the form/],
  ['A="\n"\nK="a"b', 3, /text after its closing quote/],
  ['K="{"a": 1}"', 1, /text after its closing quote.*backslash/],
  ["K='it's'", 1, /text after its closing quote/],
  ['K="a', 1, /no closing quote/],
  ['K="a\r\nb"', 1, /lines that end as on Windows/],
  ["K=a\rL=b", 1, /carriage return/],
  ["K=a\u0007b", 1, /control character/],
];

test("a value of a .env file is what Docker Compose and python-dotenv read", () => {
  for (const [text, values] of readAlike)
    assert.deepEqual(readEnvFile(Buffer.from(text), "f"), values, text);
});

test("what Docker Compose and python-dotenv read differently is refused with its line, and without the value", () => {
  for (const [text, line, why] of refusals) {
    assert.throws(
      () => readEnvFile(Buffer.from(text), ".env"),
      (error) => {
        assert.ok(error instanceof Refused);
        assert.equal(error.exitCode, 2);
        assert.ok(
          error.message.startsWith(`.env, line ${line}: `),
          `${JSON.stringify(text)}: ${error.message}`,
        );
        assert.match(error.message, why);
        assert.doesNotMatch(error.message, /abc|HOME/);
        return true;
      },
      JSON.stringify(text),
    );
  }
  const latin = Buffer.concat([Buffer.from("A=1\nK="), Buffer.from([0xe4, 0x0a])]);
  assert.throws(() => readEnvFile(latin, ".env"), /^Refused: \.env, line 2: this is not UTF-8/);
  const utf16 = Buffer.from("\ufeffK=1\r\n", "utf16le");
  assert.throws(() => readEnvFile(utf16, ".env"), /^Refused: \.env, line 1: this is not UTF-8/);
});

const skip = await packageIndexAnswers();
const folder = makeFolder("dotenv");
const python = join(folder, "bin/python");
after(() => removeFolder(folder));

/** Before the first test, since the index may be slow. */
const install = await ahead(async () => {
  if (skip !== false) return;
  const options = ["--quiet", "--disable-pip-version-check"];
  await run("python3", ["-m", "venv", folder], { timeout: installMs });
  await run(python, ["-m", "pip", "install", ...options, "python-dotenv==1.2.4"], {
    timeout: installMs,
  });
});

test("python-dotenv of the package index reads the same values", { skip }, async () => {
  install();
  const code = `import io, json, sys
from dotenv import dotenv_values
texts = [io.TextIOWrapper(io.BytesIO(one.encode())).read() for one in json.loads(sys.argv[1])]
print(json.dumps([dotenv_values(stream=io.StringIO(one)) for one in texts]))`;
  const texts = JSON.stringify(readAlike.map(([text]) => text));
  const { stdout } = await run(python, ["-X", "utf8", "-c", code, texts]);
  assert.deepEqual(
    JSON.parse(stdout),
    readAlike.map(([, values]) => values),
  );
});
