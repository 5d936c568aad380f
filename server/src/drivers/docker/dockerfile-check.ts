// Refuses instructions that an app's own Dockerfile must not contain: those that BuildKit carries
// out itself, outside the steps that have rules and limits. Pure.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { growthOf } from "./dockerfile-growth.ts";

/** The maximum size of a Dockerfile. */
const charactersMax = 100_000;
/** The maximum of `Growth.characters`. */
const expandedMax = 20_000_000;
/** The maximum of `Growth.copied`: copying that much takes the engine a minute of one core. */
const copiedMax = 1e11;
/** Docker's own reader of Dockerfiles, from 1.2 on: older ones let projects share cache mounts. */
const usualSyntax =
  /^(?:docker\.io\/)?docker\/dockerfile(?::(?:latest|labs|1(?:\.(?:[2-9]|\d\d)(?:\.\d+)?)?(?:-labs)?))?$/;
/**
 * Stands between the directives that `checkDockerfile` states and the app's own lines: BuildKit
 * reads no directives after an ordinary comment.
 */
const remark = "# The Dockerfile of the app follows.";
/** The maximum number of lines from which an ADD instruction is joined. */
const linesMax = 100;
/** White space as BuildKit knows it. */
const blank = "[\\s\\u0085]";
/** An ADD instruction; its group has what follows the word. */
const addForm = new RegExp(`^${blank}*(?:ONBUILD${blank}+)*ADD${blank}+(.*)$`, "is");
/** The flags at the beginning of what follows the word. */
const flagsForm = new RegExp(`^(?:--[^\\s\\u0085]*${blank}+)*`);
/** Ways to name another machine, or to compose such a name. */
const unusual = /:\/\/|[$\\`'"]|@[^,]*:|github\.com\//i;

/**
 * Returns the Dockerfile to build. A head before its lines repeats the directives as they were read
 * here, so that BuildKit cannot read them differently. `variables` are the arguments of the build.
 * Throws a `BuildFailed` that says what is refused.
 */
export function checkDockerfile(
  text: string,
  path: string,
  variables: Readonly<Record<string, string>> = {},
): string {
  if (text.length > charactersMax) {
    throw new BuildFailed(
      `${path} has ${text.length} characters. At most ${charactersMax} are read: move parts into scripts, and ${buildAgain}.`,
    );
  }
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  const { syntax, escape } = directivesOf(lines);
  if (syntax !== undefined && !usualSyntax.test(syntax)) {
    throw new BuildFailed(
      `${path} asks for another reader of Dockerfiles (syntax=${syntax.slice(0, 100)}), which would see the credentials of the build. Leave that line out, or name docker/dockerfile, from 1.2 on, and ${buildAgain}.`,
    );
  }
  const refused = lines
    .keys()
    .flatMap((index) => instructionsAt(lines, index))
    .find((instruction) => isUnusualAdd(instruction));
  if (refused !== undefined) throw addressFetched(`${path}: ${refused.trim()}`);
  // The head below leaves out any other value, so BuildKit too reads with the usual backslash.
  const reading = { escape: escape === "`" ? "`" : "\\", variables };
  const { characters, copied, unclear } = growthOf(lines, reading);
  if (unclear !== null) {
    throw new BuildFailed(
      `It is unclear where the here-documents of an instruction in ${path} end (${unclear.trim().slice(0, 200)}). Name each of them once, with letters, digits and underscores; in COPY and ADD, use at most 100, and no quotes except around the name; then ${buildAgain}.`,
    );
  }
  if (characters > expandedMax) {
    // `growthOf` cuts off larger sizes, so a larger number would not be exact.
    const grown = characters >= 1e15 ? "over 1e15" : characters;
    throw new BuildFailed(
      `${path} can grow to ${grown} characters when its variables are put in. At most ${expandedMax} are allowed: use fewer variables in the values of ARG and ENV, and ${buildAgain}.`,
    );
  }
  if (copied > copiedMax) {
    throw new BuildFailed(
      `Instructions of ${path} can grow so long when its variables are put in that the engine would read them for minutes (one of 300,000 characters is about the limit): use fewer variables in the values of ARG and ENV, and ${buildAgain}.`,
    );
  }
  const head = [
    ...(syntax === undefined ? [] : [`# syntax=${syntax}`]),
    ...(escape === "`" ? ["# escape=`"] : []),
    remark,
  ];
  return [...head, ...lines].join("\n");
}

/** Returns the number of lines that `checkDockerfile` has put before the app's own. */
export function headLinesOf(dockerfile: string): number {
  // The head has one to three lines, of which the remark is the last.
  return dockerfile.split("\n", 3).indexOf(remark) + 1;
}

/**
 * Whether the Dockerfile has here-documents but names no syntax, so that the engine decides how to
 * read them: older engines take their lines for instructions.
 */
export function hasHereDocument(dockerfile: string): boolean {
  return (
    !dockerfile.startsWith("# syntax=") && /^\s*(?:RUN|COPY)\s.*<<-?["']?\w/im.test(dockerfile)
  );
}

/** Returns the failure of a build in which the engine would fetch an address. */
export function addressFetched(step: string): BuildFailed {
  return new BuildFailed(
    `ADD is possible with plain names of files, not with addresses, variables or quotes: the engine would fetch an address with the rights of its machine (${step.slice(0, 200)}). Use COPY, or fetch it in a step with RUN and curl, wget or git, and ${buildAgain}.`,
  );
}

/**
 * Whether the title of a build's step shows that the step fetches an address, for example because
 * of an ONBUILD instruction of the base image.
 */
export function fetchesAddress(title: string): boolean {
  return (
    /^(?:https?|git|ssh):\/\/|^[^\s/]+@[^\s/]+:/i.test(title) ||
    isUnusualAdd(title.replace(/^\[[^\]]*\] /, ""))
  );
}

/** Returns the directives in the first lines; reads only the first 1000 characters of each line. */
function directivesOf(lines: readonly string[]): {
  readonly syntax?: string;
  readonly escape?: string;
} {
  const directives = new Map<string, string>();
  for (const line of lines) {
    const [, name, value = ""] =
      /^#\s*([a-z][a-z0-9]*)\s*=\s*(\S.*)$/i.exec(line.slice(0, 1000)) ?? [];
    if (name === undefined) break;
    directives.set(name.toLowerCase(), value.trim());
  }
  return Object.fromEntries(directives);
}

/**
 * Returns the instructions that may begin in this line: the line alone, and the line joined with
 * the next ones, for each of the two continuation characters.
 */
function instructionsAt(lines: readonly string[], index: number): string[] {
  const first = lines[index] ?? "";
  // Only the first letter is compared, since a line may end within the word ADD or ONBUILD.
  if (!/^[\s\u0085]*[ao]/i.test(first)) return [];
  const joined = ["\\", "`"].map((sign) => joinedFrom(lines, index, sign));
  return [first, ...joined].map((instruction) => withoutSigns(instruction));
}

/** Returns the line, joined with the next ones while `sign` continues it. */
function joinedFrom(lines: readonly string[], index: number, sign: string): string {
  let joined = "";
  let count = 0;
  for (let at = index; at < lines.length; at++) {
    const line = lines[at] ?? "";
    // Comments and empty lines may stand within an instruction.
    if (joined !== "" && /^[\s\u0085]*(?:#|$)/.test(line)) continue;
    const trimmed = line.trimEnd();
    if (!trimmed.endsWith(sign)) return joined + trimmed;
    joined += trimmed.slice(0, -1);
    // The `$` makes a longer ADD unusual: its other lines are not read, and could name an address.
    count++;
    if (count === linesMax) return `${joined} $`;
  }
  return joined;
}

/** Removes continuation characters at the end. */
function withoutSigns(line: string): string {
  let end = line.length;
  while (end > 0 && /[\s\\`]/.test(line.charAt(end - 1))) end--;
  return line.slice(0, end);
}

/** Whether the line is an ADD instruction that may fetch an address. */
function isUnusualAdd(line: string): boolean {
  const [, rest] = addForm.exec(line) ?? [];
  if (rest === undefined) return false;
  const [flags = ""] = flagsForm.exec(rest) ?? [];
  if (flags.includes("://")) return true;
  const names = rest.slice(flags.length).trim();
  const list = names.startsWith("[") ? listOf(names) : null;
  return list === null ? unusual.test(names) : list.some((name) => unusual.test(name));
}

/** Returns a list in JSON; null for any other text. */
function listOf(text: string): string[] | null {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list.map(String) : null;
  } catch {
    return null;
  }
}
