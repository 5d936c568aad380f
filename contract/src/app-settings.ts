// The settings of an app after request body, TOML and defaults have been merged: the fields of the
// table, and what only TOML files can contain. They are stored with the build, so that a rebuild
// gives the same app.
import { fieldNames, type appFields, type FieldName, type FieldValue } from "./app-fields.ts";

/** Package name → version as written in the TOML tables. */
export type PackageVersions = Readonly<Record<string, string>>;

/**
 * The TOML tables under `dependencies`: packages inline, or files in the repository that list them.
 */
export type Dependencies = {
  readonly pip: PackageVersions;
  readonly apt: PackageVersions;
  readonly conda: PackageVersions;
  readonly paths: { readonly pip?: string; readonly apt?: string; readonly conda?: string };
  /** Groups of packages in pyproject.toml that are installed beside its dependencies. */
  readonly groups: readonly string[];
};

/** Fields of a request that are not stored as settings. */
const requestOnly = ["config_toml", "dockerAuth"] as const;

/** A field that is also a setting. */
export type SettingName = Exclude<FieldName, (typeof requestOnly)[number]>;

/** Null in the table, because it is required or because other settings decide the default. */
type NeverNull = "name" | "replicaConcurrency" | "loadBalancingAlgorithm";

type Setting<Name extends SettingName> =
  | FieldValue<Name>
  | (Name extends NeverNull ? never : Extract<(typeof appFields)[Name]["default"], null>);

/**
 * The complete configuration of building, running and scaling an app. Times in seconds, memory in
 * GB (10^9 bytes), cpu in cores; the entrypoint is split into arguments, paths have no `.` parts.
 */
export type AppSettings = { readonly [Name in SettingName]: Setting<Name> } & {
  readonly preBuildCommands: readonly string[];
  readonly shellCommands: readonly string[];
  readonly dependencies: Dependencies;
};

/** The names of the settings, in the order of the table. */
export const settingNames = fieldNames.filter(
  (name): name is SettingName => !requestOnly.some((other) => other === name),
);

/** What only TOML files contain, by the names that refer to it beside the fields. */
export const fileSettingNames = [
  "preBuildCommands",
  "shellCommands",
  "dependencies.pip",
  "dependencies.apt",
  "dependencies.conda",
  "dependencies.groups",
] as const;

/**
 * Where a setting comes from; `api`: from a field of a create or change request, `repository`: from
 * a file there.
 */
export const settingOrigins = ["api", "config_toml", "repository", "default"] as const;
export type SettingOrigin = (typeof settingOrigins)[number];

/** The origin of each setting. */
export type SettingOrigins = Readonly<
  Record<SettingName | (typeof fileSettingNames)[number], SettingOrigin>
>;
