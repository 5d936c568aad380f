// Tokens of pages: read as they were made, also by earlier versions, and refused when altered or
// made by somebody else.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "./fault.ts";
import { PageTokens } from "./page-token.ts";

type Run = { readonly atMicros: number; readonly id: string };
type Line = { readonly at: number; readonly id: number };
const runs = new PageTokens<Run>({
  list: "runs",
  cursor: { atMicros: "number", id: "uuid" },
  next: "nextToken",
});
const dead = new PageTokens<Run>({
  list: "dead",
  cursor: { atMicros: "number", id: "uuid" },
  next: "nextToken",
});
const lines = new PageTokens<Line>({
  list: null,
  cursor: { at: "number", id: "number" },
  next: "nextPageToken",
});
const audit = new PageTokens<Line>({
  list: "audit",
  cursor: { at: "number", id: "number" },
  next: "nextPageToken",
});

const app = "p-00000001-hello";
const run = { atMicros: 1_795_270_291_000_123, id: "ef812a41-8140-8978-8001-9cab8c0f5c85" };
const refused = (next: string) => (error: unknown) =>
  error instanceof Fault &&
  error.code === "invalid" &&
  error.message.startsWith(
    `nextToken does not belong to this query: use ${next} from its last answer`,
  );

test("a token names its cursor, and is of no other list or query", () => {
  const query = [app, false, undefined];
  const token = runs.make(query, run);
  assert.match(token, /^[a-z0-9-]{1,50}[\w-]{0,30}$/);
  assert.deepEqual(runs.read(query, token), run);
  assert.deepEqual(runs.read([app, false, null], token), run, "what is left out is null");
  for (const other of [
    [app, true, null],
    [app, false, "success"],
    ["p-00000002-hello", false, null],
    [app, false],
  ]) {
    assert.throws(() => runs.read(other, token), refused("nextToken"), JSON.stringify(other));
  }
  assert.throws(() => dead.read(query, token), refused("nextToken"));
  assert.throws(() => lines.read(query, token), refused("nextPageToken"));
});

test("a token that was altered anywhere, or spelled in another way, is refused", () => {
  const cursor = { at: 1_795_270_291_000, id: 17 };
  const token = lines.make([app], cursor);
  for (let index = 0; index < token.length; index++) {
    const other = token[index] === "7" ? "8" : "7";
    assert.throws(
      () => lines.read([app], token.slice(0, index) + other + token.slice(index + 1)),
      Fault,
    );
  }
  for (const one of [
    "",
    "-",
    "x",
    `0${token}`,
    token.toUpperCase(),
    `${token}A`,
    token.slice(1),
    `${token}-${token}`,
  ]) {
    assert.throws(() => lines.read([app], one), Fault, one);
  }
});

test("a token with a right check and a cursor that there cannot be is refused", () => {
  for (const at of [8_640_000_000_000_001, 2 ** 56, 4.7e18, -1, 0.5, Number.NaN]) {
    assert.throws(() => lines.read([app], lines.make([app], { at, id: 1 })), Fault, String(at));
    assert.throws(() => lines.read([app], lines.make([app], { at: 1, id: at })), Fault, String(at));
  }
  for (const id of ["", "x", "' or 1", "z".repeat(32), `${run.id}0`, run.id.toUpperCase()]) {
    assert.throws(() => runs.read([app], runs.make([app], { ...run, id })), Fault, id);
  }
});

test("tokens that earlier versions gave out go on", () => {
  const filter = [app, "forward", null, null, null, "a b", "stdout", null];
  assert.deepEqual(lines.read(filter, "mwqhku2g-h-v5iAqRKNcsmd"), {
    at: 1_795_270_291_000,
    id: 17,
  });
  const token = "hodbsar7zv-ef812a418140897880019cab8c0f5c85-b_jJbe5UPGL5";
  assert.deepEqual(runs.read([app, false, "success"], token), run);
  const query = ["p-00000001", "5.7", null, "app.create", null, null];
  assert.deepEqual(audit.read(query, "hodbsar7zv-16-n4OP3Z_XIsiG"), { at: run.atMicros, id: 42 });
});
