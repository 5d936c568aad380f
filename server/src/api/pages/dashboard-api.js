// Talks to the management API with the token of this browser tab, and reads live logs.

const tokenKey = "slipway.token";

/** The token that was given in this tab; null: none. */
export function storedToken() {
  return sessionStorage.getItem(tokenKey);
}

/** Keeps a token for this tab; null forgets it. */
export function storeToken(token) {
  if (token === null) sessionStorage.removeItem(tokenKey);
  else sessionStorage.setItem(tokenKey, token);
}

/** What the API answered in place of what was asked for. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** GETs JSON. Throws `ApiError`. */
export async function get(path, signal) {
  const response = await request(path, { accept: "application/json" }, signal);
  return await response.json();
}

/** Follows server-sent events from `path`; calls `onEvent({id, event, data})` for each. Goes on after a broken connection; ends with an event `end` or with the signal. */
export async function follow(path, { onEvent, signal }) {
  let lastId = "";
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers = { accept: "text/event-stream", ...(lastId === "" ? {} : { "last-event-id": lastId }) };
      const response = await request(path, headers, signal);
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

async function request(path, headers, signal) {
  const response = await fetch(path, {
    headers: { ...headers, authorization: `Bearer ${storedToken() ?? ""}` },
    signal,
    cache: "no-store",
  });
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
