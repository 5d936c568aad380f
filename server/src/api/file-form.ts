// Reads the form of a file that runs once: `data`, which is small, and `file`, which is handed on as it arrives. Other parts are
// skipped; all are bounded.
import type { IncomingHttpHeaders } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Busboy, type BusboyHeaders, type BusboyInstance } from "@fastify/busboy";
import { sizeText } from "#lib/disk-full.ts";
import { Fault } from "#lib/fault.ts";

type Form<Stored> = {
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
  readonly dataBytesMax: number;
  readonly signal: AbortSignal;
  /** Stores the file; must read it to its end, or reject. */
  readonly take: (file: Readable) => Promise<Stored>;
};

const limits = { fields: 4, files: 4, parts: 8, headerPairs: 50, fieldNameSize: 100 };

/** `data` is `{}` when there is none. Throws `Fault("malformed" | "invalid" | "too_large")`, and what `take` throws. */
export async function readFileForm<Stored>(form: Form<Stored>): Promise<{ data: string; file: Stored }> {
  const { headers, body, dataBytesMax, signal, take } = form;
  const reader = readerOf(headers, dataBytesMax);
  const failed = new AbortController();
  let data: Promise<string> | null = null;
  let file: Promise<Stored> | null = null;
  const reading = <Result>(result: Promise<Result>): Promise<Result> => {
    result.catch((error: unknown) => failed.abort(error));
    return result;
  };
  reader.on("file", (name, stream) => {
    if (name === "data" && data === null) data = reading(textOf(stream, dataBytesMax));
    else if (name === "file" && file === null) file = reading(take(stream));
    else stream.resume();
  });
  reader.on("field", (name, value, _isNameCut, isCut) => {
    if (name !== "data" || data !== null) return;
    data = reading(isCut ? Promise.reject(dataTooLarge(dataBytesMax)) : Promise.resolve(value));
  });
  try {
    await pipeline(body, reader, { signal: AbortSignal.any([signal, failed.signal]) });
  } catch (error) {
    // The file ends with the form: what is stored of it goes first.
    await Promise.allSettled([data, file]);
    if (signal.aborted) throw signal.reason;
    if (failed.signal.aborted) throw failed.signal.reason;
    throw new Fault("malformed", "The body is no complete multipart/form-data.", { cause: error });
  }
  if (file === null) throw new Fault("invalid", "The form has no part file, which must be a tar.");
  const [stored, text] = await Promise.all([file as Promise<Stored>, data as Promise<string> | null]);
  return { data: text ?? "{}", file: stored };
}

function readerOf(headers: IncomingHttpHeaders, dataBytesMax: number): BusboyInstance {
  try {
    return new Busboy({ headers: headers as BusboyHeaders, limits: { ...limits, fieldSize: dataBytesMax } });
  } catch (error) {
    throw new Fault("malformed", "The body must be multipart/form-data with a boundary.", { cause: error });
  }
}

async function textOf(stream: Readable, bytesMax: number): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > bytesMax) throw dataTooLarge(bytesMax);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function dataTooLarge(bytesMax: number): Fault {
  return new Fault("too_large", `data is larger than ${sizeText(bytesMax)}, the limit for bodies of async calls.`);
}
