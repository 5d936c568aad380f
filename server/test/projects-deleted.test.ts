// A deleted project, on the real database: all that locks the row of a project refuses one that is
// deleted, in the same words, and leaves nothing behind.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "kysely";
import type { Caller } from "#accounts/caller.ts";
import { passwordGate } from "#accounts/passwords.ts";
import { deleteProject, renameProject } from "#accounts/projects.ts";
import { Secrets } from "#apps/secrets.ts";
import { setPlanCredits } from "#billing/plans/plan-credit.ts";
import { readPlans } from "#billing/plans/plan-file.ts";
import { PlanUseCases } from "#billing/plans/plan-use-cases.ts";
import { systemClock } from "#lib/clock.ts";
import { Secret } from "#lib/secret.ts";
import { InvitationUseCases } from "#people/invitation-use-cases.ts";
import { MemberUseCases } from "#people/member-use-cases.ts";
import "#test/support/leftovers.ts";
import { WebhookSecretUseCases } from "#webhooks/secret-use-cases.ts";
import { WebhookUseCases } from "#webhooks/use-cases.ts";
import { byPlatform, testAccounts, type Accounts } from "./support/accounts.ts";
import { until } from "./support/until.ts";

const by = byPlatform;
const personChanged = (): void => undefined;
const plans = readPlans(
  'default = "free"\n[plans.free]\napps = 1\nmonthly_credit_cents = 111\n[plans.paid]\n',
);

type Change = (at: Accounts, caller: Caller) => Promise<unknown>;

/** All that locks the row of a project. */
const changes: Readonly<Record<string, Change>> = {
  rename: ({ db, projectId: id }) =>
    db.transaction().execute((tx) => renameProject(tx, { id, name: "other", by })),
  delete: ({ db, projectId: id }) =>
    db.transaction().execute((tx) => deleteProject(tx, { id, nowMs: systemClock.now(), by })),
  "change a member": ({ db, projectId, ownerId: personId }, caller) =>
    new MemberUseCases({ db, personChanged }).changeRole({ projectId, personId }, "member", {
      caller,
      by,
    }),
  "remove a member": ({ db, projectId, ownerId: personId }, caller) =>
    new MemberUseCases({ db, personChanged }).remove({ projectId, personId }, { caller, by }),
  leave: ({ db, projectId, ownerId: personId }) =>
    new MemberUseCases({ db, personChanged }).leave({ projectId, personId }, by),
  invite: (at, caller) =>
    invitations(at).create(
      { projectId: at.projectId, email: "b@example.org", role: "member" },
      { caller, by },
    ),
  "withdraw an invitation": (at, caller) =>
    invitations(at).delete(at.projectId, randomUUID(), { caller, by }),
  "replace secrets": ({ db, sealer, projectId }) =>
    new Secrets({ db, sealer }).replace(
      { projectId, appId: null },
      new Map([["A", new Secret("1")]]),
      { by, restarts: false },
    ),
  "change the plan": ({ db, projectId }) =>
    new PlanUseCases({ db, plans, clock: systemClock }).change(projectId, "paid", by),
  "admit an app": ({ db, projectId }) =>
    db
      .transaction()
      .execute((tx) => new PlanUseCases({ db, plans, clock: systemClock }).admitApp(tx, projectId)),
  "list webhook secrets": (at) => webhooks(at).secrets.list(at.projectId, by),
  "make a webhook secret": (at) => webhooks(at).secrets.create(at.projectId, 24, by),
  "delete a webhook secret": (at) => webhooks(at).secrets.delete(at.projectId, randomUUID(), by),
  "choose the schedule of webhooks": (at) => webhooks(at).setSchedule(at.projectId, "short", by),
};

function invitations({ db }: Accounts): InvitationUseCases {
  return new InvitationUseCases({ db, clock: systemClock, hashes: passwordGate(), personChanged });
}

function webhooks({ db, sealer }: Accounts): WebhookUseCases {
  return new WebhookUseCases({
    db,
    secrets: new WebhookSecretUseCases({ db, sealer }),
    onStep: personChanged,
  });
}

async function operator({ issue }: Accounts): Promise<Caller> {
  const { id } = await issue({ kind: "operator", expiresAt: null });
  const none = { projectId: null, role: null, permissions: null } as const;
  return { kind: "operator", tokenId: id, accountId: id, name: "operator", ...none };
}

async function deleteIt({ db, projectId: id }: Pick<Accounts, "db" | "projectId">): Promise<void> {
  await db.transaction().execute((tx) => deleteProject(tx, { id, nowMs: systemClock.now(), by }));
}

/** All that could have been left in the project. */
async function rowsOf({ db, projectId }: Accounts): Promise<unknown> {
  const tables = [
    "secrets",
    "webhook_secrets",
    "webhook_schedules",
    "members",
    "invitations",
    "coupon_applications",
  ];
  const rows = tables.map(async (table) => {
    return (
      await sql`select * from ${sql.table(table)} where project_id = ${projectId}`.execute(db)
    ).rows;
  });
  const project = await db
    .selectFrom("projects")
    .selectAll()
    .where("id", "=", projectId)
    .executeTakeFirst();
  const actions = await db
    .selectFrom("audit_log")
    .select("action")
    .where("project_id", "=", projectId)
    .execute();
  return [await Promise.all(rows), project, actions.length];
}

test("nothing that is changed of a project is changed of a deleted one", async (t) => {
  const at = await testAccounts(t);
  const caller = await operator(at);
  await deleteIt(at);
  const before = await rowsOf(at);
  for (const [name, change] of Object.entries(changes)) {
    const expected = {
      code: "no_such_project",
      message: "There is no such project, or it is not yours.",
    };
    await assert.rejects(change(at, caller), expected, name);
    assert.deepEqual(await rowsOf(at), before, name);
  }
});

test("a project that is deleted while its credit is about to be made gets none", async (t) => {
  const at = await testAccounts(t);
  const { db, projectId } = at;
  const { begun } = await db.transaction().execute(async (tx) => {
    await deleteProject(tx, { id: projectId, nowMs: systemClock.now(), by });
    const seen = setPlanCredits(db, plans, systemClock.now());
    await until("it waits for the project", async () => (await waitingForLocks(at)) === 1);
    return { begun: seen };
  });
  await begun;
  assert.deepEqual(await db.selectFrom("coupon_applications").select("project_id").execute(), []);
});

async function waitingForLocks({ db }: Accounts): Promise<number> {
  const { rows } = await sql<{ count: string }>`select count(distinct pid) from pg_locks
    where not granted and pid in (select pid from pg_stat_activity where datname = current_database())`.execute(
    db,
  );
  return Number(rows[0]?.count);
}
