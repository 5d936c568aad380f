// One request to a replica's runtime, on a kept-alive connection if there is one. The peer is the
// app's process, so nothing it says is trusted: every wait has a deadline, every size a bound. Used
// by `held-runs`.
import {
  request,
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from "node:http";
import { requestAddress } from "#drivers/address.ts";
import type { Address } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";

/**
 * A request to a replica. It must be idempotent: a kept-alive connection may turn out to be closed,
 * and then the request is repeated.
 */
export type Question = {
  readonly agent: Agent;
  readonly address: Address;
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  /** The request's body as JSON; null: no body. */
  readonly body: string | null;
  /** The total time, including the wait for a connection. */
  readonly waitMs: number;
  readonly signal?: AbortSignal;
  /** The size limit of the answer; a longer one is not read. */
  readonly bytesMax: (headers: IncomingHttpHeaders) => number;
  readonly clock: Clock;
};

/**
 * A complete answer, or the head of one that is too long. `body` null: it is longer than
 * `bytesMax`.
 */
export type ReplicaAnswer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer | null;
  /** The length of the body, even of one that was not read. */
  readonly bodyBytes: number;
};

/**
 * A healthy replica accepts at once: the kernel makes the connection even while the app computes.
 */
const connectWaitMs = 5_000;
/**
 * The time limit for the rest of an answer that has begun. It covers only the transfer, since the
 * replica already has the whole answer.
 */
const bodyWaitMs = 120_000;

/**
 * Sends the request. Rejects with an error whose message is a clause for the app's owner ("the
 * replica …").
 */
export async function askReplica(question: Question): Promise<ReplicaAnswer> {
  const endMs = question.clock.monotonicMs() + question.waitMs;
  try {
    return await new ReplicaRequest(question, question.agent, question.waitMs).answer;
  } catch (error) {
    if (!(error instanceof StaleConnection)) throw error;
    // The repeated request gets a new connection, because other kept-alive connections may be stale
    // too.
    const remainingMs = endMs - question.clock.monotonicMs();
    return await new ReplicaRequest(question, false, remainingMs).answer;
  }
}

/** The peer closed a kept-alive connection before it answered. */
class StaleConnection extends Error {}

/** One try of a request. `agent` false: over a new connection. */
class ReplicaRequest {
  readonly answer: Promise<ReplicaAnswer>;
  readonly #question: Question;
  readonly #request: ClientRequest;
  /** Each function cancels one timer. */
  readonly #timers = new Set<() => void>();
  readonly #resolve: (answer: ReplicaAnswer) => void;
  readonly #reject: (error: Error) => void;

  constructor(question: Question, agent: Agent | false, waitMs: number) {
    this.#question = question;
    const { promise, resolve, reject } = Promise.withResolvers<ReplicaAnswer>();
    this.answer = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#request = this.#send(agent);
    this.#within(waitMs, "did not answer in time");
    const { signal } = question;
    if (signal === undefined) return;
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  #send(agent: Agent | false): ClientRequest {
    const { address, method, path, body } = this.#question;
    const headers =
      body === null
        ? {}
        : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const clientRequest = request({ ...requestAddress(address), agent, method, path, headers });
    clientRequest.on("socket", (socket) => {
      if (!socket.connecting) return;
      const connected = this.#within(connectWaitMs, "did not accept a connection in time");
      socket.once("connect", connected);
    });
    clientRequest.on("response", (response) => this.#read(response));
    clientRequest.on("error", (error) => this.#fail(this.#errorOf(error)));
    clientRequest.end(body ?? undefined);
    return clientRequest;
  }

  #read(response: IncomingMessage): void {
    // Every response has a status, so the 0 only satisfies the compiler.
    const { headers, statusCode: status = 0 } = response;
    response.on("error", (error) => this.#fail(broken(error)));
    const bodyBytes = lengthOf(response);
    if (bodyBytes === null)
      return this.#fail(new Error("the replica's answer does not say how long it is"));
    if (bodyBytes > this.#question.bytesMax(headers)) {
      this.#settle(() => this.#resolve({ status, headers, body: null, bodyBytes }));
      response.destroy();
      return;
    }
    this.#within(bodyWaitMs, "did not send the rest of its answer in time");
    const pieces: Buffer[] = [];
    response.on("data", (piece: Buffer) => pieces.push(piece));
    response.on("end", () => {
      if (!response.complete) return this.#fail(new Error("the replica's answer broke off"));
      const body = Buffer.concat(pieces);
      this.#settle(() => this.#resolve({ status, headers, body, bodyBytes: body.length }));
    });
  }

  #errorOf(error: NodeJS.ErrnoException): Error {
    const isClosed = error.code === "ECONNRESET" || error.code === "EPIPE";
    if (isClosed && this.#request.reusedSocket) return new StaleConnection("", { cause: error });
    return broken(error);
  }

  readonly #onAbort = (): void =>
    this.#fail(new Error("nobody waits for the replica's answer any more"));

  /**
   * Lets the request fail after `waitMs`; `what` says what the replica did not do until then. The
   * returned function cancels the timer.
   */
  #within(waitMs: number, what: string): () => void {
    const cancel = this.#question.clock.after(Math.max(0, waitMs), () =>
      this.#fail(new Error(`the replica ${what}`)),
    );
    this.#timers.add(cancel);
    return cancel;
  }

  #fail(error: Error): void {
    this.#settle(() => this.#reject(error));
    this.#request.destroy();
  }

  /** Ends all waits, then reports the answer or the error. Only the first report counts. */
  #settle(report: () => void): void {
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    this.#question.signal?.removeEventListener("abort", this.#onAbort);
    report();
  }
}

/** The body length according to the head; null: the head does not say it. */
function lengthOf(response: IncomingMessage): number | null {
  // Answers with these statuses have no body, whatever their head says.
  if (response.statusCode === 204 || response.statusCode === 304) return 0;
  const length = response.headers["content-length"];
  // A number of 15 digits is still exact.
  return length !== undefined && /^\d{1,15}$/.test(length) ? Number(length) : null;
}

function broken(error: NodeJS.ErrnoException): Error {
  return new Error(`the replica could not be asked (${error.code ?? "broken connection"})`, {
    cause: error,
  });
}
