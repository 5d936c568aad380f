// Sends a file, or a range of it, at the client's pace. Apps may change the file meanwhile: an
// answer that cannot be completed ends without its last bytes, so that no client mistakes it for
// the whole.
import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import type { ApiCall } from "./call.ts";
import { takenOver } from "./event-stream.ts";
import type { HandlerParts } from "./parts.ts";
import { paced } from "./slow-clients.ts";

type SentFile = { readonly name: string; readonly handle: FileHandle; readonly stats: Stats };

/** Offsets of bytes, both included; `last` is -1 for an empty file. */
type ByteRange = { readonly first: number; readonly last: number };
type Sending = Pick<HandlerParts, "clock" | "stopping">;

const chunkBytes = 262_144;

/**
 * Answers with 200, 206 or 416, and leaves the file open. Resolves when the answer is sent or
 * broken off; never rejects.
 */
export async function sendFile(
  call: ApiCall,
  { name, handle, stats }: SentFile,
  parts: Sending,
): Promise<undefined> {
  const { request, reply } = call;
  const { size } = stats;
  const etag = `"${[stats.ino, stats.mtimeMs, size].map((number) => Math.round(number).toString(36)).join("-")}"`;
  const { range, "if-range": ifRange } = request.headers;
  const wanted = ifRange === undefined || ifRange === etag ? readRange(range, size) : null;
  void reply.headers({
    "accept-ranges": "bytes",
    etag,
    "last-modified": stats.mtime.toUTCString(),
  });
  if (wanted === "none") {
    void reply.header("content-range", `bytes */${size}`).code(416);
    void reply.send({
      message: `Range is ${JSON.stringify(range)}, but the file has ${size} bytes.`,
    });
    return;
  }
  const { first, last } = wanted ?? { first: 0, last: size - 1 };
  if (wanted !== null) void reply.header("content-range", `bytes ${first}-${last}/${size}`);
  void reply.headers({
    "content-type": "application/octet-stream",
    "content-length": last - first + 1,
    "content-disposition": `attachment; filename*=UTF-8''${encodeName(name)}`,
  });
  await sendBytes(call, wanted === null ? 200 : 206, { file: handle, first, last, ...parts });
}

/**
 * Sends the head of the answer and, except for HEAD, a range of the file. Resolves when all is sent
 * or the answer was broken off: the client is gone or too slow, the file has become shorter, or the
 * platform stops. Never rejects.
 */
export async function sendBytes(
  { request, reply }: Pick<ApiCall, "request" | "reply">,
  status: 200 | 206,
  { file, clock, stopping: signal, ...range }: ByteRange & Sending & { readonly file: FileHandle },
): Promise<void> {
  const response = takenOver(reply);
  response.writeHead(status);
  if (request.method === "HEAD") return void response.end();
  const bytes = paced(bytesOf(file, range), { response, clock });
  await pipeline(bytes, response, { signal }).catch(() => response.destroy());
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
  return encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
