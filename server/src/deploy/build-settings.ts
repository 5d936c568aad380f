// The settings that a build goes by: those of an earlier build when they are stored with it, else decided from the
// request and the repository's file. Pure.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { resolveSettings } from "#apps/settings.ts";
import { readTomlFile } from "#apps/toml-file.ts";
import type { BuildRecord } from "./build-store.ts";

export type BuildSettings = {
  readonly settings: AppSettings;
  readonly warnings: readonly string[];
  /** False when the Python version is only the default. */
  readonly isPythonVersionGiven: boolean;
};

type Record = Pick<BuildRecord, "request" | "configToml" | "settings">;

/** Where the source is: settings that stand in the request alone. Throws `Fault("invalid")`. */
export function sourceSettings(record: Record, providers: readonly string[]): AppSettings {
  if (record.settings !== null) return record.settings;
  return resolveSettings({ body: record.request, configToml: record.configToml, providers }).settings;
}

/** All settings, once the repository was read. Throws `Fault("invalid")`. */
export function buildSettings(
  record: Record,
  toml: { readonly name: string; readonly text: string } | null,
  providers: readonly string[],
): BuildSettings {
  const given = [record.request["pythonVersion"], record.request["python_version"]].some(
    (value) => typeof value === "string",
  );
  const isPythonVersionGiven =
    given ||
    [
      record.configToml === null ? null : readTomlFile("config_toml", record.configToml),
      toml === null ? null : readTomlFile(toml.name, toml.text),
    ].some((file) => file?.values.has("pythonVersion") === true);
  if (record.settings !== null) return { settings: record.settings, warnings: [], isPythonVersionGiven };
  const resolved = resolveSettings({
    body: record.request,
    configToml: record.configToml,
    repositoryToml: toml?.text ?? null,
    ...(toml === null ? {} : { repositoryTomlName: toml.name }),
    providers,
  });
  return { ...resolved, isPythonVersionGiven };
}
