// Decides who may call an app: everybody if its authentication is off, else whoever has a valid
// token of its project with the permission apps.call. Strangers cannot find out which apps exist:
// the answer to a call without a valid token is always 401, and with another project's token it is
// 404, as for an app that does not exist.
import type { Caller } from "#accounts/caller.ts";
import { allows } from "#accounts/permissions.ts";
import type { AppRoute } from "#apps/routes.ts";
import { Fault } from "#lib/fault.ts";

/**
 * The part of `Authenticator` that checks the tokens of calls. Both functions return null for an
 * invalid token, and a fault after too many invalid tokens from the address. `cached` returns
 * undefined when only `check` can tell.
 */
export type CallAuthenticator = {
  cached(token: string, address: string): Caller | Fault | null | undefined;
  check(token: string, address: string): Promise<Caller | Fault | null>;
};

/** The app that is called, and the caller's address. */
type CallTarget = {
  readonly projectId: string;
  readonly appName: string;
  readonly address: string;
};

const noToken =
  "No Authorization token found: send Authorization: Bearer <token> with a token of the app's project.";
const notChecked =
  "The token could not be checked, because a part of the platform is not responding; try again.";
/** After how many seconds callers should try again. The number is a guess. */
const checkRetrySeconds = 5;
const badToken =
  "The token is invalid: it was altered, has expired, was revoked, or does not give access to apps.";

/** The app's route, or why the call is refused. Synchronous if the token is cached. */
export function authorizeCall(
  tokens: CallAuthenticator,
  route: AppRoute | undefined,
  target: CallTarget,
  authorization: string | undefined,
): AppRoute | Fault | Promise<AppRoute | Fault> {
  if (route !== undefined && route.disableAuth) return route;
  const token = authorization === undefined ? undefined : bearerToken(authorization);
  if (token === undefined) return new Fault("unauthorized", noToken);
  const caller = tokens.cached(token, target.address);
  if (caller !== undefined) return judge(caller, route, target);
  return tokens.check(token, target.address).then(
    (checked) => judge(checked, route, target),
    (cause: unknown) =>
      new Fault("unavailable", notChecked, { cause, retryAfterSeconds: checkRetrySeconds }),
  );
}

/** Decides after the check of a token, which returned `caller`; null: the token is invalid. */
function judge(
  caller: Caller | Fault | null,
  route: AppRoute | undefined,
  target: CallTarget,
): AppRoute | Fault {
  if (caller instanceof Fault) return caller;
  // Operators run the platform and people manage apps; to call apps, they need another token.
  if (caller === null || caller.kind === "operator" || caller.kind === "person")
    return new Fault("unauthorized", badToken);
  const { appName, projectId } = target;
  if (route === undefined || caller.projectId !== projectId) {
    const text = `There is no app ${shown(appName)} in project ${shown(projectId)}.`;
    return new Fault("not_found", text);
  }
  if (allows(caller, "apps.call", caller.projectId)) return route;
  return new Fault("forbidden", mayNot(caller.name));
}

function mayNot(tokenName: string): string {
  return `The token "${tokenName}" does not allow this: it lacks the permission apps.call.`;
}

const bearer = "Bearer ";

/** The token. The scheme name before it is case-insensitive (RFC 9110, 11.1). */
function bearerToken(authorization: string): string | undefined {
  if (authorization.startsWith(bearer)) return authorization.slice(bearer.length);
  return /^bearer +(\S+)$/i.exec(authorization.trim())?.[1];
}

/** The name for a message; a long one is cut off, since callers can send names of any length. */
function shown(name: string): string {
  return name.length > 64 ? `${name.slice(0, 64)}…` : name;
}

/**
 * Why an app without a release cannot be called. Leaves out the cause when the app takes calls of
 * everybody, since strangers must not learn it.
 */
export function notDeployed(route: AppRoute): Fault {
  const { latestBuild, appName, unreadable, disableAuth } = route;
  if (unreadable !== undefined) {
    const details = disableAuth ? "" : ` ${unreadable}`;
    return new Fault("start_failed", `${appName} cannot be started.${details}`);
  }
  if (latestBuild === null)
    return new Fault("not_deployed", `${appName} has no release: it has no build yet.`);
  const { status, reason } = latestBuild;
  const why = reason === null || disableAuth ? "" : `: ${reason}`;
  const message = `${appName} has no release yet: its latest build is in state ${status}${why}`;
  const isBuilding = status === "pending" || status === "building" || status === "initializing";
  const options = isBuilding ? { retryAfterSeconds: buildRetrySeconds } : {};
  return new Fault("not_deployed", message, options);
}

/** After how many seconds callers should try again: a build takes seconds to minutes. */
const buildRetrySeconds = 5;

/** Why an app of an accepted run cannot be called. */
export function withoutRelease(route: AppRoute | undefined): Fault {
  return route === undefined ? new Fault("not_found", "The app was deleted.") : notDeployed(route);
}
