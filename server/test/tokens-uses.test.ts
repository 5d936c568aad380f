// When and from where tokens were used: written in batches, listed, and recorded when an address is
// new; within bounds.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { pino } from "pino";
import { systemClock, type Clock } from "#lib/clock.ts";
import { silentLog, type Log } from "#lib/log.ts";
import type { Caller, TokenCaller } from "#accounts/caller.ts";
import { TokenUses } from "#accounts/token-uses.ts";
import { testAccounts, type Accounts } from "#test/support/accounts.ts";
import "#test/support/leftovers.ts";
import { startManagementApi, type Json } from "#test/support/management-api.ts";
import { movableClock } from "./support/movable-clock.ts";

const dayMs = 86_400_000;

async function newCaller(accounts: Accounts): Promise<TokenCaller> {
  const issued = await accounts.issue({ kind: "inference", projectId: accounts.projectId }, "app");
  const caller: Caller | null = await accounts.check.check(issued.token.reveal());
  assert.ok(caller !== null && caller.kind !== "person");
  return caller;
}

/** Addresses that were recorded as new, oldest first. */
async function newAddresses({ db }: Accounts): Promise<(string | null)[]> {
  const rows = await db
    .selectFrom("audit_log")
    .select("address")
    .where("action", "=", "token.new_address")
    .orderBy("id")
    .execute();
  return rows.map((row) => row.address);
}

function usesOf(accounts: Accounts, clock: Clock = systemClock, log: Log = silentLog): TokenUses {
  return new TokenUses({ db: accounts.db, clock, log });
}

test("the list of tokens tells when and from where one was used last, and the audit log where first", async (t) => {
  const api = await startManagementApi(t);
  const path = `/v2/projects/${api.projectId}/service-accounts`;
  const made = await api.call("POST", path, { body: { name: "ci", role: "member" } });
  const { id, token } = made.body;
  assert.equal(
    (await api.call("GET", `/v2/projects/${api.projectId}/apps`, { token })).status,
    200,
  );
  await api.tokenUses.flush();
  const [listed] = (await api.call("GET", path)).body.filter((one: Json) => one.id === id);
  assert.equal(listed.last_used_address, "127.0.0.1");
  assert.ok(Math.abs(Date.parse(listed.last_used_at) - systemClock.now()) < 60_000);
  assert.equal(listed.tokens[0].last_used_at, listed.last_used_at);
  const log = await api.call(
    "GET",
    `/v2/projects/${api.projectId}/audit-log?action=token.new_address&actor=${id}`,
  );
  const [entry] = log.body.logs;
  assert.deepEqual(entry.actor, { type: "service_account", id, name: "ci" });
  assert.deepEqual([entry.address, entry.resource.id, entry.outcome], ["127.0.0.1", id, "success"]);
});

test("an address is new once, for all tokens of an account and for all platforms", async (t) => {
  const clock = movableClock();
  const accounts = await testAccounts(t, { clock });
  const uses = usesOf(accounts, clock);
  const second = usesOf(accounts, clock);
  const caller = await newCaller(accounts);
  for (const one of [uses, second]) {
    for (const address of ["192.0.2.1", "::ffff:192.0.2.2", "192.0.2.1", "2001:DB8::1", "unknown"])
      one.note(caller, address);
  }
  await Promise.all([uses.flush(), second.flush()]);
  assert.deepEqual((await newAddresses(accounts)).toSorted(), [
    "192.0.2.1",
    "192.0.2.2",
    "2001:db8::1",
  ]);
  clock.moveMs = dayMs;
  uses.note(caller, "192.0.2.2");
  uses.note(caller, "192.0.2.3");
  await uses.flush();
  assert.equal((await newAddresses(accounts)).length, 4);
  assert.equal((await newAddresses(accounts)).at(-1), "192.0.2.3");
  const row = await accounts.db
    .selectFrom("tokens")
    .selectAll()
    .where("id", "=", caller.tokenId)
    .executeTakeFirstOrThrow();
  assert.equal(row.last_used_address, "192.0.2.3");
});

test("a later use that another platform wrote stays", async (t) => {
  const clock = movableClock();
  const accounts = await testAccounts(t, { clock });
  const late = usesOf(accounts, clock);
  const early = usesOf(accounts, clock);
  const caller = await newCaller(accounts);
  early.note(caller, "192.0.2.1");
  clock.moveMs = 5_000;
  late.note(caller, "192.0.2.2");
  await late.flush();
  await early.flush();
  const row = await accounts.db
    .selectFrom("tokens")
    .selectAll()
    .where("id", "=", caller.tokenId)
    .executeTakeFirstOrThrow();
  assert.equal(row.last_used_address, "192.0.2.2");
});

test("an account's addresses are bounded, and so are the entries: unused ones give their place away after 90 days", async (t) => {
  const clock = movableClock();
  const accounts = await testAccounts(t, { clock });
  let logged = 0;
  const log = pino(
    { level: "debug" },
    { write: (line) => void (logged += (JSON.parse(line) as { count: number }).count) },
  );
  const uses = usesOf(accounts, clock, log);
  const caller = await newCaller(accounts);
  for (let batch = 0; batch < 12; batch++) {
    for (let index = 0; index < 10; index++) uses.note(caller, `192.0.2.${batch * 10 + index}`);
    await uses.flush();
  }
  assert.deepEqual([(await newAddresses(accounts)).length, logged], [100, 100]);
  clock.moveMs = 91 * dayMs;
  uses.note(caller, "198.51.100.1");
  await uses.flush();
  assert.equal((await newAddresses(accounts)).length, 101);
  const { count } = await accounts.db
    .selectFrom("token_addresses")
    .select(({ fn }) => fn.countAll<number>().as("count"))
    .executeTakeFirstOrThrow();
  assert.equal(Number(count), 1);
});

test("what could not be written is written later", async (t) => {
  const accounts = await testAccounts(t);
  const caller = await newCaller(accounts);
  const uses = usesOf(accounts);
  uses.note(caller, "192.0.2.1");
  const asOwner = async (statement: ReturnType<typeof sql>): Promise<void> => {
    await accounts.db.connection().execute(async (connection) => {
      // The role that the platform works as may not change tables.
      await sql`reset role`.execute(connection);
      await statement.execute(connection);
    });
  };
  await asOwner(sql`alter table token_addresses rename to away`);
  await assert.rejects(uses.flush());
  await asOwner(sql`alter table away rename to token_addresses`);
  await uses.stop();
  assert.deepEqual(await newAddresses(accounts), ["192.0.2.1"]);
});
