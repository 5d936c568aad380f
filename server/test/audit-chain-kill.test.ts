// A platform that is killed, with its database or without, between what it writes and the commit: a
// change and its entry are there together or not at all, and the chain is whole.
import assert from "node:assert/strict";
import { createPublicKey, type JsonWebKey } from "node:crypto";
import { test } from "node:test";
import type { Client } from "pg";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import { partsOf } from "./audit-chain-stage.ts";
import { clientOf, killServer } from "./support/embedded-processes.ts";
import { startPlatform, type PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const changesAtOnce = 4;

/**
 * Begins changes that have written everything and wait for their commit, which `holder` keeps from
 * them.
 */
async function changesBeforeCommit(
  platform: PlatformProcess,
  holder: Client,
  names: readonly string[],
): Promise<void> {
  const { projectId } = platform.bootstrap;
  await holder.query("begin");
  await holder.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [projectId]);
  for (const name of names) {
    const path = `/v2/projects/${projectId}/service-accounts`;
    void platform.api("POST", path, { name, role: "member" }).catch(() => null);
  }
  await until("all of them wait for the chain", async () => {
    const { rows } = await holder.query<{ count: number }>(
      "select count(*)::integer as count from pg_locks where locktype = 'advisory' and not granted",
    );
    return (rows[0]?.count ?? 0) >= names.length;
  });
}

/** Which of the names the project has, and which the log. */
async function found(
  platform: PlatformProcess,
  names: readonly string[],
): Promise<{ made: string[]; told: string[] }> {
  const { projectId } = platform.bootstrap;
  const accounts = await platform.api("GET", `/v2/projects/${projectId}/service-accounts`);
  assert.equal(accounts.status, 200, JSON.stringify(accounts.body));
  const text = JSON.stringify(accounts.body);
  const log = await platform.api(
    "GET",
    `/v2/projects/${projectId}/audit-log?action=token.create&outcome=success&limit=200`,
  );
  const entries: { resource: { name: string } | null }[] = log.body.logs;
  const told = entries
    .flatMap(({ resource }) => resource?.name ?? [])
    .filter((name) => names.includes(name));
  return {
    made: names.filter((name) => text.includes(`"${name}"`)).toSorted(),
    told: told.toSorted(),
  };
}

async function assertWhole({ bootstrap }: PlatformProcess): Promise<void> {
  const { baseUrl, projectId, serviceAccountToken } = bootstrap;
  const jwks = (await (await fetch(`${baseUrl}/.well-known/jwks.json`)).json()) as {
    keys: (JsonWebKey & { kid: string })[];
  };
  const keys = new Map(jwks.keys.map((key) => [key.kid, createPublicKey({ key, format: "jwk" })]));
  const headers = { authorization: `Bearer ${serviceAccountToken}` };
  const answer = await fetch(`${baseUrl}/v2/projects/${projectId}/audit-log/export`, { headers });
  const verdict = await verifyExport(partsOf(await answer.text()), keys);
  assert.equal(verdict.result, "intact", JSON.stringify(verdict));
}

test("a kill between insert and commit leaves a change and its entry, or neither, and a whole chain", async (t) => {
  const platform = await startPlatform(t, { SLIPWAY_DRAIN_SECONDS: "0" });
  for (const [round, isDatabaseKilled] of [true, false, false].entries()) {
    const names = Array.from({ length: changesAtOnce }, (_, index) => `made-${round}-${index}`);
    const holder = clientOf(platform.dataDir, "holder");
    t.after(() => holder.end().catch(() => undefined));
    await holder.connect();
    await changesBeforeCommit(platform, holder, names);
    // Where the database goes on, the commits and the kill run against each other.
    const released = isDatabaseKilled ? null : holder.query("commit").catch(() => null);
    // First: a database whose platform is gone ends in order, and lets go of the locks.
    if (isDatabaseKilled) killServer(platform.dataDir);
    const ended = platform.end("SIGKILL");
    await Promise.all([released, ended]);
    await platform.restart();
    const { made, told } = await found(platform, names);
    t.diagnostic(`${made.length} of ${names.length} are there`);
    assert.deepEqual(told, made);
    if (isDatabaseKilled) assert.deepEqual(made, [], "nothing had been committed");
    await assertWhole(platform);
    const after = await platform.api(
      "POST",
      `/v2/projects/${platform.bootstrap.projectId}/service-accounts`,
      {
        name: `after-${round}`,
        role: "member",
      },
    );
    assert.equal(after.status, 201, JSON.stringify(after.body));
    await assertWhole(platform);
  }
});
