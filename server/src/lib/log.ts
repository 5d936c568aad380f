// Structured logs of the platform itself (not of apps): pino, pretty on a terminal, JSON lines elsewhere.
import { pino, type DestinationStream, type Logger } from "pino";
import pretty from "pino-pretty";

export type Log = Logger;

/** Paths whose values never reach the log, wherever they turn up in a logged object. */
const redacted = [
  "authorization",
  "headers.authorization",
  "*.authorization",
  "token",
  "*.token",
  "password",
  "*.password",
];

/** Makes the platform's log. `to` is standard error unless given, since standard output carries the ready line. */
export function createLog(options: { level: string; pretty: boolean; to?: DestinationStream }): Log {
  const settings = { level: options.level, redact: redacted, base: null };
  if (options.to !== undefined) return pino(settings, options.to);
  const to = options.pretty ? pretty({ destination: 2, colorize: true, sync: true }) : pino.destination(2);
  return pino(settings, to);
}

/** A log that keeps nothing, for tools and tests that look at results only. */
export const silentLog: Log = pino({ level: "silent" });
