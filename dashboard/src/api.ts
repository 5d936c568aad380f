// Talks to the management API as whoever is signed in, with the typed client; and reads what is no
// JSON: live logs, and answers of apps.
import { answerOf, ApiError, createClient } from "@slipway/client/client.ts";
import { noteAnswer, noteFailure, whenBack } from "./connection.ts";
import { eventsOf, type ServerEvent } from "./event-stream.ts";
import { bearer, forgetAccess, renew, storedToken } from "./session.ts";

/** Asks as whoever is signed in. */
export const api = createClient({ url: location.origin, fetch: fetchSignedIn });

/** Asks as nobody in particular: for signing in and for links that were mailed. */
export const openApi = createClient({ url: location.origin });

/** The answer; throws `ApiError` with the platform's own words. */
export async function ask<Data>(
  asked: Parameters<typeof answerOf<Data>>[0],
): Promise<Exclude<Data, undefined>> {
  return (await answerOf(asked)) as Exclude<Data, undefined>;
}

/** The answer; null where the platform says that there is none (404). */
export async function askIfThere<Data>(
  asked: Parameters<typeof ask<Data>>[0],
): Promise<Exclude<Data, undefined> | null> {
  try {
    return await ask(asked);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** What to say of an error: the platform's own words, where it has answered. */
export function messageOf(error: unknown): string {
  if (!(error instanceof ApiError)) return "The platform cannot be reached. Try again.";
  // It may repeat what somebody typed, of which nothing turns the direction of the rest.
  return error.message.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/**
 * Sends a request with the token of whoever is signed in, once more with a new one when the
 * session's was refused.
 */
export async function fetchSignedIn(request: Request): Promise<Response> {
  const again = request.clone();
  const response = await fetchAs(await bearer(), request);
  if (response.status !== 401 || storedToken() !== null) return response;
  // The session may have ended, or only the access token.
  forgetAccess();
  const token = await renew();
  return token === null ? response : await fetchAs(token, again);
}

type Follower = {
  readonly onEvent: (event: ServerEvent) => void;
  readonly signal: AbortSignal;
  /** Goes on after this event. */
  readonly lastId?: string;
};

const pauseMsMax = 10_000;
/** The platform writes something every 15 seconds. */
const silenceMsMax = 40_000;

/**
 * Follows server-sent events from `path`. Goes on after a broken or silent connection for as long
 * as the page is open; ends with an event `end` or with the signal, and throws when the platform
 * refuses.
 */
export async function follow(
  path: string,
  { onEvent, signal, lastId: seenId = "" }: Follower,
): Promise<void> {
  let lastId = seenId;
  let failures = 0;
  while (!signal.aborted) {
    const line = new Line(signal);
    try {
      const headers = {
        accept: "text/event-stream",
        ...(lastId === "" ? {} : { "last-event-id": lastId }),
      };
      const request = new Request(new URL(path, location.origin), {
        headers,
        signal: line.signal,
        cache: "no-store",
      });
      const response = await fetchSignedIn(request);
      if (!response.ok || response.body === null) throw await refusalOf(response);
      for await (const event of eventsOf(response.body, () => line.isAlive())) {
        failures = 0;
        if (event.id !== "") lastId = event.id;
        onEvent(event);
        if (event.event === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      // Everything else passes by itself.
      if (error instanceof ApiError && error.status < 500 && error.status !== 429) throw error;
    } finally {
      line.close();
    }
    await pause(Math.min(500 * 2 ** failures, pauseMsMax), signal);
  }
}

/**
 * A connection that is given up when nothing has come for long, or when the computer has slept
 * meanwhile.
 */
class Line {
  readonly signal: AbortSignal;
  readonly #broken = new AbortController();
  readonly #stopWatching: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(page: AbortSignal) {
    this.signal = AbortSignal.any([page, this.#broken.signal]);
    this.#stopWatching = whenBack(() => this.#broken.abort());
    this.isAlive();
  }

  /** Something has come. */
  isAlive(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#broken.abort(), silenceMsMax);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#stopWatching();
  }
}

/** What a response that is no success says. */
export async function refusalOf(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as { message?: string };
  return new ApiError(
    response.status,
    body.message ?? `The platform answered ${response.status}.`,
    body,
  );
}

async function fetchAs(token: string | null, request: Request): Promise<Response> {
  if (token !== null) request.headers.set("authorization", `Bearer ${token}`);
  try {
    const response = await fetch(request);
    noteAnswer(response.status);
    return response;
  } catch (error) {
    if (!request.signal.aborted) noteFailure();
    throw error;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      stopWatching();
      resolve();
    };
    const timer = setTimeout(done, ms);
    const stopWatching = whenBack(done);
    signal.addEventListener("abort", done);
  });
}
