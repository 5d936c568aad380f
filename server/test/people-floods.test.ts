// What strangers, and tokens that may do nothing, can fill the platform with: nothing that grows
// without a bound.
import assert from "node:assert/strict";
import { test } from "node:test";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { removeOld } from "#lib/retention.ts";
import { peopleCleanup } from "#people/open.ts";
import { testDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";
import { startManagementApi } from "#test/support/management-api.ts";

test("what strangers have tried is removed in one turn, however much it is", async (t) => {
  const { db } = await testDatabase(t);
  const count = 20_000;
  await sql`insert into person_attempts (key, used, ends_at)
    select 'key ' || number, 1, now() - interval '1 minute' from generate_series(1, ${count}) number`.execute(
    db,
  );
  await sql`insert into person_verifications (id, identifier, value, expires_at, created_at, updated_at)
    select number::text, number::text, '', now() - interval '1 minute', now(), now()
      from generate_series(1, ${count}) number`.execute(db);
  await removeOld(peopleCleanup({ db, clock: systemClock }), new AbortController().signal);
  const { rows } = await sql<{ left: string }>`select
    (select count(*) from person_attempts) + (select count(*) from person_verifications) as left`.execute(
    db,
  );
  assert.equal(Number(rows[0]?.left), 0);
});

test("a token that may do nothing writes a bounded number of entries into the audit log", async (t) => {
  const api = await startManagementApi(t);
  const token = await api.issue({ kind: "inference" });
  const path = `/v2/projects/${api.projectId}/service-accounts`;
  const refused = async (): Promise<number> => {
    const entries = api.db.selectFrom("audit_log").select("id").where("outcome", "=", "failure");
    return (await entries.execute()).length;
  };
  const all = Array.from({ length: 330 }, () =>
    api.call("POST", path, { token, body: { name: "x", role: "owner" } }),
  );
  for (const { status } of await Promise.all(all)) assert.equal(status, 403);
  assert.equal(await refused(), 300, "as many as are recorded within a minute");
  const other = await api.issue({ kind: "inference" });
  await api.call("POST", path, { token: other, body: { name: "x", role: "owner" } });
  assert.equal(await refused(), 301, "others' are recorded still");
});

test("who has a network of IPv6 begins no more device logins than who has one address", async (t) => {
  const api = await startManagementApi(t, {
    settings: { trustedProxies: new TrustedProxies(["127.0.0.1"]) },
  });
  const begin = (address: string) =>
    api.call("POST", "/device-authorization", {
      token: null,
      headers: { "x-forwarded-for": address },
    });
  const answers = await Promise.all(
    Array.from({ length: 130 }, (_, index) => begin(`2001:db8::${index.toString(16)}`)),
  );
  assert.equal(answers.filter(({ status }) => status === 429).length, 10);
  assert.equal((await begin("2001:db8:0:1::1")).status, 200, "another network's are another's");
});
