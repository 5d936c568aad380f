// Prints what an app has answered: the result alone if the answer is one of cortex, JSON readably,
// text and events as they come. Bytes go to files and programs unchanged, but not to a terminal.
import type { Machine } from "./machine.ts";
import { plain, plainJson, plainLines } from "./plain-text.ts";
import { Refused } from "./refused.ts";
import { bytesText } from "./sizes.ts";
import { serverEvents } from "./server-events.ts";

/** An answer whose head has come. */
export type Answer = {
  readonly contentType: string;
  readonly body: AsyncIterable<Uint8Array>;
};

const jsonBytesMax = 50_000_000;

/**
 * Prints the answer to standard output while it comes. `isJson`: each event, and the result, as a
 * line of JSON.
 */
export async function printAnswer(
  machine: Machine,
  { contentType, body }: Answer,
  isJson: boolean,
): Promise<void> {
  if (/^text\/event-stream/i.test(contentType)) {
    for await (const { data } of serverEvents(body))
      machine.print(isJson ? plainJson({ data }) : plainLines(data));
    return;
  }
  if (isJson || /^application\/(?:[\w.-]+\+)?json/i.test(contentType)) {
    const bytes = await whole(body);
    const value = parsed(bytes.toString());
    if (value !== undefined) return printValue(machine, resultOf(value), isJson);
    if (isJson) return machine.print(plainJson(bytes.toString()));
    return machine.columns === null
      ? machine.write(bytes)
      : machine.print(plainLines(bytes.toString()));
  }
  if (machine.columns === null) {
    for await (const part of body) machine.write(part);
    return;
  }
  if (!/^text\/|^application\/(?:xml|javascript|x-ndjson)|^$/i.test(contentType)) {
    const { length } = await whole(body);
    throw new Refused(
      `The result is ${bytesText(length)} of ${plain(contentType)}. To keep it, add: > file`,
    );
  }
  const decoder = new TextDecoder();
  let isLineEnded = true;
  for await (const part of body) {
    const text = plainLines(decoder.decode(part, { stream: true }));
    machine.write(text);
    if (text !== "") isLineEnded = text.endsWith("\n");
  }
  if (!isLineEnded) machine.print("");
}

/** All bytes of the body, at most 50 MB. */
export async function whole(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body) {
    length += part.length;
    if (length > jsonBytesMax)
      throw new Refused(`The answer is larger than ${bytesText(jsonBytesMax)}.`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** What the function of a cortex app returned; the value itself if it is another app's answer. */
function resultOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  return "run_id" in value && "result" in value && "run_time_ms" in value ? value.result : value;
}

function printValue(machine: Machine, value: unknown, isJson: boolean): void {
  if (!isJson && typeof value === "string") machine.print(plainLines(value));
  else machine.print(plainJson(value, isJson || machine.columns === null ? 0 : 2));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON, whatever its type says: it is printed as it is.
    return undefined;
  }
}
