// Talks to the management API as whoever is signed in, and reads live logs.
import { bearer, forgetAccess, renew, storedToken } from "./session.js";

/** What the API answered in place of what was asked for. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** GETs JSON. Throws `ApiError`. */
export async function get(path, signal) {
  const response = await request(path, { headers: { accept: "application/json" }, signal });
  return await response.json();
}

/** Sends a change as JSON, and returns what was answered. Throws `ApiError`. */
export async function send(method, path, body = {}) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  const response = await request(path, { method, headers, body: JSON.stringify(body) });
  return await response.json();
}

/** As `send`, by nobody in particular: for signing in and for links that were mailed. */
export async function sendOpenly(method, path, body) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  const init = { method, headers, cache: "no-store", ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  const response = await fetch(path, init);
  return await (await checked(response)).json();
}

/** Follows server-sent events from `path`; calls `onEvent({id, event, data})` for each. Goes on after a broken connection; ends with an event `end` or with the signal. */
export async function follow(path, { onEvent, signal }) {
  let lastId = "";
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers = { accept: "text/event-stream", ...(lastId === "" ? {} : { "last-event-id": lastId }) };
      const response = await request(path, { headers, signal });
      for await (const event of eventsOf(response.body)) {
        failures = 0;
        if (event.id !== "") lastId = event.id;
        onEvent(event);
        if (event.event === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      if (error instanceof ApiError || failures > 10) throw error;
    }
    await pause(Math.min(500 * 2 ** failures, 10_000), signal);
  }
}

async function request(path, init) {
  const response = await fetchAs(await bearer(), path, init);
  if (response.status !== 401 || storedToken() !== null) return await checked(response);
  // The session may have ended, or only the access token.
  forgetAccess();
  const token = await renew();
  return await checked(token === null ? response : await fetchAs(token, path, init));
}

function fetchAs(token, path, { headers, ...init }) {
  const as = token === null ? {} : { authorization: `Bearer ${token}` };
  return fetch(path, { ...init, headers: { ...headers, ...as }, cache: "no-store" });
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(response.status, body.message ?? `The platform answered ${response.status}.`);
}

async function* eventsOf(stream) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunksOf(stream)) {
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event.data !== "") yield event;
    }
  }
}

/** Streams cannot be iterated in every browser. */
async function* chunksOf(stream) {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function parseEvent(block) {
  const event = { id: "", event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
    if (name !== undefined) event[name] = value;
  }
  return event;
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
