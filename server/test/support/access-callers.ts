// One caller of every sort for the access matrix, made on the database of a management API, and a listener that calls of
// an app come in through.
import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { issueToken, revokeToken, type TokenWish } from "#accounts/tokens.ts";
import type { Route } from "#apps/routes.ts";
import { must } from "#lib/assert.ts";
import { systemClock } from "#lib/clock.ts";
import { appIdOf, type ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Proxy } from "#proxy/proxy.ts";
import { createListener } from "#proxy/server.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import { roles, type Bearer, type MatrixCaller } from "./access-matrix.ts";
import { badTokens, signedToken } from "./bad-tokens.ts";
import { testBy, type ApiUnderTest } from "./management-api.ts";

const minuteMs = 60_000;

/** The name of the app that `openAppListener` knows. */
export const calledApp = "called";

/** All callers. */
export async function matrixCallers(api: ApiUnderTest): Promise<MatrixCaller[]> {
  const elsewhere = await api.addProject("elsewhere");
  return [...(await tokenCallers(api, elsewhere)), ...(await callersWithoutRight(api))];
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
      await add(`a service account ${place}, ${role}`, { kind: "service_account", place, role }, wish);
    }
    await add(`an inference token ${place}`, { kind: "inference", place }, { kind: "inference", projectId });
  }
  await add("an operator", { kind: "operator" }, { kind: "operator", expiresAt: null });
  return callers;
}

/** Callers whose tokens are not valid (any more), and one without. */
async function callersWithoutRight(api: ApiUnderTest): Promise<MatrixCaller[]> {
  const { projectId } = api;
  const wish = { kind: "service_account", projectId, role: "owner", expiresAt: null } as const;
  const now = systemClock.now();
  const expired = await issue(api, { ...wish, expiresAt: new Date(now - minuteMs) }, now - 2 * minuteMs);
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
  const unknownRow = signedToken({ jti: randomUUID(), projectId, principal: "serviceaccount/sa-1" }, keys.current());
  const headers: Readonly<Record<string, string | null>> = {
    nobody: null,
    "an expired token": `Bearer ${expired}`,
    "an operator's expired token": `Bearer ${expiredOperator}`,
    "a revoked token": `Bearer ${await revoked(api, wish)}`,
    "a revoked token for calling apps": `Bearer ${await revoked(api, { kind: "inference", projectId })}`,
    "a token that was never issued": `Bearer ${unknownRow}`,
    ...badTokens(token, jwk),
  };
  return Object.entries(headers).map(([name, header]) => ({ name, bearer: null, authorization: () => header }));
}

async function issue(api: ApiUnderTest, wish: TokenWish, nowMs = systemClock.now()): Promise<string> {
  const { db, keys } = api;
  const { token } = await issueToken(db, { wish, name: "matrix", key: keys.current(), nowMs, by: testBy });
  return token.reveal();
}

async function revoked(api: ApiUnderTest, wish: TokenWish & { projectId: ProjectId }): Promise<string> {
  const { db, keys } = api;
  const nowMs = systemClock.now();
  const { id, token } = await issueToken(db, { wish, name: "matrix", key: keys.current(), nowMs, by: testBy });
  await revokeToken(db, { id, projectId: wish.projectId, nowMs, by: testBy });
  return token.reveal();
}

/** Opens a listener that knows one app of the project, without a release; returns its URL. A right call of the app is answered 503. */
export async function openAppListener(t: TestContext, { projectId, tokens }: ApiUnderTest): Promise<string> {
  const appId = appIdOf(projectId, calledApp);
  const route: Route = {
    ...{ appId, projectId, appName: calledApp, disableAuth: false },
    ...{ live: null, latestBuild: null },
  };
  const proxy = new Proxy({
    routes: {
      find: (project, name) => (project === projectId && name === calledApp ? route : undefined),
      byAppId: (id) => (id === appId ? route : undefined),
    },
    ...{ tokens, view: new ReplicaView(), nudge: () => undefined, log: silentLog },
    limits: { lineLengthMax: 1, bodyBytesMax: 1_000 },
  });
  const listener = createListener({
    handle: (request, response) => proxy.handle(request, response),
    upgrade: (request, socket, firstBytes) => proxy.upgrade(request, socket, firstBytes),
    fallback: (_request, response) => response.writeHead(500).end(),
    clock: systemClock,
  });
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  t.after(async () => {
    proxy.close();
    await listener.close({ drainMs: 0 });
  });
  return `http://127.0.0.1:${port}`;
}
