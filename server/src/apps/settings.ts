// Resolves the settings of an app, as a pure function: body, then config_toml, then the TOML file of the repository,
// then the default. The API calls it with what the request contains, the build after reading the repository.
import { allowedText, fieldSchema } from "@slipway/contract/field.ts";
import { appFields, type FieldName, type FieldValue } from "@slipway/contract/app-fields.ts";
import { settingNames, type AppSettings, type SettingName } from "@slipway/contract/app-settings.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import { refused } from "./refusal.ts";
import { checkRules, type GivenSetting } from "./settings-rules.ts";
import { shellWords } from "./shell-words.ts";
import { packageKinds } from "./toml-dependencies.ts";
import { noToml, readTomlFile, type TomlSettings } from "./toml-file.ts";

export type SettingsInput = {
  /** Fields of the create request, by name; `null` counts as absent. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Text of the request's config_toml; null when not sent. */
  readonly configToml: string | null;
  /** The repository's TOML file; null: it has none; absent: not read yet. The name is for messages. */
  readonly repositoryToml?: { readonly name: string; readonly text: string } | null;
  /** Settings of an earlier build, for a rebuild: nothing is resolved again then. */
  readonly settled?: AppSettings | null;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
};

export type ResolvedSettings = {
  readonly settings: AppSettings;
  /** Sentences for the build log: what was not understood, ignored, or interpreted differently than written. */
  readonly warnings: readonly string[];
  /** False when the Python version is the default. */
  readonly isPythonVersionGiven: boolean;
};

/** The settings that locate an app's files. */
export type SourceSettings = Pick<AppSettings, "gitRepo" | "gitBranch" | "gitPath">;

/** The settings known so far; the rest get defaults. */
export type GivenSettings = Partial<AppSettings> & { readonly name: string; readonly gitRepo: string };

/** Throws `Fault("invalid")` with the field, the given value and the allowed values. */
export function resolveSettings(input: SettingsInput): ResolvedSettings {
  const { repositoryToml: file, settled } = input;
  const configToml = input.configToml === null ? noToml : readTomlFile("config_toml", input.configToml);
  const repositoryToml = file ? readTomlFile(file.name, file.text) : noToml;
  const given = new GivenValues(input, [configToml, repositoryToml]);
  const isPythonVersionGiven = given.source("pythonVersion") !== undefined;
  if (settled) return { settings: settled, warnings: [], isPythonVersionGiven };
  const settings = assemble(given, [configToml, repositoryToml]);
  const rules = checkRules(settings, {
    source: (field) => given.source(field),
    isComplete: file !== undefined,
  });
  return {
    settings: rules.settings,
    warnings: [...configToml.warnings, ...repositoryToml.warnings, ...given.warnings, ...rules.warnings],
    isPythonVersionGiven,
  };
}

/** The location of an app's files, which only its request sets. Throws `Fault("invalid")`. */
export function requestedSource(body: SettingsInput["body"]): SourceSettings {
  const given = new GivenValues({ body, providers: [] }, []);
  const { gitBranch, gitPath } = appFields;
  return {
    gitRepo: given.required("gitRepo"),
    gitBranch: given.value("gitBranch") ?? gitBranch.default,
    gitPath: given.value("gitPath") ?? gitPath.default,
  };
}

/** Finds the first source of each field in order of precedence, and checks its value. */
class GivenValues {
  readonly warnings: string[] = [];
  readonly #input: Pick<SettingsInput, "body" | "providers">;
  readonly #tomls: readonly TomlSettings[];

  constructor(input: Pick<SettingsInput, "body" | "providers">, tomls: readonly TomlSettings[]) {
    this.#input = input;
    this.#tomls = tomls;
  }

  /** The effective source of a field; undefined when no source has it. */
  source(field: FieldName): GivenSetting | undefined {
    const own = Object.hasOwn(this.#input.body, field) ? this.#input.body[field] : undefined;
    if (own !== undefined && own !== null) return { value: own, path: field, isBody: true };
    const toml = this.#tomls.find((file) => file.values.has(field));
    if (toml === undefined) return undefined;
    const place = field === "runtime" ? "runtime.custom" : must(appFields[field].toml, `${field} has a TOML place`);
    return { value: toml.values.get(field), path: `${place} in ${toml.file}`, isBody: false };
  }

  /** The checked value; undefined when no source has it. */
  value<Name extends FieldName>(name: Name): FieldValue<Name> | undefined {
    const given = this.source(name);
    if (given === undefined) return undefined;
    const row = appFields[name];
    const value = given.isBody ? given.value : tolerated(name, given.value);
    const isKnown = name !== "provider" || (typeof value === "string" && this.#input.providers.includes(value));
    if (!isKnown || !fieldSchema(row).safeParse(value).success) {
      const allowed = name === "provider" ? `one of ${this.#input.providers.join(", ")}` : allowedText(row);
      throw refused({ field: given.path, given: given.value, allowed, isSecret: "isSecret" in row });
    }
    // The schema above and the type come from the same row.
    return value as FieldValue<Name>;
  }

  /** Like `value`, for required fields. */
  required(name: "name" | "gitRepo"): string {
    const value = this.value(name);
    if (value !== undefined) return value;
    const toml = appFields[name].toml === null ? "" : `, or ${appFields[name].toml} in config_toml`;
    throw new Fault("invalid", `${name} is missing; it must be ${allowedText(appFields[name])}${toml}.`);
  }

  /** All given settings; refuses the first required one that is missing. */
  all(): GivenSettings {
    const required = { name: this.required("name"), gitRepo: this.required("gitRepo") };
    const values = settingNames.map((name) => [name, this.value(name)]).filter(([, value]) => value !== undefined);
    return { ...required, ...(Object.fromEntries(values) as Partial<AppSettings>) };
  }
}

/** Accepts forms used in TOML files of existing apps, with their intended meaning. */
function tolerated(field: FieldName, value: unknown): unknown {
  if (field === "pythonVersion" && typeof value === "number") return String(value);
  if (field === "entrypoint" && typeof value === "string") return value.trim() === "" ? [] : [value];
  return value;
}

function assemble(given: GivenValues, tomls: readonly TomlSettings[]): AppSettings {
  const values = given.all();
  return withDefaults({
    ...values,
    compute: asList(values.compute ?? appFields.compute.default),
    gitPath: plainPath(values.gitPath ?? appFields.gitPath.default),
    dockerfilePath: plainPath(values.dockerfilePath ?? "") || null,
    pythonVersion: pythonVersion(values.pythonVersion ?? appFields.pythonVersion.default, given),
    entrypoint: entrypoint(values.entrypoint ?? appFields.entrypoint.default, given),
    preBuildCommands: tomls.map((toml) => toml.commands.preBuildCommands).find(isGiven) ?? [],
    shellCommands: tomls.map((toml) => toml.commands.shellCommands).find(isGiven) ?? [],
    dependencies: dependencies(tomls),
  });
}

/** Also null where `withDefaults` has a better default. */
const tableDefaults = Object.fromEntries(
  settingNames.map((name): [string, unknown] => [name, appFields[name].default]),
) as Pick<AppSettings, SettingName>;

/** Adds a default for each missing setting. */
export function withDefaults(given: GivenSettings): AppSettings {
  const isCpu = (given.compute ?? appFields.compute.default)[0] === "CPU";
  const replicaConcurrency = given.replicaConcurrency ?? (isCpu ? 100 : 1);
  return {
    ...tableDefaults,
    gpuCount: isCpu ? 0 : 1,
    replicaConcurrency,
    // A small limit fills one replica after another, so that the others may go idle; a large one spreads calls.
    loadBalancingAlgorithm: replicaConcurrency <= 3 ? "first-available" : "round-robin",
    preBuildCommands: [],
    shellCommands: [],
    dependencies: { pip: {}, apt: {}, conda: {}, paths: {} },
    ...given,
  };
}

function asList<Value extends string>(value: Value | readonly Value[]): readonly Value[] {
  return typeof value === "string" ? [value] : value;
}

function isGiven<Value>(value: Value | undefined): value is Value {
  return value !== undefined;
}

/** Removes `.` parts, repeated slashes and a trailing slash. */
function plainPath(path: string): string {
  return path
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");
}

/** An unquoted 3.10 is the number 3.1 in TOML, and clients pass it on as "3.1"; Python 3.1 itself is not supported. */
function pythonVersion(written: string, given: GivenValues): string {
  const [major, minor, patch] = written.split(".");
  const version = minor === "1" ? "3.10" : `${major}.${minor}`;
  const path = given.source("pythonVersion")?.path ?? "";
  if (minor === "1") given.warnings.push(`${path} is 3.1, which is read as 3.10; write it as a string: "3.10".`);
  else if (patch !== undefined) given.warnings.push(`${path} is ${written}; the newest installed ${version} is used.`);
  return version;
}

function entrypoint(written: readonly string[], given: GivenValues): readonly string[] {
  const [only] = written;
  if (written.length !== 1 || only === undefined) return written;
  const words = shellWords(only);
  if (words !== null) return words;
  throw refused({
    field: given.source("entrypoint")?.path ?? "entrypoint",
    given: written,
    allowed: "a command whose quotes are closed",
  });
}

/** For each kind, the packages or the file of the first TOML that has one of them. */
function dependencies(tomls: readonly TomlSettings[]): AppSettings["dependencies"] {
  const result = { pip: {}, apt: {}, conda: {}, paths: {} as { pip?: string; apt?: string; conda?: string } };
  for (const kind of packageKinds) {
    const toml = tomls.find((file) => file.packages[kind] !== undefined || file.paths[kind] !== undefined);
    result[kind] = toml?.packages[kind] ?? {};
    const path = toml?.paths[kind];
    if (path !== undefined) result.paths[kind] = path;
  }
  return result;
}
