// Any entry as a line of CSV: what comes out of a strict reader is what went in, and no value is a
// formula.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { ProjectId } from "#lib/ids.ts";
import { anyText } from "#test/support/any-text.ts";
import { csvHead, csvLine, type CsvEntry } from "./export-csv.ts";

const plain: CsvEntry = {
  number: 7,
  id: 70,
  project_id: "p-1" as ProjectId,
  at: new Date(0),
  at_micros: 1_000_001,
  action: "app.create",
  outcome: "success",
  actor_type: "person",
  actor_id: "a",
  actor_name: "Ada",
  resource_type: null,
  resource_id: null,
  resource_name: null,
  request_id: "r",
  address: "::1",
  user_agent: "curl",
  changes: null,
  reason: null,
};

/** A reader of RFC 4180 that takes nothing else: null for an empty value, "" for an empty text. */
function readCsv(text: string): (string | null)[][] {
  const lines: (string | null)[][] = [];
  let line: (string | null)[] = [];
  const form = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n)/gy;
  let end = 0;
  for (let found = form.exec(text); found !== null; found = form.exec(text)) {
    const [, value = "", after = ""] = found;
    line.push(readValue(value));
    end = form.lastIndex;
    if (after === ",") continue;
    lines.push(line);
    line = [];
  }
  assert.equal(end, text.length, "nothing is left over");
  return lines;
}

function readValue(value: string): string | null {
  if (value === "") return null;
  return value.startsWith('"') ? value.slice(1, -1).replaceAll('""', '"') : value;
}

const columnOf = (name: string): number => csvHead.trimEnd().split(",").indexOf(name);

test("a line has a value for each column, nothing for null", () => {
  const line = csvLine({ ...plain, changes: { name: { old: "a", new: "b" } } });
  const changes = '"{""name"":{""old"":""a"",""new"":""b""}}"';
  assert.equal(
    line,
    `7,70,1970-01-01T00:00:01.000001Z,app.create,success,person,a,Ada,,,,r,::1,curl,${changes},\r\n`,
  );
  assert.equal(csvHead.split(",").length, 16);
});

test("any text comes back as it was, whatever is in it", () => {
  const text = fc.oneof(anyText(), fc.stringMatching(/^[=+@'",\r\n\t \-a]{0,12}$/));
  fc.assert(
    fc.property(text, text, (name, reason) => {
      const [values] = readCsv(csvLine({ ...plain, actor_name: name, reason }));
      assert.equal(values?.length, 16);
      const back = (column: string): string | undefined =>
        values[columnOf(column)]?.replace(/^'/, "");
      assert.equal(back("actor_name"), name);
      assert.equal(back("reason"), reason);
    }),
    { numRuns: 500 },
  );
});

test("no value begins like a formula", () => {
  const odd = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "  =1",
    "\u00a0=1",
    "\u200b=1",
    "＝1",
    "−1",
    "'=1",
  ];
  for (const text of odd) {
    const value = readCsv(csvLine({ ...plain, user_agent: text }))[0]?.[columnOf("user_agent")];
    assert.equal(value, `'${text}`, JSON.stringify(text));
  }
  for (const text of ["a=1", "2-1", "p-12345678", "1.2.3.4", '"=1"']) {
    assert.equal(
      readCsv(csvLine({ ...plain, user_agent: text }))[0]?.[columnOf("user_agent")],
      text,
    );
  }
});
