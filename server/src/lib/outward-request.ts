// Sends outward calls: POSTs and GETs to URLs that users or operators give. The URL is checked, and
// the number of calls and the time of each are bounded. The client follows no redirects, reads no
// more of the answer than it needs, and never rejects: a failure is returned as an answer.
import type { Clock } from "./clock.ts";
import { Gate } from "./gate.ts";
import { OutwardAgents } from "./outward-agents.ts";
import { exchange, type Exchange } from "./outward-exchange.ts";
import type { OutwardGuard } from "./outward-guard.ts";
import { makeNameLookup, type NameLookup } from "./outward-names.ts";

/** The method, the headers, the body and the limits of a call. */
export type OutwardPost = {
  /** By default POST. For a GET, the caller passes an empty `body`. */
  readonly method?: "GET";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /**
   * The timeout of the whole call: queue, lookup, connection, TLS, sending, answer. An answer whose
   * head arrived in time counts, even if its body is late.
   */
  readonly timeoutMs: number;
  /** How much of the answer's body to keep. */
  readonly answerBytesMax: number;
};

/**
 * The outcome of a call. Reasons are for users: without secrets, and without the address behind a
 * name.
 */
export type OutwardAnswer =
  | (Extract<Exchange, { readonly kind: "answered" }> & { readonly durationMs: number })
  | { readonly kind: "failed"; readonly reason: string; readonly durationMs: number };

export type OutwardClientOptions = {
  readonly guard: OutwardGuard;
  readonly clock: Clock;
  readonly userAgent: string;
  /** The name lookup; by default, DNS and the system. */
  readonly lookup?: NameLookup;
  /** CAs in PEM form, instead of those that Node trusts. */
  readonly authorities?: readonly string[];
  /** The maximum number of concurrent calls, and so of connections in use. */
  readonly totalMax?: number;
  /** The maximum number of concurrent calls to one receiver. */
  readonly perReceiverMax?: number;
};

/**
 * More than the usual number of concurrent deliveries. Each takes a connection, of which a process
 * can have a few thousand.
 */
const totalMaxDefault = 1_024;
/** Enough for a fast receiver, and no flood for a slow one. */
const perReceiverMaxDefault = 64;
/** The maximum number of waiting calls to all receivers; further calls are refused at once. */
const waitingMax = 10_000;
/**
 * The maximum number of waiting calls to one receiver: more than a slow receiver handles within the
 * timeout of a call.
 */
const keyWaitingMax = 2_000;

/** The client for outward calls. `close` ends calls that are under way. */
export class OutwardClient {
  readonly #options: OutwardClientOptions;
  readonly #agents: OutwardAgents;
  /** A slow receiver delays only calls to itself. */
  readonly #gate: Gate;
  #isClosed = false;

  constructor(options: OutwardClientOptions) {
    const {
      guard,
      authorities,
      totalMax = totalMaxDefault,
      perReceiverMax = perReceiverMaxDefault,
    } = options;
    this.#options = options;
    this.#gate = new Gate({ max: totalMax, keyMax: perReceiverMax, waitingMax, keyWaitingMax });
    const trust = authorities === undefined ? {} : { authorities };
    this.#agents = new OutwardAgents({
      guard,
      lookup: options.lookup ?? makeNameLookup(),
      perReceiverMax,
      ...trust,
    });
  }

  /** Sends once, and once more only if a kept connection turned out to be closed. Never rejects. */
  async post(url: string, post: OutwardPost): Promise<OutwardAnswer> {
    const { clock } = this.#options;
    const startedMs = clock.monotonicMs();
    const ended = await this.#attempt(url, post, startedMs + post.timeoutMs);
    const durationMs = Math.round(clock.monotonicMs() - startedMs);
    if (ended.kind === "failed") {
      return {
        kind: "failed",
        reason: this.#isClosed ? "the platform is stopping" : ended.reason,
        durationMs,
      };
    }
    return { ...ended, durationMs };
  }

  /** Ends all calls and closes all connections. */
  close(): void {
    this.#isClosed = true;
    this.#gate.close();
    this.#agents.close();
  }

  async #attempt(url: string, post: OutwardPost, endsAtMs: number): Promise<Exchange> {
    const target = this.#options.guard.read(url);
    if ("problem" in target) return failed(target.problem);
    if (this.#isClosed) return failed("the platform is stopping");
    const deadline = { waitMs: post.timeoutMs, clock: this.#options.clock };
    const leave = await this.#gate.enter({ key: target.url.host, deadline });
    if (leave === null) return failed(`too many calls were under way for ${post.timeoutMs} ms`);
    try {
      return await this.#send(target, post, endsAtMs);
    } finally {
      leave();
    }
  }

  async #send(
    target: { readonly url: URL; readonly host: string; readonly port: number },
    post: OutwardPost,
    endsAtMs: number,
  ): Promise<Exchange> {
    const { url, host, port } = target;
    const { clock } = this.#options;
    const agent = this.#agents.of(url.protocol);
    const { method = "POST" } = post;
    // A GET has no body, so it needs no length.
    const lengthHeader = method === "GET" ? {} : { "Content-Length": post.body.length };
    const headers = { ...post.headers, "User-Agent": this.#options.userAgent, ...lengthHeader };
    const request = { method, host, port, path: url.pathname + url.search, headers, agent };
    const send = (): Promise<Exchange> => {
      // The time may be over already, but a timeout has at least 1 ms.
      const timeoutMs = Math.max(1, Math.round(endsAtMs - clock.monotonicMs()));
      const { body, answerBytesMax } = post;
      return exchange({ protocol: url.protocol, request, body, clock, timeoutMs, answerBytesMax });
    };
    const first = await send();
    if (first.kind === "answered" || !first.isStale || this.#isClosed) return first;
    // The receiver may have closed its other idle connections too, so the second try must open a
    // new one.
    this.#agents.dropIdle(url.protocol, target);
    return send();
  }
}

function failed(reason: string): Exchange {
  return { kind: "failed", reason, isStale: false };
}
