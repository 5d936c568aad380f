// The callers of the access matrix, one of every kind, created in the database of a management API;
// and a listener that accepts calls of an app.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import {
  choosablePermissions,
  roles,
  type Permission,
  type Role,
} from "@slipway/contract/words.ts";
import { insertPerson } from "#accounts/account-store.ts";
import { signPersonToken } from "#accounts/person-token.ts";
import { insertMember } from "#accounts/project-store.ts";
import { issueToken, type TokenWish } from "#accounts/tokens.ts";
import type { AppRoute } from "#apps/routes.ts";
import { must } from "#lib/assert.ts";
import { systemClock } from "#lib/clock.ts";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import { MemberUseCases } from "#people/member-use-cases.ts";
import type { SignedIn } from "#people/sessions.ts";
import { Proxy } from "#proxy/proxy.ts";
import { createListener } from "#proxy/server.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import { noOtherSockets, proxyAlone } from "./proxy-alone.ts";
import type { Bearer, MatrixCaller } from "./access-matrix.ts";
import { badTokens, signedToken } from "./bad-tokens.ts";
import { testBy, type ApiUnderTest } from "./management-api.ts";
import { revokeToken } from "./revoke-token.ts";
import { until } from "./until.ts";
import { firstRoute } from "./first-route.ts";

const minuteMs = 60_000;
const dayMs = 86_400_000;
/** A revocation takes effect everywhere within this time. */
const revokedMs = 1_000;

/** The name of the app that `openAppListener` serves. */
export const calledApp = "called";

/** All callers of the matrix. */
export async function matrixCallers(api: ApiUnderTest): Promise<MatrixCaller[]> {
  const elsewhere = await api.addProject("elsewhere");
  const right = [...(await tokenCallers(api, elsewhere)), ...(await personCallers(api, elsewhere))];
  return [...right, ...(await callersWithoutRight(api)), ...(await peopleWithoutRight(api))];
}

async function tokenCallers(api: ApiUnderTest, elsewhere: ProjectId): Promise<MatrixCaller[]> {
  const callers: MatrixCaller[] = [];
  const add = async (name: string, bearer: Bearer, wish: TokenWish): Promise<void> => {
    const token = await issue(api, wish);
    callers.push({ name, bearer, authorization: () => `Bearer ${token}` });
  };
  const places = [
    { place: "here", projectId: api.projectId },
    { place: "elsewhere", projectId: elsewhere },
  ] as const;
  for (const { place, projectId } of places) {
    for (const role of roles) {
      const wish = { kind: "service_account", projectId, role, expiresAt: null } as const;
      await add(
        `a service account ${place}, ${role}`,
        { kind: "service_account", place, role },
        wish,
      );
    }
    await add(
      `an inference token ${place}`,
      { kind: "inference", place },
      { kind: "inference", projectId },
    );
  }
  await add("an operator", { kind: "operator" }, { kind: "operator", expiresAt: null });
  return callers;
}

/**
 * Two service accounts for each permission that a project can grant: one with only this permission,
 * one with all others.
 */
export async function chosenCallers(
  api: ApiUnderTest,
): Promise<ReadonlyMap<string, readonly MatrixCaller[]>> {
  const { projectId } = api;
  const make = async (name: string, permissions: readonly Permission[]): Promise<MatrixCaller> => {
    const token = await issue(api, {
      kind: "service_account",
      projectId,
      role: null,
      permissions,
      expiresAt: null,
    });
    const bearer = { kind: "chosen", place: "here", permissions } as const;
    return { name, bearer, authorization: () => `Bearer ${token}` };
  };
  const made = choosablePermissions.map(async (permission) => {
    const others = choosablePermissions.filter((other) => other !== permission);
    const alone = make(`a service account with ${permission} alone`, [permission]);
    const without = make(`a service account with all but ${permission}`, others);
    return [permission, await Promise.all([alone, without])] as const;
  });
  return new Map(await Promise.all(made));
}

async function personCallers(api: ApiUnderTest, elsewhere: ProjectId): Promise<MatrixCaller[]> {
  const { projectId } = api;
  const here = roles.map((role) => ({
    name: `a person here, ${role}`,
    place: "here" as const,
    role,
    projectId,
  }));
  const others = [
    {
      name: "a person elsewhere, owner",
      place: "elsewhere" as const,
      role: "owner" as const,
      projectId: elsewhere,
    },
    { name: "a person without a project", place: "elsewhere" as const, role: null, projectId },
  ];
  const callers = [...here, ...others].map(async ({ name, place, role, ...member }) => {
    const make = async (): Promise<string> => {
      const person = await addPerson(api, role === null ? null : { ...member, role });
      return `Bearer ${person.accessToken.reveal()}`;
    };
    const once = await make();
    const bearer = { kind: "person", place, role } as const;
    return { name, bearer, authorization: (isFresh: boolean) => (isFresh ? make() : once) };
  });
  return [...(await Promise.all(callers)), await formerMember(api)];
}

/** Was an owner and used the token while it was one. */
async function formerMember(api: ApiUnderTest): Promise<MatrixCaller> {
  const { db, projectId } = api;
  const { person, accessToken } = await addPerson(api, { projectId, role: "owner" });
  const token = accessToken.reveal();
  const path = `/v2/projects/${projectId}`;
  assert.equal((await api.call("GET", path, { token })).status, 200);
  await new MemberUseCases({ db, personChanged: () => undefined }).leave(
    { projectId, personId: person.id },
    testBy,
  );
  await until(
    "the membership has ended",
    async () => (await api.call("GET", path, { token })).status === 404,
    {
      deadlineMs: revokedMs,
    },
  );
  const bearer = { kind: "person", place: "here", role: null } as const;
  return { name: "a person who was an owner here", bearer, authorization: () => `Bearer ${token}` };
}

/** People whose session has ended or never existed, or whose access token has expired. */
async function peopleWithoutRight(api: ApiUnderTest): Promise<MatrixCaller[]> {
  const { projectId, keys, people } = api;
  const owner = { projectId, role: "owner" } as const;
  const one = await addPerson(api, owner);
  const other = await addPerson(api, owner);
  const gone = await addPerson(api, owner);
  const claims = (personId: string, sessionId: string) => ({
    personId,
    sessionId,
    email: one.person.email,
  });
  const sign = async (
    personId: string,
    sessionId: string,
    nowMs = systemClock.now(),
  ): Promise<string> => {
    const token = await signPersonToken({
      ...claims(personId, sessionId),
      key: keys.current(),
      nowMs,
    });
    return `Bearer ${token.reveal()}`;
  };
  const token = gone.accessToken.reveal();
  assert.equal((await api.call("GET", `/v2/projects/${projectId}`, { token })).status, 200);
  await people.sessions.endOne(gone.person.id, gone.session.id, testBy);
  const isOut = async () =>
    (await api.call("GET", `/v2/projects/${projectId}`, { token })).status === 401;
  await until("the session has ended", isOut, { deadlineMs: revokedMs });
  const jwk = must(keys.jwks().keys[0], "a key is published");
  const bad = Object.entries(badTokens(one.accessToken.reveal(), jwk));
  const headers: Readonly<Record<string, string>> = {
    "a person whose session has ended": `Bearer ${token}`,
    "a person whose access token has expired": await sign(
      one.person.id,
      one.session.id,
      systemClock.now() - dayMs,
    ),
    "a person in another's session": await sign(one.person.id, other.session.id),
    "a person in no session": await sign(one.person.id, randomUUID()),
    "nobody in a session": await sign(randomUUID(), one.session.id),
    "a person with the refresh token in place of the access token": `Bearer ${one.refreshToken.reveal()}`,
    ...Object.fromEntries(bad.map(([name, header]) => [`a person's token, ${name}`, header])),
  };
  // This cookie may only be exchanged for access tokens by pages of the platform: browsers send it
  // automatically.
  const cookie = `slipway_session=${one.refreshToken.reveal()}; __Secure-slipway_session=${one.refreshToken.reveal()}`;
  const byCookie = {
    name: "a person with the cookie alone",
    bearer: null,
    authorization: () => null,
    cookie,
  };
  const byHeader = Object.entries(headers).map(([name, header]) => ({
    name,
    bearer: null,
    authorization: () => header,
  }));
  return [byCookie, ...byHeader];
}

/** Creates a person with a session, and makes them a member if a project is given. */
export async function addPerson(
  { db, people }: Pick<ApiUnderTest, "db" | "people">,
  member: { readonly projectId: ProjectId; readonly role: Role } | null,
): Promise<SignedIn> {
  return await db.transaction().execute(async (tx) => {
    const id = randomUUID();
    await insertPerson(tx, { id, email: `${id}@example.org`, name: "Matrix" });
    if (member !== null)
      await insertMember(tx, { project_id: member.projectId, person_id: id, role: member.role });
    return await people.startSession(tx, id, { way: "password", by: testBy });
  });
}

/** Callers whose tokens are invalid or no longer valid, and one without a token. */
async function callersWithoutRight(api: ApiUnderTest): Promise<MatrixCaller[]> {
  const { projectId } = api;
  const wish = { kind: "service_account", projectId, role: "owner", expiresAt: null } as const;
  const now = systemClock.now();
  const expired = await issue(
    api,
    { ...wish, expiresAt: new Date(now - minuteMs) },
    now - 2 * minuteMs,
  );
  const expiredOperator = await issue(
    api,
    { kind: "operator", expiresAt: new Date(now - minuteMs) },
    now - 2 * minuteMs,
  );
  const { keys, token } = api;
  const jwk = must(
    keys.jwks().keys.find(({ kid }) => kid === keys.current().id),
    "the key that signs is published",
  );
  const unknownRow = signedToken(
    { jti: randomUUID(), projectId, principal: "serviceaccount/sa-1" },
    keys.current(),
  );
  const headers: Readonly<Record<string, string | null>> = {
    nobody: null,
    "an expired token": `Bearer ${expired}`,
    "an operator's expired token": `Bearer ${expiredOperator}`,
    "a revoked token": `Bearer ${await revoked(api, wish)}`,
    "a revoked token for calling apps": `Bearer ${await revoked(api, { kind: "inference", projectId })}`,
    "a token that was never issued": `Bearer ${unknownRow}`,
    ...badTokens(token, jwk),
  };
  return Object.entries(headers).map(([name, header]) => ({
    name,
    bearer: null,
    authorization: () => header,
  }));
}

async function issue(
  api: ApiUnderTest,
  wish: TokenWish,
  nowMs = systemClock.now(),
): Promise<string> {
  const { db, keys } = api;
  const { token } = await issueToken(db, {
    wish,
    name: "matrix",
    key: keys.current(),
    nowMs,
    by: testBy,
  });
  return token.reveal();
}

async function revoked(
  api: ApiUnderTest,
  wish: TokenWish & { projectId: ProjectId },
): Promise<string> {
  const { db, keys } = api;
  const nowMs = systemClock.now();
  const issued = await issueToken(db, {
    wish,
    name: "matrix",
    key: keys.current(),
    nowMs,
    by: testBy,
  });
  const token = issued.token.reveal();
  await revokeToken({ db, keys, projectId: wish.projectId }, token);
  return token;
}

/**
 * Opens a listener for one app of the project that has no release; returns its URL. An allowed call
 * of the app gets 503.
 */
export async function openAppListener(
  t: TestContext,
  { projectId, tokens }: ApiUnderTest,
): Promise<string> {
  const appId = appIdOf(projectId, calledApp);
  const route: AppRoute = {
    ...firstRoute,
    appId,
    projectId,
    appName: calledApp,
    disableAuth: false,
    live: null,
    latestBuild: null,
  };
  const trustedProxies = new TrustedProxies([]);
  const proxy = new Proxy({
    ...proxyAlone,
    routes: {
      find: (project, name) => (project === projectId && name === calledApp ? route : undefined),
      byAppId: (id) => (id === appId ? route : undefined),
      refresh: () => Promise.resolve(),
    },
    tokens,
    trustedProxies,
    view: new ReplicaView(),
    nudge: () => undefined,
    log: silentLog,
    limits: { lineLengthMax: 1, bodyBytesMax: 1_000 },
  });
  const listener = createListener({
    fallbackUpgrade: noOtherSockets,
    isAppHost: (host) => proxy.admission.isAppHost(host),
    handle: (request, response) => proxy.handle(request, response),
    upgrade: (request, socket, firstBytes) => proxy.upgrade(request, socket, firstBytes),
    fallback: (_request, response) => response.writeHead(500).end(),
    trustedProxies,
    clock: systemClock,
  });
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  t.after(async () => {
    proxy.close();
    await listener.close();
  });
  return `http://127.0.0.1:${port}`;
}
