// One call of the management API as its handler sees it: the caller, validated ids, and pages of
// lists. Parameters and bodies are read as the contract's tables define them, and all refusals are
// worded alike.
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
import { isObject } from "#lib/is-object.ts";
import type { Page } from "#lib/page-token.ts";

declare module "fastify" {
  interface FastifyRequest {
    /**
     * The client's address. If the sender is a trusted proxy, it is the address that this proxy
     * reports.
     */
    readonly clientAddress: string;
  }
}

export type ApiCall = {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly route: Route;
  /** The app in the path, already checked to exist; null: the path names none. */
  readonly appId: AppId | null;
  /** Null: the route needs no token. */
  readonly caller: Caller | null;
  /** Who acts, for the audit log. */
  readonly by: By;
  /** Validated by the route's table; parameters that were omitted have their default. */
  readonly query: Readonly<Record<string, string | number | boolean | null>>;
  /**
   * Throws `Fault` when the caller has lost the permission. Long answers call this repeatedly, so
   * it uses only cached data.
   */
  readonly admit: () => Promise<void>;
  /** Parsed JSON of any shape; undefined: the request has no body. */
  readonly body: unknown;
};

/**
 * Handles the calls of one route. Its result is sent as JSON; undefined: the handler has taken over
 * the connection.
 */
export type Handler = ((call: ApiCall) => Promise<object | undefined>) & {
  /** Called before the body is read. Throws `Fault` to refuse the request. */
  readonly beforeBody?: (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
};

/** The handlers of some of the routes, by the id of the route. */
export type Handlers = Partial<Record<RouteId, Handler>>;

/** The caller of a route that needs a token. */
export function callerOf(call: ApiCall): Caller {
  return must(call.caller, "the route needs a token");
}

/** The project in the path, already checked to exist and to be visible to the caller. */
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
 * The name of the app in the path. Callers may write the app's id there, or only its name.
 * Undefined: the path names no app.
 */
export function appNameOf(request: FastifyRequest, part = "app_id"): string | undefined {
  const prefix = `${pathPart(request, "project_id")}-`;
  const idOrName = pathPart(request, part);
  // An id is the project's id, a dash and the name.
  return idOrName?.startsWith(prefix) === true ? idOrName.slice(prefix.length) : idOrName;
}

/** The build in the path. Throws `Fault("not_found")` when its id is no UUID. */
export function buildOf(call: ApiCall): { projectId: ProjectId; appId: AppId; buildId: BuildId } {
  return {
    ...refOf(call),
    buildId: idOf(call, "build_id", "The app has no build with that id.") as BuildId,
  };
}

/** The run in the path. Throws `Fault("not_found")` when its id is no UUID. */
export function runOf(call: ApiCall): { projectId: ProjectId; appId: AppId; runId: RunId } {
  return {
    ...refOf(call),
    runId: idOf(call, "run_id", "The app has no run with that id.") as RunId,
  };
}

/** A UUID in the path. Throws `Fault("not_found")` with `refusal` for anything else. */
export function idOf(call: ApiCall, name: string, refusal: string): string {
  const id = partOf(call, name);
  if (!uuidForm.test(id)) throw new Fault("not_found", refusal);
  return id;
}

/** A host name, or a pattern of a certificate such as `*.example.org`. */
const hostNameForm = /^(?:\*\.)?[a-z0-9.-]{1,253}$/;

/**
 * The host name in the path, in lower case; throws `Fault("not_found", refusal)` when it is none.
 * PostgreSQL would refuse some other texts.
 */
export function hostNameOf(call: ApiCall, name: string, refusal: string): string {
  const hostName = partOf(call, name).toLowerCase();
  if (!hostNameForm.test(hostName)) throw new Fault("not_found", refusal);
  return hostName;
}

/** The decoded part of the path with this name, which the route must have. */
export function partOf({ request }: Pick<ApiCall, "request">, name: string): string {
  return must(pathPart(request, name), `the route names a ${name}`);
}

/** The decoded part of the path with this name; undefined: the route has no such part. */
export function pathPart(request: FastifyRequest, name: string): string | undefined {
  return (request.params as Readonly<Record<string, string | undefined>>)[name];
}

type Fields = Readonly<Record<string, Field>>;
type Value = string | number | boolean | null;

/**
 * Reads the parameters of a query. An empty value counts as absent, and an absent parameter gets
 * its default. Throws `Fault("invalid")`.
 */
export function readQuery(
  fields: Fields,
  query: Readonly<Record<string, unknown>>,
): Record<string, Value> {
  for (const name of Object.keys(query)) {
    if (!Object.hasOwn(fields, name)) throw unknownName(name, "parameter", fields);
  }
  return readFields(fields, (name, field) => {
    const value = Object.hasOwn(query, name) ? query[name] : undefined;
    return value === "" ? undefined : fromText(field, value);
  });
}

/** The body of a route that takes a stream. */
export function streamOf({ request }: ApiCall): Readable {
  return request.body instanceof Readable ? request.body : Readable.from([]);
}

/**
 * Reads the fields of the call's body. The body may be missing when no field is required. Throws
 * `Fault("malformed" | "invalid")`.
 */
export function bodyOf({ route, body }: ApiCall): Record<string, Value> {
  const shape = must(
    route.body?.kind === "fields" ? route.body : null,
    "the route takes a body of fields",
  );
  return readBody(shape, body === undefined && shape.required.length === 0 ? {} : body);
}

/**
 * Reads the fields of a body. A field that is null counts as absent, and an absent field gets its
 * default. Throws `Fault("malformed" | "invalid")`.
 */
export function readBody(
  shape: { readonly fields: Fields; readonly required: readonly string[] },
  body: unknown,
): Record<string, Value> {
  if (!isObject(body)) {
    const requiredText = shape.required.length === 0 ? "" : ` with ${shape.required.join(", ")}`;
    throw new Fault(
      "malformed",
      `The body is ${kindOf(body)}, but must be a JSON object${requiredText}.`,
    );
  }
  for (const name of Object.keys(body)) {
    if (!Object.hasOwn(shape.fields, name)) throw unknownName(name, "field", shape.fields);
  }
  const values = new Map<string, unknown>(
    Object.entries(body).filter(([, value]) => value !== null),
  );
  for (const name of shape.required) {
    const field = shape.fields[name];
    if (field !== undefined && !values.has(name)) {
      throw new Fault("invalid", `${name} is missing; it must be ${allowedText(field)}.`);
    }
  }
  return readFields(shape.fields, (name) => values.get(name));
}

/**
 * Reads a time whose syntax was validated; `name` is its parameter or field. Throws
 * `Fault("invalid")` for a day that does not exist.
 */
export function readTime(name: string, value: unknown): Date {
  const at = new Date(String(value));
  // The defaults only satisfy the types: a time whose syntax was validated has all three numbers.
  const [year = 0, month = 0, day = 0] = String(value).split(/[-T]/i, 3).map(Number);
  // `Date` silently turns a day such as February 30 into one in March.
  const dayExists = new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day;
  if (!Number.isNaN(at.getTime()) && dayExists) return at;
  const form = "a valid time of the form 2026-01-31T12:00:00Z";
  throw new Fault("invalid", `${name} is ${shown(value)}, but must be ${form}.`);
}

/** Checks the value of each field, and gives absent ones their default. */
function readFields(
  fields: Fields,
  valueOf: (name: string, field: Field) => unknown,
): Record<string, Value> {
  const values: Record<string, Value> = {};
  for (const [name, field] of Object.entries(fields)) {
    const value = valueOf(name, field);
    if (value !== undefined && !fieldSchema(field).safeParse(value).success) {
      throw refused({
        field: name,
        given: value,
        allowed: allowedText(field),
        isSecret: "isSecret" in field,
      });
    }
    // The schema has checked the value. A few fields are lists, which `Value` leaves out: handlers
    // that take them cast their values once more.
    values[name] = (value ?? field.default) as Value;
  }
  return values;
}

/**
 * Converts a text of the query to its field's type. Text that has no such value stays text, which
 * the field's schema then refuses.
 */
function fromText(field: Field, value: unknown): unknown {
  if (typeof value !== "string") return value;
  if (field.kind === "boolean" && value === "true") return true;
  if (field.kind === "boolean" && value === "false") return false;
  const takesNumber = field.kind === "integer" || field.kind === "number";
  // `Number` alone would also take texts such as 1e3, 0x10 and a space. A number of 15 digits is
  // still exact.
  const isNumber = /^-?\d{1,15}(?:\.\d{1,15})?$/.test(value);
  return takesNumber && isNumber ? Number(value) : value;
}

/**
 * The refusal of an unknown name. It suggests a similar allowed name, or else lists all of them.
 */
function unknownName(name: string, kind: "parameter" | "field", fields: Fields): Fault {
  const hint =
    suggestion(name, Object.keys(fields)) || `; allowed: ${Object.keys(fields).join(", ")}.`;
  return new Fault("invalid", `${shown(name)} is not a ${kind} of this request${hint}`);
}

/** The page that a request asks for. The contract has validated the types of the values. */
export function pageWanted({ query }: ApiCall): {
  readonly pageSize: number;
  readonly nextToken: string | null;
} {
  return { pageSize: Number(query["pageSize"]), nextToken: query["nextToken"] as string | null };
}

/**
 * The wanted page of a list of numbered rows, newest first. `before` is the number of the last row
 * of the previous page. The contract has validated the types of the values.
 */
export function pageBefore({ query }: ApiCall): {
  readonly size: number;
  readonly before: number | null;
} {
  return {
    size: Number(query["pageSize"]),
    before: query["nextToken"] === null ? null : Number(query["nextToken"]),
  };
}

/** The answer to a request for a page; `nextToken` is absent on the last page. */
export function showPage<Item, Shown>(
  { items, nextToken }: Page<Item>,
  show: (item: Item) => Shown,
) {
  return { items: items.map(show), ...(nextToken === null ? {} : { nextToken }) };
}
