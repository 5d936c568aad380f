// Resolves the settings of an app, as a pure function. A value of the body counts first, then one
// of config_toml, then one of the TOML file of the repository, then the default. The API resolves
// what a request contains; a build resolves again when it has read the repository.
import { isDeepStrictEqual } from "node:util";
import { allowedText, fieldSchema } from "@slipway/contract/field.ts";
import { appFields, type FieldName, type FieldValue } from "@slipway/contract/app-fields.ts";
import {
  fileSettingNames,
  settingNames,
  type AppSettings,
  type PackageVersions,
  type SettingName,
  type SettingOrigin,
  type SettingOrigins,
} from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { readFiles, type FileSettings, type FileTexts } from "./file-settings.ts";
import { refused, shown } from "./refusal.ts";
import { checkRules, type GivenSetting } from "./settings-rules.ts";
import { shellWords } from "./shell-words.ts";
import { packageKinds } from "./toml-dependencies.ts";

type Body = Readonly<Record<string, unknown>>;

export type SettingsInput = FileTexts & {
  /** The values that the API has set, by field; `null` counts as absent. */
  readonly body: Body;
  /** Settings of an earlier build, for a rebuild: nothing is resolved again then. */
  readonly settled?: AppSettings | null;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
};

export type ResolvedSettings = {
  readonly settings: AppSettings;
  readonly origins: SettingOrigins;
  /** The values of the TOML files, which count where the API sets nothing. */
  readonly files: FileSettings;
  /**
   * Sentences for the build log: what was not understood, ignored, or interpreted differently than
   * written.
   */
  readonly warnings: readonly string[];
  /** False when the Python version is the default. */
  readonly isPythonVersionGiven: boolean;
};

/** The settings that locate an app's files. */
export type SourceSettings = Pick<AppSettings, "gitRepo" | "gitBranch" | "gitPath">;

/** The settings known so far; the rest get defaults. */
export type GivenSettings = Partial<AppSettings> & { readonly name: string };

/**
 * Resolves the settings. Throws `Fault("invalid")` with the field, the given value and the allowed
 * values.
 */
export function resolveSettings(input: SettingsInput): ResolvedSettings {
  const { body, providers, settled } = input;
  // `files` has the values of both files. `repository` has all values of the repository's file,
  // including those that config_toml overrides.
  const { files, repository, warnings } = readFiles(input);
  const isComplete = input.repositoryToml !== undefined;
  const resolved = settled
    ? settledSettings(settled, { body, files })
    : resolveFiles({ body, files, isComplete, providers });
  // A rebuild interprets nothing again, so it has nothing to warn of.
  return {
    ...resolved,
    files,
    warnings: settled
      ? []
      : [...warnings, ...resolved.warnings, ...overridden(repository, { body, files })],
  };
}

/** Like `resolveSettings`, with files that were read before. */
export function resolveFiles(input: ReadLayers): Omit<ResolvedSettings, "files"> {
  const givenValues = new GivenValues(input);
  const assembled = assemble(givenValues);
  const { settings, warnings } = checkRules(assembled, {
    source: (field) => givenValues.source(field),
    isComplete: input.isComplete,
  });
  const isAsGiven = (name: SettingName): boolean =>
    isDeepStrictEqual(settings[name], assembled[name]);
  return {
    settings,
    origins: originsOf(givenValues, isAsGiven),
    warnings: [...givenValues.warnings, ...warnings],
    isPythonVersionGiven: givenValues.source("pythonVersion") !== undefined,
  };
}

/** The settings of an earlier build, unchanged, with the origins that the sources give now. */
function settledSettings(settings: AppSettings, layers: Layers): Omit<ResolvedSettings, "files"> {
  const givenValues = new GivenValues({ ...layers, providers: [] });
  const isPythonVersionGiven = givenValues.source("pythonVersion") !== undefined;
  return { settings, origins: originsOf(givenValues), warnings: [], isPythonVersionGiven };
}

/**
 * The settings that are stored with a release. `origins` is null for a release that was made
 * without them.
 */
export type ReleaseSettings = {
  readonly settings: AppSettings;
  readonly origins: SettingOrigins | null;
  readonly files: FileSettings;
};

/**
 * The settings with which a release runs now. A setting that can change live has the value that the
 * API has set by now, or else the one in the files of the release; all others have the release's
 * own values. Never throws: a value that is not allowed is ignored.
 */
export function liveSettings(
  release: ReleaseSettings,
  body: Body,
): Pick<ResolvedSettings, "settings" | "origins"> {
  const givenValues = new GivenValues({ body, files: release.files, providers: [] });
  const settings: Record<string, unknown> = { ...release.settings };
  // The stored origins come last, since they count where the release has them.
  const origins: Record<string, SettingOrigin> = { ...originsOf(givenValues), ...release.origins };
  const liveNames = settingNames.filter((name) => appFields[name].change === "live");
  for (const name of liveNames) {
    const source = givenValues.source(name);
    const isAllowed =
      source === undefined || fieldSchema(appFields[name]).safeParse(source.value).success;
    // A default that the build found out, such as the branch, must not be replaced. Without stored
    // origins, any value may be such a default.
    const mayBeDefault = release.origins === null || release.origins[name] === "default";
    const keepsOwnValue = source === undefined && mayBeDefault;
    if (keepsOwnValue || !isAllowed) continue;
    origins[name] = source?.origin ?? "default";
    // The API has removed its value since the build: `withDefaults` adds the default again.
    if (source === undefined) delete settings[name];
    else settings[name] = source.value;
  }
  return { settings: withDefaults(settings as GivenSettings), origins: origins as SettingOrigins };
}

/** The origin of each setting. A value that the rules have changed counts as a default. */
function originsOf(
  givenValues: GivenValues,
  isAsGiven: (name: SettingName) => boolean = () => true,
): SettingOrigins {
  const originOf = (name: keyof SettingOrigins): SettingOrigin =>
    givenValues.source(name)?.origin ?? "default";
  const origins: Record<string, SettingOrigin> = {};
  for (const name of settingNames) origins[name] = isAsGiven(name) ? originOf(name) : "default";
  for (const name of fileSettingNames) origins[name] = originOf(name);
  return origins as SettingOrigins;
}

/**
 * Warns of each value of the repository's file that another source overrides by a different value.
 */
function overridden(repository: FileSettings, layers: Layers): string[] {
  const givenValues = new GivenValues({ ...layers, providers: [] });
  const warnings: string[] = [];
  for (const [name, { value, path }] of Object.entries(repository)) {
    const used = givenValues.source(name as FieldName);
    if (used === undefined || used.origin === "repository" || isDeepStrictEqual(used.value, value))
      continue;
    // A table is too long for a sentence, which then has only its path.
    const isTable = typeof value === "object" && !Array.isArray(value);
    const what = isTable ? path : `${path} is ${shown(value)}, which`;
    const other = isTable ? "it too" : `${shown(used.value)}`;
    warnings.push(
      used.isBody
        ? `${what} does not count: the API has set ${name} to ${other}.`
        : `${what} does not count: config_toml has ${other}.`,
    );
  }
  return warnings;
}

/** The location of an app's files, which no TOML file can set. Throws `Fault("invalid")`. */
export function requestedSource(body: SettingsInput["body"]): SourceSettings {
  const givenValues = new GivenValues({ body, files: {}, providers: [] });
  const { gitBranch, gitPath } = appFields;
  return {
    gitRepo: givenValues.value("gitRepo") ?? null,
    gitBranch: givenValues.value("gitBranch") ?? gitBranch.default,
    gitPath: givenValues.value("gitPath") ?? gitPath.default,
  };
}

/**
 * The values that the API has set, and those of the files, which count where the API has set none.
 */
type Layers = { readonly body: Body; readonly files: FileSettings };

/** `isComplete`: true when `files` includes the values of the repository's file. */
export type ReadLayers = Layers & {
  readonly isComplete: boolean;
  readonly providers: readonly string[];
};

/** Finds the first source of each field in order of precedence, and checks its value. */
class GivenValues {
  readonly warnings: string[] = [];
  readonly #input: Layers & { readonly providers: readonly string[] };

  constructor(input: Layers & { readonly providers: readonly string[] }) {
    this.#input = input;
  }

  /** The effective source of a field; undefined when no source has it. */
  source(
    name: FieldName | (typeof fileSettingNames)[number],
  ): (GivenSetting & { origin: SettingOrigin }) | undefined {
    const { body, files } = this.#input;
    const bodyValue = Object.hasOwn(body, name) ? body[name] : undefined;
    if (bodyValue !== undefined && bodyValue !== null)
      return { value: bodyValue, path: name, isBody: true, origin: "api" };
    const file = Object.hasOwn(files, name) ? files[name] : undefined;
    if (file !== undefined) return { ...file, isBody: false };
    return name === "runtime" ? this.#runtimeOfDockerfile() : undefined;
  }

  /**
   * A Dockerfile that the API names means that the app brings its own server, as the table
   * `runtime.custom` of a file does.
   */
  #runtimeOfDockerfile(): (GivenSetting & { origin: SettingOrigin }) | undefined {
    const { dockerfilePath } = this.#input.body;
    const isNamed = typeof dockerfilePath === "string" && plainPath(dockerfilePath) !== "";
    if (!isNamed) return undefined;
    return { value: "custom", path: "dockerfilePath", isBody: true, origin: "api" };
  }

  /** The value of a setting that only files have. */
  ofFile(name: (typeof fileSettingNames)[number]): unknown {
    return this.#input.files[name]?.value;
  }

  /** The checked value; undefined when no source has it. */
  value<Name extends FieldName>(name: Name): FieldValue<Name> | undefined {
    const source = this.source(name);
    if (source === undefined) return undefined;
    const row = appFields[name];
    const value = source.isBody ? source.value : tolerated(name, source.value);
    // The operator's configuration has the allowed providers, so no schema can check them.
    const isProvider = typeof value === "string" && this.#input.providers.includes(value);
    const isKnown = name !== "provider" || isProvider;
    if (!isKnown || !fieldSchema(row).safeParse(value).success) {
      const allowed =
        name === "provider" ? `one of ${this.#input.providers.join(", ")}` : allowedText(row);
      throw refused({
        field: source.path,
        given: source.value,
        allowed,
        isSecret: "isSecret" in row,
      });
    }
    // The cast is safe: the schema above and the type come from the same row.
    return value as FieldValue<Name>;
  }

  /** Reads the app's name, which may be in a file instead of the request. */
  #name(): string {
    const value = this.value("name");
    if (value !== undefined) return value;
    const { name } = appFields;
    throw new Fault(
      "invalid",
      `name is missing; it must be ${allowedText(name)}, or ${name.toml} in config_toml.`,
    );
  }

  /** All given settings; refuses an app without a name. */
  all(): GivenSettings {
    const name = this.#name();
    const values = settingNames
      .map((setting) => [setting, this.value(setting)])
      .filter(([, value]) => value !== undefined);
    return { ...(Object.fromEntries(values) as Partial<AppSettings>), name };
  }
}

/** Accepts forms used in TOML files of existing apps, with their intended meaning. */
function tolerated(field: FieldName, value: unknown): unknown {
  if (field === "pythonVersion" && typeof value === "number") return String(value);
  if (field === "entrypoint" && typeof value === "string")
    return value.trim() === "" ? [] : [value];
  return value;
}

/** All settings in their stored form, before the rules across fields are checked. */
function assemble(givenValues: GivenValues): AppSettings {
  const values = givenValues.all();
  return withDefaults({
    ...values,
    compute: asList(values.compute ?? appFields.compute.default),
    gitPath: plainPath(values.gitPath ?? appFields.gitPath.default),
    storagePath: values.storagePath?.replace(/\/$/, "") ?? null,
    // An empty path names no Dockerfile.
    dockerfilePath: plainPath(values.dockerfilePath ?? "") || null,
    pythonVersion: pythonVersion(
      values.pythonVersion ?? appFields.pythonVersion.default,
      givenValues,
    ),
    entrypoint: entrypoint(values.entrypoint ?? appFields.entrypoint.default, givenValues),
    // Commands are checked when the file is read.
    preBuildCommands: (givenValues.ofFile("preBuildCommands") ?? []) as readonly string[],
    shellCommands: (givenValues.ofFile("shellCommands") ?? []) as readonly string[],
    dependencies: dependencies(givenValues),
  });
}

/** The defaults of the fields, some of which `withDefaults` replaces by a better one. */
const tableDefaults = Object.fromEntries(
  settingNames.map((name): [string, unknown] => [name, appFields[name].default]),
) as Pick<AppSettings, SettingName>;

/** Adds a default for each missing setting. */
export function withDefaults(settings: GivenSettings): AppSettings {
  // The first type decides: `settings-rules.ts` refuses a list that mixes CPU with others.
  const [firstType] = settings.compute ?? appFields.compute.default;
  const isCpu = firstType === "CPU";
  // A replica with a GPU does one call at a time unless its app says that it can do more.
  const usualConcurrency = isCpu ? 100 : 1;
  const replicaConcurrency = settings.replicaConcurrency ?? usualConcurrency;
  return {
    ...tableDefaults,
    gpuCount: isCpu ? 0 : 1,
    replicaConcurrency,
    // With a limit of 3 or less, calls fill one replica after another, so that the others may go
    // idle; with a larger limit, calls are spread.
    loadBalancingAlgorithm: replicaConcurrency <= 3 ? "first-available" : "round-robin",
    preBuildCommands: [],
    shellCommands: [],
    dependencies: { pip: {}, apt: {}, conda: {}, paths: {}, groups: [] },
    ...settings,
  };
}

function asList<Value extends string>(value: Value | readonly Value[]): readonly Value[] {
  return typeof value === "string" ? [value] : value;
}

/** Removes `.` parts, repeated slashes and a trailing slash. */
function plainPath(path: string): string {
  return path
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");
}

/**
 * The version without its patch number. Reads "3.1" as 3.10: an unquoted 3.10 is the number 3.1 in
 * TOML, which clients pass on as "3.1", and Python 3.1 itself is not supported.
 */
function pythonVersion(written: string, givenValues: GivenValues): string {
  const [major, minor, patch] = written.split(".");
  const version = minor === "1" ? "3.10" : `${major}.${minor}`;
  // Only the default has no path, and it leads to no warning.
  const path = givenValues.source("pythonVersion")?.path ?? "";
  if (minor === "1")
    givenValues.warnings.push(
      `${path} is 3.1, which is read as 3.10; write it as a string: "3.10".`,
    );
  else if (patch !== undefined)
    givenValues.warnings.push(`${path} is ${written}; the newest installed ${version} is used.`);
  return version;
}

/**
 * The command as a list of words. An entry that is alone is a whole command line, and is split as a
 * shell would.
 */
function entrypoint(written: readonly string[], givenValues: GivenValues): readonly string[] {
  const [first] = written;
  if (written.length !== 1 || first === undefined) return written;
  const words = shellWords(first);
  if (words !== null) return words;
  const field = givenValues.source("entrypoint")?.path ?? "entrypoint";
  throw refused({ field, given: written, allowed: "a command whose quotes are closed" });
}

/**
 * For each kind, the packages or the path of the file that lists them; also the groups of
 * pyproject.toml.
 */
function dependencies(givenValues: GivenValues): AppSettings["dependencies"] {
  const groups = (givenValues.ofFile("dependencies.groups") ?? []) as readonly string[];
  const paths: { pip?: string; apt?: string; conda?: string } = {};
  const result = { pip: {}, apt: {}, conda: {}, paths, groups };
  for (const kind of packageKinds) {
    // Packages are checked when the file is read.
    const value = (givenValues.ofFile(`dependencies.${kind}`) ?? {}) as string | PackageVersions;
    if (typeof value === "string") result.paths[kind] = value;
    else result[kind] = value;
  }
  return result;
}
