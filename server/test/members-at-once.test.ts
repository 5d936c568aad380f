// Members, invitations and projects that are changed from two sides at once, on the real database:
// a project keeps an owner, an invitation is accepted once, and nothing is left of a deleted
// project that gives access to it.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import type { Role } from "@slipway/contract/words.ts";
import { insertPerson } from "#accounts/account-store.ts";
import type { Caller } from "#accounts/caller.ts";
import { passwordGate } from "#accounts/passwords.ts";
import { insertMember, lockProject } from "#accounts/project-store.ts";
import { deleteProject } from "#accounts/projects.ts";
import { ProjectList } from "#apps/project-list.ts";
import { systemClock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import { Secret } from "#lib/secret.ts";
import { InvitationUseCases } from "#people/invitation-use-cases.ts";
import { MemberUseCases } from "#people/member-use-cases.ts";
import { byPlatform, testAccounts, type Accounts } from "./support/accounts.ts";
import { until } from "./support/until.ts";
import "#test/support/leftovers.ts";

type Fixture = Accounts & {
  readonly members: MemberUseCases;
  readonly invitations: InvitationUseCases;
};

async function fixture(t: TestContext): Promise<Fixture> {
  const accounts = await testAccounts(t);
  const { db } = accounts;
  const personChanged = (): void => undefined;
  const invitations = new InvitationUseCases({
    db,
    clock: systemClock,
    hashes: passwordGate(),
    personChanged,
  });
  const desks = { members: new MemberUseCases({ db, personChanged }), invitations };
  await addSession(accounts, accounts.ownerId);
  return { ...accounts, ...desks };
}

/** Adds a session with the same id as the person. */
async function addSession({ db }: Pick<Fixture, "db">, id: string): Promise<void> {
  const expires_at = new Date(systemClock.now() + 3_600_000);
  await db
    .insertInto("person_sessions")
    .values({ id, person_id: id, token: id, expires_at })
    .execute();
}

async function addMember({ db, projectId }: Fixture, role: Role): Promise<string> {
  const id = randomUUID();
  await insertPerson(db, { id, email: `${id}@example.org`, name: "Member" });
  await insertMember(db, { project_id: projectId, person_id: id, role });
  await addSession({ db }, id);
  return id;
}

function personCaller({ projectId }: Fixture, personId: string, role: Role): Caller {
  const roles = new Map([[projectId, role]]);
  return {
    kind: "person",
    personId,
    sessionId: personId,
    email: "a@example.org",
    name: "A",
    roles,
    projectId: null,
  };
}

async function invite(
  at: Fixture,
  email = `${randomUUID()}@example.org`,
): Promise<{ email: string; secret: Secret }> {
  const acting = { caller: personCaller(at, at.ownerId, "owner"), by: byPlatform };
  const made = await at.invitations.create(
    { projectId: at.projectId, email, role: "member" },
    acting,
  );
  return { email, secret: made.secret };
}

function accept(at: Fixture, secret: Secret): Promise<unknown> {
  const password = new Secret("a good long password");
  return at.invitations.accept({ secret, name: "New", password, caller: null, by: byPlatform });
}

/**
 * Begins all at once, held back by a lock until each has come to it; then what became of them,
 * faults by code.
 */
async function allAtOnce(
  at: Fixture,
  work: readonly (() => Promise<unknown>)[],
): Promise<string[]> {
  const ended: Promise<string>[] = [];
  await at.db.transaction().execute(async (tx) => {
    await lockProject(tx, at.projectId);
    for (const begin of work) ended.push(begin().then(() => "done", codeOf));
    await until(
      "all wait for the project",
      async () => (await waitingForLocks(at)) === work.length,
    );
  });
  return (await Promise.all(ended)).toSorted();
}

function codeOf(error: unknown): string {
  if (error instanceof Fault) return error.code;
  throw error;
}

async function waitingForLocks({ db }: Fixture): Promise<number> {
  const { rows } = await sql<{ count: string }>`select count(distinct pid) from pg_locks
    where not granted and pid in (select pid from pg_stat_activity where datname = current_database())`.execute(
    db,
  );
  return Number(rows[0]?.count);
}

async function ownersOf({ db, projectId }: Fixture): Promise<number> {
  const rows = db
    .selectFrom("members")
    .selectAll()
    .where("project_id", "=", projectId)
    .where("role", "=", "owner");
  return (await rows.execute()).length;
}

test("of two who accept one invitation at once one becomes a member", async (t) => {
  const at = await fixture(t);
  const { email, secret } = await invite(at);
  const ended = await allAtOnce(at, [
    () => accept(at, secret),
    () => accept(at, secret),
    () => accept(at, secret),
  ]);
  assert.deepEqual(ended, ["done", "not_found", "not_found"]);
  const members = await at.members.list(at.projectId);
  assert.equal(members.filter((member) => member.email === email).length, 1);
  const people = at.db.selectFrom("people").select("id").where("email", "=", email);
  assert.equal((await people.execute()).length, 1);
});

test("a project with 1,000 waiting invitations takes a new one of an invited address, but none of another", async (t) => {
  const at = await fixture(t);
  const { email, secret } = await invite(at);
  await sql`insert into invitations (id, project_id, email, role, secret_hash, invited_by, created_at, expires_at)
    select gen_random_uuid(), project_id, n || email, role, sha256(n::text::bytea), invited_by, created_at, expires_at
      from invitations, generate_series(1, 999) as n`.execute(at.db);
  const renewed = await invite(at, email);
  await assert.rejects(at.invitations.show(secret), { code: "not_found" }, "the earlier link");
  assert.equal((await at.invitations.show(renewed.secret)).email, email);
  await assert.rejects(invite(at), { code: "conflict", message: /^1000 invitations/ });
});

test("of two invitations of one new person to two projects, accepted at once, one makes the account and none is lost", async (t) => {
  const at = await fixture(t);
  const elsewhere = await secondProject(at);
  const { email, secret } = await invite(at);
  const other = await invite(elsewhere, email);
  const ended = await Promise.allSettled([accept(at, secret), accept(elsewhere, other.secret)]);
  const refused = ended.filter((one) => one.status === "rejected").map((one) => codeOf(one.reason));
  assert.ok(
    refused.length <= 1 && refused.every((code) => code === "conflict" || code === "unauthorized"),
    refused[0],
  );
  assert.equal(ended.filter((one) => one.status === "fulfilled").length, 1);
  const left = await at.db
    .selectFrom("invitations")
    .select("id")
    .where("email", "=", email)
    .execute();
  assert.equal(left.length, 1, "the other can still be accepted, with the account's own token");
});

test("of two last owners who make each other members at once one stays an owner", async (t) => {
  for (let round = 0; round < 5; round++) {
    const at = await fixture(t);
    const one = at.ownerId;
    const other = await addMember(at, "owner");
    const demote = (from: string, whom: string) => () =>
      at.members.changeRole({ projectId: at.projectId, personId: whom }, "member", {
        caller: personCaller(at, from, "owner"),
        by: byPlatform,
      });
    assert.deepEqual(await allAtOnce(at, [demote(one, other), demote(other, one)]), [
      "done",
      "forbidden",
    ]);
    assert.equal(await ownersOf(at), 1);
  }
});

test("of two last owners who leave at once one stays", async (t) => {
  const at = await fixture(t);
  const one = at.ownerId;
  const other = await addMember(at, "owner");
  const leave = (personId: string) => () =>
    at.members.leave({ projectId: at.projectId, personId }, byPlatform);
  assert.deepEqual(await allAtOnce(at, [leave(one), leave(other)]), ["conflict", "done"]);
  assert.equal(await ownersOf(at), 1);
});

test("of two last owners one of whom leaves while the operator makes the other a member one stays", async (t) => {
  const at = await fixture(t);
  const one = at.ownerId;
  const other = await addMember(at, "owner");
  const { id } = await at.issue({ kind: "operator", expiresAt: null });
  const operator: Caller = {
    kind: "operator",
    tokenId: id,
    accountId: id,
    projectId: null,
    role: null,
    permissions: null,
    name: "operator",
  };
  const ended = await allAtOnce(at, [
    () => at.members.leave({ projectId: at.projectId, personId: one }, byPlatform),
    () =>
      at.members.changeRole({ projectId: at.projectId, personId: other }, "billing", {
        caller: operator,
        by: byPlatform,
      }),
  ]);
  assert.deepEqual(ended, ["conflict", "done"]);
  assert.equal(await ownersOf(at), 1);
});

test("an owner who is made a member a moment before invites no owner any more", async (t) => {
  const at = await fixture(t);
  const other = await addMember(at, "owner");
  const caller = personCaller(at, other, "owner");
  await at.members.changeRole({ projectId: at.projectId, personId: other }, "member", {
    caller,
    by: byPlatform,
  });
  const wish = { projectId: at.projectId, email: "late@example.org", role: "owner" } as const;
  await assert.rejects(at.invitations.create(wish, { caller, by: byPlatform }), {
    code: "forbidden",
  });
});

test("what is begun while a project is being deleted adds nothing to it", async (t) => {
  const at = await fixture(t);
  const { secret } = await invite(at);
  const begun: Promise<string>[] = [];
  await at.db.transaction().execute(async (tx) => {
    await deleteProject(tx, { id: at.projectId, nowMs: systemClock.now(), by: byPlatform });
    const wish = { kind: "inference", projectId: at.projectId } as const;
    begun.push(accept(at, secret).then(() => "done", codeOf));
    begun.push(invite(at).then(() => "done", codeOf));
    begun.push(at.issue(wish).then(() => "done", constraintOf));
    begun.push(addMember(at, "owner").then(() => "done", constraintOf));
    begun.push(addApp(at).then(() => "done", constraintOf));
    await until(
      "all wait for the project",
      async () => (await waitingForLocks(at)) === begun.length,
    );
  });
  const refused = ["not_found", "no_such_project", "live_project", "live_project", "live_project"];
  assert.deepEqual(await Promise.all(begun), refused);
  for (const table of ["members", "invitations", "apps"] as const) {
    assert.deepEqual(
      await at.db.selectFrom(table).selectAll().where("project_id", "=", at.projectId).execute(),
      [],
    );
  }
});

test("an app that is being added to a project while that is deleted is deleted with it", async (t) => {
  const at = await fixture(t);
  const projects = new ProjectList({
    db: at.db,
    personChanged: () => undefined,
    onDeleted: () => undefined,
    ownedMax: 100,
  });
  const deletion = await at.db.transaction().execute(async (tx) => {
    await addApp({ ...at, db: tx });
    const ending = projects.delete({ id: at.projectId, nowMs: systemClock.now(), by: byPlatform });
    const ended = ending.then(() => "done", codeOf);
    await until("the deletion waits for the app", async () => (await waitingForLocks(at)) === 1);
    return { ended };
  });
  assert.equal(await deletion.ended, "done");
  const apps = await at.db
    .selectFrom("apps")
    .select("deleting_at")
    .where("project_id", "=", at.projectId)
    .execute();
  assert.equal(apps.length, 1);
  assert.ok(apps.every(({ deleting_at: at }) => at !== null));
});

async function addApp({ db, projectId }: Pick<Fixture, "db" | "projectId">): Promise<void> {
  await sql`insert into apps (id, project_id, name, request)
    values (${`${projectId}-my-app`}, ${projectId}, 'my-app', '{}')`.execute(db);
}

function constraintOf(error: unknown): string {
  if (error instanceof Error && "constraint" in error) return String(error.constraint);
  throw error;
}

async function secondProject(at: Fixture): Promise<Fixture> {
  const projectId = "p-00000002" as Fixture["projectId"];
  await at.db.insertInto("projects").values({ id: projectId, name: "second" }).execute();
  await insertMember(at.db, { project_id: projectId, person_id: at.ownerId, role: "owner" });
  return { ...at, projectId };
}
