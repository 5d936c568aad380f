// One call of the management API as its handler sees it: validated ids, the caller, parameters and
// bodies read by rows of the contract's tables with the same wording for every refusal, and pages
// of lists.
import { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import { allowedText, fieldSchema, type Field } from "@slipway/contract/field.ts";
import type { Route } from "@slipway/contract/route.ts";
import type { RouteId } from "@slipway/contract/routes.ts";
import type { Caller } from "#accounts/caller.ts";
import { kindOf, refused, shown, suggestion } from "#apps/refusal.ts";
import type { By } from "#audit/record.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import {
  type AppId,
  type AppKey,
  type BuildId,
  type ProjectId,
  type RunId,
  uuidForm,
} from "#lib/ids.ts";
import type { Page } from "#lib/page-token.ts";

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

/**
 * Handles one route: the result is sent as JSON; undefined: the handler has taken over the
 * connection.
 */
export type Handler = ((call: ApiCall) => Promise<object | undefined>) & {
  /** Called before the body is read. Throws `Fault` to refuse it. */
  readonly beforeBody?: (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
};

/** Handlers of some routes. */
export type Handlers = Partial<Record<RouteId, Handler>>;

/** The caller of a route that needs a token. */
export function callerOf(call: ApiCall): Caller {
  return must(call.caller, "the route needs a token");
}

/** The project in the path, already checked to exist and to be the caller's. */
export function projectOf(call: ApiCall): ProjectId {
  return partOf(call, "project_id") as ProjectId;
}

/** The app in the path. */
export function appOf(call: ApiCall): AppId {
  return must(call.appId, "the route names an app");
}

/** The app in the path, with its project. */
export function refOf(call: ApiCall): AppKey {
  return { projectId: projectOf(call), appId: appOf(call) };
}

/**
 * The name of the app in the path, which has its id, or only its name; undefined when the path
 * names none.
 */
export function appNameOf(request: FastifyRequest, part = "app_id"): string | undefined {
  const prefix = `${pathPart(request, "project_id")}-`;
  const given = pathPart(request, part);
  return given?.startsWith(prefix) === true ? given.slice(prefix.length) : given;
}

/** The build in the path. Throws `Fault("not_found")` for an invalid one. */
export function buildOf(call: ApiCall): { projectId: ProjectId; appId: AppId; buildId: BuildId } {
  return {
    ...refOf(call),
    buildId: idOf(call, "build_id", "The app has no build with that id.") as BuildId,
  };
}

/** The run in the path. Throws `Fault("not_found")` for an invalid one. */
export function runOf(call: ApiCall): { projectId: ProjectId; appId: AppId; runId: RunId } {
  return {
    ...refOf(call),
    runId: idOf(call, "run_id", "The app has no run with that id.") as RunId,
  };
}

/** A UUID in the path. Throws `Fault("not_found")` with `refusal` for anything else. */
export function idOf(call: ApiCall, name: string, refusal: string): string {
  const given = partOf(call, name);
  if (!uuidForm.test(given)) throw new Fault("not_found", refusal);
  return given;
}

/** A part of the path that the route has, decoded. */
export function partOf({ request }: Pick<ApiCall, "request">, name: string): string {
  return must(pathPart(request, name), `the route names a ${name}`);
}

/** A part of the path by its name in the route, decoded. */
export function pathPart(request: FastifyRequest, name: string): string | undefined {
  return (request.params as Readonly<Record<string, string | undefined>>)[name];
}

type Fields = Readonly<Record<string, Field>>;
type Value = string | number | boolean | null;

/**
 * The parameters of a query; `""` counts as absent, and absent ones get their default. Throws
 * `Fault("invalid")`.
 */
export function readQuery(
  fields: Fields,
  query: Readonly<Record<string, unknown>>,
): Record<string, Value> {
  for (const name of Object.keys(query)) {
    if (!Object.hasOwn(fields, name)) throw unknown(name, "parameter", fields);
  }
  return readFields(fields, (name, field) => {
    const given = Object.hasOwn(query, name) ? query[name] : undefined;
    return given === "" ? undefined : fromText(field, given);
  });
}

/** The body of a route that takes a stream. */
export function streamOf({ request }: ApiCall): Readable {
  return request.body instanceof Readable ? request.body : Readable.from([]);
}

/**
 * The fields of the call's body, which may be missing when none is required. Throws
 * `Fault("malformed" | "invalid")`.
 */
export function bodyOf({ route, body }: ApiCall): Record<string, Value> {
  const shape = must(
    route.body?.kind === "fields" ? route.body : null,
    "the route takes a body of fields",
  );
  return readBody(shape, body === undefined && shape.required.length === 0 ? {} : body);
}

/** The fields of a body; null counts as absent. Throws `Fault("malformed" | "invalid")`. */
export function readBody(
  shape: { readonly fields: Fields; readonly required: readonly string[] },
  body: unknown,
): Record<string, Value> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    const having = shape.required.length === 0 ? "" : ` with ${shape.required.join(", ")}`;
    throw new Fault(
      "malformed",
      `The body is ${kindOf(body)}, but must be a JSON object${having}.`,
    );
  }
  for (const name of Object.keys(body)) {
    if (!Object.hasOwn(shape.fields, name)) throw unknown(name, "field", shape.fields);
  }
  const given = new Map<string, unknown>(
    Object.entries(body).filter(([, value]) => value !== null),
  );
  for (const name of shape.required) {
    const field = shape.fields[name];
    if (field !== undefined && !given.has(name)) {
      throw new Fault("invalid", `${name} is missing; it must be ${allowedText(field)}.`);
    }
  }
  return readFields(shape.fields, (name) => given.get(name));
}

/**
 * A time whose syntax was validated; `name` is the parameter or field. Throws `Fault("invalid")`
 * for a day that does not exist.
 */
export function readTime(name: string, value: unknown): Date {
  const at = new Date(String(value));
  const [year = 0, month = 0, day = 0] = String(value).split(/[-T]/i, 3).map(Number);
  // A day such as February 30 would silently become one in March.
  const hasDay = new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day;
  if (!Number.isNaN(at.getTime()) && hasDay) return at;
  const form = "a valid time of the form 2026-01-31T12:00:00Z";
  throw new Fault("invalid", `${name} is ${shown(value)}, but must be ${form}.`);
}

function readFields(
  fields: Fields,
  read: (name: string, field: Field) => unknown,
): Record<string, Value> {
  const values: Record<string, Value> = {};
  for (const [name, field] of Object.entries(fields)) {
    const given = read(name, field);
    if (given !== undefined && !fieldSchema(field).safeParse(given).success) {
      throw refused({
        field: name,
        given,
        allowed: allowedText(field),
        isSecret: "isSecret" in field,
      });
    }
    // The schema is derived from the row, whose types here are text, number, boolean and choice.
    values[name] = (given ?? field.default) as Value;
  }
  return values;
}

/** Converts the text of a query to the type of its row; invalid text stays text and is refused. */
function fromText(field: Field, value: unknown): unknown {
  if (typeof value !== "string") return value;
  if (field.kind === "boolean" && (value === "true" || value === "false")) return value === "true";
  const isNumber =
    (field.kind === "integer" || field.kind === "number") &&
    /^-?\d{1,15}(?:\.\d{1,15})?$/.test(value);
  return isNumber ? Number(value) : value;
}

function unknown(name: string, what: string, fields: Fields): Fault {
  const hint =
    suggestion(name, Object.keys(fields)) || `; allowed: ${Object.keys(fields).join(", ")}.`;
  return new Fault("invalid", `${shown(name)} is not a ${what} of this request${hint}`);
}

/** The page that a request asks for. The contract has validated the types of the values. */
export function pageWanted({ query }: ApiCall): {
  readonly pageSize: number;
  readonly nextToken: string | null;
} {
  return { pageSize: Number(query["pageSize"]), nextToken: query["nextToken"] as string | null };
}

/** The page after a row with a number. The contract has validated the types of the values. */
export function pageBefore({ query }: ApiCall): {
  readonly size: number;
  readonly before: number | null;
} {
  return {
    size: Number(query["pageSize"]),
    before: query["nextToken"] === null ? null : Number(query["nextToken"]),
  };
}

/** The answer; `nextToken` is absent at the end. */
export function showPage<Item, Shown>(
  { items, nextToken }: Page<Item>,
  show: (item: Item) => Shown,
) {
  return { items: items.map(show), ...(nextToken === null ? {} : { nextToken }) };
}
