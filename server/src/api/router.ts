// Registers the routes of the contract's table: for each the access check, the audit row of what was refused, and the
// function that answers. A path that is known with another method is answered 405, everything else 404.
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Route } from "@slipway/contract/route.ts";
import { routeIds, routes, type RouteId } from "@slipway/contract/routes.ts";
import type { AuditAction } from "@slipway/contract/words.ts";
import { actorOf, type Caller, type PersonCaller } from "#accounts/caller.ts";
import type { Attempts } from "#apps/attempts.ts";
import type { ProjectList } from "#apps/project-list.ts";
import { anonymousActor, type By } from "#audit/actor.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import { authenticate, authorize, type ApiAuthenticator } from "./access.ts";
import { pathPart, type Handler } from "./call.ts";
import { faultOf, sendFault } from "./errors.ts";
import { readQuery } from "./parameters.ts";

export type RouterParts = {
  readonly tokens: ApiAuthenticator;
  readonly projects: ProjectList;
  readonly attempts: Attempts;
  readonly log: Log;
  readonly clock: Clock;
};

/**
 * Refused attempts of one caller that are recorded within a minute: a token that may do nothing, as one for calling apps that
 * is in everybody's hands, must not fill the log. Nobody learns more from the next ones.
 */
const refusalsMax = 300;

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;

/** What was found out about a request that has shown a valid token. */
const known = new WeakMap<FastifyRequest, { readonly route: Route; readonly caller: Caller }>();

/** Adds all routes and the answers to errors. */
export function addRoutes(
  api: FastifyInstance,
  handlers: Readonly<Record<RouteId, Handler>>,
  parts: RouterParts,
): void {
  const recorded = new RateLimit({ max: refusalsMax, clock: parts.clock });
  for (const id of routeIds) addRoute(api, routes[id], handlers[id], parts);
  const paths = new Set<string>(routeIds.map((id) => routes[id].path));
  for (const path of paths) addOtherMethods(api, path);
  api.setNotFoundHandler(() => {
    throw new Fault("not_found", "There is nothing at this path; /openapi.json lists all paths.");
  });
  api.setErrorHandler(async (error: FastifyError, request, reply) => {
    const fault = faultOf(error, request.id);
    await recordRefusal(fault, request, { ...parts, recorded });
    return sendFault(fault, reply, parts.log);
  });
}

function addRoute(api: FastifyInstance, route: Route, handle: Handler, parts: RouterParts): void {
  api.route({
    method: route.method,
    url: urlOf(route.path),
    // Before the body is read: whoever has no right to send it is told so, whatever it holds.
    onRequest: (request) => admit(request, route, parts),
    // A body may take minutes to come: who has lost their right meanwhile must not act by what they had when it began.
    preHandler: async (request) => {
      if (request.body !== undefined) await admit(request, route, parts);
    },
    handler: async (request, reply) => {
      const caller = known.get(request)?.caller ?? null;
      const query = route.query === undefined ? {} : readQuery(route.query, request.query as Record<string, unknown>);
      const by = byOf(request, caller);
      const call = {
        request,
        reply,
        route,
        caller,
        by,
        query,
        body: request.body,
        admit: () => admit(request, route, parts),
      };
      const answer = await handle(call);
      if (answer === undefined) return reply;
      return reply.code(route.status).send(answer);
    },
  });
}

/** Throws `Fault` unless the request's token is valid now and gives the right to use the route. */
async function admit(request: FastifyRequest, route: Route, parts: RouterParts): Promise<void> {
  if (route.access === "public") return;
  const caller = await authenticate(request, parts.tokens);
  known.set(request, { route, caller });
  await authorize({ caller, route, request }, parts.projects);
}

/** What a known caller tried and was refused goes into the log of the caller's own project: nobody writes into another's. */
async function recordRefusal(
  fault: Fault,
  request: FastifyRequest,
  { attempts, log, recorded }: RouterParts & { readonly recorded: RateLimit },
): Promise<void> {
  const found = known.get(request);
  const action = found?.route.audit ?? null;
  if (found === undefined || action === null) return;
  const { caller } = found;
  if (!recorded.tryTake(actorOf(caller).id ?? "")) {
    log.warn({ actor: actorOf(caller).id, action }, "a caller is refused so often that it is not recorded each time");
    return;
  }
  const projects =
    caller.kind === "person"
      ? ownProjects(request, caller, action)
      : [caller.projectId ?? knownProject(request, fault)];
  const attempt = { action, by: byOf(request, caller), resource: resourceOf(request, caller), reason: fault.message };
  try {
    for (const projectId of projects) await attempts.recordFailure({ ...attempt, projectId });
  } catch (error) {
    log.error({ err: error, requestId: request.id, action }, "a refused attempt could not be recorded");
  }
}

/**
 * The project of the path when the person is a member of it; else it is none of theirs to write into. What they try with
 * their own sign-in is told to all projects that they belong to.
 */
function ownProjects(
  request: FastifyRequest,
  { roles }: PersonCaller,
  action: AuditAction,
): readonly (ProjectId | null)[] {
  const named = pathPart(request, "project_id") as ProjectId | undefined;
  if (named !== undefined) return [roles.has(named) ? named : null];
  return action.startsWith("person.") && roles.size > 0 ? [...roles.keys()].slice(0, ownProjectsMax) : [null];
}

/** Nobody belongs to more for anything but a test. */
const ownProjectsMax = 200;

/** The project that an operator acted on, unless it was refused because there is none. */
function knownProject(request: FastifyRequest, fault: Fault): ProjectId | null {
  const named = pathPart(request, "project_id");
  return named === undefined || fault.code === "no_such_project" ? null : (named as ProjectId);
}

function resourceOf(request: FastifyRequest, caller: Caller): { type: string; id: string } {
  for (const [type, part] of resourceParts) {
    const id = pathPart(request, part);
    if (id !== undefined) return { type, id };
  }
  return caller.kind === "person" ? { type: "person", id: caller.personId } : { type: "platform", id: "" };
}

/** The most specific part of the path first. */
const resourceParts = [
  ["build", "build_id"],
  ["run", "run_id"],
  ["webhook_delivery", "delivery_id"],
  ["webhook_endpoint", "endpoint_id"],
  ["webhook_secret", "secret_id"],
  ["coupon", "code"],
  ["person", "person_id"],
  ["service_account", "service_account_id"],
  ["inference", "api_key_id"],
  ["operator", "token_id"],
  ["signing_key", "key_id"],
  ["invitation", "invitation_id"],
  ["app", "app_id"],
  ["git_credential", "host"],
  ["project", "project_id"],
] as const;

function byOf(request: FastifyRequest, caller: Caller | null): By {
  const userAgent = request.headers["user-agent"] ?? null;
  return {
    actor: caller === null ? anonymousActor : actorOf(caller),
    request: { id: request.id, address: request.clientAddress, userAgent },
  };
}

/** 405 for the methods that a known path does not have, and OPTIONS; both name those that it has. */
function addOtherMethods(api: FastifyInstance, path: string): void {
  const has = new Set<string>(routeIds.filter((id) => routes[id].path === path).map((id) => routes[id].method));
  if (has.has("GET")) has.add("HEAD");
  const allow = [...has, "OPTIONS"].join(", ");
  api.route({
    method: methods.filter((method) => !has.has(method)),
    url: urlOf(path),
    onRequest: (request, reply, _done) => {
      void reply.header("allow", allow);
      throw new Fault("method_not_allowed", `${request.method} is not allowed here; allowed: ${allow}.`);
    },
    handler: () => undefined,
  });
  api.options(urlOf(path), (_request, reply: FastifyReply) => reply.header("allow", allow).code(204).send());
}

/** `{name}` as Fastify writes it. */
function urlOf(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}
