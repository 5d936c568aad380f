// The WebSocket messages of a command in a replica, in the format of Kubernetes: the first byte is
// the channel. Pure.
import type { z } from "zod";
import { execChannels, type execStatus } from "@slipway/contract/exec-routes.ts";

/** The meaning of a client's message. */
export type ExecInput =
  | { readonly kind: "stdin"; readonly bytes: Buffer }
  | { readonly kind: "resize"; readonly columns: number; readonly rows: number }
  | { readonly kind: "close" }
  /** The message has no meaning here, and is ignored. */
  | { readonly kind: "unknown" };

/** The maximum number of columns and of rows of a terminal. */
const sideMax = 2_000;
/** A longer message is no size of a terminal: the JSON of two numbers is much shorter. */
const resizeBytesMax = 200;

/** Reads a message of a client. */
export function readFrame(message: Buffer): ExecInput {
  const [channel] = message;
  const bytes = message.subarray(1);
  if (channel === execChannels.stdin) return { kind: "stdin", bytes };
  // After the channel `close` comes the channel that is closed.
  if (channel === execChannels.close && bytes[0] === execChannels.stdin) return { kind: "close" };
  return channel === execChannels.resize ? readSize(bytes) : { kind: "unknown" };
}

/** A message of the platform to the client. */
export function frame(channel: "stdout" | "stderr" | "status", bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.of(execChannels[channel]), bytes]);
}

/**
 * The JSON that tells the client how its command ended. `message` is null when it ended by itself.
 */
export function execStatusOf({
  exitCode,
  message,
}: {
  exitCode: number | null;
  message: string | null;
}): Buffer {
  return Buffer.from(JSON.stringify(shownEnd(exitCode, message)));
}

function shownEnd(exitCode: number | null, message: string | null): z.infer<typeof execStatus> {
  if (exitCode === 0 && message === null) return { metadata: {}, status: "Success" };
  const causes = exitCode === null ? [] : [{ reason: "ExitCode", message: String(exitCode) }];
  return {
    metadata: {},
    status: "Failure",
    message: message ?? `The command ended with exit code ${exitCode ?? "unknown"}.`,
    reason: message === null ? "NonZeroExitCode" : "InternalError",
    details: { causes },
  };
}

/** Reads the size of a terminal, as `{"Width": 80, "Height": 24}`. */
function readSize(bytes: Buffer): ExecInput {
  if (bytes.length > resizeBytesMax) return { kind: "unknown" };
  try {
    const size = JSON.parse(bytes.toString("utf8")) as Readonly<Record<string, unknown>> | null;
    const columns = size?.["Width"];
    const rows = size?.["Height"];
    return isSide(columns) && isSide(rows)
      ? { kind: "resize", columns, rows }
      : { kind: "unknown" };
  } catch {
    return { kind: "unknown" };
  }
}

function isSide(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= sideMax;
}
