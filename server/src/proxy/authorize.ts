// Decides who may call an app: everybody if its authentication is off, else callers with a valid
// token of its project that has the right. Strangers cannot probe which apps exist: without a valid
// token the answer is always 401, and with another project's token it is 404, as for an app that
// does not exist.
import type { Caller } from "#accounts/caller.ts";
import { allows } from "#accounts/permissions.ts";
import type { AppRoute } from "#apps/routes.ts";
import { Fault } from "#lib/fault.ts";

/**
 * The part of `Authenticator` that the gate uses. Null: invalid; a fault: too many invalid tokens
 * from that address.
 */
export type CallAuthenticator = {
  cached(token: string, address: string): Caller | Fault | null | undefined;
  check(token: string, address: string): Promise<Caller | Fault | null>;
};

/** The app that is called, and the caller's address. */
type Asked = { readonly projectId: string; readonly appName: string; readonly address: string };

const noToken =
  "No Authorization token found: send Authorization: Bearer <token> with a token of the app's project.";
const notChecked =
  "The token could not be checked, because a part of the platform is not responding; try again.";
const checkRetrySeconds = 5;
const badToken =
  "The token is invalid: it was altered, has expired, was revoked, or does not give access to apps.";

/** The app's route, or why the call is refused. Synchronous if the token is cached. */
export function authorizeCall(
  tokens: CallAuthenticator,
  route: AppRoute | undefined,
  asked: Asked,
  authorization: string | undefined,
): AppRoute | Fault | Promise<AppRoute | Fault> {
  if (route !== undefined && route.disableAuth) return route;
  const token = authorization === undefined ? undefined : bearerToken(authorization);
  if (token === undefined) return new Fault("unauthorized", noToken);
  const caller = tokens.cached(token, asked.address);
  if (caller !== undefined) return judge(caller, route, asked);
  return tokens.check(token, asked.address).then(
    (checked) => judge(checked, route, asked),
    (cause: unknown) =>
      new Fault("unavailable", notChecked, { cause, retryAfterSeconds: checkRetrySeconds }),
  );
}

function judge(
  caller: Caller | Fault | null,
  route: AppRoute | undefined,
  asked: Asked,
): AppRoute | Fault {
  if (caller instanceof Fault) return caller;
  // Operators run the platform and people manage apps; calling apps takes a token made for it.
  if (caller === null || caller.kind === "operator" || caller.kind === "person")
    return new Fault("unauthorized", badToken);
  if (route === undefined || caller.projectId !== asked.projectId) {
    return new Fault(
      "not_found",
      `There is no app ${shown(asked.appName)} in project ${shown(asked.projectId)}.`,
    );
  }
  return allows(caller, "apps.call", caller.projectId)
    ? route
    : new Fault("forbidden", mayNot(caller.name));
}

function mayNot(tokenName: string): string {
  return `The token "${tokenName}" does not allow this: it lacks the permission apps.call.`;
}

/** The scheme name is case-insensitive (RFC 9110, 11.1). */
function bearerToken(authorization: string): string | undefined {
  if (authorization.startsWith("Bearer ")) return authorization.slice(7);
  return /^bearer +(\S+)$/i.exec(authorization.trim())?.[1];
}

function shown(name: string): string {
  return name.length > 64 ? `${name.slice(0, 64)}…` : name;
}

/**
 * Why an app without a release cannot be called; strangers may ask one that takes every call, and
 * are not told the cause.
 */
export function notDeployed(route: AppRoute): Fault {
  const { latestBuild, appName, unreadable, disableAuth } = route;
  if (unreadable !== undefined)
    return new Fault("start_failed", `${appName} cannot be started. ${unreadable}`);
  if (latestBuild === null)
    return new Fault("not_deployed", `${appName} has no release: it has no build yet.`);
  const { status, reason } = latestBuild;
  const isOver = status !== "pending" && status !== "building" && status !== "initializing";
  const why = reason === null || disableAuth ? "" : `: ${reason}`;
  const message = `${appName} has no release yet: its latest build is in state ${status}${why}`;
  return new Fault("not_deployed", message, isOver ? {} : { retryAfterSeconds: buildRetrySeconds });
}

/** A build takes seconds to minutes. */
const buildRetrySeconds = 5;

/** Why an app of an accepted run cannot be called. */
export function withoutRelease(route: AppRoute | undefined): Fault {
  return route === undefined ? new Fault("not_found", "The app was deleted.") : notDeployed(route);
}
