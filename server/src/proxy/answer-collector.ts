// Collects an answer as it arrives. If the body exceeds a limit, only its length is kept. Used for
// runs and for forwarded answers.
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import { fieldList } from "./fields.ts";
import { GrowingBytes } from "./growing-bytes.ts";

/** The fields that describe a body, besides `Content-Type`. */
export type ContentField = "content-encoding" | "content-language" | "content-disposition";

/** The values of content fields, one character per byte. */
export type ContentFields = Readonly<Partial<Record<ContentField, string>>>;

/** An answer as received from the app. */
export type CollectedAnswer = {
  readonly status: number;
  /** The `Content-Type`, as the app sent it; null: the app sent none. */
  readonly contentType: string | null;
  /** Null or absent: the app sent none. */
  readonly contentFields?: ContentFields | null;
  /** Null: the body was longer than the limit, or was dropped. */
  readonly body: Buffer | null;
  /** The length of the body that the app sent, even if `body` is null. */
  readonly bodyBytes: number;
};

/** Collects one answer. */
export class AnswerCollector {
  readonly #bytesMax: number;
  #head: AnswerHead | null = null;
  /** Null: the body is too long, or was dropped. */
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
    // Zero: the length is not known in advance.
    const expectedBytes = this.#head?.body === "length" ? this.#head.bodyBytes : 0;
    this.#body?.add(piece, expectedBytes);
  }

  /** How many bytes of the body are in memory. */
  get heldBytes(): number {
    return this.#body?.length ?? 0;
  }

  /** Drops the body; from now on only its length is counted. */
  drop(): void {
    this.#body = null;
  }

  /** The collected answer; call this at the answer's end. */
  answer(): CollectedAnswer {
    const head = this.#head;
    const body = this.#body === null ? null : this.#body.bytes();
    const fields = head === null ? noFields : contentFieldsOf(head);
    // At the end of an answer, its head is always there.
    return { status: head?.status ?? 0, ...fields, body, bodyBytes: this.#bodyBytes };
  }
}

type Content = Required<Pick<CollectedAnswer, "contentType" | "contentFields">>;

const noFields: Content = { contentType: null, contentFields: null };
/** Longer values of content fields are left out: nobody needs them. */
const valueCharactersMax = 1_024;

function contentFieldsOf(head: AnswerHead): Content {
  // Names and values alternate.
  const list = fieldList(head.lines);
  let contentType: string | null = null;
  const contentFields: Partial<Record<ContentField, string>> = {};
  for (let index = 0; index + 1 < list.length; index += 2) {
    const name = list[index]?.toLowerCase() ?? "";
    const value = list[index + 1] ?? "";
    if (name === "content-type") contentType ??= value;
    if (!isContentField(name)) continue;
    const earlier = contentFields[name];
    const joined = earlier === undefined ? value : `${earlier}, ${value}`;
    if (joined.length <= valueCharactersMax) contentFields[name] = joined;
  }
  return {
    contentType,
    contentFields: Object.keys(contentFields).length === 0 ? null : contentFields,
  };
}

function isContentField(name: string): name is ContentField {
  return (
    name === "content-encoding" || name === "content-language" || name === "content-disposition"
  );
}
