// Idempotency keys of requests to the management API: the first request with a key acts, and for a
// day each repetition gets the first answer again. The key and the effect of the request are not
// written in one transaction. If the platform ends between the two, a repetition is refused,
// since nobody knows whether the first request had its effect; it never acts a second time.
import { createHash } from "node:crypto";
import { Fault } from "#lib/fault.ts";
import type { Foundation } from "#store/foundation.ts";
import { actorOf, type Caller } from "./caller.ts";
import * as store from "./request-key-store.ts";

export type KeyedRequest = {
  readonly caller: Caller;
  readonly key: string;
  /** The method, the path and the body, which must be the same in a repetition. */
  readonly content: string;
};

/** `answer` undefined: the request has none. `isRepeated`: the answer was stored earlier. */
type Answered = { readonly answer: object | undefined; readonly isRepeated: boolean };

const keyLifetimeMs = 86_400_000;

/** The context for sealing an answer. Answers are sealed because they may contain a secret. */
export function requestAnswerContext({ caller, key_hash }: store.RequestKeyId): string {
  return `request-answer:${caller}:${key_hash.toString("hex")}`;
}

/** The keys of all callers. */
export class RequestKeys {
  readonly #parts: Pick<Foundation, "db" | "sealer" | "clock" | "log">;
  /**
   * The keys of requests that this process is handling. Any other key without an answer belongs to
   * a request that was cut off.
   */
  readonly #running = new Set<string>();

  constructor(parts: Pick<Foundation, "db" | "sealer" | "clock" | "log">) {
    this.#parts = parts;
  }

  /**
   * Calls `act` for the first request with this key, and returns the first answer for a repetition.
   * Throws `Fault("key_reused" | "conflict")`, and what `act` throws.
   */
  async once(
    { caller, key, content }: KeyedRequest,
    act: () => Promise<object | undefined>,
  ): Promise<Answered> {
    const { db, clock } = this.#parts;
    const id = { caller: `${caller.kind}:${actorOf(caller).id}`, key_hash: sha256(key) };
    const request_hash = sha256(content);
    const runningKey = requestAnswerContext(id);
    const created_at = new Date(clock.now());
    const isRunning = this.#running.has(runningKey);
    if (isRunning) return await this.#repeat(id, { request_hash, isRunning });
    this.#running.add(runningKey);
    try {
      const olderThan = new Date(created_at.getTime() - keyLifetimeMs);
      const isFirst = await store.takeKey(db, { ...id, request_hash, created_at }, olderThan);
      if (isFirst) return { answer: await this.#act(id, act), isRepeated: false };
      // This process is not handling the first request, so without an answer it was cut off.
      return await this.#repeat(id, { request_hash, isRunning });
    } finally {
      this.#running.delete(runningKey);
    }
  }

  /**
   * Calls `act` and stores its answer. A refusal (`Fault`) changes nothing, so it frees the key.
   * After any other error the key stays taken, since the request may have had its effect.
   */
  async #act(
    id: store.RequestKeyId,
    act: () => Promise<object | undefined>,
  ): Promise<object | undefined> {
    const { db, sealer, log } = this.#parts;
    let answer: object | undefined;
    try {
      answer = await act();
    } catch (error) {
      if (error instanceof Fault) await store.dropKey(db, id);
      throw error;
    }
    try {
      await store.writeAnswer(
        db,
        id,
        sealer.seal(JSON.stringify(answer), requestAnswerContext(id)),
      );
    } catch (error) {
      // This caller still gets the answer; only a repetition does not.
      log.error(
        { err: error },
        "the answer to a request with an Idempotency-Key could not be stored",
      );
    }
    return answer;
  }

  /** The stored answer of the first request. `isRunning`: this process is still handling it. */
  async #repeat(
    id: store.RequestKeyId,
    repetition: { readonly request_hash: Buffer; readonly isRunning: boolean },
  ): Promise<Answered> {
    const { db, sealer } = this.#parts;
    const row = await store.readKey(db, id);
    // The first request was refused just now, which freed the key: the caller may try again.
    if (row === undefined) throw running();
    if (!row.request_hash.equals(repetition.request_hash)) throw reused();
    if (row.answer_sealed === null) throw repetition.isRunning ? running() : unfinished();
    const answer = sealer.open(row.answer_sealed, requestAnswerContext(id)).reveal();
    return { answer: JSON.parse(answer) as object, isRepeated: true };
  }
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function reused(): Fault {
  const text =
    "This Idempotency-Key was used within 24 hours for a request with another method, path or body.";
  return new Fault("key_reused", text);
}

function running(): Fault {
  const text =
    "The first request with this Idempotency-Key is still being handled; try again in a moment.";
  return new Fault("conflict", text, { retryAfterSeconds: 1 });
}

function unfinished(): Fault {
  const text =
    "The first request with this Idempotency-Key was cut off, and may have had its effect: check what exists, then use a new key.";
  return new Fault("conflict", text);
}
