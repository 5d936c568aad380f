// Server-sent events, in whatever pieces they come.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventsOf, type ServerEvent } from "./event-stream.ts";

async function read(pieces: readonly Uint8Array[]) {
  const events: ServerEvent[] = [];
  let calls = 0;
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  for await (const event of eventsOf(stream, () => calls++)) events.push(event);
  return { events, calls };
}

const text =
  'id: 7\ndata: {"text":"é 😀: a"}\n\n: alive\n\nevent: end\ndata:{}\n\ndata: unfinished';
const expected = [
  { id: "7", event: "message", data: '{"text":"é 😀: a"}' },
  { id: "", event: "end", data: "{}" },
];

test("events are the same in one piece and byte by byte, without comments and what has not ended", async () => {
  const bytes = new TextEncoder().encode(text);
  assert.deepEqual(await read([bytes]), { events: expected, calls: 1 });
  const single = Array.from(bytes, (byte) => Uint8Array.of(byte));
  assert.deepEqual(await read(single), { events: expected, calls: bytes.length });
});
