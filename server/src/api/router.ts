// Registers the routes of the contract's table: for each the access check, the audit row of
// refusals, and the handler. A known path with another method is answered 405, everything else 404.
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isOlderClient, repeatedProject } from "@slipway/contract/older-clients.ts";
import { takesKey, type Route } from "@slipway/contract/route.ts";
import { routeIds, routes, type RouteId } from "@slipway/contract/routes.ts";
import type { AuditAction } from "@slipway/contract/words.ts";
import { actorOf, type Caller, type PersonCaller } from "#accounts/caller.ts";
import { anonymousActor, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import { authenticate, authorize } from "./access.ts";
import { appNameOf, pathPart, readQuery, type ApiCall, type Handler } from "./call.ts";
import { faultOf, sendFault } from "./errors.ts";
import { bodyOnce, queryOnce, type IgnoredNames } from "./older-clients.ts";
import type { OtherMethods } from "./other-methods.ts";
import type { HandlerParts } from "./parts.ts";

/**
 * The maximum of refused attempts recorded per caller and minute: a token without rights, such as a
 * widely shared one for calling apps, must not fill the log. Further ones add no information.
 */
const refusalsMax = 300;

/** The maximum body of a route that takes bytes; GitHub sends no larger event. */
const bytesMax = 26_214_400;

const keyForm = /^[\x21-\x7e]{1,255}$/;

/** What is known about a request with a valid token. */
const known = new WeakMap<FastifyRequest, { readonly route: Route; readonly caller: Caller }>();

/** Adds all routes and the error handlers. */
export function addRoutes(
  api: FastifyInstance,
  handlers: Readonly<Record<RouteId, Handler>>,
  { parts, others }: { readonly parts: HandlerParts; readonly others: OtherMethods },
): void {
  const recorded = new RateLimit({ max: refusalsMax, clock: parts.clock });
  for (const id of routeIds) addRoute(api, routes[id], handlers[id], parts);
  for (const path of new Set<string>(routeIds.map((id) => routes[id].path))) {
    const has = routeIds.filter((id) => routes[id].path === path).map((id) => routes[id].method);
    others.add(urlOf(path), has);
  }
  api.setNotFoundHandler(() => {
    throw new Fault("not_found", "There is nothing at this path; /openapi.json lists all paths.");
  });
  api.setErrorHandler(async (error: FastifyError, request, reply) => {
    const fault = faultOf(error, request.id);
    await recordRefusal(fault, request, { ...parts, recorded });
    return sendFault(fault, reply, parts.log);
  });
}

/** Routes that take bytes are in a scope of their own, whose parsers leave bodies as they are. */
function addRoute(api: FastifyInstance, route: Route, handle: Handler, parts: HandlerParts): void {
  if (route.takesBytes !== true && route.takesStream !== true)
    return addPlainRoute(api, route, handle, parts);
  void api.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    if (route.takesStream === true)
      scope.addContentTypeParser("*", (_request, body, parsed) => parsed(null, body));
    else {
      scope.addContentTypeParser(
        "*",
        { parseAs: "buffer", bodyLimit: bytesMax },
        (_request, body, parsed) => parsed(null, body),
      );
    }
    addPlainRoute(scope, route, handle, parts);
    done();
  });
}

function addPlainRoute(
  api: FastifyInstance,
  route: Route,
  handle: Handler,
  parts: HandlerParts,
): void {
  api.route({
    method: route.method,
    url: urlOf(route.path),
    // Before the body is read: a caller without the right is refused whatever it holds.
    onRequest: async (request, reply) => {
      await handle.beforeBody?.(request, reply);
      await admit(request, route, parts);
      countRequest(request, reply, parts);
    },
    // A body may take minutes to arrive: a caller who has lost the right meanwhile must not act.
    preHandler: async (request) => {
      if (request.body !== undefined) await admit(request, route, parts);
    },
    handler: async (request, reply) => {
      const caller = known.get(request)?.caller ?? null;
      const { query, body } = readOnce(request, route, parts.ignored);
      const by = byOf(request, caller);
      const appName = appNameOf(request);
      const projectId = pathPart(request, "project_id") as ProjectId;
      const appId = appName === undefined ? null : await parts.apps.resolve(projectId, appName);
      const call = {
        request,
        reply,
        route,
        appId,
        caller,
        by,
        query,
        body,
        admit: () => admit(request, route, parts),
      };
      const answer = await handleOnce(call, handle, parts);
      if (answer === undefined) return reply;
      const isOk = route.status === 201 && isOlderClient(request.headers["x-cli-version"]);
      return reply.code(isOk ? 200 : route.status).send(answer);
    },
  });
}

/** Query and body without what older clients repeat in them. Throws `Fault`. */
function readOnce(
  request: FastifyRequest,
  route: Route,
  ignored: IgnoredNames,
): Pick<ApiCall, "query" | "body"> {
  const projectId = pathPart(request, "project_id");
  const fields = route.body?.kind === "fields" ? route.body.fields : null;
  const body =
    fields === null ? request.body : bodyOnce(request.body, { projectId, known: fields });
  if (body !== request.body) ignored.note(route.path, [repeatedProject]);
  if (route.query === undefined && fields === null) return { query: {}, body };
  const given = request.query as Record<string, unknown>;
  const once = queryOnce(given, { projectId, known: route.query ?? {}, body });
  ignored.note(route.path, once.ignored);
  return { query: route.query === undefined ? {} : readQuery(route.query, once.query), body };
}

/** Handles a request with an Idempotency-Key once, and answers its repetitions from memory. */
async function handleOnce(
  call: ApiCall,
  handle: Handler,
  parts: HandlerParts,
): Promise<object | undefined> {
  const { request, reply, route, caller, body } = call;
  const key = request.headers["idempotency-key"];
  if (key === undefined || caller === null || !takesKey(route)) return await handle(call);
  if (typeof key !== "string" || !keyForm.test(key)) {
    throw new Fault("invalid", "Idempotency-Key must have 1 to 255 visible ASCII characters.");
  }
  const content = `${request.method} ${request.url}\n${JSON.stringify(body)}`;
  const { answer, isRepeated } = await parts.requestKeys.once({ caller, key, content }, () =>
    handle(call),
  );
  if (isRepeated) void reply.header("idempotency-replayed", "true");
  return answer;
}

/** Throws `Fault` unless the request's token is valid now and permits the route. */
async function admit(request: FastifyRequest, route: Route, parts: HandlerParts): Promise<void> {
  if (route.access === "public") return;
  const caller = await authenticate(request, parts.tokens);
  known.set(request, { route, caller });
  await authorize({ caller, route, request }, parts.projects);
}

/**
 * Counts a request of a known caller and tells what is left. Throws `Fault("rate_limited")`, which
 * is not recorded.
 */
function countRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  { requestLimit }: HandlerParts,
): void {
  const caller = known.get(request)?.caller;
  if (caller === undefined) return;
  const key = `${caller.kind}:${actorOf(caller).id}`;
  const refusal = requestLimit.refusal(key);
  if (refusal === null) requestLimit.take(key);
  const { max, remaining, resetSeconds } = requestLimit.left(key);
  void reply.headers({
    "ratelimit-limit": max,
    "ratelimit-remaining": remaining,
    "ratelimit-reset": resetSeconds,
  });
  if (refusal === null) return;
  known.delete(request);
  throw refusal;
}

/**
 * Records a refused attempt of a known caller in the log of the caller's own project: nobody writes
 * into another's.
 */
async function recordRefusal(
  fault: Fault,
  request: FastifyRequest,
  { recordFailure, log, recorded }: HandlerParts & { readonly recorded: RateLimit },
): Promise<void> {
  const found = known.get(request);
  const action = found?.route.audit ?? null;
  if (found === undefined || action === null) return;
  const { caller } = found;
  if (!recorded.tryTake(actorOf(caller).id ?? "")) {
    log.warn(
      { actor: actorOf(caller).id, action },
      "a caller is refused so often that it is not recorded each time",
    );
    return;
  }
  const projects =
    caller.kind === "person"
      ? ownProjects(request, caller, action)
      : [caller.projectId ?? knownProject(request, fault)];
  const attempt = {
    action,
    by: byOf(request, caller),
    resource: resourceOf(request, caller),
    reason: fault.message,
  };
  try {
    for (const projectId of projects) await recordFailure({ ...attempt, projectId });
  } catch (error) {
    log.error(
      { err: error, requestId: request.id, action },
      "a refused attempt could not be recorded",
    );
  }
}

/**
 * The project in the path if the person is a member; otherwise they must not write into it.
 * Attempts with a person's own sign-in are recorded in all their projects.
 */
function ownProjects(
  request: FastifyRequest,
  { roles }: PersonCaller,
  action: AuditAction,
): readonly (ProjectId | null)[] {
  const named = pathPart(request, "project_id") as ProjectId | undefined;
  if (named !== undefined) return [roles.has(named) ? named : null];
  return action.startsWith("person.") && roles.size > 0
    ? [...roles.keys()].slice(0, ownProjectsMax)
    : [null];
}

/** Only in tests does a person belong to more projects. */
const ownProjectsMax = 200;

/** The project that an operator acted on, unless it was refused because it does not exist. */
function knownProject(request: FastifyRequest, fault: Fault): ProjectId | null {
  const named = pathPart(request, "project_id");
  return named === undefined || fault.code === "no_such_project" ? null : (named as ProjectId);
}

function resourceOf(request: FastifyRequest, caller: Caller): { type: string; id: string } {
  for (const [type, part] of resourceParts) {
    const id = pathPart(request, part);
    if (id !== undefined) return { type, id };
  }
  return caller.kind === "person"
    ? { type: "person", id: caller.personId }
    : { type: "platform", id: "" };
}

/** The most specific part of the path first. */
const resourceParts = [
  ["build", "build_id"],
  ["run", "run_id"],
  ["replica", "container_id"],
  ["webhook_delivery", "delivery_id"],
  ["git_delivery", "git_delivery_id"],
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
  ["app", "run_app"],
  ["volume", "volume_id"],
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

/** `{name}` in Fastify's notation. */
function urlOf(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}
