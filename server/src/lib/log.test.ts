// The forms of the platform's own log.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "./log.ts";

function written(pretty: boolean): string[] {
  const chunks: string[] = [];
  const to = { write: (chunk: string) => void chunks.push(chunk) };
  const log = createLog({ level: "info", pretty, to });
  log.info("replicas taken over");
  log.debug("not shown");
  log.warn({ appId: "p-1-app", password: "sesame" }, "an app waits");
  return chunks.join("").trimEnd().split("\n");
}

test("for people, each message is a line with its time, its level and its fields", () => {
  const [first = "", second = "", ...more] = written(true);
  assert.match(first, /^\[\d\d:\d\d:\d\d\] INFO: replicas taken over$/);
  assert.match(
    second,
    /^\[\d\d:\d\d:\d\d\] WARN: an app waits {"appId":"p-1-app","password":"\[Redacted\]"}$/,
  );
  assert.deepEqual(more, []);
});

test("for programs, each is an object", () => {
  const lines = written(false).map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    lines.map(({ level, msg, appId, password }) => [level, msg, appId, password]),
    [
      [30, "replicas taken over", undefined, undefined],
      [40, "an app waits", "p-1-app", "[Redacted]"],
    ],
  );
});
