// The check of `slipway doctor` on the database of the platform of this machine: how large it is,
// what takes the space, how it has grown since the platform was started, and which setting keeps it
// smaller. The platform says it to the operator's token in its data folder.
import { textOf } from "./answer.ts";
import { bootstrapFile, localUrlOf, readBootstrapFields } from "./bootstrap-file.ts";
import { boundedAnswer } from "./bounded-answer.ts";
import { findInstallation } from "./installation.ts";
import type { Finding } from "./doctor-docker.ts";
import { listenerOf } from "./listener-owner.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { sinceText } from "./since.ts";
import { bytesText } from "./sizes.ts";

type Database = {
  readonly bytes: number;
  readonly tables: readonly { readonly name: string; readonly bytes: number }[];
  readonly since: string;
  readonly bytesThen: number;
};

const answerMs = 10_000;
/** Smaller tables need no mention. */
const namedMin = 5_000_000;
const namedMax = 3;
/** Sooner after a start the growth of a day is a guess. */
const grownMsMin = 3_600_000;
const dayMs = 86_400_000;

const calls = [
  "records of calls",
  "SLIPWAY_CALL_RETENTION_DAYS, SLIPWAY_CALL_RECORDS_PER_MINUTE",
] as const;
const runs = ["async runs", "SLIPWAY_RUN_RETENTION_DAYS"] as const;
const deliveries = ["webhook deliveries", "SLIPWAY_RUN_RETENTION_DAYS"] as const;
/** What tables hold, and what keeps them smaller. Of others, people need only the name. */
const known = new Map<string, readonly [holds: string, settings: string]>([
  ["calls", calls],
  ["runs", runs],
  ["run_requests", ["requests of async runs", "SLIPWAY_RESULT_RETENTION_DAYS"]],
  ["run_results", ["results of async runs", "SLIPWAY_RESULT_RETENTION_DAYS"]],
  ["webhook_deliveries", deliveries],
  ["webhook_attempts", deliveries],
  ["app_logs", ["logs of apps", "SLIPWAY_LOG_RETENTION_DAYS"]],
  ["build_logs", ["logs of builds", "SLIPWAY_LOG_RETENTION_DAYS"]],
  ["audit_log", ["the audit log", "SLIPWAY_AUDIT_RETENTION_DAYS"]],
]);

/** Never a fault: the other checks say what does not work. */
export async function databaseCheck(machine: Machine): Promise<Finding> {
  const found = await readDatabase(machine);
  if (typeof found === "string") return { state: "ok", about: found };
  const large = found.tables.filter(({ bytes }) => bytes >= namedMin).slice(0, namedMax);
  const shares = large.map(
    ({ name, bytes }) => `${known.get(name)?.[0] ?? plain(name)} ${bytesText(bytes)}`,
  );
  const about = [bytesText(found.bytes), ...shares, grown(found)].join(", ");
  const settings = [...new Set(large.flatMap(({ name }) => known.get(name)?.[1] ?? []))];
  if (settings.length === 0) return { state: "ok", about };
  return {
    state: "ok",
    about,
    todo: `To keep it smaller: ${settings.join(", ")} (docs/settings.md).`,
  };
}

/** Space of deleted rows is used again, so growth ends where as much is deleted as is written. */
function grown({ bytes, bytesThen, since }: Database): string {
  const nowMs = Date.now();
  const ms = nowMs - Date.parse(since);
  if (ms < grownMsMin)
    return "growth not known yet: the platform was started less than an hour ago";
  const aDay = ((bytes - bytesThen) / ms) * dayMs;
  const started = `since the platform was started (${sinceText(since, nowMs)})`;
  if (aDay <= 0) return `not grown ${started}`;
  return `growing by ${bytesText(Math.round(aDay))} a day ${started}`;
}

const noAnswer = "not known: the platform of this folder does not answer";

/** A sentence: why it is not known. */
async function readDatabase({ environment }: Machine): Promise<Database | string> {
  const bootstrap = readBootstrap({ environment });
  if (bootstrap === null) return "not looked at: no platform was set up here";
  const listener = listenerOf(bootstrap.url, bootstrap.file);
  if (listener === "stranger")
    return "not known: a program of another user listens on the port of the platform of this folder";
  if (listener === "nobody") return noAnswer;
  try {
    const response = await fetch(`${bootstrap.url}/v2/operator/platform`, {
      headers: { authorization: `Bearer ${bootstrap.token}` },
      signal: AbortSignal.timeout(answerMs),
      redirect: "error",
    });
    const { status } = response;
    if (status === 401) return "not known: the operatorToken in bootstrap.json is no longer valid";
    if (status !== 200) return `not known: the platform answered with status ${status}`;
    const answer = (await boundedAnswer(response).json()) as { readonly database?: Database };
    return answer.database ?? "not known: the platform is of an older version";
  } catch {
    return noAnswer;
  }
}

function readBootstrap(
  machine: Pick<Machine, "environment">,
): { readonly url: string; readonly token: string; readonly file: string } | null {
  try {
    const installation = findInstallation(machine);
    const fields = readBootstrapFields(installation);
    if (fields === null) return null;
    const token = textOf(fields, "operatorToken");
    return { url: localUrlOf(fields), token, file: bootstrapFile(installation) };
  } catch {
    // Not set up, not readable for this user, or no installation.
    return null;
  }
}
