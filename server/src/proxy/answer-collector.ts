// Collects an answer as it arrives, up to a limit: of a longer answer it keeps only the length.
// Used for runs and for forwarded answers.
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import { fieldList } from "./fields.ts";
import { GrowingBytes } from "./growing-bytes.ts";

/** Fields that say more about a body than its type. */
export type ContentField = "content-encoding" | "content-language" | "content-disposition";

/** Their values, one character per byte. */
export type ContentFields = Readonly<Partial<Record<ContentField, string>>>;

/** An answer as received from the app. */
export type CollectedAnswer = {
  readonly status: number;
  /** As the app sent it; null: the app sent none. */
  readonly contentType: string | null;
  /** Absent: the app sent none. */
  readonly contentFields?: ContentFields | null;
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
    const fields = head === null ? noFields : contentFieldsOf(head);
    return { status: head?.status ?? 0, ...fields, body, bodyBytes: this.#bodyBytes };
  }
}

type Content = Required<Pick<CollectedAnswer, "contentType" | "contentFields">>;

const noFields: Content = { contentType: null, contentFields: null };
/** Longer values are left out: nobody needs them. */
const valueCharactersMax = 1_024;

function contentFieldsOf(head: AnswerHead): Content {
  const list = fieldList(head.lines);
  let contentType: string | null = null;
  const contentFields: Partial<Record<ContentField, string>> = {};
  for (let index = 0; index + 1 < list.length; index += 2) {
    const name = list[index]?.toLowerCase() ?? "";
    const value = list[index + 1] ?? "";
    if (name === "content-type") contentType ??= value;
    if (!isContentField(name)) continue;
    const before = contentFields[name];
    const all = before === undefined ? value : `${before}, ${value}`;
    if (all.length <= valueCharactersMax) contentFields[name] = all;
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
