// Decides the settings of an app, purely: body, then config_toml, then the TOML file of the repository, then the
// default. The API calls it with what is known at the request, the build again once the repository was read.
import { allowedText, fieldSchema } from "@slipway/contract/field.ts";
import { appFields, type FieldName, type FieldValue } from "@slipway/contract/app-fields.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import { refused } from "./refusal.ts";
import { checkRules, type Given } from "./settings-rules.ts";
import { shellWords } from "./shell-words.ts";
import { packageKinds } from "./toml-dependencies.ts";
import { noToml, readTomlFile, type TomlSettings } from "./toml-file.ts";

export type SettingsInput = {
  /** Fields of the create request, by name; `null` counts as absent. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Text of the request's config_toml; null: none was sent. */
  readonly configToml: string | null;
  /** Text of the repository's TOML file; null: it has none; absent: not read yet. */
  readonly repositoryToml?: string | null;
  /** For messages. */
  readonly repositoryTomlName?: string;
  /** What the field provider may name. */
  readonly providers: readonly string[];
};

export type ResolvedSettings = {
  readonly settings: AppSettings;
  /** Sentences for the build log: what was not understood, ignored or read in another way than written. */
  readonly warnings: readonly string[];
};

/** Throws `Fault("invalid")` naming the field, what was given and what is allowed. */
export function resolveSettings(input: SettingsInput): ResolvedSettings {
  const configToml = input.configToml === null ? noToml : readTomlFile("config_toml", input.configToml);
  const name = input.repositoryTomlName ?? "the repository's TOML file";
  const repositoryToml = typeof input.repositoryToml === "string" ? readTomlFile(name, input.repositoryToml) : noToml;
  const pick = new Pick(input, [configToml, repositoryToml]);
  const settings = assemble(pick, [configToml, repositoryToml]);
  const rules = checkRules(settings, {
    source: (field) => pick.source(field),
    isComplete: input.repositoryToml !== undefined,
  });
  return {
    settings: rules.settings,
    warnings: [...configToml.warnings, ...repositoryToml.warnings, ...pick.warnings, ...rules.warnings],
  };
}

/** Finds the value of each field where it counts first, and checks it. */
class Pick {
  readonly warnings: string[] = [];
  readonly #input: SettingsInput;
  readonly #tomls: readonly TomlSettings[];

  constructor(input: SettingsInput, tomls: readonly TomlSettings[]) {
    this.#input = input;
    this.#tomls = tomls;
  }

  /** Where the value that counts was given; undefined: nowhere. */
  source(field: FieldName): Given | undefined {
    const own = Object.hasOwn(this.#input.body, field) ? this.#input.body[field] : undefined;
    if (own !== undefined && own !== null) return { value: own, place: field, isBody: true };
    const toml = this.#tomls.find((file) => file.values.has(field));
    if (toml === undefined) return undefined;
    const place = field === "runtime" ? "runtime.custom" : must(appFields[field].toml, `${field} has a TOML place`);
    return { value: toml.values.get(field), place: `${place} in ${toml.file}`, isBody: false };
  }

  /** The checked value; undefined: given nowhere. */
  value<Name extends FieldName>(name: Name): FieldValue<Name> | undefined {
    const given = this.source(name);
    if (given === undefined) return undefined;
    const row = appFields[name];
    const value = given.isBody ? given.value : tolerated(name, given.value);
    const isKnown = name !== "provider" || (typeof value === "string" && this.#input.providers.includes(value));
    if (!isKnown || !fieldSchema(row).safeParse(value).success) {
      const allowed = name === "provider" ? `one of ${this.#input.providers.join(", ")}` : allowedText(row);
      throw refused({ field: given.place, given: given.value, allowed, isSecret: "isSecret" in row });
    }
    // The schema above is made from the same row as the type.
    return value as FieldValue<Name>;
  }

  /** As `value`, for what must be given. */
  required(name: "name" | "gitRepo"): string {
    const value = this.value(name);
    if (value !== undefined) return value;
    const toml = appFields[name].toml === null ? "" : `, or ${appFields[name].toml} in config_toml`;
    throw new Fault("invalid", `${name} is missing; it must be ${allowedText(appFields[name])}${toml}.`);
  }

  /** As `value`, with the default of the table for what was not given. */
  valueOr<Name extends FieldName, Default>(name: Name, otherwise: Default): FieldValue<Name> | Default {
    return this.value(name) ?? otherwise;
  }
}

/** Forms that TOML files of existing apps use, read as what they mean. */
function tolerated(field: FieldName, value: unknown): unknown {
  if (field === "pythonVersion" && typeof value === "number") return String(value);
  if (field === "entrypoint" && typeof value === "string") return value.trim() === "" ? [] : [value];
  return value;
}

function assemble(pick: Pick, tomls: readonly TomlSettings[]): AppSettings {
  const compute = asList(pick.valueOr("compute", appFields.compute.default));
  const isCpu = compute[0] === "CPU";
  const replicaConcurrency = pick.valueOr("replicaConcurrency", isCpu ? 100 : 1);
  return {
    name: pick.required("name"),
    gitRepo: pick.required("gitRepo"),
    cliVersion: pick.valueOr("cliVersion", null),
    gitBranch: pick.valueOr("gitBranch", appFields.gitBranch.default),
    gitPath: plainPath(pick.valueOr("gitPath", appFields.gitPath.default)),
    gitAutoDeploy: pick.valueOr("gitAutoDeploy", appFields.gitAutoDeploy.default),
    partialUpload: pick.valueOr("partialUpload", appFields.partialUpload.default),
    runtime: pick.valueOr("runtime", appFields.runtime.default),
    pythonVersion: pythonVersion(pick),
    baseImage: pick.valueOr("baseImage", appFields.baseImage.default),
    dockerfilePath: plainPath(pick.valueOr("dockerfilePath", "")) || null,
    entrypoint: entrypoint(pick),
    port: pick.valueOr("port", appFields.port.default),
    healthcheckEndpoint: pick.valueOr("healthcheckEndpoint", appFields.healthcheckEndpoint.default),
    readycheckEndpoint: pick.valueOr("readycheckEndpoint", appFields.readycheckEndpoint.default),
    useUv: pick.valueOr("useUv", appFields.useUv.default),
    preBuildCommands: tomls.map((toml) => toml.commands.preBuildCommands).find(isGiven) ?? [],
    shellCommands: tomls.map((toml) => toml.commands.shellCommands).find(isGiven) ?? [],
    dependencies: dependencies(tomls),
    compute,
    computeTier: pick.valueOr("computeTier", appFields.computeTier.default),
    containerRuntime: pick.valueOr("containerRuntime", null),
    cpu: pick.valueOr("cpu", appFields.cpu.default),
    memory: pick.valueOr("memory", appFields.memory.default),
    gpuCount: pick.valueOr("gpuCount", isCpu ? 0 : 1),
    provider: pick.valueOr("provider", null),
    region: pick.valueOr("region", null),
    minReplicaCount: pick.valueOr("minReplicaCount", appFields.minReplicaCount.default),
    maxReplicaCount: pick.valueOr("maxReplicaCount", appFields.maxReplicaCount.default),
    cooldownPeriodSeconds: pick.valueOr("cooldownPeriodSeconds", appFields.cooldownPeriodSeconds.default),
    replicaConcurrency,
    responseGracePeriodSeconds: pick.valueOr(
      "responseGracePeriodSeconds",
      appFields.responseGracePeriodSeconds.default,
    ),
    retries: pick.valueOr("retries", appFields.retries.default),
    scalingMetric: pick.valueOr("scalingMetric", appFields.scalingMetric.default),
    scalingTarget: pick.valueOr("scalingTarget", appFields.scalingTarget.default),
    scalingBuffer: pick.valueOr("scalingBuffer", appFields.scalingBuffer.default),
    evaluationIntervalSeconds: pick.valueOr("evaluationIntervalSeconds", appFields.evaluationIntervalSeconds.default),
    // A small limit fills replica by replica, so that the others may go idle; a large one spreads.
    loadBalancingAlgorithm: pick.valueOr(
      "loadBalancingAlgorithm",
      replicaConcurrency <= 3 ? "first-available" : "round-robin",
    ),
    rollOutDurationSeconds: pick.valueOr("rollOutDurationSeconds", appFields.rollOutDurationSeconds.default),
    deploymentInitializationTimeout: pick.valueOr(
      "deploymentInitializationTimeout",
      appFields.deploymentInitializationTimeout.default,
    ),
    disableAuth: pick.valueOr("disableAuth", appFields.disableAuth.default),
    logLevel: pick.valueOr("logLevel", appFields.logLevel.default),
  };
}

function asList<Value extends string>(value: Value | readonly Value[]): readonly Value[] {
  return typeof value === "string" ? [value] : value;
}

function isGiven<Value>(value: Value | undefined): value is Value {
  return value !== undefined;
}

/** Without `.` parts, doubled slashes and a slash at the end. */
function plainPath(path: string): string {
  return path
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");
}

/** An unquoted 3.10 is the number 3.1 in TOML, and clients send it on as "3.1"; Python 3.1 itself is not to be had. */
function pythonVersion(pick: Pick): string {
  const given = pick.valueOr("pythonVersion", appFields.pythonVersion.default);
  const [major, minor, patch] = given.split(".");
  const version = minor === "1" ? "3.10" : `${major}.${minor}`;
  const place = pick.source("pythonVersion")?.place ?? "";
  if (minor === "1") pick.warnings.push(`${place} is 3.1 and read as 3.10; write it as a text: "3.10".`);
  else if (patch !== undefined)
    pick.warnings.push(`${place} is ${given}; the newest ${version} that is there is used.`);
  return version;
}

function entrypoint(pick: Pick): readonly string[] {
  const given = pick.valueOr("entrypoint", appFields.entrypoint.default);
  const [only] = given;
  if (given.length !== 1 || only === undefined) return given;
  const words = shellWords(only);
  if (words !== null) return words;
  throw refused({
    field: pick.source("entrypoint")?.place ?? "entrypoint",
    given,
    allowed: "a command whose quotes are closed",
  });
}

/** Of each kind the packages or the file of the first TOML that has one of them. */
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
