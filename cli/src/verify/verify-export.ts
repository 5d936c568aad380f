// Verifies an exported audit log with only the file and the public keys, in one pass and constant
// memory. Reports the first place where it was altered, or where something is missing, out of order
// or inserted.
import type { PublicKeys } from "@slipway/server/src/audit/chain/chain-signature.ts";
import { exportVersion } from "@slipway/server/src/audit/export/export-format.ts";
import { ChainCheck, lineFaultOf } from "./chain-check.ts";
import { LineReader, parseLine, parseObject, type TextLine } from "./export-reader.ts";
import { broken, type Intact, type Unverifiable, type Verdict } from "./verdict.ts";
import { headerFault, positionFault } from "./verify-earlier.ts";
import { surveyRest } from "./verify-survey.ts";

/**
 * `keys`: null skips signatures, and then a complete rewrite of the chain goes unnoticed.
 * `earlier`: a verified export that this one must continue.
 */
export async function verifyExport(
  bytes: AsyncIterable<Uint8Array>,
  keys: PublicKeys | null,
  earlier: Intact | null = null,
): Promise<Verdict> {
  const reader = new LineReader(bytes);
  const header = await readHeader(await reader.next(), keys);
  if ("result" in header) return header;
  const fault = earlier === null ? null : headerFault(header, earlier);
  if (fault !== null) return fault;
  const check = new ChainCheck(header, keys);
  for (let line = await reader.next(); line !== undefined; line = await reader.next()) {
    const doubt = await check.take(line);
    if (doubt === null) {
      const differs = earlier === null ? null : positionFault(check.position, line.line, earlier);
      if (differs !== null) return differs;
      continue;
    }
    if ("result" in doubt) return doubt;
    return doubt.judge(await surveyRest(reader, doubt.sought));
  }
  return check.end(reader.line);
}

const beginOfHeader = '{"kind":"slipway-audit-export"';

async function readHeader(line: TextLine | undefined, keys: PublicKeys | null) {
  if (line?.isEnded === false && line.text?.startsWith(beginOfHeader) === true) {
    return broken("truncated", 1, null, "The file ends within line 1.");
  }
  const loose = line?.text === null || line === undefined ? null : parseObject(line.text);
  if (line === undefined || loose?.["kind"] !== "slipway-audit-export") {
    return unverifiable(
      "The first line of the file is not that of an exported audit log (NDJSON).",
    );
  }
  if (loose["version"] !== exportVersion) {
    return unverifiable(
      `The file has format version ${String(loose["version"])}; this program reads version ${exportVersion}.`,
    );
  }
  const header = parseLine(line.text);
  if (header?.kind !== "slipway-audit-export")
    return broken("altered", 1, null, "Line 1, the header, was altered.");
  const fault = await lineFaultOf(header, header.project, keys);
  if (fault !== null) return broken(fault.trouble, 1, null, `Line 1, the header, ${fault.what}.`);
  if (header.filter !== null) {
    return unverifiable("The export was filtered: only an export of all entries can be verified.");
  }
  if (header.through.number < header.after.number)
    return broken("altered", 1, null, "Line 1, the header, was altered.");
  return header;
}

function unverifiable(message: string): Unverifiable {
  return { result: "unverifiable", message };
}
