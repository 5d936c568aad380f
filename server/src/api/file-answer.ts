// Sends a file, or a range of it, at the client's pace. Apps may change the file meanwhile. An
// answer that cannot be completed is cut off before its announced length, so that no client takes
// the part that it has received for the complete file.
import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import type { ApiCall } from "./call.ts";
import { takenOver } from "./event-stream.ts";
import type { HandlerParts } from "./parts.ts";
import { paced } from "./slow-clients.ts";

type SentFile = { readonly name: string; readonly handle: FileHandle; readonly stats: Stats };

/** The offsets of the first and the last byte; `last` is -1 for an empty file. */
type ByteRange = { readonly first: number; readonly last: number };
type SendingParts = Pick<HandlerParts, "clock" | "stopping">;

/** How many bytes of the file are read at once. */
const chunkBytes = 262_144;

/**
 * Answers with 200, 206 or 416, and leaves the file open. Resolves when the answer is sent or
 * broken off; never rejects.
 */
export async function sendFile(
  call: ApiCall,
  { name, handle, stats }: SentFile,
  parts: SendingParts,
): Promise<undefined> {
  const { request, reply } = call;
  const { size } = stats;
  const etag = etagOf(stats);
  const { range: rangeHeader, "if-range": ifRange } = request.headers;
  // `If-Range` names the version of which the client has a part. If the file has another version
  // now, the client gets the whole file.
  const isRangeValid = ifRange === undefined || ifRange === etag;
  const range = isRangeValid ? readRange(rangeHeader, size) : "all";
  void reply.headers({
    "accept-ranges": "bytes",
    etag,
    "last-modified": stats.mtime.toUTCString(),
  });
  if (range === "none") {
    void reply.header("content-range", `bytes */${size}`).code(416);
    void reply.send({
      message: `Range is ${JSON.stringify(rangeHeader)}, but the file has ${size} bytes.`,
    });
    return;
  }
  const { first, last } = range === "all" ? { first: 0, last: size - 1 } : range;
  if (range !== "all") void reply.header("content-range", `bytes ${first}-${last}/${size}`);
  void reply.headers({
    "content-type": "application/octet-stream",
    "content-length": last - first + 1,
    "content-disposition": `attachment; filename*=UTF-8''${encodeName(name)}`,
  });
  await sendBytes(call, range === "all" ? 200 : 206, { file: handle, first, last, ...parts });
}

/**
 * Sends the head of the answer and, unless the request's method is HEAD, a range of the file.
 * Resolves when everything is sent, or when the answer is broken off: the client is gone or too
 * slow, the file has become shorter, or the platform stops. Never rejects.
 */
export async function sendBytes(
  { request, reply }: Pick<ApiCall, "request" | "reply">,
  status: 200 | 206,
  sent: ByteRange & SendingParts & { readonly file: FileHandle },
): Promise<void> {
  const { file, first, last, clock, stopping } = sent;
  const response = takenOver(reply);
  response.writeHead(status);
  if (request.method === "HEAD") {
    response.end();
    return;
  }
  const bytes = paced(bytesOf(file, { first, last }), { response, clock });
  await pipeline(bytes, response, { signal: stopping }).catch(() => response.destroy());
}

/**
 * The ETag of a version of a file. A replaced file has another inode, and a changed file usually
 * has another time or size.
 */
function etagOf({ ino, mtimeMs, size }: Stats): string {
  const numbers = [ino, mtimeMs, size].map((number) => Math.round(number).toString(36));
  return `"${numbers.join("-")}"`;
}

/**
 * The part of a file that a Range header names. "all": there is no usable header, or it names
 * several ranges, which are not supported. "none": the file has none of the named bytes.
 */
function readRange(header: string | undefined, size: number): ByteRange | "all" | "none" {
  // Numbers of up to 15 digits are exact in JavaScript; no file is longer.
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? "") ?? [];
  if (first === "" && last === "") return "all";
  if (first !== "" && last !== "" && Number(last) < Number(first)) return "all";
  const endOfFile = size - 1;
  const range = { first: Number(first), last: endOfFile };
  // Without a first byte, the header asks for the `last` bytes at the end of the file.
  if (first === "") range.first = Math.max(0, size - Number(last));
  else if (last !== "") range.last = Math.min(Number(last), endOfFile);
  return range.first > range.last ? "none" : range;
}

async function* bytesOf(file: FileHandle, { first, last }: ByteRange): AsyncGenerator<Buffer> {
  let offset = first;
  while (offset <= last) {
    const length = Math.min(chunkBytes, last - offset + 1);
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, offset);
    if (bytesRead === 0) throw new Error("the file became shorter while it was sent");
    offset += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Encodes as in RFC 8187, which forbids four characters that `encodeURIComponent` leaves. */
function encodeName(name: string): string {
  return encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
