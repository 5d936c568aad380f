// What an app's folder says about itself, read from its TOML file as the platform reads it:
// `slipway.toml`, else `cerebrium.toml`. The platform checks the values; only what chooses files is
// checked here.
import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse, TomlError } from "smol-toml";
import { unreadable } from "./folder-entries.ts";
import { globTest, patternMax } from "./glob.ts";
import { Refused } from "./refused.ts";
import { readTextFile } from "./text-file.ts";

/** The folder of an app, and what its settings say. */
export type AppFolder = {
  /** The folder's absolute path. */
  readonly path: string;
  /** The app's TOML file; null: it has none. */
  readonly toml: { readonly file: string; readonly text: string } | null;
  /** As written in the TOML file; null: it is not. */
  readonly name: string | null;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** What `runtime.custom` says; null: the app is a `main.py`. */
  readonly custom: CustomRuntime | null;
  /** All that is below the table cerebrium. */
  readonly settings: Table;
  /** The path of the app's own storage, as written in the TOML file; null: it has none. */
  readonly storagePath: string | null;
};

/** A server that the app brings. */
export type CustomRuntime = {
  /** Empty: its Dockerfile says it. */
  readonly entrypoint: readonly string[] | string;
  readonly port: number;
  readonly isDockerfile: boolean;
};

/** A table of a TOML file. */
export type Table = Readonly<Record<string, unknown>>;

/** Names of the settings file; the first one that exists counts. */
export const tomlNames = ["slipway.toml", "cerebrium.toml"] as const;

/** The port of apps that name none. */
const portByDefault = 8000;

/**
 * Reads the folder. Throws `Refused` when there is no such folder, or when its TOML file cannot be
 * read.
 */
export function readAppFolder(given: string): AppFolder {
  const path = resolve(given === "" ? "." : given);
  if (!isFolder(path)) throw new Refused(`${path} is not a folder.`, { exitCode: 2 });
  const toml = readToml(path);
  const all = toml === null ? {} : parseToml(toml);
  const root = tableOf(all["cerebrium"]);
  const storagePath = tableOf(tableOf(all["slipway"])["storage"])["path"];
  const deployment = tableOf(root["deployment"]);
  const name = deployment["name"];
  return {
    path,
    toml,
    name: typeof name === "string" ? name : null,
    include: patternsOf(deployment, "include", ["*"], toml?.file),
    exclude: patternsOf(deployment, "exclude", [".*"], toml?.file),
    custom: customOf(tableOf(root["runtime"])["custom"]),
    settings: root,
    storagePath: typeof storagePath === "string" ? storagePath : null,
  };
}

function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  } catch (error) {
    throw unreadable(path, error);
  }
}

function readToml(folder: string): AppFolder["toml"] {
  for (const file of tomlNames) {
    try {
      return { file, text: readTextFile(join(folder, file), file) };
    } catch (error) {
      if (error instanceof Refused) throw error;
      if (error instanceof Error && "code" in error && error.code === "ENOENT") continue;
      throw unreadable(join(folder, file), error);
    }
  }
  return null;
}

function parseToml({ file, text }: { readonly file: string; readonly text: string }): Table {
  try {
    return parse(text, { maxDepth: 100 });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const why = error.message.split("\n")[0]?.replace(/^Invalid TOML document: /, "");
    throw new Refused(
      `${file} is not valid TOML at line ${error.line}, column ${error.column}: ${why}.`,
      {
        exitCode: 2,
        cause: error,
      },
    );
  }
}

function patternsOf(
  deployment: Table,
  key: "include" | "exclude",
  otherwise: readonly string[],
  file = "",
): readonly string[] {
  const value = deployment[key];
  const given: unknown = typeof value === "string" ? [value] : (value ?? otherwise);
  const isList =
    Array.isArray(given) && given.every((one): one is string => typeof one === "string");
  if (!isList)
    throw new Refused(`deployment.${key} in ${file} must be a list of patterns.`, { exitCode: 2 });
  const wrong = given.find((one) => globTest(one) === null);
  if (wrong === undefined) return given;
  throw new Refused(
    `deployment.${key} in ${file} has ${JSON.stringify(wrong.slice(0, patternMax))}, which is not a valid pattern: a bracket is not closed, or it has more than ${patternMax} characters.`,
    { exitCode: 2 },
  );
}

function customOf(given: unknown): CustomRuntime | null {
  if (given === undefined) return null;
  const { entrypoint, port, dockerfile_path: dockerfile } = tableOf(given);
  const isList =
    Array.isArray(entrypoint) && entrypoint.every((one): one is string => typeof one === "string");
  return {
    entrypoint: isList || typeof entrypoint === "string" ? entrypoint : [],
    port: typeof port === "number" ? port : portByDefault,
    isDockerfile: dockerfile !== undefined,
  };
}

/** The value as a table; empty when it is none. */
export function tableOf(value: unknown): Table {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Table)
    : {};
}
