// Members and invitations through the management API: who is invited and how they accept, roles and
// their limits, leaving.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import * as shapes from "@slipway/contract/project-answers.ts";
import type { Role } from "@slipway/contract/words.ts";
import { startPeopleStage } from "./people-stage.ts";
import { addPerson } from "./support/access-callers.ts";
import { startManagementApi, type ApiAnswer, type ApiUnderTest } from "./support/management-api.ts";
import { VirtualClock } from "./support/virtual-clock.ts";
import "#test/support/leftovers.ts";

const password = "correct horse battery";
const dayMs = 86_400_000;

type Person = { readonly id: string; readonly email: string; readonly token: string };

async function person(api: ApiUnderTest, role: Role | null): Promise<Person> {
  const { person: made, accessToken } = await addPerson(
    api,
    role === null ? null : { projectId: api.projectId, role },
  );
  return { id: made.id, email: made.email, token: accessToken.reveal() };
}

function invite(api: ApiUnderTest, email: string, role: Role, token?: string): Promise<ApiAnswer> {
  const options = token === undefined ? {} : { token };
  return api.call("POST", `/v2/projects/${api.projectId}/invitations`, {
    body: { email, role },
    ...options,
  });
}

/** The secret in the link of a new invitation. */
function secretOf({ status, body }: ApiAnswer): string {
  assert.equal(status, 201, JSON.stringify(body));
  return shapes.newInvitation.parse(body).link.split("/").at(-1) ?? "";
}

function accept(api: ApiUnderTest, body: object, token: string | null = null): Promise<ApiAnswer> {
  return api.call("POST", "/v2/auth/invitations/accept", { body, token });
}

async function lastEntry({ db, projectId }: ApiUnderTest) {
  const entries = db
    .selectFrom("audit_log")
    .selectAll()
    .where("project_id", "=", projectId)
    .orderBy("id", "desc");
  return await entries.limit(1).executeTakeFirstOrThrow();
}

function memberPath(api: ApiUnderTest, id: string): string {
  return `/v2/projects/${api.projectId}/members/${id}`;
}

test("somebody new is invited, sees to what, makes an account, and is a member who can sign in", async (t) => {
  const api = await startManagementApi(t);
  const owner = await person(api, "owner");
  const made = await invite(api, "Ada@Example.org", "admin", owner.token);
  const secret = secretOf(made);
  assert.equal(made.body.link, `${api.baseUrl}/dashboard/invitations/${secret}`);
  assert.deepEqual(
    [made.body.email, made.body.isMailed, made.body.invitedBy],
    ["ada@example.org", false, "Matrix"],
  );
  assert.deepEqual((await lastEntry(api)).resource_name, "ada@example.org");

  const shown = await api.call("GET", `/v2/auth/invitations/${secret}`, { token: null });
  assert.equal(shown.status, 200);
  const open = shapes.openInvitation.parse(shown.body);
  assert.deepEqual(
    [open.projectId, open.projectName, open.email, open.role, open.hasAccount],
    [api.projectId, "first", "ada@example.org", "admin", false],
  );
  for (const [body, message] of [
    [{ token: secret, password }, /^name is missing/],
    [{ token: secret, name: "Ada" }, /^password is missing/],
    [{ token: secret, name: "Ada", password: "short" }, /^password /],
  ] as const) {
    const refused = await accept(api, body);
    assert.equal(refused.status, 400);
    assert.match(refused.body.message, message);
    assert.doesNotMatch(refused.body.message, /short/);
  }
  const accepted = await accept(api, { token: secret, name: "Ada", password });
  assert.equal(accepted.status, 200, JSON.stringify(accepted.body));
  const { personId } = shapes.acceptedInvitation.parse(accepted.body);
  const entry = await lastEntry(api);
  assert.deepEqual(
    [entry.action, entry.actor_type, entry.actor_id, entry.resource_name, entry.changes],
    ["invitation.accept", "person", personId, "ada@example.org", { role: { new: "admin" } }],
  );
  const again = await accept(api, { token: secret, name: "Eve", password });
  assert.equal(again.status, 404, "a link is good for one use");
  const signIn = { body: { email: "ada@example.org", password }, token: null };
  const token: string = (await api.call("POST", "/v2/auth/sign-in", signIn)).body.accessToken;
  const project = await api.call("GET", `/v2/projects/${api.projectId}`, { token });
  assert.deepEqual([project.status, project.body.role], [200, "admin"]);
});

test("somebody with an account accepts with their own token only", async (t) => {
  const api = await startManagementApi(t);
  const invited = await person(api, null);
  const other = await person(api, "member");
  const secret = secretOf(await invite(api, invited.email.toUpperCase(), "billing"));
  const open = await api.call("GET", `/v2/auth/invitations/${secret}`, { token: null });
  assert.equal(open.body.hasAccount, true);
  const withoutToken = await accept(api, { token: secret, name: "Eve", password });
  assert.equal(withoutToken.status, 401);
  assert.match(withoutToken.body.message, /sign in/);
  assert.equal((await accept(api, { token: secret }, "not a token")).status, 401);
  assert.equal((await accept(api, { token: secret }, other.token)).status, 403);
  const refused = await lastEntry(api);
  assert.deepEqual(
    [refused.action, refused.outcome, refused.actor_id, refused.resource_name],
    ["invitation.accept", "failure", other.id, invited.email],
  );
  assert.equal(
    (await accept(api, { token: secret }, api.token)).status,
    403,
    "a service account is nobody",
  );
  const path = `/v2/projects/${api.projectId}`;
  assert.equal((await api.call("GET", path, { token: invited.token })).status, 404);
  assert.equal((await accept(api, { token: secret }, invited.token)).status, 200);
  assert.equal(
    (await api.call("GET", path, { token: invited.token })).body.role,
    "billing",
    "at once",
  );
});

test("a link is void after 7 days, when it was withdrawn, and when the address was invited anew", async (t) => {
  const clock = new VirtualClock();
  const api = await startManagementApi(t, { clock });
  const isOpen = async (secret: string) =>
    (await api.call("GET", `/v2/auth/invitations/${secret}`, { token: null })).status === 200;
  const first = secretOf(await invite(api, "a@example.org", "member"));
  const second = await invite(api, "a@example.org", "admin");
  assert.deepEqual([await isOpen(first), await isOpen(secretOf(second))], [false, true]);
  const list = await api.call("GET", `/v2/projects/${api.projectId}/invitations`);
  assert.deepEqual(
    shapes.invitationList.parse(list.body).map(({ id, role }) => [id, role]),
    [[second.body.id, "admin"]],
  );
  assert.doesNotMatch(
    JSON.stringify(list.body),
    new RegExp(secretOf(second)),
    "the link is shown once",
  );
  const withdrawn = `/v2/projects/${api.projectId}/invitations/${second.body.id}`;
  assert.equal((await api.call("DELETE", withdrawn)).status, 200);
  assert.equal(await isOpen(secretOf(second)), false);
  assert.equal((await api.call("DELETE", withdrawn)).status, 404);
  const third = secretOf(await invite(api, "a@example.org", "member"));
  await clock.advance(7 * dayMs - 1);
  assert.equal(await isOpen(third), true);
  await clock.advance(1);
  assert.equal(await isOpen(third), false);
  assert.equal((await accept(api, { token: third, name: "A", password })).status, 404);
  assert.deepEqual((await api.call("GET", `/v2/projects/${api.projectId}/invitations`)).body, []);
});

test("where mail is set up the link is mailed, to the address that was invited", async (t) => {
  const { api, mail } = await startPeopleStage(t);
  const made = await invite(api, "ada@example.org", "member");
  assert.equal(made.body.isMailed, true);
  const { text } = await mail.next("ada@example.org");
  assert.match(text.replaceAll("\r", ""), new RegExp(`\n${made.body.link}\n`));
  assert.match(text, /"first" with the role member/);
});

test("the secret of a link is kept nowhere", async (t) => {
  const api = await startManagementApi(t);
  const secret = secretOf(await invite(api, "ada@example.org", "member"));
  const rows = [
    await api.db.selectFrom("invitations").selectAll().execute(),
    await api.db.selectFrom("audit_log").selectAll().execute(),
  ];
  assert.doesNotMatch(JSON.stringify(rows), new RegExp(secret));
  for (const bad of ["x", "../..", "%2e%2e", `${secret}x`, secret.slice(1), "a".repeat(250)]) {
    assert.equal(
      (await api.call("GET", `/v2/auth/invitations/${bad}`, { token: null })).status,
      404,
      bad,
    );
  }
});

test("nobody gives or takes a role that allows what they may not", async (t) => {
  const api = await startManagementApi(t);
  const admin = await person(api, "admin");
  const owner = await person(api, "owner");
  const billing = await person(api, "billing");
  const member = await person(api, "member");
  for (const role of ["owner", "billing"] as const) {
    const refused = await invite(api, "x@example.org", role, admin.token);
    assert.equal(refused.status, 403, role);
    assert.match(
      refused.body.message,
      new RegExp(`The role ${role} has permissions that you lack`),
    );
    const change = { token: admin.token, body: { role } };
    assert.equal((await api.call("PATCH", memberPath(api, member.id), change)).status, 403);
  }
  for (const { id } of [owner, billing]) {
    const change = { token: admin.token, body: { role: "member" } };
    assert.equal((await api.call("PATCH", memberPath(api, id), change)).status, 403);
    assert.equal(
      (await api.call("DELETE", memberPath(api, id), { token: admin.token })).status,
      403,
    );
  }
  const own = await invite(api, "y@example.org", "owner", owner.token);
  const replaced = await invite(api, "y@example.org", "member", admin.token);
  assert.equal(replaced.status, 403, "an owner's invitation is not voided by an admin's");
  const withdrawal = `/v2/projects/${api.projectId}/invitations/${own.body.id}`;
  assert.equal((await api.call("DELETE", withdrawal, { token: admin.token })).status, 403);
  assert.equal((await lastEntry(api)).outcome, "failure");
  assert.equal((await invite(api, "z@example.org", "admin", admin.token)).status, 201);
});

test("a changed role holds at once, and the audit log has both", async (t) => {
  const api = await startManagementApi(t);
  const member = await person(api, "member");
  const invitations = `/v2/projects/${api.projectId}/invitations`;
  assert.equal((await api.call("GET", invitations, { token: member.token })).status, 403);
  const changed = await api.call("PATCH", memberPath(api, member.id), { body: { role: "admin" } });
  assert.equal(changed.status, 200, JSON.stringify(changed.body));
  assert.equal(shapes.member.parse(changed.body).role, "admin");
  assert.equal((await api.call("GET", invitations, { token: member.token })).status, 200);
  const entry = await lastEntry(api);
  assert.deepEqual(
    [entry.action, entry.resource_id, entry.changes],
    ["member.update", member.id, { role: { old: "member", new: "admin" } }],
  );
  for (const [body, message] of [
    [{}, /^role is missing/],
    [{ role: "king" }, /^role is "king".*one of owner, admin, member, billing/],
  ] as const) {
    const refused = await api.call("PATCH", memberPath(api, member.id), { body });
    assert.equal(refused.status, 400);
    assert.match(refused.body.message, message);
  }
  for (const id of ["nobody", "00000000-0000-4000-8000-000000000000"]) {
    assert.equal(
      (await api.call("PATCH", memberPath(api, id), { body: { role: "admin" } })).status,
      404,
    );
    assert.equal((await api.call("DELETE", memberPath(api, id))).status, 404);
  }
});

test("whoever is removed is out at once and may be invited again; a member is not invited", async (t) => {
  const api = await startManagementApi(t);
  const member = await person(api, "member");
  const path = `/v2/projects/${api.projectId}`;
  const taken = await invite(api, member.email, "admin");
  assert.equal(taken.status, 409);
  assert.match(taken.body.message, /is already a member/);
  assert.equal((await api.call("GET", path, { token: member.token })).status, 200);
  assert.equal((await api.call("DELETE", memberPath(api, member.id))).status, 200);
  assert.equal((await api.call("GET", path, { token: member.token })).status, 404);
  assert.equal((await lastEntry(api)).action, "member.remove");
  const secret = secretOf(await invite(api, member.email, "member"));
  assert.equal((await accept(api, { token: secret }, member.token)).status, 200);
  assert.equal((await api.call("GET", path, { token: member.token })).status, 200);
});

test("people leave by themselves, whatever their role; the last owner stays until there is another", async (t) => {
  const api = await startManagementApi(t);
  const leave = ({ token }: Person) => api.call("DELETE", memberPath(api, "me"), { token });
  const owner = await person(api, "owner");
  const billing = await person(api, "billing");
  await removeFirstOwner(api, owner);
  assert.equal((await leave(billing)).status, 200);
  assert.equal((await leave(billing)).status, 404, "they are no member any more");
  const refused = await leave(owner);
  assert.equal(refused.status, 409);
  assert.match(refused.body.message, /last owner/);
  const demotion = { token: owner.token, body: { role: "admin" } };
  assert.equal((await api.call("PATCH", memberPath(api, owner.id), demotion)).status, 409);
  assert.equal(
    (await api.call("DELETE", memberPath(api, owner.id), { token: owner.token })).status,
    409,
  );
  const operator = await api.issue({ kind: "operator" });
  assert.equal(
    (await api.call("DELETE", memberPath(api, owner.id), { token: operator })).status,
    409,
  );
  const other = await person(api, "owner");
  assert.equal((await leave(owner)).status, 200);
  const members = await api.call("GET", `/v2/projects/${api.projectId}/members`, {
    token: other.token,
  });
  assert.deepEqual(
    shapes.memberList.parse(members.body).map(({ personId, role }) => [personId, role]),
    [[other.id, "owner"]],
  );
  const byAccount = await api.call("DELETE", memberPath(api, "me"));
  assert.equal(byAccount.status, 403, "a service account is no member");
});

/** The project was made with an owner of its own. */
async function removeFirstOwner(api: ApiUnderTest, owner: Person): Promise<void> {
  const { body } = await api.call("GET", `/v2/projects/${api.projectId}/members`);
  const first = shapes.memberList
    .parse(body)
    .find(({ personId, role }) => role === "owner" && personId !== owner.id);
  assert.equal((await api.call("DELETE", memberPath(api, first?.personId ?? ""))).status, 200);
}

test("inviting is bounded within a minute", async (t) => {
  const api = await startManagementApi(t);
  for (let index = 0; index < 30; index++) {
    assert.equal((await invite(api, `p${index}@example.org`, "member")).status, 201);
  }
  const refused = await invite(api, "one-more@example.org", "member");
  assert.equal(refused.status, 429);
  assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/);
  const admin = await person(api, "admin");
  assert.equal(
    (await invite(api, "other@example.org", "member", admin.token)).status,
    429,
    "by others neither",
  );
  const elsewhere = await api.call("POST", "/v2/projects", {
    token: admin.token,
    body: { name: "Another" },
  });
  const path = `/v2/projects/${elsewhere.body.id}/invitations`;
  const wish = (index: number) => ({ email: `q${index}@example.org`, role: "member" });
  for (let index = 1; index < 30; index++) {
    assert.equal(
      (await api.call("POST", path, { token: admin.token, body: wish(index) })).status,
      201,
    );
  }
  const more = await api.call("POST", path, { token: admin.token, body: wish(30) });
  assert.equal(more.status, 429, "the caller's try elsewhere counted");
});

test("what is no address of mail is refused", async (t: TestContext) => {
  const api = await startManagementApi(t);
  for (const email of [
    "",
    "a",
    "a@",
    "@b",
    "a b@c.example",
    "a@b\nbcc: c",
    "a@b,c@d",
    `${"a".repeat(65)}@b.example`,
    7,
  ]) {
    const refused = await invite(api, email as string, "member");
    assert.equal(refused.status, 400, String(email));
    assert.match(refused.body.message, /^email /);
  }
});
