// The form of a backup: a tar of parts, compressed with zstd and encrypted with age, so that an
// operator can open it without a platform (`age -d -i KEY BACKUP | zstd -d | tar -x`). It is
// written and read as a stream. Every byte is authenticated, and so is the end, so that a change or
// a missing end is noticed.
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ReadableStream as NodeWebStream } from "node:stream/web";
import { createZstdCompress, createZstdDecompress } from "node:zlib";
import { Decrypter, Encrypter } from "age-encryption";
import { extract, pack, type Entry, type Pack } from "tar-stream";
import { errorMessage } from "#lib/error-message.ts";
import { CannotStart } from "#lib/cannot-start.ts";

/** Adds a part to the archive that is written. */
export type AddPart = (name: string, content: AsyncIterable<Buffer>) => Promise<void>;

/** A part of the archive that is read. What is not read of it is skipped. */
export type Part = { readonly name: string; readonly content: AsyncIterable<Buffer> };

/**
 * The minimum length of a piece. A part is cut into pieces because tar needs the length of a file
 * before its first byte. Only the last piece of a part may be shorter.
 */
const pieceBytes = 4 * 1_048_576;

/**
 * Writes what `addAll` adds, encrypted for the public keys, to `to`. Ends `to` only when all of it
 * is written; otherwise destroys it, and rejects with the first error.
 */
export async function writeArchive(
  to: Writable,
  publicKeys: readonly string[],
  addAll: (add: AddPart) => Promise<void>,
): Promise<void> {
  const encrypter = new Encrypter();
  for (const key of publicKeys) encrypter.addRecipient(key);
  const tar = pack();
  const compressed = createZstdCompress();
  const encrypted = await encrypter.encrypt(webStream(compressed));
  let failure: Error | null = null;
  // Keeps the first failure. Each failure destroys the streams, so that all other work ends too.
  const noting = async (work: Promise<unknown>): Promise<void> => {
    try {
      await work;
    } catch (error) {
      failure ??= asError(error);
      tar.destroy();
      compressed.destroy();
      to.destroy();
    }
  };
  const adding = addAll((name, content) => addPieces(tar, name, content)).then(() =>
    tar.finalize(),
  );
  await Promise.all([
    noting(adding),
    noting(pipeline(tar, compressed)),
    noting(pipeline(nodeStream(encrypted), to)),
  ]);
  // The compiler does not see that `noting` sets `failure`, and needs the cast.
  if (failure !== null) throw failure as Error;
}

/**
 * Writes the part as the files `name/00000001`, `name/00000002` and so on. A part without content
 * becomes one empty file.
 */
async function addPieces(tar: Pack, name: string, content: AsyncIterable<Buffer>): Promise<void> {
  let number = 0;
  let pending: Buffer[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    number += 1;
    const piece = Buffer.concat(pending);
    pending = [];
    bytes = 0;
    const header = { name: `${name}/${String(number).padStart(8, "0")}`, mode: 0o600 };
    await new Promise<void>((resolve, reject) => {
      tar.entry(header, piece, (error) => (error ? reject(error) : resolve()));
    });
  };
  for await (const chunk of content) {
    pending.push(chunk);
    bytes += chunk.length;
    if (bytes >= pieceBytes) await flush();
  }
  if (bytes > 0 || number === 0) await flush();
}

const damagedText =
  "The backup is damaged or cut off: it cannot be read to its end. Use another backup.";

/**
 * Reads the parts of an archive, in their order. Throws `CannotStart` when no key fits, or when the
 * archive is damaged or cut off. Parts before the damage have been yielded by then.
 */
export async function* readArchive(
  from: Readable,
  privateKeys: readonly string[],
): AsyncGenerator<Part> {
  const tar = extract();
  try {
    const reading = pipeline(
      nodeStream(await decrypt(from, privateKeys)),
      createZstdDecompress(),
      tar,
    );
    // The generator `partsOf` throws the same error.
    reading.catch(() => undefined);
    yield* partsOf(tar);
    await reading;
  } catch (error) {
    throw error instanceof CannotStart ? error : new CannotStart(damagedText, { cause: error });
  } finally {
    tar.destroy();
    from.destroy();
  }
}

async function decrypt(
  from: Readable,
  privateKeys: readonly string[],
): Promise<ReadableStream<Uint8Array>> {
  const decrypter = new Decrypter();
  for (const key of privateKeys) decrypter.addIdentity(key);
  try {
    return await decrypter.decrypt(webStream(bytesOf(from)));
  } catch (error) {
    if (error instanceof CannotStart) throw error;
    // The library's message for keys that do not fit begins like this.
    const isOtherKey = error instanceof Error && error.message.startsWith("no identity matched");
    throw new CannotStart(
      isOtherKey
        ? "The key does not fit: the backup was made for another public key."
        : "This is no backup, or its beginning is damaged.",
      { cause: error },
    );
  }
}

/** Joins the pieces of each part. */
async function* partsOf(entries: AsyncIterable<Entry>): AsyncGenerator<Part> {
  const iterator = entries[Symbol.asyncIterator]();
  let next = await iterator.next();
  while (next.done !== true) {
    const name = partName(next.value);
    const content = async function* (): AsyncGenerator<Buffer> {
      while (next.done !== true && partName(next.value) === name) {
        yield* next.value as AsyncIterable<Buffer>;
        next = await iterator.next();
      }
    };
    const pieces = content();
    yield { name, content: pieces };
    // Skips what the caller has not read of this part.
    for await (const skipped of pieces) void skipped;
  }
}

function partName({ header }: Entry): string {
  return header.name.slice(0, header.name.lastIndexOf("/"));
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error("an archive was not written", { cause: error });
}

async function* bytesOf(from: Readable): AsyncGenerator<Buffer> {
  try {
    yield* from as AsyncIterable<Buffer>;
  } catch (error) {
    const why = errorMessage(error);
    throw new CannotStart(`The backup cannot be read: ${why}.`, { cause: error });
  }
}

function webStream(chunks: AsyncIterable<Buffer>): ReadableStream<Uint8Array> {
  return NodeWebStream.from(chunks) as unknown as ReadableStream<Uint8Array>;
}

function nodeStream(stream: ReadableStream<Uint8Array>): Readable {
  const readable = Readable.fromWeb(stream as NodeWebStream<Uint8Array>);
  // The stream may report its error again after the pipeline that it was part of has ended.
  return readable.on("error", () => undefined);
}
