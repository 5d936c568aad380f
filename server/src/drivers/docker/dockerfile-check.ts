// Refuses what an app's own Dockerfile must not ask for: what BuildKit does itself, outside the
// steps that have rules and limits. Pure.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { grownCharacters } from "./dockerfile-growth.ts";

const charactersMax = 100_000;
const grownMax = 20_000_000;
/** Docker's own reader of Dockerfiles; earlier ones do not keep cache mounts of projects apart. */
const usualSyntax =
  /^(?:docker\.io\/)?docker\/dockerfile(?::(?:latest|labs|1(?:\.(?:[2-9]|\d\d)(?:\.\d+)?)?(?:-labs)?))?$/;
/** Ends the head: after a usual remark nothing is a directive. */
const remark = "# The Dockerfile of the app follows.";
/** An instruction ADD is read no further than that. */
const linesMax = 100;
/** White space as BuildKit knows it. */
const blank = "[\\s\\u0085]";
const addForm = new RegExp(`^${blank}*(?:ONBUILD${blank}+)*ADD${blank}+(.*)$`, "is");
const flagsForm = new RegExp(`^(?:--[^\\s\\u0085]*${blank}+)*`);
/** Ways to name another machine, or to compose such a name. */
const unusual = /:\/\/|[$\\`'"]|@[^,]*:|github\.com\//i;

/**
 * The Dockerfile to build: with a head in which nothing is left to how it is read. Throws
 * `BuildFailed` that names what is refused.
 */
export function checkDockerfile(text: string, path: string): string {
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
  const grown = grownCharacters(lines, escape === "`" ? "`" : "\\");
  if (grown > grownMax) {
    throw new BuildFailed(
      `${path} can grow to ${grown > 1e15 ? "over 1e15" : grown} characters when its variables are put in. At most ${grownMax} are possible: let ARG and ENV name fewer others, and ${buildAgain}.`,
    );
  }
  const remote = lines
    .keys()
    .map((index) => instructionsAt(lines, index).find((one) => isUnusualAdd(one)));
  const found = remote.find((one) => one !== undefined);
  if (found !== undefined) throw addressFetched(`${path}: ${found.trim()}`);
  const head = [
    ...(syntax === undefined ? [] : [`# syntax=${syntax}`]),
    ...(escape === "`" ? ["# escape=`"] : []),
    remark,
  ];
  return [...head, ...lines].join("\n");
}

/** The number of lines before the app's own in what `checkDockerfile` has returned. */
export function headLinesOf(dockerfile: string): number {
  return dockerfile.split("\n", 3).indexOf(remark) + 1;
}

/**
 * Whether it has here-documents and leaves it to the engine how they are read; older ones take them
 * for instructions.
 */
export function hasHereDocument(dockerfile: string): boolean {
  return (
    !dockerfile.startsWith("# syntax=") && /^\s*(?:RUN|COPY)\s.*<<-?["']?\w/im.test(dockerfile)
  );
}

/** The failure of a build in which the engine would fetch an address. */
export function addressFetched(step: string): BuildFailed {
  return new BuildFailed(
    `ADD is possible with plain names of files, not with addresses, variables or quotes: the engine would fetch an address with the rights of its machine (${step.slice(0, 200)}). Use COPY, or fetch it in a step with RUN and curl, wget or git, and ${buildAgain}.`,
  );
}

/**
 * True for a step of a build whose title says that it fetches an address, as of an instruction
 * ONBUILD of the base image.
 */
export function fetchesAddress(title: string): boolean {
  return (
    /^(?:https?|git|ssh):\/\/|^[^\s/]+@[^\s/]+:/i.test(title) ||
    isUnusualAdd(title.replace(/^\[[^\]]*\] /, ""))
  );
}

/** What the first lines ask for. */
function directivesOf(lines: readonly string[]): {
  readonly syntax?: string;
  readonly escape?: string;
} {
  const found = new Map<string, string>();
  for (const line of lines) {
    const [, name, value = ""] =
      /^#\s*([a-z][a-z0-9]*)\s*=\s*(\S.*)$/i.exec(line.slice(0, 1000)) ?? [];
    if (name === undefined) break;
    found.set(name.toLowerCase(), value.trim());
  }
  return Object.fromEntries(found);
}

/**
 * What may begin in this line: alone, and joined with the next lines by each sign of continuation.
 */
function instructionsAt(lines: readonly string[], index: number): string[] {
  const first = lines[index] ?? "";
  // ADD and ONBUILD may be cut themselves.
  if (!/^[\s\u0085]*[ao]/i.test(first)) return [];
  return [first, ...["\\", "`"].map((sign) => joinedFrom(lines, index, sign))].map((one) =>
    withoutSigns(one),
  );
}

function joinedFrom(lines: readonly string[], index: number, sign: string): string {
  let joined = "";
  let count = 0;
  for (let at = index; at < lines.length; at++) {
    const line = lines[at] ?? "";
    if (joined !== "" && /^[\s\u0085]*(?:#|$)/.test(line)) continue;
    const trimmed = line.trimEnd();
    if (!trimmed.endsWith(sign)) return joined + trimmed;
    joined += trimmed.slice(0, -1);
    // What comes after is not looked at, and must not be an address.
    if (++count === linesMax) return `${joined} $`;
  }
  return joined;
}

/** Without signs of continuation at the end. */
function withoutSigns(line: string): string {
  let end = line.length;
  while (end > 0 && /[\s\\`]/.test(line.charAt(end - 1))) end--;
  return line.slice(0, end);
}

function isUnusualAdd(line: string): boolean {
  const [, rest] = addForm.exec(line) ?? [];
  if (rest === undefined) return false;
  const [flags = ""] = flagsForm.exec(rest) ?? [];
  if (flags.includes("://")) return true;
  const words = rest.slice(flags.length).trim();
  const list = words.startsWith("[") ? listOf(words) : null;
  return list === null ? unusual.test(words) : list.some((word) => unusual.test(word));
}

/** Null for what is no list in JSON. */
function listOf(text: string): string[] | null {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list.map(String) : null;
  } catch {
    return null;
  }
}
