// Examples of calls, as a shell takes them.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { curlCall, slipwayCall } from "./call-example.ts";

test("whatever the platform and the app's folder name, each part of an example is one word", () => {
  const wordsOf = (text: string): string[] =>
    execFileSync(
      "bash",
      ["-c", `curl() { slipway "$@"; }; slipway() { printf '%s\\n' "$@"; }; ${text}`],
      {
        encoding: "utf8",
      },
    )
      .trimEnd()
      .split("\n");
  const url = "http://a.example/v4/$(echo p)/it's;echo no";
  const example = { endpoint: "run", values: { name: "a'; echo no" } };
  assert.deepEqual(wordsOf(slipwayCall("hello;echo no", example)), [
    "call",
    "hello;echo no/run",
    "name=a'; echo no",
  ]);
  assert.equal(wordsOf(curlCall(url, example, "$TOKEN")).at(-1), `${url}/run`);
  assert.deepEqual(wordsOf(curlCall(url, { ...example, endpoint: "" }, null)), [
    "-w",
    "\\n",
    `${url}/`,
  ]);
});
