// What tests of the audit log's chains share: projects that write to theirs, and what an intact
// chain and export are.
import assert from "node:assert/strict";
import { sql } from "kysely";
import { chainBegin, linkHash, linkText } from "#audit/export/export-format.ts";
import { chainOf, readLinks } from "#audit/export/export-store.ts";
import { record } from "#audit/record.ts";
import { showEntry } from "#audit/shown-entry.ts";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { byPlatform } from "./support/accounts.ts";
import { testSigner } from "./support/audit-chain.ts";
import type { WithAfter } from "./support/clean-last.ts";
import { testDatabase } from "./support/database.ts";

/** In milliseconds. */
export const dayMs = 86_400_000;
/** Signs all chains here. */
export const signer = testSigner();
/** Four projects, the first of which has a name of its own. */
export const projects = ["p-00000001", "p-00000002", "p-00000003", "p-00000004"] as ProjectId[];
/** The first. */
export const [first = "p-00000001" as ProjectId] = projects;

/** A fresh database with them. */
export async function withProjects(t: WithAfter): Promise<{ db: Db; url: Secret }> {
  const { db, url } = await testDatabase(t);
  await db
    .insertInto("projects")
    .values(projects.map((id) => ({ id, name: id })))
    .execute();
  return { db, url };
}

/** One entry. */
export async function add(
  db: Db,
  projectId: ProjectId | null,
  resource: string = "x",
): Promise<void> {
  await record(db, {
    projectId,
    action: "app.update",
    by: byPlatform,
    resource: { type: "app", id: resource },
  });
}

/**
 * The number of links of a chain, each of which must be the next and the hash of the one before and
 * its entry.
 */
export async function checkChain(db: Db, project: ProjectId | null): Promise<number> {
  const rows = await readLinks(db, { chain: chainOf(project), after: 0, through: 1e9, limit: 1e6 });
  let { hash } = chainBegin;
  for (const [index, row] of rows.entries()) {
    hash = linkHash(hash, linkText({ number: index + 1, project, entry: showEntry(row) }));
    assert.deepEqual([row.number, row.hash], [index + 1, hash]);
  }
  const count = sql<{ count: number }>`
    select count(*) as count from audit_log where project_id is not distinct from ${project}`;
  assert.equal(rows.length, (await count.execute(db)).rows[0]?.count, "every entry has a link");
  return rows.length;
}

/** The export is as it was written, with all signatures. */
export async function assertIntact(text: string): Promise<void> {
  const verdict = await verifyExport(partsOf(text), signer.publicKeys);
  assert.equal(verdict.result, "intact", JSON.stringify(verdict));
}

/** A text as a stream of bytes. */
export async function* partsOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
