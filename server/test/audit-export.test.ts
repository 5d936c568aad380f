// The export of an audit log over the wire: what is in it, in which form, and that it is the same
// however much is written meanwhile.
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { sql } from "kysely";
import { auditLogPage } from "@slipway/contract/audit-routes.ts";
import {
  chainBegin,
  linkHash,
  linkText,
  type CheckpointLine,
  type EntryLine,
} from "#audit/export/export-format.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import "#test/support/leftovers.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "./support/management-api.ts";

const pathOf = (projectId: string): string => `/v2/projects/${projectId}/audit-log`;

/** The lines of an export as NDJSON: the first one, and all others. */
async function exported(
  api: ApiUnderTest,
  query = "",
): Promise<{ header: Json; lines: (EntryLine | CheckpointLine)[] }> {
  const answer = await api.call("GET", `${pathOf(api.projectId)}/export?${query}`);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.match(answer.headers.get("content-type") ?? "", /^application\/x-ndjson/);
  const text = String(answer.body);
  assert.ok(text.endsWith("\n"));
  const [header, ...lines] = text
    .trimEnd()
    .split("\n")
    .map((line): Json => JSON.parse(line));
  assert.equal(header.kind, "slipway-audit-export");
  return { header, lines };
}

const entriesOf = (lines: readonly (EntryLine | CheckpointLine)[]): EntryLine[] =>
  lines.filter((line) => line.kind === "entry");

/** Within what is kept, and so that all that is filled in lies before now. */
const beginDay = new Date(Date.now() - 20 * 86_400_000).toISOString().slice(0, 10);

/** Many entries at once, one a second from the time on. */
async function fill(
  db: Db,
  projectId: ProjectId,
  count: number,
  from = `${beginDay}T00:00:00Z`,
): Promise<void> {
  await sql`
    insert into audit_log (project_id, at, action, outcome, actor_type, actor_id, resource_type, resource_id, changes)
    select ${projectId}, ${from}::timestamptz + i * interval '1 second',
           case when i % 7 = 0 then 'secrets.read' else 'app.update' end,
           case when i % 5 = 0 then 'failure' else 'success' end, 'person', 'ada', 'app', 'app-' || i,
           jsonb_build_object('n', jsonb_build_object('new', i))
      from generate_series(1, ${count}::int) as i`.execute(db);
}

async function pages(api: ApiUnderTest, query: string): Promise<Json[]> {
  const entries: Json[] = [];
  for (let token: string | undefined = ""; token !== undefined;) {
    const answer = await api.call(
      "GET",
      `${pathOf(api.projectId)}?limit=200&${query}&nextToken=${token}`,
    );
    const page = auditLogPage.parse(answer.body);
    entries.push(...page.logs);
    token = page.nextPageToken;
  }
  return entries;
}

test("all of it is the chain, from its first entry to the export itself, signed at its end", async (t) => {
  const api = await startManagementApi(t);
  await fill(api.db, api.projectId, 5_000);
  const { header, lines } = await exported(api);
  assert.deepEqual(
    [header.project, header.filter, header.after],
    [api.projectId, null, chainBegin],
  );
  const last = lines.at(-1);
  assert.equal(last?.kind, "checkpoint");
  assert.deepEqual({ number: last.number, hash: last.hash }, header.through);
  const entries = entriesOf(lines);
  assert.ok(entries.length > 5_000);
  let before = chainBegin;
  for (const { number, hash, entry } of entries) {
    assert.equal(number, before.number + 1);
    assert.equal(hash, linkHash(before.hash, linkText({ number, project: api.projectId, entry })));
    before = { number, hash };
  }
  const own = entries.at(-1)?.entry;
  assert.deepEqual(
    [own?.action, own?.actor.name, own?.changes],
    ["audit_log.export", "owner", { format: { new: "ndjson" } }],
  );
  const shown = await pages(api, "");
  assert.deepEqual(
    new Set(entries.map(({ entry }) => JSON.stringify(entry))),
    new Set(shown.map((one) => JSON.stringify(one))),
  );
});

test("what filters leave is what pages have, oldest first, and the first line says that it is not all", async (t) => {
  const api = await startManagementApi(t);
  await fill(api.db, api.projectId, 3_000);
  for (const query of [
    "action=secrets.read",
    "outcome=failure",
    "actor=ada&outcome=success",
    `action=app.update&actor=ada&from=${beginDay}T00:10:00Z&to=${beginDay}T00:30:00.5Z`,
    `from=${beginDay}T00:40:00Z&to=${beginDay}T23:59:59Z`,
    "action=app.delete",
  ]) {
    const { header, lines } = await exported(api, query);
    const expected = new URLSearchParams(query);
    assert.notEqual(header.filter, null, query);
    assert.equal(header.filter.action, expected.get("action"), query);
    assert.equal(header.filter.from === null, expected.get("from") === null, query);
    const entries = entriesOf(lines);
    assert.deepEqual(
      entries.map(({ entry }) => entry),
      (await pages(api, query)).toReversed(),
      query,
    );
    assert.ok(entries.length > 0 || query.includes("delete"), query);
  }
});

test("CSV has the same entries, a line each, and says which is which", async (t) => {
  const api = await startManagementApi(t);
  await fill(api.db, api.projectId, 1_000);
  const answer = await api.call(
    "GET",
    `${pathOf(api.projectId)}/export?format=csv&outcome=failure`,
  );
  assert.equal(answer.headers.get("content-type"), "text/csv; charset=utf-8; header=present");
  assert.match(
    answer.headers.get("content-disposition") ?? "",
    /^attachment; filename="audit-log-p-\w{8}-\d{4}-\d\d-\d\d\.csv"$/,
  );
  assert.equal(answer.headers.get("cache-control"), "no-store");
  const [head, ...lines] = String(answer.body).trimEnd().split("\r\n");
  assert.match(head ?? "", /^number,id,timestamp,action,outcome,actor_type,/);
  const ids = lines.map((line) => line.split(",")[1]);
  assert.deepEqual(ids, (await pages(api, "outcome=failure")).map(({ id }) => id).toReversed());
  const { lines: chained } = await exported(api);
  const numbers = new Map(
    entriesOf(chained).map(({ number, entry }) => [entry.id, String(number)]),
  );
  for (const line of lines) assert.equal(line.split(",")[0], numbers.get(line.split(",")[1] ?? ""));
});

test("what is committed while it is made is not in it, and what was there before is", async (t) => {
  const api = await startManagementApi(t);
  await fill(api.db, api.projectId, 20_000);
  const writing = new AbortController();
  const written = (async () => {
    while (!writing.signal.aborted) {
      await Promise.all(
        Array.from({ length: 4 }, () => fill(api.db, api.projectId, 3, `${beginDay}T12:00:00Z`)),
      );
    }
  })();
  try {
    for (const query of ["", "actor=ada", "format=csv"]) {
      const { rows: before } = await sql<{
        id: string;
      }>`select id::text from audit_log where project_id = ${api.projectId}`.execute(api.db);
      const answer = await api.call("GET", `${pathOf(api.projectId)}/export?${query}`);
      const lines = String(answer.body).trimEnd().split("\n");
      const ids = query === "format=csv" ? lines.map((line) => line.split(",")[1]) : idsOf(lines);
      assert.equal(new Set(ids).size, ids.length, "none twice");
      const there = new Set(ids);
      const wanted =
        query === "actor=ada" ? await idsOfAda(api.db, before.length) : before.map(({ id }) => id);
      assert.deepEqual(
        wanted.filter((id) => !there.has(id)),
        [],
        query,
      );
    }
  } finally {
    writing.abort();
    await written;
  }
});

function idsOf(lines: readonly string[]): (string | undefined)[] {
  return lines
    .map((line): Json => JSON.parse(line))
    .flatMap((line) => (line.kind === "entry" ? [line.entry.id] : [line.kind + line.number]));
}

/** The first so many entries by id are there for sure. */
async function idsOfAda(db: Db, count: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id::text from (select id, actor_id from audit_log order by id limit ${count}) as first where actor_id = 'ada'`.execute(
    db,
  );
  return rows.map(({ id }) => id);
}

describe("who exports", () => {
  async function assertRefused(
    api: ApiUnderTest,
    token: string | null,
    status: number,
  ): Promise<void> {
    const answer = await api.call("GET", `${pathOf(api.projectId)}/export`, { token });
    assert.equal(answer.status, status);
    assert.equal(typeof answer.body.message, "string");
  }

  async function open(t: TestContext): Promise<ApiUnderTest> {
    return await startManagementApi(t);
  }

  test("is the owner, as with reading; each export and each refusal is an entry, a HEAD is none", async (t) => {
    const api = await open(t);
    for (const role of ["admin", "member", "billing"] as const) {
      await assertRefused(api, await api.issue({ kind: "service_account", role }), 403);
    }
    await assertRefused(api, await api.issue({ kind: "inference" }), 403);
    await assertRefused(api, null, 401);
    const stranger = await api.issue({
      kind: "service_account",
      projectId: await api.addProject("second"),
    });
    await assertRefused(api, stranger, 404);
    const head = await api.call("HEAD", `${pathOf(api.projectId)}/export?format=csv`);
    assert.deepEqual([head.status, head.body], [200, ""]);
    assert.match(head.headers.get("content-type") ?? "", /^text\/csv/);
    await exported(api, "outcome=failure");
    const entries = await pages(api, "action=audit_log.export");
    assert.deepEqual(
      entries.map(({ outcome, changes }) => [outcome, changes]),
      [
        ["success", { format: { new: "ndjson" }, outcome: { new: "failure" } }],
        ...Array(4).fill(["failure", null]),
      ],
    );
  });

  test("is told what is not allowed", async (t) => {
    const api = await open(t);
    for (const [query, form] of [
      ["format=xml", /^format is "xml", but must be one of ndjson, csv/],
      ["from=yesterday", /^from is "yesterday"/],
      ["from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", /^from is after to/],
      ["limit=5", /"limit" is not a parameter/],
    ] as const) {
      const answer = await api.call("GET", `${pathOf(api.projectId)}/export?${query}`);
      assert.deepEqual(
        [answer.status, form.test(answer.body.message)],
        [400, true],
        answer.body.message,
      );
    }
  });
});
