// Changes records in DNS by a program of the operator, which learns from its environment what to
// do. The program gets none of the platform's settings and secrets.
import { runCommand } from "#lib/command.ts";
import type { Clock } from "#lib/clock.ts";
import { oneLine } from "#lib/one-line.ts";
import { AuthorityError } from "./authority.ts";
import type { TxtRecords, TxtRecord } from "./dns-records.ts";

export type DnsHookOptions = {
  /** The program, as an absolute path. */
  readonly program: string;
  /** The environment of tools: PATH, proxies. */
  readonly environment: Readonly<Record<string, string>>;
  readonly clock: Clock;
};

/** How long the program may run. */
const runMs = 120_000;
/** How much of what it prints is kept for the reason of a failure. */
const messageLengthMax = 500;

/** Records that a program changes. */
export class DnsHook implements TxtRecords {
  readonly #options: DnsHookOptions;

  constructor(options: DnsHookOptions) {
    this.#options = options;
  }

  add(record: TxtRecord, signal: AbortSignal): Promise<void> {
    return this.#run("present", record, signal);
  }

  /** Also runs the program after the order was given up, since the record must not stay. */
  remove(record: TxtRecord): Promise<void> {
    return this.#run("cleanup", record, new AbortController().signal);
  }

  async #run(action: string, { name, value }: TxtRecord, signal: AbortSignal): Promise<void> {
    const { program, environment, clock } = this.#options;
    let message = "";
    const end = await runCommand({
      command: [program],
      cwd: "/",
      environment: {
        ...environment,
        DNS_ACTION: action,
        DNS_RECORD_NAME: name,
        DNS_RECORD_VALUE: value,
      },
      signal,
      timeoutMs: runMs,
      clock,
      onLine: (_stream, line) => {
        message = `${message}${line}\n`.slice(-messageLengthMax);
      },
    });
    if (end.kind === "exited" && end.exitCode === 0) return;
    const how = {
      exited: end.kind === "exited" ? `ended with exit code ${end.exitCode}` : "",
      not_started: end.kind === "not_started" ? `did not start: ${end.reason}` : "",
      timeout: `did not end within ${runMs / 60_000} minutes`,
      aborted: "was stopped",
      cut_off: "was stopped",
    }[end.kind];
    const said = oneLine(message.trim());
    throw new AuthorityError(
      `the DNS hook ${program} (${action}) ${how}${said === "" ? "" : `: ${said}`}`,
    );
  }
}
