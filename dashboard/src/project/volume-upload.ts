// Sends one file to the persistent storage: in parts, some at once, each again when the connection
// breaks. It is in its place only when all have arrived.
import { ApiError } from "@slipway/client/client.ts";
import { partBytes, partsMax } from "@slipway/contract/volume-routes.ts";
import { api, ask } from "#api.ts";

/** The path of a volume in the API. */
export const volumePath = "/v2/projects/{project_id}/volumes/{volume_id}";

/** The path parameters of the only volume of a project. */
export function volumeOf(project: string): { project_id: string; volume_id: string } {
  return { project_id: project, volume_id: "default" };
}

/**
 * An address of the platform as the page may call it: the policy allows only the page's own origin.
 */
export function ownAddress(url: string): string {
  const { pathname, search } = new URL(url, location.origin);
  return pathname + search;
}

/** More would share the same line. */
const partsAtOnce = 3;
const triesMax = 4;
const pauseMs = 1_000;

type Sending = {
  readonly project: string;
  readonly path: string;
  readonly file: File;
  readonly signal: AbortSignal;
  /** Gets how many bytes have been sent so far. */
  readonly onSent: (bytes: number) => void;
};

/**
 * Sends it. Rejects with `ApiError` when it is refused, and as `signal` says when it was cancelled.
 */
export async function sendFile({ project, path, file, signal, onSent }: Sending): Promise<void> {
  const count = Math.ceil(file.size / partBytes);
  if (count > partsMax)
    throw new ApiError(400, `The file is too large: at most ${partsMax * partBytes} bytes.`, null);
  const params = { path: volumeOf(project) };
  const body = { file_path: path, part_count: count };
  const begun = await ask(api.POST(`${volumePath}/cp/initialize`, { params, body, signal }));
  const sent = new Map<number, number>();
  const etags = new Map<number, string>();
  const waiting = [...begun.parts];
  const broken = new AbortController();
  const either = AbortSignal.any([signal, broken.signal]);
  const sendParts = async (): Promise<void> => {
    for (let part = waiting.shift(); part !== undefined; part = waiting.shift()) {
      const { part_number: number, url } = part;
      const first = (number - 1) * partBytes;
      const onPart = (bytes: number): void => {
        sent.set(number, bytes);
        onSent(sent.values().reduce((sum, one) => sum + one, 0));
      };
      const given = {
        url: ownAddress(url),
        blob: file.slice(first, first + partBytes),
        signal: either,
      };
      etags.set(number, await sendPart(given, onPart));
    }
  };
  const senders = Array.from({ length: partsAtOnce }, sendParts);
  try {
    await Promise.all(senders);
  } catch (error) {
    broken.abort();
    await Promise.allSettled(senders);
    throw error;
  }
  const parts = [...etags]
    .sort(([a], [b]) => a - b)
    .map(([number, etag]) => ({ part_number: number, etag }));
  const all = { upload_id: begun.upload_id, file_path: path, parts };
  await ask(api.POST(`${volumePath}/cp/complete`, { params, body: all, signal }));
}

type Part = { readonly url: string; readonly blob: Blob; readonly signal: AbortSignal };

/** Resolves with its etag. */
async function sendPart(part: Part, onSent: (bytes: number) => void): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      return await putOnce(part, onSent);
    } catch (error) {
      const isFinal = error instanceof ApiError && error.status < 500 && error.status !== 429;
      if (part.signal.aborted || isFinal || tries === triesMax) throw error;
      onSent(0);
      await pause(pauseMs * 2 ** tries, part.signal);
    }
  }
}

/** `fetch` does not say how far it is. */
function putOnce({ url, blob, signal }: Part, onSent: (bytes: number) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const request = new XMLHttpRequest();
    const onAbort = (): void => request.abort();
    signal.addEventListener("abort", onAbort);
    request.onloadend = () => signal.removeEventListener("abort", onAbort);
    request.upload.onprogress = ({ loaded }) => onSent(Math.min(loaded, blob.size));
    request.onerror = () => reject(new TypeError("The connection is broken."));
    request.onabort = () => reject(signal.reason as Error);
    request.onload = () => {
      const answer = parsed(request.responseText);
      if (request.status === 200 && answer.etag !== undefined) {
        onSent(blob.size);
        resolve(answer.etag);
      } else {
        reject(
          new ApiError(
            request.status,
            answer.message ?? `The platform answered ${request.status}.`,
            answer,
          ),
        );
      }
    };
    request.open("PUT", url);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.send(blob);
  });
}

function parsed(text: string): { readonly etag?: string; readonly message?: string } {
  try {
    return JSON.parse(text) as { etag?: string; message?: string };
  } catch {
    return {};
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal.addEventListener("abort", onAbort);
  });
}
