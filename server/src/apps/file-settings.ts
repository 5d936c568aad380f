// What the TOML files of an app say, as one map: for each setting, the first file that has it.
// Stored with each release, so that a setting that the API no longer sets becomes again what the
// files say.
import { appFields } from "@slipway/contract/app-fields.ts";
import type { SettingOrigin } from "@slipway/contract/app-settings.ts";
import { must } from "#lib/assert.ts";
import { shown } from "./refusal.ts";
import { packageKinds } from "./toml-dependencies.ts";
import { readTomlFile, type TomlSettings } from "./toml-file.ts";

/** A value of a file, not checked yet. */
export type FileSetting = {
  readonly value: unknown;
  /** For messages: the key and the file. */
  readonly path: string;
  readonly origin: Extract<SettingOrigin, "config_toml" | "repository">;
};

/** By field; commands and dependencies have the names of `fileSettingNames`. */
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
  /** What the repository's file says, including what config_toml overrides. */
  readonly repository: FileSettings;
  readonly warnings: readonly string[];
};

/** Throws `Fault("invalid")` for invalid TOML and for content that cannot be a settings file. */
export function readFiles({ configToml, repositoryToml }: FileTexts): ReadFiles {
  // A folder that is uploaded has the text that was sent with it: its owner knows it by the name of
  // the file.
  const isSame = configToml !== null && configToml === repositoryToml?.text;
  const second = repositoryToml ? readTomlFile(repositoryToml.name, repositoryToml.text) : null;
  let first: TomlSettings | null = null;
  if (isSame) first = second;
  else if (configToml !== null) first = readTomlFile("config_toml", configToml);
  const repository = second === null ? {} : settingsOf(second, "repository");
  const files = { ...repository, ...(first === null ? {} : settingsOf(first, "config_toml")) };
  return {
    files,
    repository,
    warnings: [...new Set([...(first?.warnings ?? []), ...(second?.warnings ?? [])])],
  };
}

function settingsOf(toml: TomlSettings, origin: FileSetting["origin"]): FileSettings {
  const settings: Record<string, FileSetting> = {};
  const put = (name: string, key: string, value: unknown): void => {
    settings[name] = {
      value: isStorable(value) ? value : shown(value),
      path: `${key} in ${toml.file}`,
      origin,
    };
  };
  for (const [field, value] of toml.values) {
    put(
      field,
      field === "runtime"
        ? "runtime.custom"
        : must(appFields[field].toml, `${field} has a TOML place`),
      value,
    );
  }
  const { preBuildCommands, shellCommands } = toml.commands;
  if (preBuildCommands !== undefined)
    put("preBuildCommands", "deployment.pre_build_commands", preBuildCommands);
  if (shellCommands !== undefined) put("shellCommands", "deployment.shell_commands", shellCommands);
  if (toml.groups !== undefined) put("dependencies.groups", "dependencies.groups", toml.groups);
  for (const kind of packageKinds) {
    // A path goes with an empty table at most.
    const value = toml.paths[kind] ?? toml.packages[kind];
    if (value !== undefined) put(`dependencies.${kind}`, `dependencies.${kind}`, value);
  }
  return settings;
}

/** The database takes no NUL and no half of a character in a text; no setting does either. */
function isStorable(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed() && !value.includes("\0");
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every((pair) => pair.every((one) => isStorable(one)));
}
