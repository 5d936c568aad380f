// Registers the routes of the contract's table, each with its access check, its handler, and an
// audit row for a refusal. A request with a method that its path does not have is answered 405, and
// a request for an unknown path 404.
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
 * The maximum number of refused attempts that are recorded per caller and minute: a token without
 * permissions, such as a widely shared one for calling apps, must not fill the audit log. More rows
 * would add no information.
 */
const refusalsMax = 300;

/** The maximum size of a body on a route that takes bytes, 25 MiB: GitHub sends no larger event. */
const bytesMax = 26_214_400;

/** The form of an Idempotency-Key: visible ASCII characters. */
const keyForm = /^[\x21-\x7e]{1,255}$/;

/** The route and the caller of each request whose token was valid. */
const authenticated = new WeakMap<
  FastifyRequest,
  { readonly route: Route; readonly caller: Caller }
>();

/** Adds all routes and the error handlers. */
export function addRoutes(
  api: FastifyInstance,
  handlers: Readonly<Record<RouteId, Handler>>,
  { parts, others: otherMethods }: { readonly parts: HandlerParts; readonly others: OtherMethods },
): void {
  const recordLimit = new RateLimit({ max: refusalsMax, clock: parts.clock });
  for (const id of routeIds) addRoute(api, routes[id], handlers[id], parts);
  for (const path of new Set<string>(routeIds.map((id) => routes[id].path))) {
    const ids = routeIds.filter((id) => routes[id].path === path);
    const methods = ids.map((id) => routes[id].method);
    otherMethods.add(urlOf(path), methods);
  }
  api.setNotFoundHandler(() => {
    throw new Fault("not_found", "There is nothing at this path; /openapi.json lists all paths.");
  });
  api.setErrorHandler(async (error: FastifyError, request, reply) => {
    const fault = faultOf(error, request);
    await recordRefusal(fault, request, { ...parts, recordLimit });
    return sendFault(fault, reply, parts.log);
  });
}

/**
 * Adds a route. A route that takes bytes or a stream gets a separate scope, whose parsers leave the
 * body as it is.
 */
function addRoute(api: FastifyInstance, route: Route, handle: Handler, parts: HandlerParts): void {
  if (route.takesBytes !== true && route.takesStream !== true)
    return addPlainRoute(api, route, handle, parts);
  void api.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    if (route.takesStream === true)
      scope.addContentTypeParser("*", (_request, body, parsed) => parsed(null, body));
    else {
      scope.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, parsed) =>
        parsed(null, body),
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
    ...(route.takesBytes === true ? { bodyLimit: bytesMax } : {}),
    // This hook runs before the body is read: a caller without the permission is refused, whatever
    // the body contains.
    onRequest: async (request, reply) => {
      await handle.beforeBody?.(request, reply);
      await admit(request, route, parts);
      countRequest(request, reply, parts);
    },
    // A body may take minutes to arrive. A caller who has lost the permission meanwhile is refused.
    preHandler: async (request) => {
      if (request.body !== undefined) await admit(request, route, parts);
    },
    handler: async (request, reply) => {
      const caller = authenticated.get(request)?.caller ?? null;
      const { query, body } = readRequest(request, route, parts.ignored);
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
      // A handler that returns nothing has sent the reply itself.
      if (answer === undefined) return reply;
      // An older client takes every status but 200 for a failure.
      const needs200 = route.status === 201 && isOlderClient(request.headers["x-cli-version"]);
      return reply.code(needs200 ? 200 : route.status).send(answer);
    },
  });
}

/**
 * The query and the body, without values that older clients send a second time. Throws
 * `Fault("invalid")`.
 */
function readRequest(
  request: FastifyRequest,
  route: Route,
  ignored: IgnoredNames,
): Pick<ApiCall, "query" | "body"> {
  const projectId = pathPart(request, "project_id");
  const fields = route.body?.kind === "fields" ? route.body.fields : null;
  const body =
    fields === null ? request.body : bodyOnce(request.body, { projectId, known: fields });
  if (body !== request.body) ignored.note(route.path, [repeatedProject]);
  // A route without parameters ignores the query. If it reads fields of the body, the query still
  // must not contradict the body.
  if (route.query === undefined && fields === null) return { query: {}, body };
  const sentQuery = request.query as Record<string, unknown>;
  const read = queryOnce(sentQuery, { projectId, known: route.query ?? {}, body });
  ignored.note(route.path, read.ignored);
  return { query: route.query === undefined ? {} : readQuery(route.query, read.query), body };
}

/** Handles a request with an Idempotency-Key once, and answers repetitions with the same answer. */
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
  authenticated.set(request, { route, caller });
  await authorize({ caller, route, request }, parts.projects);
}

/**
 * Counts an authenticated request, and sets the headers that tell how many more are allowed. Throws
 * `Fault("rate_limited")`, which is not recorded as a refusal.
 */
function countRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  { requestLimit }: HandlerParts,
): void {
  const caller = authenticated.get(request)?.caller;
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
  // `recordRefusal` records only what it finds here, so it does not record this refusal.
  authenticated.delete(request);
  throw refusal;
}

/**
 * Records a refused attempt of an authenticated caller in the audit log of the caller's project, so
 * that nobody can write to the log of a project that is not theirs.
 */
async function recordRefusal(
  fault: Fault,
  request: FastifyRequest,
  { recordFailure, log, recordLimit }: HandlerParts & { readonly recordLimit: RateLimit },
): Promise<void> {
  const attempted = authenticated.get(request);
  const action = attempted?.route.audit ?? null;
  if (attempted === undefined || action === null) return;
  const { caller } = attempted;
  // Every caller has an id; only the type of actors allows null, for the anonymous one.
  if (!recordLimit.tryTake(actorOf(caller).id ?? "")) {
    log.warn(
      { actor: actorOf(caller).id, action },
      "a caller is refused so often that it is not recorded each time",
    );
    return;
  }
  // People aside, only operators belong to no project.
  const projects =
    caller.kind === "person"
      ? projectsOfPerson(request, caller, action)
      : [caller.projectId ?? existingProject(request, fault)];
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
 * The projects in whose audit logs a person's attempt is recorded: the project in the path if the
 * person is a member of it, and all projects of the person for actions on the person's own sign-in.
 * If the only element is null, the attempt is recorded without a project.
 */
function projectsOfPerson(
  request: FastifyRequest,
  { roles }: PersonCaller,
  action: AuditAction,
): readonly (ProjectId | null)[] {
  const projectId = pathPart(request, "project_id") as ProjectId | undefined;
  if (projectId !== undefined) return [roles.has(projectId) ? projectId : null];
  return action.startsWith("person.") && roles.size > 0
    ? [...roles.keys()].slice(0, recordedProjectsMax)
    : [null];
}

/**
 * The maximum number of a person's projects in which one attempt is recorded. It bounds the rows
 * that one request can write.
 */
const recordedProjectsMax = 200;

/** The project in the path of an operator's request; null: the path names no existing project. */
function existingProject(request: FastifyRequest, fault: Fault): ProjectId | null {
  const projectId = pathPart(request, "project_id");
  const exists = projectId !== undefined && fault.code !== "no_such_project";
  return exists ? (projectId as ProjectId) : null;
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

/** The types of resources and their parts of a path, the most specific part first. */
const resourceParts = [
  ["build", "build_id"],
  ["run", "run_id"],
  ["replica", "container_id"],
  ["webhook_delivery", "delivery_id"],
  ["git_delivery", "git_delivery_id"],
  ["webhook_endpoint", "endpoint_id"],
  ["webhook_secret", "secret_id"],
  ["coupon", "code"],
  ["certificate", "certificate"],
  ["person", "person_id"],
  ["service_account", "service_account_id"],
  ["inference", "api_key_id"],
  ["operator", "token_id"],
  ["signing_key", "key_id"],
  ["invitation", "invitation_id"],
  ["domain", "domain"],
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

/** The path in Fastify's notation: `:name` for `{name}`. */
function urlOf(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}
