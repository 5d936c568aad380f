// Says which content codings an app may use for an answer that its caller does not receive itself.
// Pure.
import { trimmed } from "./fields.ts";

const field = /^accept-encoding:/i;

/**
 * The field lines of a request whose answer is kept for others: clients ask for compression by
 * themselves and would undo it, but who gets the answer does not know what was asked. Unchanged
 * when the caller refuses an answer without a coding.
 */
export function askingForIdentity(lines: string): string {
  if (refusesIdentity(lines)) return lines;
  const others = lines.split("\r\n").filter((line) => !field.test(line));
  return `Accept-Encoding: identity\r\n${others.join("\r\n")}`;
}

/**
 * True when the caller has said in so many words that the answer must have a coding (RFC 9110,
 * 12.5.3).
 */
export function refusesIdentity(lines: string): boolean {
  const all = lines.split("\r\n").filter((line) => field.test(line));
  const wishes = all.flatMap((line) =>
    trimmed(line, line.indexOf(":") + 1, line.length).split(","),
  );
  const weights = new Map(wishes.map((wish) => [codingOf(wish), weightOf(wish)]));
  return (weights.get("identity") ?? weights.get("*") ?? 1) === 0;
}

function codingOf(wish: string): string {
  return (wish.split(";")[0] ?? "").trim().toLowerCase();
}

function weightOf(wish: string): number {
  const weight = /;\s*q\s*=\s*([0-9.]+)\s*$/i.exec(wish)?.[1];
  return weight === undefined ? 1 : Number(weight);
}
