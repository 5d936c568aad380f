// Ends and last lines of replicas that end while no platform runs, as with `npm run stop`: kept in
// a file until the next platform stores them, so that nothing has to be left of the replicas
// themselves.
import { appendFileSync, createReadStream, existsSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { ReplicaEvent, ReplicaLine, ReplicaSink } from "./driver.ts";
import { storeLines } from "./stored-lines.ts";

/** A line of the file. */
type Kept = { readonly event: ReplicaEvent } | { readonly lines: readonly ReplicaLine[] };

/** What the kept lines of all replicas may hold together; lines beyond it are dropped. */
const bytesMax = 64_000_000;
const dropped =
  "[slipway] Further lines were dropped: the platform was stopped, and keeps a bounded number of them until its start.";

/** Appends to the file. */
export function keepingSink(file: string): ReplicaSink {
  const isFull = new Set<ReplicaId>();
  const keep = (kept: Kept): void => appendFileSync(file, `${onOneLine(kept)}\n`, { mode: 0o600 });
  return {
    event: (event) => event.kind === "exited" && keep({ event }),
    lines(lines) {
      const hasRoom = !existsSync(file) || statSync(file).size < bytesMax;
      if (hasRoom) keep({ lines });
      const [first] = lines;
      if (!hasRoom && first !== undefined && !isFull.has(first.replicaId)) {
        isFull.add(first.replicaId);
        keep({ lines: [{ ...first, runId: null, text: dropped }] });
      }
      return Promise.resolve();
    },
  };
}

/** Delivers what the file keeps to the sink, and removes the file. */
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
    signal: never,
  };
  for await (const text of createInterface({ input: createReadStream(file) })) {
    const kept = parse(text);
    if (kept !== null && "lines" in kept) await storeLines(kept.lines, options);
    else if (kept !== null) events.push(kept.event);
  }
  // Only until then it is known whose the lines are.
  for (const event of events) sink.event(event);
  await rm(file, { force: true });
}

const never = new AbortController().signal;

/** Readers of lines take two more characters for the end of one, and apps print what they like. */
function onOneLine(kept: Kept): string {
  return JSON.stringify(kept).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}

/** Null: it was not written to its end, or in one piece. */
function parse(text: string): Kept | null {
  try {
    const kept = JSON.parse(text) as Partial<Record<"event" | "lines", object>> | null;
    const isWhole = Array.isArray(kept?.lines) || typeof kept?.event === "object";
    return isWhole ? (kept as Kept) : null;
  } catch {
    return null;
  }
}
