// Reads server-sent events from the bytes of an answer.

/** A server-sent event. */
export type ServerEvent = { readonly id: string; readonly event: string; readonly data: string };

/** An event is longer than this version reads. */
export class EventTooLarge extends Error {}

const eventCharactersMax = 10_000_000;

/** The events that have data, each as soon as it is complete. Throws `EventTooLarge`. */
export async function* serverEvents(
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<ServerEvent, void, undefined> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of bytes) {
    text = (text + decoder.decode(part, { stream: true })).replaceAll("\r\n", "\n");
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    if (text.length > eventCharactersMax) throw new EventTooLarge("An event is too large.");
    for (const block of blocks) {
      const event = eventOf(block);
      if (event.data !== "") yield event;
    }
  }
}

function eventOf(block: string): ServerEvent {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const [, name, value = ""] = /^([a-z]+): ?(.*)$/s.exec(line) ?? [];
    if (name === undefined) continue;
    const before = name === "data" ? fields.get(name) : undefined;
    fields.set(name, before === undefined ? value : `${before}\n${value}`);
  }
  return {
    id: fields.get("id") ?? "",
    event: fields.get("event") ?? "message",
    data: fields.get("data") ?? "",
  };
}
