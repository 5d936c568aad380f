// Reads the body of a deployment by upload. Leaves out the fields whose values the app would have
// anyway, by its TOML file or by default.
import { isDeepStrictEqual } from "node:util";
import { allowedText, fieldSchema, type Field } from "@slipway/contract/field.ts";
import { appFields, type FieldName } from "@slipway/contract/app-fields.ts";
import { uploadOnly } from "@slipway/contract/upload-fields.ts";
import { Fault } from "#lib/fault.ts";
import { isObject } from "#lib/is-object.ts";
import { readCreateRequest, withoutNulls, type CreateRequest } from "./create-request.ts";
import { readFiles, type FileSettings } from "./file-settings.ts";
import { kindOf, refused, shown } from "./refusal.ts";

/** The fields of a deployment of a partner service. */
const partnerFields = ["partnerService", "modelName", "language", "imageVersion"];
/** The names of partner services as values of `runtime`. */
const partners = ["deepgram", "rime"];
/** The fields of an app that has a repository. */
const repositoryFields = ["gitRepo", "gitBranch", "gitPath", "gitAutoDeploy"];

/** Reads the body. Throws `Fault("malformed" | "invalid" | "not_usable")`. */
export function readUploadRequest(body: unknown): CreateRequest {
  if (!isObject(body)) {
    throw new Fault(
      "malformed",
      `The body is ${kindOf(body)}, but must be a JSON object with the fields of an app.`,
    );
  }
  const values = withoutNulls(body);
  refuseForeignFields(values);
  const uploadFields = Object.fromEntries(
    Object.entries(values).filter(([name]) => Object.hasOwn(uploadOnly, name)),
  );
  for (const [name, value] of Object.entries(uploadFields)) checkUploadField(name, value);
  const otherFields = Object.fromEntries(
    Object.entries(values).filter(([name]) => !Object.hasOwn(uploadOnly, name)),
  );
  const { cerebrium_toml: text } = uploadFields;
  if (text !== undefined && otherFields["config_toml"] !== undefined) {
    throw new Fault(
      "invalid",
      "cerebrium_toml and config_toml are both given, but mean the same: leave one out.",
    );
  }
  const request = readCreateRequest(
    text === undefined ? otherFields : { ...otherFields, config_toml: text },
  );
  const { files: fileSettings } = readFiles({ configToml: request.configToml });
  for (const name of ["shellCommands", "preBuildCommands"] as const)
    checkCommands(name, uploadFields[name], fileSettings);
  // The name always stays: it says which app is deployed.
  const fields = Object.entries(request.fields).filter(
    ([name, value]) => name === "name" || !isFileValue(name, value, fileSettings),
  );
  return { ...request, fields: Object.fromEntries(fields) };
}

function refuseForeignFields(values: Readonly<Record<string, unknown>>): void {
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

function checkUploadField(name: string, value: unknown): void {
  const field: Field = uploadOnly[name as keyof typeof uploadOnly];
  if (!fieldSchema(field).safeParse(value).success)
    throw refused({ field: name, given: value, allowed: allowedText(field) });
}

/**
 * Refuses commands that differ from those of the TOML file: clients send the file's commands as a
 * field, too, and a build takes them from the file.
 */
function checkCommands(
  name: "shellCommands" | "preBuildCommands",
  value: unknown,
  fileSettings: FileSettings,
): void {
  const fileValue = fileSettings[name]?.value ?? [];
  if (value === undefined || isDeepStrictEqual(value, fileValue)) return;
  const key = name === "shellCommands" ? "shell_commands" : "pre_build_commands";
  throw new Fault(
    "invalid",
    `${name} is ${shown(value)}, but ${key} in the TOML file is ${shown(fileValue)}: write the commands there.`,
  );
}

/**
 * True when the file, or else the default, has the same value. Clients send each value of the file
 * as a field too, and always some defaults. If these counted, each deployment would overwrite what
 * the API has set before.
 */
function isFileValue(name: string, value: unknown, fileSettings: FileSettings): boolean {
  const fileValue = fileSettings[name]?.value ?? appFields[name as FieldName].default;
  // A default of null stands for no value.
  return fileValue !== null && isDeepStrictEqual(asTexts(value), asTexts(fileValue));
}

/** For comparison: 3.11 and "3.11" are the same value, and so are a text and a list of only it. */
function asTexts(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [String(value)];
}
