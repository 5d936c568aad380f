// Reads server-sent events from the bytes of a response.

/** One server-sent event. */
export type ServerEvent = { id: string; event: string; data: string };

/**
 * The events of a stream that have data, whatever pieces it comes in. Calls `onBytes` with each
 * piece, also when it holds no event.
 */
export async function* eventsOf(
  stream: ReadableStream<Uint8Array>,
  onBytes: () => void,
): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunksOf(stream)) {
    onBytes();
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event.data !== "") yield event;
    }
  }
}

/** The chunks of a stream; streams cannot be iterated in every browser. */
export async function* chunksOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function parseEvent(block: string): ServerEvent {
  const event: ServerEvent = { id: "", event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value = ""] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
    if (name === "id" || name === "event" || name === "data") event[name] = value;
  }
  return event;
}
