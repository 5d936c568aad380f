// Structured logs of the platform itself (not of apps): pino, as lines of text for people or of
// JSON for programs.
import { pino, type DestinationStream, type Logger } from "pino";
import { prettyFactory } from "pino-pretty";

export type Log = Logger;

/** Values that never reach the log: fields of a logged object, and fields of the objects in it. */
const redacted = [
  "authorization",
  "headers.authorization",
  "*.authorization",
  "token",
  "*.token",
  "password",
  "*.password",
];

const standardError = 2;

/** How many nested causes of an error are shown, and how many errors of an `AggregateError`. */
const causesMax = 5;

/**
 * The parts of an error that the log shows. Leaves out properties that libraries add, such as a
 * client with its settings or the values of a row.
 */
function shownError(error: unknown, depth = 0): unknown {
  // A thrown object that is no error may contain anything; text and numbers are shown.
  if (!(error instanceof Error)) return typeof error === "object" ? "[not an error]" : error;
  const code = "code" in error && typeof error.code === "string" ? { code: error.code } : {};
  const shown = { type: error.name, message: error.message, ...code, stack: error.stack };
  if (depth >= causesMax) return shown;
  const cause = error.cause === undefined ? {} : { cause: shownError(error.cause, depth + 1) };
  const inner: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  const shownInner = inner.slice(0, causesMax).map((each) => shownError(each, depth + 1));
  const errors = shownInner.length === 0 ? {} : { errors: shownInner };
  return { ...shown, ...cause, ...errors };
}

/**
 * Creates the platform's log. `to` defaults to standard error, since standard output carries the
 * ready line.
 */
export function createLog(options: {
  level: string;
  pretty: boolean;
  to?: DestinationStream;
}): Log {
  const serializers = { err: (error: unknown) => shownError(error) };
  const settings = { level: options.level, redact: redacted, base: null, serializers };
  const to = options.to ?? pino.destination(standardError);
  if (!options.pretty) return pino(settings, to);
  const textOf = prettyFactory({
    colorize: options.to === undefined && process.stderr.isTTY,
    singleLine: true,
    translateTime: "SYS:HH:MM:ss",
  });
  return pino(settings, { write: (line) => to.write(textOf(line) ?? "") });
}

/** A log that writes nothing, for tools and tests that only need results. */
export const silentLog: Log = pino({ level: "silent" });
