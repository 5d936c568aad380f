// Fair shares belong to people: whoever owns many projects has the share of one owner with all of
// them, and owns so many at most.
import { appsAlone } from "#test/support/apps-alone.ts";
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { PassThrough, Readable } from "node:stream";
import { test, type TestContext } from "node:test";
import { ownerKeys } from "#accounts/owner-keys.ts";
import { insertMember } from "#accounts/project-store.ts";
import { OwnerGate } from "#api/owner-gate.ts";
import { useCases } from "#apps/use-cases.ts";
import { platformActor } from "#audit/record.ts";
import { claimable } from "#deploy/build-store.ts";
import { receiveBuild } from "#deploy/receive.ts";
import { systemClock } from "#lib/clock.ts";
import { newProjectId, type ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { Leases } from "#store/lease.ts";
import { createApp } from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { startManagementApi } from "#test/support/management-api.ts";
import { makePerson } from "#test/support/person.ts";
import { templateSecretKey } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";

/** Adds projects of one new person. */
async function projectsOf(db: Db, name: string, count: number): Promise<readonly ProjectId[]> {
  const personId = await makePerson(db, { email: `${name}@example.com`, name });
  const ids = Array.from({ length: count }, () => newProjectId());
  for (const id of ids) {
    await db.insertInto("projects").values({ id, name }).execute();
    await insertMember(db, { project_id: id, person_id: personId, role: "owner" });
  }
  return ids;
}

async function open(t: TestContext) {
  const { db } = await testDatabase(t);
  const [one = newProjectId(), two = newProjectId()] = await projectsOf(db, "many", 2);
  const [other = newProjectId()] = await projectsOf(db, "few", 1);
  return { db, one, two, other };
}

test("projects of one owner share the slots of a gate, and others have theirs", async (t) => {
  const { db, one, two, other } = await open(t);
  const ownerKeyOf = ownerKeys({ db, clock: systemClock });
  const gate = new OwnerGate(
    { ownerKeyOf },
    { max: 4, ownerMax: 2, ownerWaitingMax: 0, what: "things" },
  );
  for (const projectId of [one, two]) await gate.enter({ projectId });
  await assert.rejects(gate.enter({ projectId: two }), {
    code: "rate_limited",
    message: /at most 2 are answered for the projects of one owner/,
  });
  await gate.enter({ projectId: other });
});

test("whoever invites a second owner keeps the share of the first", async (t) => {
  const { db, one, two } = await open(t);
  const late = await makePerson(db, { email: "late@example.com", name: "late" });
  await insertMember(db, { project_id: two, person_id: late, role: "owner" });
  const ownerKeyOf = ownerKeys({ db, clock: systemClock });
  assert.equal(await ownerKeyOf(two), await ownerKeyOf(one));
  const nobodys = newProjectId();
  assert.equal(await ownerKeyOf(nobodys), nobodys);
});

test("builds of an owner's projects leave a slot to other owners, and take turns with them", async (t) => {
  const { db, one, two, other } = await open(t);
  const addBuild = async (projectId: ProjectId, name: string): Promise<string> => {
    const { appId } = await createApp(db, { projectId, name });
    const build = { projectId, appId, cause: "create" as const, by: platformActor };
    return (await db.transaction().execute((tx) => receiveBuild(tx, build))).buildId;
  };
  const parts = {
    db,
    table: "builds",
    holder: "test",
    leaseMs: 60_000,
    log: silentLog,
    clock: systemClock,
  } as const;
  const leases = new Leases(parts);
  const claim = async (running: readonly string[]): Promise<string | undefined> => {
    const share = { running, runningMax: 4, working: running, workingMax: 1 } as Parameters<
      typeof claimable
    >[0];
    const [lease] = await leases.claim({ ...claimable(share), limit: 1 });
    return lease?.id;
  };
  const first = await addBuild(one, "first");
  assert.equal(await claim([]), first);
  const second = await addBuild(two, "second");
  assert.equal(await claim([first]), undefined, "its owner builds already");
  const theirs = await addBuild(other, "theirs");
  assert.equal(await claim([first]), theirs);
  assert.equal(await claim([]), second);
  // A platform of one person builds as many at once as it can.
  await db.deleteFrom("members").where("project_id", "=", other).execute();
  await db
    .updateTable("projects")
    .set({ deleted_at: new Date() })
    .where("id", "=", other)
    .execute();
  const third = await addBuild(one, "third");
  assert.equal(await claim([first, second]), third);
});

test("slow parts of one owner's projects leave half of the places to others", async (t) => {
  const api = await startManagementApi(t);
  const { db } = api;
  const begin = async (projectId: ProjectId): Promise<string> => {
    const token = await api.issue({ kind: "service_account", name: "files", projectId });
    const path = `/v2/projects/${projectId}/volumes/default/cp/initialize`;
    const { body } = await api.call("POST", path, {
      body: { file_path: "f", part_count: 1 },
      token,
    });
    return String(body.parts[0].url);
  };
  const mine = await projectsOf(db, "many", 33);
  const urls = await Promise.all(mine.map(begin));
  const ended = new AbortController();
  t.after(() => ended.abort());
  const slow = urls.map((url) => {
    const body = new PassThrough();
    body.write("x");
    const stream = Readable.toWeb(body);
    const given = { method: "PUT", body: stream, duplex: "half", signal: ended.signal };
    return fetch(url, given as RequestInit).catch(() => undefined);
  });
  await until("their parts arrive", async () => {
    const rows = await db.selectFrom("volume_upload_parts").select("upload_id").execute();
    return rows.length === 32;
  });
  const url = await begin(await api.addProject("other"));
  assert.equal((await fetch(url, { method: "PUT", body: "theirs" })).status, 200);
  assert.equal(
    (await db.selectFrom("volume_upload_parts").select("upload_id").execute()).length,
    33,
  );
  ended.abort();
  await Promise.all(slow);
});

test("a person owns so many projects, and whoever owns more keeps them", async (t) => {
  const { db } = await testDatabase(t, { hasKey: true });
  const mine = await projectsOf(db, "many", 3);
  const person = await db.selectFrom("members").select("person_id").executeTakeFirstOrThrow();
  const { projects } = useCases({
    ...appsAlone,
    db,
    sealer: new Sealer([templateSecretKey]),
    receiver: undefined as never,
    projectsPerPerson: 3,
  });
  const roles = new Map(mine.map((id) => [id, "owner"]));
  const caller = { kind: "person", personId: person.person_id, name: "many", roles } as never;
  const by = { actor: platformActor };
  await assert.rejects(projects.create("fourth", caller, by), {
    code: "conflict",
    message:
      /You own 3 projects, and the limit for one person is 3 \(SLIPWAY_PROJECTS_PER_PERSON\)/,
  });
  assert.equal((await projects.of(caller)).length, 3);
  await db
    .deleteFrom("members")
    .where("project_id", "=", String(mine[0]) as ProjectId)
    .execute();
  await projects.create("another", caller, by);
});
