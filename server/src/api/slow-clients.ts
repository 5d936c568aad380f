// Breaks off answers that clients take too slowly: they stay in memory, and take up a slot, until
// they are sent.
import type { ServerResponse } from "node:http";
import type { Clock } from "#lib/clock.ts";

/** The time limit for a part: this long, plus a millisecond per so many bytes (128 kbit/s). */
const slowestMs = 30_000;
const slowestBytesPerMs = 16;

/** Gives the client time to take so many bytes. Returns what ends the limit. */
export function limitTaking(response: ServerResponse, bytes: number, clock: Clock): () => void {
  return clock.after(slowestMs + bytes / slowestBytesPerMs, () => {
    response.destroy(new Error("the client took the answer too slowly"));
  });
}

/**
 * The parts, each of which gives the client time to take it; that of the last one ends with the
 * response.
 */
export async function* paced<Part extends Buffer | string>(
  parts: AsyncIterable<Part>,
  { response, clock }: { readonly response: ServerResponse; readonly clock: Clock },
): AsyncGenerator<Part> {
  // Its client was gone before, so that it does not close again.
  if (response.destroyed) return;
  let cancel = (): void => undefined;
  response.once("close", () => cancel());
  for await (const part of parts) {
    cancel();
    cancel = limitTaking(response, part.length, clock);
    yield part;
  }
}
