// Converts an app's TOML file into values for the table of fields, commands and dependencies. The
// settings are in tables below `cerebrium`; settings that only this platform has are below
// `slipway`. This file only locates the values; `settings.ts` checks them.
import { parse } from "smol-toml";
import { appFields, fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import type { PackageVersions } from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { isObject } from "#lib/is-object.ts";
import { tomlProblem } from "#lib/operator-file.ts";
import {
  readGroups,
  readPackages,
  readPath,
  type PackageKind,
  packageKinds,
} from "./toml-dependencies.ts";
import { refused, suggestion } from "./refusal.ts";

type Table = Readonly<Record<string, unknown>>;

/** The content of one TOML file; missing settings are absent. */
export type TomlSettings = {
  /** The name for messages: `config_toml` or the file's name. */
  readonly file: string;
  /** The values of the file by field, not yet checked. */
  readonly values: ReadonlyMap<FieldName, unknown>;
  readonly commands: Readonly<Partial<Record<CommandKind, readonly string[]>>>;
  /** The packages that the file lists itself, by kind. */
  readonly packages: Readonly<Partial<Record<PackageKind, PackageVersions>>>;
  /** The files that list packages, by kind. */
  readonly paths: Readonly<Partial<Record<PackageKind, string>>>;
  /** The groups of pyproject.toml. Absent: the file does not mention groups. */
  readonly groups?: readonly string[];
  /** Sentences for the app's owner about what was not understood or not used. */
  readonly warnings: readonly string[];
};

type CommandKind = "preBuildCommands" | "shellCommands";

/** The fields that a file can set, by the path of their key. */
const fieldsByPath = new Map(
  fieldNames
    .map((name): [string | null, FieldName] => [appFields[name].toml, name])
    .filter((entry): entry is [string, FieldName] => entry[0] !== null),
);
/** The paths of the keys of fields, by the name of the field in lower case, for hints. */
const pathsByField = new Map([...fieldsByPath].map(([path, name]) => [name.toLowerCase(), path]));
const commandsByPath = new Map<string, CommandKind>([
  ["deployment.pre_build_commands", "preBuildCommands"],
  ["deployment.shell_commands", "shellCommands"],
]);
/**
 * Keys without effect here that bring no warning: the client that uploads a folder selects its
 * files by them.
 */
const ignoredPaths = new Set(["deployment.include", "deployment.exclude"]);
/** The table beside `cerebrium` for settings that other platforms with this format do not have. */
const ownTable = "slipway";
/**
 * Paths of keys whose tables are known. In `runtime.cortex.any`, `any` stands for any key: the
 * table `runtime.cortex` is known, whatever is in it.
 */
const keyPaths = [
  ...fieldsByPath.keys(),
  ...commandsByPath.keys(),
  "dependencies.pip",
  "runtime.cortex.any",
];
/** The tables that `#enter` reads. The table `slipway` is left out, since `readRoot` reads it. */
const tables = [...new Set(keyPaths.flatMap((path) => tablesOf(path)))].filter(
  (path) => path !== ownTable,
);
/** All paths of tables and keys that have a meaning here. */
const knownPaths = [
  ...tables,
  ...fieldsByPath.keys(),
  ...commandsByPath.keys(),
  ...ignoredPaths,
  ...packageKinds.map((kind) => `dependencies.${kind}`),
  "dependencies.groups",
];

/** The tables that a key is in: `runtime` and `runtime.custom` for `runtime.custom.port`. */
function tablesOf(path: string): string[] {
  const parts = path.split(".").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("."));
}

/**
 * Parses `text`. Throws `Fault("invalid")` for invalid TOML and for content that cannot be a
 * settings file.
 */
export function readTomlFile(file: string, text: string): TomlSettings {
  const reader = new Reader(file);
  reader.readRoot(parseToml(file, text));
  return reader.settings;
}

/** Far more than a settings file needs; reading one key of a million parts would take seconds. */
const lengthMax = 100_000;

function parseToml(file: string, text: string): Table {
  if (text.length > lengthMax) {
    throw new Fault(
      "invalid",
      `${file} has ${text.length} characters, but must have at most ${lengthMax}.`,
    );
  }
  try {
    // Settings are only a few tables deep; the limit keeps the parser from running out of stack.
    return parse(text, { maxDepth: 100 });
  } catch (error) {
    const { at, reason } = tomlProblem(error);
    throw new Fault("invalid", `${file} is not valid TOML at ${at}: ${reason}.`, { cause: error });
  }
}

class Reader {
  readonly #file: string;
  readonly #values = new Map<FieldName, unknown>();
  readonly #commands: Partial<Record<CommandKind, readonly string[]>> = {};
  readonly #packages: Partial<Record<PackageKind, PackageVersions>> = {};
  readonly #paths: Partial<Record<PackageKind, string>> = {};
  #groups: readonly string[] | null = null;
  readonly #warnings: string[] = [];
  /** The number of warnings beyond `warningsMax`. */
  #omitted = 0;

  constructor(file: string) {
    this.#file = file;
  }

  get settings(): TomlSettings {
    const omittedWarning =
      this.#omitted === 0 ? [] : [`${this.#file} has ${this.#omitted} more keys without effect.`];
    return {
      file: this.#file,
      values: this.#values,
      commands: this.#commands,
      packages: this.#packages,
      paths: this.#paths,
      ...(this.#groups === null ? {} : { groups: this.#groups }),
      warnings: [...this.#warnings, ...omittedWarning],
    };
  }

  readRoot(root: Table): void {
    for (const [key, value] of Object.entries(root)) {
      if (key === "cerebrium") this.#readTable("", this.#table(key, value));
      else if (key === ownTable) this.#readTable(key, this.#table(key, value));
      else
        this.#warn(
          `${oneLine(key)} in ${this.#file} is ignored: settings must be below the table cerebrium.`,
        );
    }
    this.#refuseTwoForms();
  }

  /** `prefix` is the path of the table; "" for the table `cerebrium`, which no path names. */
  #readTable(prefix: string, table: Table): void {
    for (const [key, value] of Object.entries(table))
      this.#readKey(prefix === "" ? key : `${prefix}.${key}`, value);
  }

  #readKey(path: string, value: unknown): void {
    const field = fieldsByPath.get(path);
    const command = commandsByPath.get(path);
    const kind = packageKinds.find((candidate) => path === `dependencies.${candidate}`);
    if (field !== undefined) this.#values.set(field, value);
    else if (command !== undefined) this.#commands[command] = this.#readCommands(path, value);
    else if (kind !== undefined) this.#readPackages(kind, path, value);
    else if (path === "dependencies.paths") this.#readPaths(path, value);
    else if (path === "dependencies.groups")
      this.#groups = readGroups(`${path} in ${this.#file}`, value);
    else if (tables.includes(path)) this.#enter(path, value);
    else if (path === "runtime.deepgram" || path === "runtime.rime") throw this.#noPartner(path);
    else if (!ignoredPaths.has(path)) this.#warnUnknown(path);
  }

  #enter(path: string, value: unknown): void {
    // If the file has both tables, `runtime.custom` counts, whichever comes first.
    if (path === "runtime.custom") this.#values.set("runtime", "custom");
    if (path === "runtime.cortex" && !this.#values.has("runtime"))
      this.#values.set("runtime", "cortex");
    this.#readTable(path, this.#table(path, value));
  }

  #readPackages(kind: PackageKind, path: string, value: unknown): void {
    const read = readPackages(`${path} in ${this.#file}`, value);
    this.#packages[kind] = read.packages;
    this.#warnings.push(...read.warnings);
  }

  #readPaths(table: string, value: unknown): void {
    for (const [key, path] of Object.entries(this.#table(table, value))) {
      const kind = packageKinds.find((candidate) => candidate === key);
      if (kind === undefined) this.#warnUnknown(`${table}.${key}`);
      else this.#paths[kind] = readPath(`${table}.${key} in ${this.#file}`, path);
    }
  }

  /** Reads a list of commands, or a single one. Leaves out empty ones. */
  #readCommands(path: string, value: unknown): readonly string[] {
    const list = typeof value === "string" ? [value] : value;
    const isCommand = (line: unknown): line is string =>
      typeof line === "string" && line.isWellFormed() && !line.includes("\0");
    // No app has nearly as many commands as 1000.
    if (!Array.isArray(list) || list.length > 1000 || !list.every(isCommand)) {
      throw refused({
        field: `${path} in ${this.#file}`,
        given: value,
        allowed: "a list of at most 1000 strings",
      });
    }
    return list.filter((line) => line.trim() !== "");
  }

  /** Throws `Fault("invalid")` if the file lists packages of one kind and names a file for them. */
  #refuseTwoForms(): void {
    for (const kind of packageKinds) {
      const isInline = Object.keys(this.#packages[kind] ?? {}).length > 0;
      if (!isInline || this.#paths[kind] === undefined) continue;
      throw new Fault(
        "invalid",
        `dependencies.${kind} in ${this.#file} lists packages, and dependencies.paths.${kind} names a file: only one of the two is allowed.`,
      );
    }
  }

  #table(path: string, value: unknown): Table {
    if (isObject(value) && !(value instanceof Date)) return value;
    throw refused({ field: `${path} in ${this.#file}`, given: value, allowed: "a table" });
  }

  #noPartner(path: string): Fault {
    const partner = path.slice("runtime.".length);
    return new Fault(
      "invalid",
      `${path} in ${this.#file} asks for the partner service ${partner}, which is not available here; use runtime.custom with an entrypoint or a Dockerfile.`,
    );
  }

  #warnUnknown(path: string): void {
    // Finding a similar name is slow, so it is skipped once the file has too many warnings.
    if (this.#warnings.length >= warningsMax) {
      this.#omitted++;
      return;
    }
    const name = path.slice(path.lastIndexOf(".") + 1);
    // The key may belong below `cerebrium` and not below `slipway`.
    const usualPath = path.startsWith(`${ownTable}.`) ? path.slice(ownTable.length + 1) : "";
    if (knownPaths.includes(usualPath)) {
      return this.#warn(
        `${path} in ${this.#file} has no effect; the table is called [cerebrium.${usualPath}].`,
      );
    }
    // The name may also be the one that the API has for a setting.
    const pathOfField = pathsByField.get(name.toLowerCase());
    const sameName = pathOfField ?? knownPaths.find((known) => known.endsWith(`.${name}`));
    const hint =
      sameName === undefined ? suggestion(path, knownPaths) : `; did you mean ${sameName}?`;
    const end = hint === "" ? "." : hint;
    this.#warn(`${oneLine(path)} in ${this.#file} is unknown and has no effect${end}`);
  }

  #warn(sentence: string): void {
    if (this.#warnings.length < warningsMax) this.#warnings.push(sentence);
    else this.#omitted++;
  }
}

/** The maximum number of warnings about one file; a reader needs no more to see what is wrong. */
const warningsMax = 50;

/** The key for a sentence, short and on one line: TOML allows any text as a key. */
function oneLine(name: string): string {
  return /^[\w.-]{1,80}$/.test(name) ? name : JSON.stringify(name.slice(0, 80));
}
