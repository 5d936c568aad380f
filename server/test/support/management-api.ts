// The management API on a real socket and a real database, with everything behind it except the
// execution of builds, which other tests cover.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import type { Role } from "@slipway/contract/words.ts";
import { type TokenKind } from "#accounts/caller.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import { createProject } from "#accounts/projects.ts";
import type { TokenCheck } from "#accounts/token-check.ts";
import type { TokenUses } from "#accounts/token-uses.ts";
import { issueToken, type TokenWish } from "#accounts/tokens.ts";
import type { ApiParts } from "#api/parts.ts";
import type { FastifyInstance } from "fastify";
import type { UseCases } from "#apps/use-cases.ts";
import { platformActor, type By } from "#audit/record.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { Sealer } from "#lib/seal.ts";
import type { AppLogs } from "#logs/app-log.ts";
import type { BuildLogs } from "#logs/build-log.ts";
import type { People } from "#people/people.ts";
import type { Db } from "#store/database.ts";
import type { Notifications } from "#store/notify.ts";
import "./checked-answers.ts";
import { openApi } from "#platform-management.ts";
import { openManagementPlatform, type ManagementOptions } from "./management-platform.ts";
import { makePerson } from "./person.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- tests read answers of many shapes, after checking them.
export type Json = any;

export type ApiAnswer = {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed when it is JSON, else the text. */
  readonly body: Json;
};

export type ApiUnderTest = {
  readonly db: Db;
  readonly baseUrl: string;
  readonly projectId: ProjectId;
  /** The owner's service account. */
  readonly token: string;
  readonly useCases: UseCases;
  readonly databaseUrl: Secret;
  /** Where the zips of deployments by upload are. */
  readonly uploadsDir: string;
  /** The persistent storage: one folder per project. */
  readonly storageDir: string;
  readonly buildLogs: BuildLogs;
  readonly appLogs: AppLogs;
  readonly notifications: Notifications;
  readonly people: People;
  /** Written only by `flush`. */
  readonly tokenUses: TokenUses;
  readonly sealer: Sealer;
  readonly keys: SigningKeys;
  readonly tokens: TokenCheck;
  /** The key of the sealer. */
  readonly secretKey: string;
  /** A call with the owner's token; `token: null` sends none. */
  call(method: string, path: string, options?: CallOptions): Promise<ApiAnswer>;
  /** Issues another token of the project, or of another project. */
  issue(wish: {
    kind: TokenKind;
    role?: Role;
    projectId?: ProjectId;
    name?: string;
  }): Promise<string>;
  /** Creates another project with an owner. */
  addProject(name: string): Promise<ProjectId>;
};

export type CallOptions = {
  readonly body?: unknown;
  /** Sent unchanged, instead of `body` as JSON. */
  readonly text?: string;
  readonly token?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
};

/** The actor in tests that do not care. */
export const testBy: By = { actor: platformActor };

type Wanted = {
  readonly kind: TokenKind;
  readonly role: Role;
  readonly projectId: ProjectId;
};

function wishOf({ kind, role, projectId }: Wanted): TokenWish {
  if (kind === "operator") return { kind, expiresAt: null };
  if (kind === "inference") return { kind, projectId };
  return { kind, projectId, role, expiresAt: null };
}

/** Serves the instance on a free port until the test ends; returns its address. */
async function listen(t: TestContext, api: FastifyInstance): Promise<string> {
  // As in the platform's listener: a request without a body emits no body events. As there, idle
  // connections stay open: after node's usual five seconds, a busy machine may use one just as it
  // is closed.
  const server = createServer(
    { optimizeEmptyRequests: true, keepAliveTimeout: 75_000 },
    (request, response) => api.routing(request, response),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    await api.close();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts it on a free port; everything is closed after the test. */
export async function startManagementApi(
  t: TestContext,
  options: ManagementOptions & {
    readonly stopping?: AbortSignal;
    readonly health?: ApiParts["health"];
    /** Serves it on a different listener; returns its address. */
    readonly listen?: typeof listen;
    readonly waitReason?: (appId: string) => string | undefined;
    readonly buildWaitReason?: (appId: string) => string | undefined;
  } = {},
): Promise<ApiUnderTest> {
  let baseUrl = "";
  const platform = await openManagementPlatform(t, options, ({ publicUrl, appHosts }) => {
    const shownUrl = publicUrl ?? baseUrl;
    return {
      baseUrl: shownUrl,
      apiUrl: shownUrl,
      dashboardUrl: `${shownUrl}/dashboard`,
      appHosts,
    };
  });
  const { foundation, identity, settings, calls, secretKey, url } = platform;
  const { db, sealer, notifications, clock, lifecycle } = foundation;
  const { keys, people } = identity;
  const { health, waitReason, buildWaitReason, stopping } = options;
  const api = await openApi(settings, {
    ...platform.api,
    ...calls,
    lifecycle,
    health: health ?? calls.health,
    waitReason: waitReason ?? calls.waitReason,
    buildWaitReason: buildWaitReason ?? calls.buildWaitReason,
    stopping: stopping ?? new AbortController().signal,
  });
  baseUrl = await (options.listen ?? listen)(t, api);
  const issue: ApiUnderTest["issue"] = async ({ kind, role = "owner", projectId, name = kind }) => {
    const wish = wishOf({ kind, role, projectId: projectId ?? ownProject });
    const { token } = await issueToken(db, {
      wish,
      name,
      key: keys.current(),
      nowMs: clock.now(),
      by: testBy,
    });
    return token.reveal();
  };
  const addProject: ApiUnderTest["addProject"] = async (name) => {
    const ownerId = await makePerson(db, { email: `${randomUUID()}@example.org`, name: "Owner" });
    return await createProject(db, { name, ownerId, by: testBy });
  };
  const ownProject = await addProject("first");
  const token = await issue({ kind: "service_account", name: "owner" });
  const { useCases, buildLogs, appLogs } = platform.api;
  return {
    db,
    baseUrl,
    projectId: ownProject,
    token,
    useCases,
    databaseUrl: url,
    uploadsDir: settings.paths.uploadsDir,
    storageDir: settings.paths.storageDir,
    buildLogs,
    appLogs,
    notifications,
    people,
    sealer,
    keys,
    tokens: identity.check,
    tokenUses: identity.uses,
    secretKey,
    issue,
    addProject,
    call: (method, path, given = {}) =>
      call({
        method,
        url: baseUrl + path,
        ...given,
        token: given.token === undefined ? token : given.token,
      }),
  };
}

async function call(
  given: CallOptions & { method: string; url: string; token: string | null },
): Promise<ApiAnswer> {
  const { method, url, token, body, text } = given;
  const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const headers = {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(sent === undefined ? {} : { "content-type": "application/json" }),
    ...given.headers,
  };
  const response = await fetch(url, {
    method,
    headers,
    redirect: "manual",
    ...(sent === undefined ? {} : { body: sent }),
  });
  const answered = await response.text();
  const isJson =
    response.headers.get("content-type")?.startsWith("application/json") && answered !== "";
  return {
    status: response.status,
    headers: response.headers,
    body: isJson ? JSON.parse(answered) : answered,
  };
}
