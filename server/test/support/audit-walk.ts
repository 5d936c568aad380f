// The fixture of the test that walks over all routes: a whole platform, its database for
// inspection, an app, and a function that makes one call as a row describes it. The rows are in
// `audit-walk-rows.ts` and the files beside it.
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { routes, type RouteId } from "@slipway/contract/routes.ts";
import type { ActorType } from "#audit/record.ts";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { testDatabase } from "./database.ts";
import { startMailReceiver } from "./mail-receiver.ts";
import type { Json } from "./management-api.ts";
import { startOidcServer, type OidcServer } from "./oidc-server.ts";
import { startPlatform, type PlatformProcess } from "./platform-process.ts";

/** The caller. A text is a token that the row created. */
export type WalkCaller =
  | "owner"
  | "inference"
  | "operator"
  | "nobody"
  | { readonly token: string; readonly type: ActorType };

/**
 * One call of a route. `parts`: path parameters besides `project_id` and `app_id`, which have
 * defaults.
 */
export type WalkCall = {
  readonly parts?: Readonly<Record<string, string>>;
  /** Without the question mark. */
  readonly query?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** By default the owner's service account, or the operator's token for operator routes. */
  readonly caller?: WalkCaller;
};

/** The resource that an entry names. */
export type WalkResource = { readonly type: string | null; readonly id: string | null };

/** Rows by operation id. */
export type WalkRows = Readonly<Partial<Record<RouteId, WalkRow>>>;

/** How to call one route so that it succeeds, and so that it is refused. */
export type WalkRow = {
  /** Creates what is needed; returns the call that succeeds. */
  succeed(walk: Walk): Promise<WalkCall> | WalkCall;
  /**
   * The resource in the entry of success, if it is not the last id of the path; may read the
   * answer.
   */
  resource?(answer: WalkAnswer, call: WalkCall, walk: Walk): WalkResource | Promise<WalkResource>;
  /** By default the successful call made with a token for calling apps, which is answered 403. */
  refuse?(walk: Walk): Promise<WalkRefusal> | WalkRefusal;
  /** The actor type in the entry of success, if it is not the caller's. */
  readonly actorType?: ActorType;
  /**
   * The project of the entries, if it is not the one in the path. The default without one in the
   * path is null.
   */
  projectOf?(answer: WalkAnswer, walk: Walk): string | null;
  /** The expected status of the call, where it is not the route's. */
  readonly status?: number;
  /** Why a route that changes something writes no entry. */
  readonly unrecorded?: string;
};

export type WalkRefusal = WalkCall & {
  readonly status: number;
  /** The entry's reason, if it says more than the answer. */
  readonly reason?: string;
  /** Why this refusal writes no entry, which is allowed only for callers without a valid token. */
  readonly unrecorded?: string;
};

export type WalkAnswer = {
  readonly status: number;
  readonly requestId: string;
  readonly body: Json;
};

/** The platform and its contents. */
export type Walk = {
  readonly platform: PlatformProcess;
  readonly db: Db;
  /** An identity provider. */
  readonly oidc: OidcServer;
  readonly projectId: ProjectId;
  /** An app of the project whose builds never start. */
  readonly appId: AppId;
  /** Calls a route; rows can use it to create what another route needs. */
  call(id: RouteId, call: WalkCall): Promise<WalkAnswer>;
};

/** The name of the app. */
const walkApp = "walked";

/** Starts everything; `settings` are the platform's. */
export async function startWalk(
  t: TestContext,
  settings: Record<string, string> = {},
): Promise<Walk> {
  const { db, url } = await testDatabase(t);
  let baseUrl = "";
  const account = { sub: "walker", email: "walker@example.org", emailVerified: true };
  const oidc = await startOidcServer(t, {
    account,
    redirectUri: () => `${baseUrl}/v2/auth/callback/oidc`,
  });
  const platform = await startPlatform(t, {
    SLIPWAY_OIDC_ISSUER: oidc.issuer,
    SLIPWAY_OIDC_CLIENT_ID: oidc.clientId,
    SLIPWAY_OIDC_CLIENT_SECRET: oidc.clientSecret,
    SLIPWAY_DATABASE_URL: url.reveal(),
    SLIPWAY_GIT_URL: `http://127.0.0.1:${await silentPort(t)}/{owner}/{repo}.git`,
    SLIPWAY_BUILDS_AT_ONCE: "1",
    SLIPWAY_DRAIN_SECONDS: "0",
    SLIPWAY_SIGN_UP: "open",
    SLIPWAY_SMTP_URL: (await startMailReceiver(t)).url,
    SLIPWAY_MAIL_FROM: "walk@example.org",
    ...settings,
  });
  const { projectId } = platform.bootstrap;
  baseUrl = platform.bootstrap.baseUrl;
  const appId = `${projectId}-${walkApp}`;
  const walk = { platform, db, oidc, projectId: projectId as ProjectId, appId: appId as AppId };
  const call: Walk["call"] = (id, given) => callRoute({ ...walk, call }, id, given);
  // The app's build waits for a git host that never answers, and all later builds queue behind it.
  for (const name of ["in-the-way", walkApp]) {
    const made = await call("createGitApp", { body: { name, gitRepo: "acme/shop" } });
    if (made.status !== 201) throw new Error(`no app ${name}: ${JSON.stringify(made.body)}`);
  }
  return { ...walk, call };
}

/** The default caller of a route. */
export function callerOf(id: RouteId, call: WalkCall): WalkCaller {
  return call.caller ?? (routes[id].access === "platform.manage" ? "operator" : "owner");
}

async function callRoute(walk: Walk, id: RouteId, call: WalkCall): Promise<WalkAnswer> {
  const { method } = routes[id];
  const { platform } = walk;
  const token = tokenOf(platform, callerOf(id, call));
  const response = await fetch(`${platform.bootstrap.localUrl}${pathOf(walk, id, call)}`, {
    method,
    redirect: "manual",
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(call.body === undefined ? {} : { "content-type": "application/json" }),
      ...call.headers,
    },
    ...(call.body === undefined
      ? {}
      : { body: typeof call.body === "string" ? call.body : JSON.stringify(call.body) }),
  });
  const text = await response.text();
  const isJson =
    response.headers.get("content-type")?.startsWith("application/json") === true && text !== "";
  const requestId = response.headers.get("x-request-id") ?? "";
  return { status: response.status, requestId, body: isJson ? JSON.parse(text) : text };
}

/** The values of the path parameters, in the order of the path. */
export function partsOf(
  walk: Pick<Walk, "projectId" | "appId">,
  id: RouteId,
  call: WalkCall,
): Map<string, string> {
  const defaults: Record<string, string> = { project_id: walk.projectId, app_id: walk.appId };
  const names = [...routes[id].path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name);
  return new Map(
    names.map((name) => {
      const value = call.parts?.[name] ?? defaults[name];
      if (value === undefined) throw new Error(`the row of ${id} gives no ${name}`);
      return [name, value] as const;
    }),
  );
}

function pathOf(walk: Walk, id: RouteId, call: WalkCall): string {
  const parts = partsOf(walk, id, call);
  const path = routes[id].path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(parts.get(name) ?? ""),
  );
  return call.query === undefined ? path : `${path}?${call.query}`;
}

function tokenOf({ bootstrap }: PlatformProcess, caller: WalkCaller): string | null {
  if (typeof caller !== "string") return caller.token;
  const {
    serviceAccountToken: owner,
    inferenceToken: inference,
    operatorToken: operator,
  } = bootstrap;
  return { owner, inference, operator, nobody: null }[caller];
}

/** A port at which connections are accepted and never answered. */
export async function silentPort(t: TestContext): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return (server.address() as AddressInfo).port;
}
