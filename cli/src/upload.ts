// Sends a zip to the address that the platform gave, in parts: after a lost connection the platform
// says how much it has, and the upload goes on there. The address is the proof; no token is sent.
import { createReadStream } from "node:fs";
import { request as requestHttp, type IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import { finished } from "node:stream/promises";
import { errorMessage } from "./error-message.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";

/** The platform does not take the upload. */
export class UploadRefused extends Refused {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export type Upload = {
  readonly url: string;
  readonly path: string;
  readonly bytes: number;
  /** How much the platform has. */
  readonly onProgress: (bytes: number) => void;
  readonly onTrouble: (message: string) => void;
  /** The pause before the first repetition; each further one is twice as long. */
  readonly againMs?: number;
};

/** So small that the answer to it arrives even if it is a refusal, such as of the whole size. */
const firstPartBytes = 65_536;
/** What is sent again at most, if the platform cannot be asked how much it has. */
const partBytes = 32 * 1024 * 1024;
/** No byte is taken and no answer comes for this long. */
const silenceMs = 60_000;
/** Tries in a row in which nothing more arrives. */
const triesMax = 6;
const answerCharactersMax = 100_000;

/**
 * Resolves when all of it is stored. Throws `UploadRefused`, or `Refused` when the platform cannot
 * be reached any more.
 */
export async function upload(given: Upload): Promise<void> {
  const { url, bytes, onProgress, onTrouble, againMs = 1000 } = given;
  let stored = 0;
  let most = 0;
  for (let tries = 0; stored < bytes;) {
    try {
      const to = Math.min(bytes, stored + (stored === 0 ? firstPartBytes : partBytes));
      stored = await sendPart(given, { from: stored, to });
      if (stored <= most) throw new Refused("the platform stored nothing of it");
      most = stored;
      tries = 0;
      onProgress(stored);
    } catch (error) {
      const isFinal = error instanceof UploadRefused && !isTemporary(error.status);
      tries++;
      if (isFinal) throw error;
      const why = errorMessage(error);
      if (tries >= triesMax) throw new Refused(`The upload cannot go on: ${why}`, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, againMs * 2 ** (tries - 1)));
      stored = (await storedAt(url).catch(() => null)) ?? stored;
      onTrouble(
        `The upload was interrupted (${why}); going on at ${megabytes(stored)} of ${megabytes(bytes)}.`,
      );
    }
  }
}

/** Formats a size for people, in megabytes. */
export function megabytes(bytes: number): string {
  return bytes < 100_000 ? `${Math.ceil(bytes / 100) / 10} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** A second request has taken over (409), or the platform has trouble of its own. */
function isTemporary(status: number): boolean {
  return status === 409 || status === 408 || status === 429 || status >= 500;
}

async function storedAt(url: string): Promise<number> {
  const { status, body } = await answerTo(url, "GET", {});
  return status === 200 ? bytesIn(body) : 0;
}

async function sendPart(
  { url, path, bytes, onProgress }: Upload,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<number> {
  const headers = {
    "content-type": "application/zip",
    "content-length": String(to - from),
    "content-range": `bytes ${from}-${to - 1}/${bytes}`,
  };
  const { status, body } = await answerTo(url, "PUT", headers, (request) => {
    const file = createReadStream(path, { start: from, end: to - 1 });
    let sent = from;
    file.on("data", (part) => onProgress((sent += part.length)));
    file.on("error", (error) => request.destroy(error));
    request.on("close", () => file.destroy());
    file.pipe(request);
  });
  if (status === 200) return bytesIn(body);
  throw new UploadRefused(
    status,
    messageIn(body) ?? `The platform answered the upload with status ${status}.`,
  );
}

type Sent = ReturnType<typeof requestHttp>;
type Answer = { readonly status: number; readonly body: unknown };

async function answerTo(
  url: string,
  method: "GET" | "PUT",
  headers: Readonly<Record<string, string>>,
  send: (request: Sent) => void = (request) => void request.end(),
): Promise<Answer> {
  const request = (url.startsWith("https:") ? requestHttps : requestHttp)(url, {
    method,
    headers,
    agent: false,
  });
  request.setTimeout(silenceMs, () =>
    request.destroy(new Error(`no answer within ${silenceMs / 1000} s`)),
  );
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request.on("response", resolve);
    // After the answer it only means that the rest of the body was not wanted.
    request.on("error", reject);
    send(request);
  });
  let text = "";
  response.setEncoding("utf8").on("data", (part: string) => {
    if (text.length < answerCharactersMax) text += part;
    else response.destroy(new Error("its answer does not end"));
  });
  await finished(response, { writable: false });
  request.destroy();
  return { status: response.statusCode ?? 0, body: parsed(text) };
}

function bytesIn(body: unknown): number {
  const found =
    typeof body === "object" && body !== null && "receivedBytes" in body
      ? body.receivedBytes
      : null;
  if (typeof found === "number" && Number.isSafeInteger(found) && found >= 0) return found;
  throw new Refused("The platform's answer to the upload is not what a Slipway platform says.");
}

function messageIn(body: unknown): string | null {
  const found =
    typeof body === "object" && body !== null && "message" in body ? body.message : null;
  return typeof found === "string" ? plain(found) : null;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not the platform's: the status has to do.
    return null;
  }
}
