// Splits the body of a request that creates or changes an app into the fields of `appFields`, the
// registry credentials and the TOML text.
import { allowedText, fieldSchema, numberForm, type Field } from "@slipway/contract/field.ts";
import { appFields, fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import { Fault } from "#lib/fault.ts";
import { isObject } from "#lib/is-object.ts";
import { Secret } from "#lib/secret.ts";
import { readRepository, type GitHosts } from "./repository.ts";
import { kindOf, refused, shown, suggestion } from "./refusal.ts";

export type CreateRequest = {
  /**
   * The fields, without dockerAuth, config_toml and null values. Numbers that were sent as texts
   * are numbers here. `resolveSettings` checks the values.
   */
  readonly fields: Readonly<Record<string, unknown>>;
  /** The text, byte for byte as sent. */
  readonly configToml: string | null;
  /** The registry credentials; null: none were sent. */
  readonly dockerAuth: Secret | null;
};

/** Null removes the value that was set before; an absent field leaves it as it is. */
export type ChangeRequest = {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly configToml?: string | null;
  readonly dockerAuth?: Secret | null;
};

/** Names that clients know from other requests, with the names of the same things here. */
const otherNames: Readonly<Record<string, string>> = {
  cerebrium_toml: "config_toml",
  shellCommands: "config_toml with deployment.shell_commands",
  preBuildCommands: "config_toml with deployment.pre_build_commands",
  repository: "gitRepo",
  branch: "gitBranch",
};

/**
 * Reads the body of a create request. Throws `Fault("malformed")` for a body that is not an object,
 * `Fault("invalid")` for an unknown field, or for a config_toml or dockerAuth of a wrong form.
 */
export function readCreateRequest(body: unknown): CreateRequest {
  if (!isObject(body)) throw noObject(body, "gitRepo and other fields of an app");
  const { configToml = null, dockerAuth = null, ...rest } = readChangeRequest(withoutNulls(body));
  return { ...rest, configToml, dockerAuth };
}

function noObject(body: unknown, content: string): Fault {
  const text = `The body is ${kindOf(body)}, but must be a JSON object with ${content}.`;
  return new Fault("malformed", text);
}

/** Like `readCreateRequest`, but keeps fields that are null: they remove values. */
export function readChangeRequest(body: unknown): ChangeRequest {
  if (!isObject(body)) throw noObject(body, "the fields of an app");
  const entries = Object.entries(body).map(
    ([name, value]) => [name, readValue(name, value)] as const,
  );
  const fields = new Map<string, unknown>(entries);
  const configToml = readText("config_toml", fields.get("config_toml"));
  const dockerAuth = readText("dockerAuth", fields.get("dockerAuth"));
  fields.delete("config_toml");
  fields.delete("dockerAuth");
  // Absent fields get no member, since `decideChange` counts the members.
  return {
    fields: Object.fromEntries(fields),
    ...(configToml === undefined ? {} : { configToml }),
    ...(dockerAuth === undefined ? {} : { dockerAuth: secretOf(dockerAuth) }),
  };
}

function secretOf(text: string | null): Secret | null {
  return text === null ? null : new Secret(text);
}

/**
 * The request with the repository in its stored form. Throws `Fault("invalid")` for a text that
 * names no repository, or one on a host that is not allowed.
 */
export function withRepository<Request extends ChangeRequest>(
  request: Request,
  hosts: GitHosts,
): Request {
  const { gitRepo } = request.fields;
  if (typeof gitRepo !== "string") return request;
  const repository = readRepository(gitRepo, hosts);
  if (!repository.ok) throw new Fault("invalid", repository.reason);
  return { ...request, fields: { ...request.fields, gitRepo: repository.value.canonical } };
}

/** The fields whose value is not null. */
export function withoutNulls(
  fields: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/**
 * The value of a field. A number that was sent as a text becomes a number where the field allows
 * that. Throws `Fault("invalid")` for an unknown field.
 */
function readValue(name: string, value: unknown): unknown {
  if (!Object.hasOwn(appFields, name)) throw unknownField(name);
  const field: Field = appFields[name as FieldName];
  const isNumber = "isTextAllowed" in field && typeof value === "string" && numberForm.test(value);
  return isNumber ? Number(value) : value;
}

function unknownField(name: string): Fault {
  const other = Object.hasOwn(otherNames, name) ? `; did you mean ${otherNames[name]}?` : undefined;
  const hint = other ?? suggestion(name, fieldNames);
  const ending = hint === "" ? "; /openapi.json lists all fields." : hint;
  return new Fault("invalid", `${shown(name)} is not a field of this request${ending}`);
}

/**
 * The checked value of a field that must be a text; null and undefined are returned as they are.
 * Throws `Fault("invalid")`.
 */
function readText(name: "config_toml" | "dockerAuth", value: unknown): string | null | undefined {
  if (value === undefined || value === null) return value;
  const row = appFields[name];
  const hasForm = typeof value === "string" && fieldSchema(row).safeParse(value).success;
  if (hasForm && (name !== "dockerAuth" || isDockerAuth(value))) return value;
  throw refused({
    field: name,
    given: value,
    allowed: allowedText(row),
    isSecret: "isSecret" in row,
  });
}

/**
 * True for the text of Docker's config.json, which some clients send without any credentials, and
 * for `name:password`.
 */
function isDockerAuth(text: string): boolean {
  if (!text.trim().startsWith("{")) return /^[^:\s]+:[^\n]+$/.test(text.trim());
  try {
    const config: unknown = JSON.parse(text);
    return isObject(config) && (config["auths"] === undefined || isObject(config["auths"]));
  } catch {
    return false;
  }
}
