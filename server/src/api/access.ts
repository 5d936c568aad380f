// Authenticates and authorizes a request: checks its bearer token, the project in its path, and the
// permission that the route needs.
import type { FastifyRequest } from "fastify";
import type { Route } from "@slipway/contract/route.ts";
import type { Permission } from "@slipway/contract/words.ts";
import type { Caller } from "#accounts/caller.ts";
import { allows, belongsTo } from "#accounts/permissions.ts";
import type { Authentication } from "#accounts/authenticator.ts";
import type { ProjectList } from "#apps/project-list.ts";
import { Fault, noSuchProject } from "#lib/fault.ts";
import { projectIdForm, type ProjectId } from "#lib/ids.ts";
import { pathPart, type ApiCall } from "./call.ts";

/** The part of `Authenticator` that the API uses. */
export type ApiAuthenticator = { check(token: string, address: string): Promise<Authentication> };

/** Returns the caller of a request. Throws `Fault("unauthorized" | "rate_limited")`. */
export async function authenticate(
  request: FastifyRequest,
  tokens: ApiAuthenticator,
): Promise<Caller> {
  const header = request.headers.authorization;
  if (header === undefined) {
    throw new Fault(
      "unauthorized",
      'No token was sent: the header "Authorization: Bearer <token>" is missing.',
    );
  }
  const token = /^Bearer +([^\s]+)$/i.exec(header)?.[1];
  if (token === undefined) {
    throw new Fault(
      "unauthorized",
      'The header Authorization must be of the form "Bearer <token>".',
    );
  }
  const caller = await tokens.check(token, request.clientAddress);
  if (caller instanceof Fault) throw caller;
  if (caller === null) throw new Fault("unauthorized", "The token is invalid, expired or revoked.");
  return caller;
}

/**
 * Throws `Fault("forbidden")` unless the caller may use the route. Throws the same
 * `Fault("no_such_project")` for a project that does not exist and for one that the caller may not
 * see.
 */
export async function authorize(
  access: { readonly caller: Caller; readonly route: Route; readonly request: FastifyRequest },
  projects: ProjectList,
): Promise<void> {
  const { caller, route, request } = access;
  const projectId = pathPart(request, "project_id");
  if (projectId !== undefined && !(await isVisible(access, projectId, projects))) {
    throw noSuchProject();
  }
  if (mayUse(caller, route, projectId ?? null)) return;
  const limitText = caller.kind === "inference" ? "is only for calling apps and" : "";
  const refusal =
    route.access === "any" || route.access === "person"
      ? "not allow this"
      : `not allow this: it lacks the permission ${route.access}`;
  const callerText =
    caller.kind === "person" ? `The session of "${caller.email}"` : `The token "${caller.name}"`;
  // If `limitText` is empty, there are two spaces in a row, which are made one.
  throw new Fault("forbidden", `${callerText} ${limitText} does ${refusal}.`.replace(/ +/g, " "));
}

/**
 * Throws `Fault("forbidden")` unless the caller has the permission in the project of the path.
 * Handlers use it for permissions that a route needs only in some cases.
 */
export function requirePermission({ caller, request }: ApiCall, permission: Permission): void {
  if (caller !== null && allows(caller, permission, pathPart(request, "project_id") ?? null))
    return;
  throw new Fault(
    "forbidden",
    `The caller may not do this: it lacks the permission ${permission}.`,
  );
}

function mayUse(caller: Caller, { access }: Route, projectId: string | null): boolean {
  if (access === "public") return true;
  if (access === "any") return caller.kind !== "inference";
  if (access === "person") return caller.kind === "person";
  return allows(caller, access, projectId);
}

/**
 * Whether the caller may see the project. Operators see every project, and with a route that reads
 * the audit log also a deleted one.
 */
async function isVisible(
  { caller, route }: { readonly caller: Caller; readonly route: Route },
  projectId: string,
  projects: ProjectList,
): Promise<boolean> {
  if (caller.kind !== "operator") return belongsTo(caller, projectId);
  if (!projectIdForm.test(projectId)) return false;
  const id = projectId as ProjectId;
  return route.access === "audit_log.read" ? await projects.wasMade(id) : await projects.has(id);
}
