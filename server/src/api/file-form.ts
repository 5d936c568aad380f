// Reads the form of a file run: `data`, which is small, and `file`, which is handed on as it
// arrives. Other parts are skipped. The number and the size of the parts are bounded.
import type { IncomingHttpHeaders } from "node:http";
import { addAbortSignal, type Readable } from "node:stream";
import { Busboy, type BusboyHeaders, type BusboyInstance } from "@fastify/busboy";
import { sizeText } from "#lib/disk-full.ts";
import { boundedText } from "#lib/bounded-text.ts";
import { Fault } from "#lib/fault.ts";
import { unlessAborted } from "#lib/unless-aborted.ts";

type Form<Stored> = {
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
  readonly dataBytesMax: number;
  readonly signal: AbortSignal;
  /** Stores the file: reads it to its end, or rejects. Must also reject when its signal aborts. */
  readonly take: (file: Readable, signal: AbortSignal) => Promise<Stored>;
};

/** Bounds of a form, which needs only two parts with a few headers. */
const limits = { fields: 4, files: 4, parts: 8, headerPairs: 50, fieldNameSize: 100 };

/**
 * Reads both parts of the form; `data` is `{}` when the form has no such part. Throws
 * `Fault("malformed" | "invalid" | "too_large")`, the errors of `take`, and the reason with which
 * `signal` was aborted.
 */
export async function readFileForm<Stored>(
  form: Form<Stored>,
): Promise<{ data: string; file: Stored }> {
  const { headers, body, dataBytesMax, signal, take } = form;
  const reader = readerOf(headers, dataBytesMax);
  const failed = new AbortController();
  const ended = AbortSignal.any([signal, failed.signal]);
  const parts: { data: Promise<string> | null; file: Promise<Stored> | null } = {
    data: null,
    file: null,
  };
  const abortOnFailure = <Result>(result: Promise<Result>): Promise<Result> => {
    result.catch((error: unknown) => failed.abort(error));
    return result;
  };
  // The reader emits `file` for a part with a file name or a binary type, and `field` for any other
  // part. A client may send `data` either way.
  reader.on("file", (name, stream) => {
    // When a form breaks off, its parts fail too, perhaps while nobody reads them. Their errors are
    // ignored here, since the reader reports the same error.
    stream.on("error", () => undefined);
    if (name === "data" && parts.data === null)
      parts.data = abortOnFailure(
        boundedText(addAbortSignal(ended, stream), dataBytesMax, () => dataTooLarge(dataBytesMax)),
      );
    else if (name === "file" && parts.file === null)
      parts.file = abortOnFailure(take(stream, ended));
    else stream.resume();
  });
  reader.on("field", (name, value, _isNameCut, isCut) => {
    if (name !== "data" || parts.data !== null) return;
    parts.data = abortOnFailure(
      isCut ? Promise.reject(dataTooLarge(dataBytesMax)) : Promise.resolve(value),
    );
  });
  try {
    await feed(body, reader, ended);
  } catch (error) {
    if (!ended.aborted) failed.abort(incomplete(error));
    // This waits for the parts, so that a partly stored file is removed before the caller gets the
    // answer.
    await Promise.allSettled([parts.data, parts.file]);
    // `ended.reason` is the first error, or the reason with which `signal` was aborted.
    throw ended.reason;
  }
  if (parts.file === null)
    throw new Fault("invalid", "The form has no part file, which must be a tar.");
  const [file, data] = await Promise.all([parts.file, parts.data ?? Promise.resolve("{}")]);
  return { data, file };
}

/**
 * Feeds the body to the reader. Unlike in a pipeline, a failure leaves the request open for the
 * answer, and the rest of the body is read and dropped.
 */
async function feed(body: Readable, reader: BusboyInstance, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onClose = (): void => {
    if (!body.readableEnded) reject(new Error("the client has gone"));
  };
  body.on("error", reject).on("close", onClose);
  reader.on("error", reject).on("finish", resolve);
  body.pipe(reader);
  try {
    await unlessAborted(signal, promise);
  } finally {
    body.unpipe(reader);
    body.resume();
  }
}

function readerOf(headers: IncomingHttpHeaders, dataBytesMax: number): BusboyInstance {
  try {
    return new Busboy({
      headers: headers as BusboyHeaders,
      limits: { ...limits, fieldSize: dataBytesMax },
    });
  } catch (error) {
    throw new Fault("malformed", "The body must be multipart/form-data with a boundary.", {
      cause: error,
    });
  }
}

function incomplete(cause: unknown): Fault {
  return new Fault("malformed", "The body is not complete multipart/form-data.", { cause });
}

function dataTooLarge(bytesMax: number): Fault {
  return new Fault(
    "too_large",
    `data is larger than ${sizeText(bytesMax)}, the limit for bodies of async calls.`,
  );
}
