// Refuses what an app's own Dockerfile must not ask for: what BuildKit does itself, outside the steps that have rules and limits.
// Pure.
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";

const charactersMax = 100_000;
/** Docker's own reader of Dockerfiles, whatever its version. */
const usualSyntax = /^(?:docker\.io\/)?docker\/dockerfile(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?$/;
const remoteForm = /^(?:[a-z][a-z+]*:\/\/|[\w.-]+@[\w.-]+:|github\.com\/)/i;

/** Throws `BuildFailed` that names the instruction. */
export function checkDockerfile(text: string, path: string): void {
  const refuse = (what: string, advice: string): never => {
    throw new BuildFailed(`${path} ${what}. ${advice}, and ${buildAgain}.`);
  };
  if (text.length > charactersMax) {
    refuse(`has ${text.length} characters`, `At most ${charactersMax} are read: move parts into scripts`);
  }
  const syntax = syntaxOf(text);
  if (syntax !== null && !usualSyntax.test(syntax)) {
    refuse(
      `asks for another reader of Dockerfiles (syntax=${syntax.slice(0, 100)}), which would see the credentials of the build`,
      "Leave that line out, or name docker/dockerfile",
    );
  }
  const remote = candidatesOf(text).find((line) => isRemoteAdd(line));
  if (remote !== undefined) throw addressFetched(`${path}: ${remote.trim()}`);
}

/** The failure of a build in which the engine would fetch an address. */
export function addressFetched(step: string): BuildFailed {
  return new BuildFailed(
    `ADD of an address is not possible, since the engine would fetch it with the rights of its machine (${step.slice(0, 200)}). Fetch it in a step instead, with RUN and curl, wget or git, and ${buildAgain}.`,
  );
}

/** True for a step of a build whose title says that it fetches an address, as of an instruction ONBUILD of the base image. */
export function fetchesAddress(title: string): boolean {
  return /^(?:https?|git|ssh):\/\/|^git@/i.test(title) || isRemoteAdd(title.replace(/^\[[^\]]*\] /, ""));
}

/** BuildKit looks for it before the first instruction, in comments of several languages and in JSON. */
function syntaxOf(text: string): string | null {
  const lines = text.replace(/^\uFEFF/, "").split("\n");
  const end = lines.findIndex((line) => /^\s*(?:FROM|ARG)\s/i.test(line));
  const head = end === -1 ? lines : lines.slice(0, end);
  for (const line of head) {
    const [, value] = /\bsyntax"?\s*[=:]\s*"?([^\s",}]+)/i.exec(line.slice(0, 1000)) ?? [];
    if (value !== undefined) return value;
  }
  return null;
}

/** Whatever could be an instruction: each line by itself, and lines joined by each sign of continuation. */
function candidatesOf(text: string): string[] {
  const lines = text.split(/\r?\n/);
  const code = lines.filter((line) => !/^\s*(?:#|$)/.test(line));
  const joined = ["\\", "`"].flatMap((sign) => joinedBy(code, sign));
  return [...lines, ...joined];
}

function joinedBy(lines: readonly string[], sign: string): string[] {
  const found: string[] = [];
  let open = "";
  for (const line of lines) {
    const trimmed = line.trimEnd();
    if (trimmed.endsWith(sign)) {
      open += trimmed.slice(0, -1);
      continue;
    }
    found.push(open + line);
    open = "";
  }
  return [...found, open];
}

/** A variable may hold an address too. */
function isRemoteAdd(line: string): boolean {
  const [, rest] = /^\s*(?:ONBUILD\s+)*ADD\s+(.*)$/is.exec(line) ?? [];
  if (rest === undefined) return false;
  const words = rest.split(/[\s[\],"']+/).filter((word) => word !== "" && !word.startsWith("--"));
  return words.slice(0, -1).some((word) => remoteForm.test(word) || word.startsWith("$") || /\.git(?:#|$)/.test(word));
}
