// Breaks off an answer when its client reads too slowly, since an answer takes up memory and a slot
// until it is sent.
import type { ServerResponse } from "node:http";
import type { Clock } from "#lib/clock.ts";

/** A client gets half a minute for each part, plus the time that the part takes at 128 kbit/s. */
const baseLimitMs = 30_000;
/** 128 kbit/s are 16 bytes per millisecond. */
const bytesPerMsMin = 16;

/**
 * Destroys the response unless the client takes this many bytes in time. The returned function
 * cancels the limit.
 */
export function limitTaking(response: ServerResponse, bytes: number, clock: Clock): () => void {
  return clock.after(baseLimitMs + bytes / bytesPerMsMin, () => {
    response.destroy(new Error("the client took the answer too slowly"));
  });
}

/**
 * Yields the parts, and limits the time that the client takes for each. The limit of the last part
 * ends when the response closes.
 */
export async function* paced<Part extends Buffer | string>(
  parts: AsyncIterable<Part>,
  { response, clock }: { readonly response: ServerResponse; readonly clock: Clock },
): AsyncGenerator<Part> {
  // A response whose client is already gone emits no "close" any more.
  if (response.destroyed) return;
  let cancelLimit = (): void => undefined;
  response.once("close", () => cancelLimit());
  for await (const part of parts) {
    cancelLimit();
    cancelLimit = limitTaking(response, part.length, clock);
    yield part;
  }
}
