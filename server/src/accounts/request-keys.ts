// Idempotency keys of requests to the management API: the same request with the same key acts once
// and gets the first answer again for a day. Key and effect are not one transaction: if the
// platform ends between them, a repetition is told that nobody knows how the first request ended,
// and never acts a second time.
import { createHash } from "node:crypto";
import { Fault } from "#lib/fault.ts";
import type { Foundation } from "#store/foundation.ts";
import { actorOf, type Caller } from "./caller.ts";
import * as store from "./request-key-store.ts";

/** A request with a key. `content`: all that must be the same in a repetition. */
export type KeyedRequest = {
  readonly caller: Caller;
  readonly key: string;
  readonly content: string;
};

type Answered = { readonly answer: object | undefined; readonly isRepeated: boolean };

const keptMs = 86_400_000;

/** The sealing context of an answer: it may show a secret, once. */
export function requestAnswerContext({ caller, key_hash }: store.RequestKeyId): string {
  return `request-answer:${caller}:${key_hash.toString("hex")}`;
}

/** The keys of all callers. */
export class RequestKeys {
  readonly #parts: Pick<Foundation, "db" | "sealer" | "clock" | "log">;
  /** What this platform is handling; the rest without an answer was never finished. */
  readonly #running = new Set<string>();

  constructor(parts: Pick<Foundation, "db" | "sealer" | "clock" | "log">) {
    this.#parts = parts;
  }

  /**
   * Acts, or returns the first answer. Throws `Fault("key_reused" | "conflict")`, and what `act`
   * throws.
   */
  async once(
    { caller, key, content }: KeyedRequest,
    act: () => Promise<object | undefined>,
  ): Promise<Answered> {
    const { db, clock } = this.#parts;
    const id = { caller: `${caller.kind}:${actorOf(caller).id}`, key_hash: sha256(key) };
    const request_hash = sha256(content);
    const name = requestAnswerContext(id);
    const created_at = new Date(clock.now());
    const isMine = !this.#running.has(name);
    this.#running.add(name);
    try {
      const olderThan = new Date(created_at.getTime() - keptMs);
      if (isMine && (await store.takeKey(db, { ...id, request_hash, created_at }, olderThan))) {
        return { answer: await this.#act(id, act), isRepeated: false };
      }
      return {
        answer: await this.#first(id, { request_hash, isRunning: !isMine }),
        isRepeated: true,
      };
    } finally {
      if (isMine) this.#running.delete(name);
    }
  }

  /** A refusal changes nothing, so its key is free again. After other failures nobody knows. */
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
      // The caller gets its answer; only a repetition will not.
      log.error(
        { err: error },
        "the answer to a request with an Idempotency-Key could not be stored",
      );
    }
    return answer;
  }

  async #first(
    id: store.RequestKeyId,
    given: { readonly request_hash: Buffer; readonly isRunning: boolean },
  ): Promise<object> {
    const row = await store.readKey(this.#parts.db, id);
    if (row !== undefined && !row.request_hash.equals(given.request_hash)) throw reused();
    if (row === undefined || (row.answer_sealed === null && given.isRunning)) throw running();
    if (row.answer_sealed === null) throw unfinished();
    return JSON.parse(
      this.#parts.sealer.open(row.answer_sealed, requestAnswerContext(id)).reveal(),
    ) as object;
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
