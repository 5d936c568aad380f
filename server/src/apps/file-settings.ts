// Reads the TOML files of an app into one map: for each setting, the value in config_toml, else the
// value in the repository's file. The map is stored with each release, so that a setting gets the
// value of the files again when the API no longer sets it.
import { appFields } from "@slipway/contract/app-fields.ts";
import type { SettingOrigin } from "@slipway/contract/app-settings.ts";
import { must } from "#lib/assert.ts";
import { shown } from "./refusal.ts";
import { packageKinds } from "./toml-dependencies.ts";
import { readTomlFile, type TomlSettings } from "./toml-file.ts";

/** A value of a file, not checked yet. */
export type FileSetting = {
  readonly value: unknown;
  /** The key and the file, for messages. */
  readonly path: string;
  readonly origin: Extract<SettingOrigin, "config_toml" | "repository">;
};

/**
 * The settings by field name. Commands and dependencies are no fields, and have the names of
 * `fileSettingNames`.
 */
export type FileSettings = Readonly<Record<string, FileSetting>>;

export type FileTexts = {
  /** Text of the request's config_toml; null when not sent. */
  readonly configToml: string | null;
  /**
   * The repository's TOML file; null: it has none; absent: not read yet. The name is for messages.
   */
  readonly repositoryToml?: { readonly name: string; readonly text: string } | null;
};

export type ReadFiles = {
  readonly files: FileSettings;
  /** All settings of the repository's file, including those that config_toml overrides. */
  readonly repository: FileSettings;
  readonly warnings: readonly string[];
};

/**
 * Reads both files. Throws `Fault("invalid")` for invalid TOML and for content that cannot be a
 * settings file.
 */
export function readFiles({ configToml, repositoryToml }: FileTexts): ReadFiles {
  // A client that uploads a folder also sends the text of the folder's file as config_toml.
  // Messages then name the file, which the app's owner knows.
  const isSame = configToml !== null && configToml === repositoryToml?.text;
  const inRepository = repositoryToml
    ? readTomlFile(repositoryToml.name, repositoryToml.text)
    : null;
  let inRequest: TomlSettings | null = null;
  if (isSame) inRequest = inRepository;
  else if (configToml !== null) inRequest = readTomlFile("config_toml", configToml);
  const repository = inRepository === null ? {} : settingsOf(inRepository, "repository");
  const request = inRequest === null ? {} : settingsOf(inRequest, "config_toml");
  // A value of the request stands last, so it replaces the one of the repository.
  const files = { ...repository, ...request };
  const warnings = [...(inRequest?.warnings ?? []), ...(inRepository?.warnings ?? [])];
  return { files, repository, warnings: [...new Set(warnings)] };
}

function settingsOf(toml: TomlSettings, origin: FileSetting["origin"]): FileSettings {
  const settings: Record<string, FileSetting> = {};
  const put = (name: string, key: string, value: unknown): void => {
    // A value that cannot be stored is replaced by its text for messages; the checks refuse it.
    settings[name] = {
      value: isStorable(value) ? value : shown(value),
      path: `${key} in ${toml.file}`,
      origin,
    };
  };
  for (const [field, value] of toml.values) {
    // No key sets the runtime: a table's name does. Messages name the table that is usual.
    const key =
      field === "runtime"
        ? "runtime.custom"
        : must(appFields[field].toml, `${field} has a key in TOML`);
    put(field, key, value);
  }
  const { preBuildCommands, shellCommands } = toml.commands;
  if (preBuildCommands !== undefined)
    put("preBuildCommands", "deployment.pre_build_commands", preBuildCommands);
  if (shellCommands !== undefined) put("shellCommands", "deployment.shell_commands", shellCommands);
  if (toml.groups !== undefined) put("dependencies.groups", "dependencies.groups", toml.groups);
  for (const kind of packageKinds) {
    // When the file names a path for a kind, the file's table for that kind is missing or empty.
    const value = toml.paths[kind] ?? toml.packages[kind];
    if (value !== undefined) put(`dependencies.${kind}`, `dependencies.${kind}`, value);
  }
  return settings;
}

/**
 * The database stores no text with a NUL or half of a surrogate pair; no setting allows them
 * either.
 */
function isStorable(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed() && !value.includes("\0");
  if (typeof value !== "object" || value === null) return true;
  // Both the keys and the values of a table must be storable.
  return Object.entries(value).every((pair) => pair.every((one) => isStorable(one)));
}
