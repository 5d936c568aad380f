// Sends a file, or a range of it, at the client's pace. Apps may change the file meanwhile: an answer that cannot be completed
// ends without its last bytes, so that no client mistakes it for the whole.
import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { ApiCall } from "./call.ts";
import { takenOver } from "./event-stream.ts";
import type { HandlerParts } from "./parts.ts";
import { limitTaking } from "./slow-clients.ts";

type SentFile = { readonly name: string; readonly handle: FileHandle; readonly stats: Stats };

/** `last` is included; an empty file has the last byte -1. */
type ByteRange = { readonly first: number; readonly last: number };

const chunkBytes = 262_144;

/** Answers with 200, 206 or 416, and closes the file. Resolves when the answer is sent or broken off; never rejects. */
export async function sendFile(
  { request, reply }: ApiCall,
  { name, handle, stats }: SentFile,
  parts: Pick<HandlerParts, "clock" | "stopping">,
): Promise<undefined> {
  try {
    const { size } = stats;
    const etag = `"${[stats.ino, stats.mtimeMs, size].map((number) => Math.round(number).toString(36)).join("-")}"`;
    const { range, "if-range": ifRange } = request.headers;
    const wanted = ifRange === undefined || ifRange === etag ? readRange(range, size) : null;
    void reply.headers({ "accept-ranges": "bytes", etag, "last-modified": stats.mtime.toUTCString() });
    if (wanted === "none") {
      void reply.header("content-range", `bytes */${size}`).code(416);
      void reply.send({ message: `Range is ${JSON.stringify(range)}, but the file has ${size} bytes.` });
      return;
    }
    const { first, last } = wanted ?? { first: 0, last: size - 1 };
    if (wanted !== null) void reply.header("content-range", `bytes ${first}-${last}/${size}`);
    void reply.headers({
      "content-type": "application/octet-stream",
      "content-length": last - first + 1,
      "content-disposition": `attachment; filename*=UTF-8''${encodeName(name)}`,
    });
    const response = takenOver(reply);
    response.writeHead(wanted === null ? 200 : 206);
    if (request.method === "HEAD") return void response.end();
    await sendBytes(response, handle, { ...{ first, last }, ...parts });
  } finally {
    await handle.close();
  }
}

/**
 * Sends bytes of a file after the head. Resolves when they are sent or broken off: the client is gone or takes them too slowly, the
 * file is shorter now, or the platform stops. Never rejects.
 */
export async function sendBytes(
  response: ServerResponse,
  file: FileHandle,
  { clock, stopping: signal, ...range }: ByteRange & Pick<HandlerParts, "clock" | "stopping">,
): Promise<void> {
  let cancel = (): void => undefined;
  const limited = async function* (): AsyncGenerator<Buffer> {
    for await (const bytes of bytesOf(file, range)) {
      cancel();
      cancel = limitTaking(response, bytes.length, clock);
      yield bytes;
    }
  };
  await pipeline(limited, response, { signal }).catch(() => response.destroy());
  cancel();
}

/** Null: all of it. "none": nothing of it. A client that asks for several ranges gets all. */
function readRange(header: string | undefined, size: number): ByteRange | "none" | null {
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? "") ?? [];
  if (first === "" && last === "") return null;
  const range =
    first === ""
      ? { first: Math.max(0, size - Number(last)), last: size - 1 }
      : { first: Number(first), last: last === "" ? size - 1 : Math.min(Number(last), size - 1) };
  if (first !== "" && last !== "" && Number(last) < Number(first)) return null;
  return range.first > range.last ? "none" : range;
}

async function* bytesOf(file: FileHandle, { first, last }: ByteRange): AsyncGenerator<Buffer> {
  for (let at = first; at <= last;) {
    const length = Math.min(chunkBytes, last - at + 1);
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, at);
    if (bytesRead === 0) throw new Error("the file became shorter while it was sent");
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** As in RFC 8187, which allows less than `encodeURIComponent` leaves. */
function encodeName(name: string): string {
  return encodeURIComponent(name).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
