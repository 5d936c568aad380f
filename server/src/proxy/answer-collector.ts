// Collects an answer as it arrives, up to a limit: of a longer answer it keeps only the length. Used for runs and for
// forwarded answers.
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import { fieldList } from "./fields.ts";
import { GrowingBytes } from "./growing-bytes.ts";

/** An answer as received from the app. */
export type CollectedAnswer = {
  readonly status: number;
  /** As the app sent it; null: the app sent none. */
  readonly contentType: string | null;
  /** Null: longer than the limit. */
  readonly body: Buffer | null;
  readonly bodyBytes: number;
};

/** Collects one answer. */
export class AnswerCollector {
  readonly #bytesMax: number;
  #head: AnswerHead | null = null;
  /** Null: the answer is too long. */
  #body: GrowingBytes | null = new GrowingBytes();
  #bodyBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  head(head: AnswerHead): void {
    this.#head = head;
  }

  add(piece: Piece): void {
    this.#bodyBytes += piece.length;
    if (this.#bodyBytes > this.#bytesMax) this.#body = null;
    this.#body?.add(piece, this.#head?.body === "length" ? this.#head.bodyBytes : 0);
  }

  /** How many bytes it holds. */
  get heldBytes(): number {
    return this.#body?.length ?? 0;
  }

  /** Drops the body and keeps only counting its length. */
  drop(): void {
    this.#body = null;
  }

  /** What has arrived; call it at the end. */
  answer(): CollectedAnswer {
    const head = this.#head;
    const body = this.#body === null ? null : this.#body.bytes();
    const contentType = head === null ? null : contentTypeOf(head);
    return { status: head?.status ?? 0, contentType, body, bodyBytes: this.#bodyBytes };
  }
}

function contentTypeOf(head: AnswerHead): string | null {
  const list = fieldList(head.lines);
  for (let index = 0; index + 1 < list.length; index += 2) {
    if (list[index]?.toLowerCase() === "content-type") return list[index + 1] ?? null;
  }
  return null;
}
