// The log of a container as the engine may give it: messages of the two streams are not always in the order of their times.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { test } from "node:test";
import { systemClock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { ContainerFile } from "./container-file.ts";
import { ContainerLog } from "./container-log.ts";
import type { Engine } from "./engine.ts";

type Message = { readonly stream: "stdout" | "stderr"; readonly seconds: string; readonly text: string };

function frameOf({ stream, seconds, text }: Message): Buffer {
  const bytes = Buffer.from(`2026-01-01T00:00:${seconds}Z ${text}`);
  const head = Buffer.alloc(8);
  head[0] = stream === "stdout" ? 1 : 2;
  head.writeUInt32BE(bytes.length, 4);
  return Buffer.concat([head, bytes]);
}

/** An engine with one container; it gives the messages that are there from the asked time on, and ends. */
function engineWith(messages: readonly Message[]): Engine {
  const timeOf = ({ seconds }: Message): number => Date.parse(`2026-01-01T00:00:${seconds}Z`) / 1000;
  const logs = ({ since = "0" }: { since?: string }): Promise<Readable> =>
    Promise.resolve(Readable.from(messages.filter((one) => timeOf(one) >= Number(since)).map(frameOf)));
  return { streams: { getContainer: () => ({ logs }) } } as unknown as Engine;
}

test("a message that the engine logs after later ones of the other stream is delivered, and nothing twice", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "container-log-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = new ContainerFile(join(folder, "file"));
  const texts: string[] = [];
  const messages: Message[] = [
    { stream: "stderr", seconds: "20.000000001", text: "one\n" },
    { stream: "stderr", seconds: "20.000000009", text: "two\n" },
  ];
  /** As when the platform, or the container, ended: reads on from what the file keeps. */
  const readOn = async (): Promise<void> => {
    const log = new ContainerLog({
      replicaId: "r" as ReplicaId,
      hasFrames: false,
      containerId: "c",
      engine: engineWith(messages),
      file,
      clock: systemClock,
      onFault: assert.ifError,
      lines: async (lines) => void texts.push(...lines.map(({ text }) => text)),
    });
    await log.end();
    await log.close();
  };
  await readOn();
  messages.push({ stream: "stdout", seconds: "20.000000005", text: "between\n" });
  await readOn();
  await readOn();
  assert.deepEqual(texts, ["one", "two", "between"]);
});
