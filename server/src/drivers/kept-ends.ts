// Keeps the ends and last lines of replicas that end while no platform runs, as with `npm run
// stop`, in a file until the next platform stores them. So the replicas themselves can be removed
// at once.
import { appendFileSync, createReadStream, existsSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { ReplicaEvent, ReplicaLine, ReplicaSink } from "./driver.ts";
import { storeLines } from "./stored-lines.ts";

/** A line of the file. */
type Entry = { readonly event: ReplicaEvent } | { readonly lines: readonly ReplicaLine[] };

/** The maximum size of the file; further lines are dropped. */
const bytesMax = 64_000_000;
const dropped =
  "[slipway] Further lines were dropped: while the platform is stopped, only a limited number is kept.";

/** Returns a sink that appends to the file. */
export function keepingSink(file: string): ReplicaSink {
  /** The replicas whose further lines are dropped. */
  const cutOff = new Set<ReplicaId>();
  const append = (entry: Entry): void =>
    appendFileSync(file, `${onOneLine(entry)}\n`, { mode: 0o600 });
  return {
    event(event) {
      if (event.kind === "exited") append({ event });
    },
    lines(lines) {
      const isFull = existsSync(file) && statSync(file).size >= bytesMax;
      if (!isFull) append({ lines });
      const [first] = lines;
      if (isFull && first !== undefined && !cutOff.has(first.replicaId)) {
        cutOff.add(first.replicaId);
        append({ lines: [{ ...first, runId: null, text: dropped }] });
      }
      return Promise.resolve();
    },
  };
}

/** Delivers the content of the file to the sink, and removes the file. */
export async function deliverKept(
  file: string,
  sink: ReplicaSink,
  { clock }: { readonly clock: Clock },
): Promise<void> {
  if (!existsSync(file)) return;
  const events: ReplicaEvent[] = [];
  const options = {
    clock,
    lines: (lines: readonly ReplicaLine[]) => sink.lines(lines),
    signal: neverAborted,
  };
  for await (const text of createInterface({ input: createReadStream(file) })) {
    const entry = parse(text);
    if (entry !== null && "lines" in entry) await storeLines(entry.lines, options);
    else if (entry !== null) events.push(entry.event);
  }
  // Events come last: once an exit is reported, lines of its replica belong to no known app.
  for (const event of events) sink.event(event);
  await rm(file, { force: true });
}

/** A signal that nothing aborts: all lines are stored, or given up after the last attempt. */
const neverAborted = new AbortController().signal;

/** Escapes two more characters that readers take for the end of a line: apps may print them. */
function onOneLine(entry: Entry): string {
  return JSON.stringify(entry).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}

/** Returns null for a line that was not written completely. */
function parse(text: string): Entry | null {
  try {
    const entry = JSON.parse(text) as Partial<Record<"event" | "lines", object>> | null;
    const isComplete = Array.isArray(entry?.lines) || typeof entry?.event === "object";
    return isComplete ? (entry as Entry) : null;
  } catch {
    return null;
  }
}
