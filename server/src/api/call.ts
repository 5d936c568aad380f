// One call of the management API as its handler sees it: validated ids, the caller, parsed parameters.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Route } from "@slipway/contract/route.ts";
import type { Caller } from "#accounts/caller.ts";
import type { By } from "#audit/actor.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import { uuidForm, type AppId, type BuildId, type ProjectId, type RunId } from "#lib/ids.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The client's address, as far as proxies are trusted. */
    readonly clientAddress: string;
  }
}

export type ApiCall = {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly route: Route;
  /** The app in the path, which exists; null: the path names none. */
  readonly appId: AppId | null;
  /** Null on routes without a token. */
  readonly caller: Caller | null;
  readonly by: By;
  /** Validated by the route's table; omitted values have their default. */
  readonly query: Readonly<Record<string, string | number | boolean | null>>;
  /** Throws `Fault` when the caller has lost the right: for long answers. Uses only cached data. */
  readonly admit: () => Promise<void>;
  /** Parsed JSON of any shape; undefined when there was no body. */
  readonly body: unknown;
};

/** Handles one route: the result is sent as JSON; undefined: the handler has taken over the connection. */
export type Handler = ((call: ApiCall) => Promise<object | undefined>) & {
  /** Called before the body is read. Throws `Fault` to refuse it. */
  readonly beforeBody?: (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
};

/** The caller of a route that needs a token. */
export function callerOf(call: ApiCall): Caller {
  return must(call.caller, "the route needs a token");
}

/** The project in the path, already checked to exist and to be the caller's. */
export function projectOf(call: ApiCall): ProjectId {
  return must(pathPart(call.request, "project_id"), "the route names a project") as ProjectId;
}

/** The app in the path. */
export function appOf(call: ApiCall): AppId {
  return must(call.appId, "the route names an app");
}

/** The app in the path, with its project. */
export function refOf(call: ApiCall): { readonly projectId: ProjectId; readonly appId: AppId } {
  return { projectId: projectOf(call), appId: appOf(call) };
}

/** The name of the app in the path, which has its id, or only its name; undefined when the path names none. */
export function appNameOf(request: FastifyRequest): string | undefined {
  const prefix = `${pathPart(request, "project_id")}-`;
  const given = pathPart(request, "app_id");
  return given?.startsWith(prefix) === true ? given.slice(prefix.length) : given;
}

/** The build in the path. Throws `Fault("not_found")` for an invalid one. */
export function buildOf(call: ApiCall): { projectId: ProjectId; appId: AppId; buildId: BuildId } {
  const given = must(pathPart(call.request, "build_id"), "the route names a build");
  if (!uuidForm.test(given)) throw new Fault("not_found", "The app has no build with that id.");
  return { ...refOf(call), buildId: given as BuildId };
}

/** The run in the path. Throws `Fault("not_found")` for an invalid one. */
export function runOf(call: ApiCall): { projectId: ProjectId; appId: AppId; runId: RunId } {
  const given = must(pathPart(call.request, "run_id"), "the route names a run");
  if (!uuidForm.test(given)) throw new Fault("not_found", "The app has no run with that id.");
  return { ...refOf(call), runId: given as RunId };
}

/** A part of the path by its name in the route, decoded. */
export function pathPart(request: FastifyRequest, name: string): string | undefined {
  return (request.params as Readonly<Record<string, string | undefined>>)[name];
}
