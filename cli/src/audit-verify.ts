// `slipway audit verify`: verifies an exported audit log on any machine, given only the file and
// the platform's public keys.
import { createReadStream } from "node:fs";
import { readKeys } from "./audit-keys.ts";
import { command } from "./command.ts";
import { printJson } from "./output.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";
import type { Intact, Verdict } from "./verify/verdict.ts";
import { verifyExport } from "./verify/verify-export.ts";

const about = `
Verifies an audit log that was exported as NDJSON: no entry was altered, removed, moved or inserted; with --keys, the
platform signed it; with --earlier, nothing in an earlier export was rewritten. It needs no platform and no sign-in.
Reports the first place that does not match.

Exit code 0: the log is intact. 1: it is not. 2: the file cannot be verified.`;

/** The command that verifies an export of the audit log. */
export const verifyAudit = command({
  name: "audit verify",
  about,
  examples: ["audit verify audit.ndjson --keys https://slipway.example.org/.well-known/jwks.json"],
  operands: [{ name: "file", about: 'The exported file, or "-" for standard input.' }],
  options: {
    keys: {
      value: "<jwks>",
      about: "Public keys of the platform: a file, or the URL of its /.well-known/jwks.json.",
    },
    earlier: {
      value: "<file>",
      about: "An earlier export of the same log, which this one must continue.",
    },
  },
  async run(given, machine) {
    const source = given.text("keys");
    const keys = source === undefined ? null : await readKeys(source);
    const earlierFile = given.text("earlier");
    const earlier = earlierFile === undefined ? null : await verifyEarlier(earlierFile, keys);
    const verdict = await verify(given.operand("file"), keys, earlier);
    if (given.has("json")) printJson(machine, verdict);
    else if (verdict.result === "intact") machine.print(intactText(verdict) + earlierText(earlier));
    else machine.tell(plain(verdict.message));
    if (verdict.result === "intact" && keys === null) {
      machine.tell("The signatures were NOT checked: pass the platform's public keys with --keys.");
    }
    return { intact: 0, broken: 1, unverifiable: 2 }[verdict.result];
  },
});

type Keys = Parameters<typeof verifyExport>[1];

/** The earlier export must itself be intact. */
async function verifyEarlier(file: string, keys: Keys): Promise<Intact> {
  const verdict = await verify(file, keys, null);
  if (verdict.result === "intact") return verdict;
  throw new Refused(`The earlier export ${file} cannot be used: ${plain(verdict.message)}`, {
    exitCode: 2,
  });
}

async function verify(file: string, keys: Keys, earlier: Intact | null): Promise<Verdict> {
  const bytes = file === "-" ? process.stdin : createReadStream(file, { highWaterMark: 1 << 20 });
  try {
    return await verifyExport(bytes, keys, earlier);
  } catch (error) {
    if (!(error instanceof Error) || !("syscall" in error)) throw error;
    throw new Refused(`${file} cannot be read: ${error.message}.`, { exitCode: 2, cause: error });
  }
}

function earlierText(earlier: Intact | null): string {
  if (earlier === null) return "";
  return `\nIt continues the earlier export from ${plain(earlier.exportedAt)}, which ended with ${earlier.through.number}.`;
}

function intactText({
  project,
  exportedAt,
  after,
  through,
  stub,
  checkpoints,
  areSigned,
}: Intact): string {
  const of = project === null ? "no project" : `the project ${plain(project)}`;
  const count = through.number - after.number;
  return [
    `Intact: ${count} ${count === 1 ? "entry" : "entries"} of ${of}, exported at ${plain(exportedAt)}.`,
    ...(count === 0 ? [] : [`Numbers ${after.number + 1} to ${through.number}.`]),
    ...(stub === null
      ? []
      : [
          `Retention has removed the ${after.number} entries before these, all older than ${plain(stub.before)}.`,
        ]),
    ...(areSigned
      ? [
          `The signatures of the header${stub === null ? "" : ", the stub"} and ${checkpoints} checkpoints are valid.`,
        ]
      : []),
  ].join("\n");
}
