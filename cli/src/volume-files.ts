// Moves files between this machine and a volume: up in parts of which several are sent at once,
// down as a stream. Of a folder, several files are sent at once.
import { createWriteStream } from "node:fs";
import { open, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { answerOf } from "@slipway/client/client.ts";
import { ApiRefused } from "./api-client.ts";
import { boundedAnswer } from "./bounded-answer.ts";
import { fetchErrorMessage } from "./error-message.ts";
import { entriesOf, isMisnamed, misnamed, statsOf } from "./folder-entries.ts";
import { plain } from "./plain-text.ts";
import { Progress } from "./progress.ts";
import { misuse, Refused } from "./refused.ts";
import { defined, type At } from "./resource.ts";

const route = "/v2/projects/{project_id}/volumes/{volume_id}" as const;
const volume_id = "default";
/**
 * What the platform takes: `partBytes` of contract/src/volume-routes.ts, whose import would load
 * all of zod.
 */
const partBytes = 5_242_880;
const partsAtOnce = 4;
const filesAtOnce = 4;
const triesMax = 4;
const againMs = 1000;
/** A token may send so many requests a minute: who sends many files waits. */
const busyMs = 5000;
const busyTriesMax = 30;
/** A part needs 10 kB/s. */
const partMs = 600_000;

type Part = { readonly part_number: number; readonly url: string };

/** What was uploaded. `files` undefined: one file; else a folder with so many. */
export type Uploaded = { readonly path: string; readonly files?: number; readonly bytes: number };

type Named = { readonly file: string; readonly path: string };

/**
 * Uploads a file, or a folder with all that is in it; "" as path: its own name. Throws `Refused`;
 * then each file of the volume is as it was, or whole and new.
 */
export async function uploadAny(at: At, { file, path }: Named): Promise<Uploaded> {
  const wanted = wantedPath({ file, path });
  const progress = new Progress(at.machine);
  try {
    const isFolder = await stat(file).then((found) => found.isDirectory());
    if (isFolder) return await uploadFolder(at, { file, path: wanted }, progress);
    return await uploadFile(at, { file, path: wanted }, (done) =>
      progress.show(`Uploading ${plain(wanted)} … ${done} %`),
    );
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw misuse(`${file} cannot be read: ${fetchErrorMessage(error)}.`, error);
  } finally {
    progress.clear();
  }
}

/** The path in the volume: one that ends with a slash is the folder that takes the file. */
function wantedPath({ file, path }: Named): string {
  const name = basename(resolve(file));
  if (path === "") return name;
  return path.endsWith("/") ? path + name : path;
}

async function uploadFolder(
  at: At,
  { file: folder, path }: Named,
  progress: Progress,
): Promise<Uploaded> {
  const files = await filesIn(folder);
  if (files.length === 0) throw misuse(`${folder} has no files.`);
  let done = 0;
  let bytes = 0;
  let isBroken = false;
  // They share the files that wait.
  const waiting = files.values();
  const send = async (): Promise<void> => {
    for (const file of waiting) {
      if (isBroken) return;
      const sent = await uploadFile(
        at,
        { file: join(folder, file), path: `${path}/${file}` },
        () => undefined,
      ).catch((error: unknown) => {
        isBroken = true;
        throw error;
      });
      bytes += sent.bytes;
      done++;
      progress.show(
        `Uploading ${plain(path)} … ${done} of ${files.length} files, ${Math.floor(bytes / 1e6)} MB`,
      );
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: filesAtOnce }, send));
  const failed = ends.find(({ status }) => status === "rejected");
  if (failed?.status === "rejected") {
    const { reason } = failed as { readonly reason: unknown };
    throw new Refused(
      `${done} of ${files.length} files were uploaded. ${fetchErrorMessage(reason)}`,
      {
        cause: reason,
      },
    );
  }
  return { path: path.replace(/^\/+/, ""), files: files.length, bytes };
}

/**
 * The files below it, by their paths from there. Links are followed to files, as in a cache of
 * models, not to folders.
 */
async function filesIn(folder: string, below = ""): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await entriesOf(join(folder, below), join(folder, below))) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    const full = join(folder, path);
    if (isMisnamed(entry.name)) throw misnamed(full);
    if (entry.isDirectory()) found.push(...(await filesIn(folder, path)));
    else if (entry.isFile()) found.push(path);
    else {
      const target = await statsOf(full, full);
      if (target === null)
        throw misuse(`${full} is a link to nothing. Remove it, or upload the files beside it.`);
      if (!target.isFile()) throw misuse(`${full} is neither a file nor a folder of its own.`);
      found.push(path);
    }
  }
  return found;
}

async function uploadFile(
  { api, path: ids, client }: At,
  { file, path: file_path }: Named,
  onProgress: (percent: number) => void,
): Promise<Uploaded> {
  const handle = await opened(file);
  try {
    const { size } = await handle.stat();
    const params = { path: { ...ids, volume_id } };
    const body = { file_path, part_count: Math.max(1, Math.ceil(size / partBytes)) };
    const begin = () => answerOf(api.POST(`${route}/cp/initialize`, { params, body }));
    const { upload_id, parts } = await whenNotBusy(begin);
    const waiting = parts.values();
    const stored: { part_number: number; etag: string }[] = [];
    // They share the parts that wait.
    const send = async (): Promise<void> => {
      for (const part of waiting) {
        const reached = { ...part, url: client.reached(part.url) };
        stored.push({ part_number: part.part_number, etag: await sentPart(handle, reached, size) });
        onProgress(Math.floor((100 * stored.length) / parts.length));
      }
    };
    await Promise.all(Array.from({ length: partsAtOnce }, send));
    const sorted = stored.toSorted((one, other) => one.part_number - other.part_number);
    const whole = { upload_id, file_path, parts: sorted };
    await whenNotBusy(() => answerOf(api.POST(`${route}/cp/complete`, { params, body: whole })));
    return { path: file_path.replace(/^\/+/, ""), bytes: size };
  } finally {
    await handle.close();
  }
}

/** Asks again after a refusal because too much was sent within a minute: nothing was done then. */
export async function whenNotBusy<Answer>(
  ask: () => Promise<Answer>,
  pauseMs = busyMs,
): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof ApiRefused) || error.status !== 429 || tries === busyTriesMax)
        throw error;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
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
  const response = await fetch(client.reached(url), { redirect: "error" }).catch(
    (error: unknown) => {
      throw new Refused(`${client.url} does not send the file: ${fetchErrorMessage(error)}.`, {
        cause: error,
      });
    },
  );
  if (!response.ok)
    throw new Refused(`The file cannot be downloaded: the answer has status ${response.status}.`);
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
    throw new Refused(`The download broke off: ${fetchErrorMessage(error)}.`, { cause: error });
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
    throw misuse(`${file} cannot be read: ${fetchErrorMessage(error)}.`, error);
  }
  throw misuse(`${file} is not a file.`);
}

/** The etag of the part. A part that did not arrive is sent again. */
async function sentPart(
  handle: FileHandle,
  { part_number, url }: Part,
  size: number,
): Promise<string> {
  const start = (part_number - 1) * partBytes;
  const buffer = Buffer.alloc(Math.min(partBytes, size - start));
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, start);
  if (bytesRead < buffer.length)
    throw new Refused("The file became shorter while it was uploaded.");
  for (let tries = 1; ; tries++) {
    const failure = await put(url, buffer);
    if ("etag" in failure) return failure.etag;
    if (tries === triesMax || failure.isFinal)
      throw new Refused(`A part did not arrive: ${failure.why}`);
    await new Promise((resolve) => setTimeout(resolve, againMs * tries));
  }
}

async function put(
  url: string,
  body: Buffer<ArrayBuffer>,
): Promise<{ readonly etag: string } | { readonly why: string; readonly isFinal: boolean }> {
  try {
    const signal = AbortSignal.timeout(partMs);
    const response = boundedAnswer(
      await fetch(url, { method: "PUT", body, redirect: "error", signal }),
    );
    const text = await response.text();
    const etag = response.headers.get("etag");
    if (response.ok && etag !== null) return { etag };
    return {
      why: `status ${response.status}. ${plain(text.slice(0, 500))}`,
      isFinal: response.status < 500,
    };
  } catch (error) {
    return { why: `${fetchErrorMessage(error)}.`, isFinal: false };
  }
}
