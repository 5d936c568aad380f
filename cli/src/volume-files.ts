// Moves files between this machine and a volume: up in parts of which several are sent at once, down as a stream.
import { createWriteStream } from "node:fs";
import { open, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename } from "node:path";
import { pipeline } from "node:stream/promises";
import { answerOf } from "@slipway/client/client.ts";
import { boundedAnswer } from "./bounded-answer.ts";
import { plain } from "./plain-text.ts";
import { Progress } from "./progress.ts";
import { misuse, Refused } from "./refused.ts";
import { defined, type At } from "./resource.ts";

const route = "/v2/projects/{project_id}/volumes/{volume_id}" as const;
const volume_id = "default";
/** What the platform takes: `partBytes` of contract/src/volume-routes.ts, whose import would load all of zod. */
const partBytes = 5_242_880;
const partsAtOnce = 4;
const triesMax = 4;
const againMs = 1000;
/** A part needs 10 kB/s. */
const partMs = 600_000;

type Part = { readonly part_number: number; readonly url: string };

/** The uploaded file. */
export type Uploaded = { readonly path: string; readonly bytes: number };

/** Uploads a file; "" as path: its own name. Throws `Refused`; then the volume is as it was. */
export async function uploadFile(
  at: At,
  { file, path }: { readonly file: string; readonly path: string },
): Promise<Uploaded> {
  const { api, machine } = at;
  const file_path = path === "" ? basename(file) : path.endsWith("/") ? path + basename(file) : path;
  const handle = await opened(file);
  const progress = new Progress(machine);
  try {
    const { size } = await handle.stat();
    const params = { path: { ...at.path, volume_id } };
    const body = { file_path, part_count: Math.max(1, Math.ceil(size / partBytes)) };
    const { upload_id, parts } = await answerOf(api.POST(`${route}/cp/initialize`, { params, body }));
    const waiting = parts.values();
    const stored: { part_number: number; etag: string }[] = [];
    // They share the parts that wait.
    const send = async (): Promise<void> => {
      for (const part of waiting) {
        stored.push({ part_number: part.part_number, etag: await sentPart(handle, part, size) });
        progress.show(`Uploading ${plain(file_path)} … ${Math.floor((100 * stored.length) / parts.length)} %`);
      }
    };
    await Promise.all(Array.from({ length: partsAtOnce }, send));
    const sorted = stored.toSorted((one, other) => one.part_number - other.part_number);
    await answerOf(api.POST(`${route}/cp/complete`, { params, body: { upload_id, file_path, parts: sorted } }));
    return { path: file_path.replace(/^\/+/, ""), bytes: size };
  } finally {
    progress.clear();
    await handle.close();
  }
}

/** Downloads a file; "-": to standard output. The file is replaced when all of it has come. */
export async function downloadFile(
  { api, machine, path: ids, client }: At,
  { path, to }: { readonly path: string; readonly to: string },
): Promise<{ readonly file: string; readonly bytes: number }> {
  const params = { path: { ...ids, volume_id }, query: defined({ file_path: path }) };
  const { url } = await answerOf(api.GET(`${route}/download`, { params }));
  // The address is its own proof: it gets no token.
  const response = await fetch(url, { redirect: "error" }).catch((error: unknown) => {
    throw new Refused(`${client.url} does not send the file: ${reasonOf(error)}.`, { cause: error });
  });
  if (!response.ok) throw new Refused(`The file cannot be downloaded: the answer has status ${response.status}.`);
  const progress = new Progress(machine);
  let bytes = 0;
  const counted = async function* (parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const part of parts) {
      bytes += part.length;
      progress.show(`Downloading ${plain(path)} … ${Math.floor(bytes / 1e6)} MB`);
      yield part;
    }
  };
  const parts = counted(response.body ?? ReadableStream.from<Uint8Array>([]));
  try {
    if (to === "-") for await (const part of parts) machine.write(part);
    else await replaced(to, parts);
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Refused(`The download broke off: ${reasonOf(error)}.`, { cause: error });
  } finally {
    progress.clear();
  }
  return { file: to, bytes };
}

async function replaced(file: string, parts: AsyncIterable<Uint8Array>): Promise<void> {
  const temporary = `${file}.${process.pid}.part`;
  try {
    await pipeline(parts, createWriteStream(temporary, { flags: "wx" }));
    await rename(temporary, file);
  } finally {
    await rm(temporary, { force: true });
  }
}

async function opened(file: string): Promise<FileHandle> {
  try {
    if ((await stat(file)).isFile()) return await open(file);
  } catch (error) {
    throw misuse(`${file} cannot be read: ${reasonOf(error)}.`, error);
  }
  throw misuse(`${file} is not a file. Of a folder, upload its files one by one, or a zip.`);
}

/** The etag of the part. A part that did not arrive is sent again. */
async function sentPart(handle: FileHandle, { part_number, url }: Part, size: number): Promise<string> {
  const start = (part_number - 1) * partBytes;
  const buffer = Buffer.alloc(Math.min(partBytes, size - start));
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, start);
  if (bytesRead < buffer.length) throw new Refused("The file became shorter while it was uploaded.");
  for (let tries = 1; ; tries++) {
    const failure = await put(url, buffer);
    if ("etag" in failure) return failure.etag;
    if (tries === triesMax || failure.isFinal) throw new Refused(`A part did not arrive: ${failure.why}`);
    await new Promise((resolve) => setTimeout(resolve, againMs * tries));
  }
}

async function put(
  url: string,
  body: Buffer<ArrayBuffer>,
): Promise<{ readonly etag: string } | { readonly why: string; readonly isFinal: boolean }> {
  try {
    const signal = AbortSignal.timeout(partMs);
    const response = boundedAnswer(await fetch(url, { method: "PUT", body, redirect: "error", signal }));
    const text = await response.text();
    const etag = response.headers.get("etag");
    if (response.ok && etag !== null) return { etag };
    return { why: `status ${response.status}. ${plain(text.slice(0, 500))}`, isFinal: response.status < 500 };
  } catch (error) {
    return { why: `${reasonOf(error)}.`, isFinal: false };
  }
}

/** fetch says only that it failed; its cause says why. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
