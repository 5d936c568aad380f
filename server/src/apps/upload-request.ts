// Reads the body of a deployment by upload: what an app's settings are set to, apart from what its
// TOML file says anyway.
import { isDeepStrictEqual } from "node:util";
import { allowedText, fieldSchema, type Field } from "@slipway/contract/field.ts";
import { appFields, type FieldName } from "@slipway/contract/app-fields.ts";
import { uploadOnly } from "@slipway/contract/upload-fields.ts";
import { Fault } from "#lib/fault.ts";
import { isObject, readCreateRequest, withoutNulls, type CreateRequest } from "./create-request.ts";
import { readFiles, type FileSettings } from "./file-settings.ts";
import { kindOf, refused, shown } from "./refusal.ts";

/** Fields of deployments of partner services, and their names as values of `runtime`. */
const partnerFields = ["partnerService", "modelName", "language", "imageVersion"];
const partners = ["deepgram", "rime"];
/** What locates an app's files in a repository. */
const repositoryFields = ["gitRepo", "gitBranch", "gitPath", "gitAutoDeploy"];

/** Throws `Fault("malformed" | "invalid" | "not_usable")`. */
export function readUploadRequest(body: unknown): CreateRequest {
  if (!isObject(body)) {
    throw new Fault(
      "malformed",
      `The body is ${kindOf(body)}, but must be a JSON object with the fields of an app.`,
    );
  }
  const given = withoutNulls(body);
  refuseOthers(given);
  const own = Object.fromEntries(
    Object.entries(given).filter(([name]) => Object.hasOwn(uploadOnly, name)),
  );
  for (const [name, value] of Object.entries(own)) check(name, value);
  const rest = Object.fromEntries(
    Object.entries(given).filter(([name]) => !Object.hasOwn(uploadOnly, name)),
  );
  const { cerebrium_toml: text } = own;
  if (text !== undefined && rest["config_toml"] !== undefined) {
    throw new Fault(
      "invalid",
      "cerebrium_toml and config_toml are both given, but mean the same: leave one out.",
    );
  }
  const request = readCreateRequest(text === undefined ? rest : { ...rest, config_toml: text });
  const { files } = readFiles({ configToml: request.configToml });
  for (const name of ["shellCommands", "preBuildCommands"] as const)
    checkCommands(name, own[name], files);
  const fields = Object.entries(request.fields).filter(
    ([name, value]) => name === "name" || !isSaid(name, value, files),
  );
  return { ...request, fields: Object.fromEntries(fields) };
}

function refuseOthers(values: Readonly<Record<string, unknown>>): void {
  const partner = partnerFields.find((name) => values[name] !== undefined);
  if (partner !== undefined || partners.includes(String(values["runtime"]))) {
    const what =
      partner === undefined ? `runtime is ${shown(values["runtime"])}` : `${partner} is given`;
    throw new Fault(
      "not_usable",
      `${what}, but services of partners are not part of this platform.`,
    );
  }
  const repository = repositoryFields.find((name) => values[name] !== undefined);
  if (repository === undefined) return;
  throw new Fault(
    "invalid",
    `${repository} is given, but the files of this request are uploaded; POST …/apps/git deploys a repository.`,
  );
}

function check(name: string, value: unknown): void {
  const field: Field = uploadOnly[name as keyof typeof uploadOnly];
  if (!fieldSchema(field).safeParse(value).success)
    throw refused({ field: name, given: value, allowed: allowedText(field) });
}

function checkCommands(
  name: "shellCommands" | "preBuildCommands",
  value: unknown,
  files: FileSettings,
): void {
  const fileValue = files[name]?.value ?? [];
  if (value === undefined || isDeepStrictEqual(value, fileValue)) return;
  const key = name === "shellCommands" ? "shell_commands" : "pre_build_commands";
  throw new Fault(
    "invalid",
    `${name} is ${shown(value)}, but ${key} in the TOML file is ${shown(fileValue)}: write the commands there.`,
  );
}

/**
 * Clients send each value of the file as a field too, and some defaults always: what the API has
 * set would never count.
 */
function isSaid(name: string, value: unknown, files: FileSettings): boolean {
  const fileValue = files[name]?.value ?? appFields[name as FieldName].default;
  return fileValue !== null && isDeepStrictEqual(asTexts(value), asTexts(fileValue));
}

function asTexts(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [String(value)];
}
