// What a TOML file sets, as the new-app page shows it before the platform reads the file. Pure;
// loaded when somebody pastes one.
import { parse, TomlError } from "smol-toml";
import { fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import { problemOfValue, rowOf } from "./setting-values.ts";

/** One setting of the file. */
export type TomlSetting = {
  readonly path: string;
  /** Null: dependencies and commands, which are no fields. */
  readonly name: FieldName | null;
  readonly value: unknown;
  readonly problem: string;
};

/** `problem`: why the file as a whole cannot be read. */
export type TomlContent = {
  readonly settings: readonly TomlSetting[];
  readonly unknown: readonly string[];
  readonly problem: string;
};

const others =
  /^(?:deployment\.(?:pre_build_commands|shell_commands)|dependencies\.(?:pip|apt|conda|paths))$/;
/** For uploads only, or without a value of their own. */
const silent = /^(?:deployment\.(?:include|exclude)|runtime\.cortex)$/;
const tables = new Set([
  "deployment",
  "hardware",
  "scaling",
  "dependencies",
  "runtime",
  "runtime.custom",
  "slipway.build",
  "slipway.git",
]);
/** A file of hostile size is cut off here. */
const shownMax = 200;

const namesByPath = new Map(fieldNames.flatMap((name) => [[rowOf(name).toml, name] as const]));

/** The settings below the tables `cerebrium` and `slipway`. */
export function readTomlSettings(text: string): TomlContent {
  let root: Readonly<Record<string, unknown>>;
  try {
    root = parse(text, { maxDepth: 100 });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [reason = ""] = error.message.replace(/^Invalid TOML document: /, "").split("\n");
    return {
      settings: [],
      unknown: [],
      problem: `Not valid TOML at line ${error.line}: ${reason}.`,
    };
  }
  const settings: TomlSetting[] = [];
  const unknown = Object.keys(root).filter((key) => key !== "cerebrium" && key !== "slipway");
  const read = (path: string, value: unknown): void => {
    const name = namesByPath.get(path);
    if (path === "runtime.custom")
      settings.push({ path, name: "runtime", value: "custom", problem: "" });
    if (name !== undefined)
      settings.push({ path, name, value, problem: problemOfToml(name, value) });
    else if (others.test(path)) settings.push({ path, name: null, value, problem: "" });
    else if (tables.has(path) && isTable(value)) enter(path, value);
    else if (!silent.test(path)) unknown.push(path);
  };
  const enter = (prefix: string, table: Readonly<Record<string, unknown>>): void => {
    for (const [key, value] of Object.entries(table))
      read(prefix === "" ? key : `${prefix}.${key}`, value);
  };
  const { cerebrium, slipway } = root;
  if (isTable(cerebrium)) enter("", cerebrium);
  if (isTable(slipway)) enter("slipway", slipway);
  const problem =
    isTable(cerebrium) || isTable(slipway)
      ? ""
      : "It has no table cerebrium, so that it sets nothing.";
  return { settings: settings.slice(0, shownMax), unknown: unknown.slice(0, shownMax), problem };
}

function problemOfToml(name: FieldName, value: unknown): string {
  // As the platform reads files of existing apps.
  if (name === "pythonVersion" && typeof value === "number") return "";
  if (name === "entrypoint" && typeof value === "string") return "";
  return problemOfValue(name, value);
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date)
  );
}
