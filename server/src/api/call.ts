// One call of the management API, as the functions that answer it see it: checked ids, the caller, parsed parameters.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Route } from "@slipway/contract/route.ts";
import type { Caller } from "#accounts/caller.ts";
import type { By } from "#audit/actor.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import { appIdOf, appNameForm, uuidForm, type AppId, type BuildId, type ProjectId, type RunId } from "#lib/ids.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Where it comes from, as far as proxies are believed. */
    readonly clientAddress: string;
  }
}

export type ApiCall = {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly route: Route;
  /** Null on routes that need no token. */
  readonly caller: Caller | null;
  readonly by: By;
  /** Checked by the route's table; what was left out has its default. */
  readonly query: Readonly<Record<string, string | number | boolean | null>>;
  /** Throws `Fault` when the caller has no right to this any more: for answers that go on for long. From memory. */
  readonly admit: () => Promise<void>;
  /** Parsed JSON of any form; undefined when none was sent. */
  readonly body: unknown;
};

/** Answers one route: what it returns is sent as JSON; undefined: it has taken the connection over. */
export type Handler = (call: ApiCall) => Promise<object | undefined>;

/** Who calls a route that needs a token. */
export function callerOf(call: ApiCall): Caller {
  return must(call.caller, "the route needs a token");
}

/** The project of the path. That it is there and the caller's was checked before. */
export function projectOf(call: ApiCall): ProjectId {
  return must(pathPart(call.request, "project_id"), "the route names a project") as ProjectId;
}

/** The app of the path: its id, or its name alone. Throws `Fault("not_found")` for what cannot be one. */
export function appOf(call: ApiCall): AppId {
  const projectId = projectOf(call);
  const given = must(pathPart(call.request, "app_id"), "the route names an app");
  const name = given.startsWith(`${projectId}-`) ? given.slice(projectId.length + 1) : given;
  if (!appNameForm.test(name)) throw new Fault("not_found", "The project has no app with that id.");
  return appIdOf(projectId, name);
}

/** The build of the path. Throws `Fault("not_found")` for what cannot be one. */
export function buildOf(call: ApiCall): { projectId: ProjectId; appId: AppId; buildId: BuildId } {
  const given = must(pathPart(call.request, "build_id"), "the route names a build");
  if (!uuidForm.test(given)) throw new Fault("not_found", "The app has no build with that id.");
  return { projectId: projectOf(call), appId: appOf(call), buildId: given as BuildId };
}

/** The run of the path. Throws `Fault("not_found")` for what cannot be one. */
export function runOf(call: ApiCall): { projectId: ProjectId; appId: AppId; runId: RunId } {
  const given = must(pathPart(call.request, "run_id"), "the route names a run");
  if (!uuidForm.test(given)) throw new Fault("not_found", "The app has no run with that id.");
  return { projectId: projectOf(call), appId: appOf(call), runId: given as RunId };
}

/** A part of the path by its name in the route, decoded. */
export function pathPart(request: FastifyRequest, name: string): string | undefined {
  return (request.params as Readonly<Record<string, string | undefined>>)[name];
}
