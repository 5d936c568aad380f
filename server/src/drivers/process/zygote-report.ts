// What a zygote reports after it has imported its app. The app could write the file too, so nothing
// in it is trusted.
import type { ZygoteReport } from "#drivers/driver.ts";
import { isWhole, readBegin } from "./replica-files.ts";

/** An app cannot have more reasons than this, and none of a greater length. */
const reasonsMax = 20;
const reasonCharactersMax = 500;

/** Reads the report; null: there is none yet. */
export function readZygoteReport(path: string): ZygoteReport | null {
  const text = readBegin(path);
  const [line, ...rest] = text.split("\n");
  // What follows the last newline is not complete yet.
  if (line === undefined || rest.length === 0)
    return isWhole(text) ? null : { kind: "failed", reason: "its report is too long" };
  try {
    return reportOf(JSON.parse(line) as Record<string, unknown>);
  } catch {
    return { kind: "failed", reason: "its report cannot be read" };
  }
}

function reportOf({ zygote, reasons, error }: Record<string, unknown>): ZygoteReport {
  if (zygote === "ready") return { kind: "ready" };
  if (zygote !== "refused" || !Array.isArray(reasons))
    return { kind: "failed", reason: textOf(error) };
  return { kind: "refused", reasons: reasons.slice(0, reasonsMax).map((reason) => textOf(reason)) };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value.slice(0, reasonCharactersMax) : "it reported nothing";
}
