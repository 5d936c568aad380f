// Decides which content codings an app may use for an answer that its caller does not receive
// itself. Pure.
import { codingWeights } from "#lib/coding-weights.ts";
import { linesWithout, trimmed } from "./fields.ts";

const field = /^accept-encoding:/i;
const fieldName: ReadonlySet<string> = new Set(["accept-encoding"]);

/**
 * Changes the field lines of a request whose answer somebody else reads later. They then ask for an
 * answer without a coding: the caller's HTTP client may accept compression, but the later reader
 * may not expect it. The lines stay unchanged if the caller refuses an answer without a coding.
 */
export function askingForIdentity(lines: string): string {
  if (refusesIdentity(lines)) return lines;
  return `Accept-Encoding: identity\r\n${linesWithout(lines, fieldName)}`;
}

/** True when the caller explicitly refuses an answer without a coding (RFC 9110, 12.5.3). */
export function refusesIdentity(lines: string): boolean {
  const fieldLines = lines.split("\r\n").filter((line) => field.test(line));
  const values = fieldLines.map((line) => trimmed(line, line.indexOf(":") + 1, line.length));
  const weights = codingWeights(values.join(","));
  // `identity` means no coding, and `*` all codings that are not named.
  const identityWeight = weights.get("identity") ?? weights.get("*");
  return identityWeight === 0;
}
