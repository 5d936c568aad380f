// Decodes compressed answers for readers that have not chosen the compression themselves: webhooks,
// and results that are read later. An answer that cannot be decoded keeps its field
// Content-Encoding.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import { withoutCodings } from "#lib/content-coding.ts";
import { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { CollectedAnswer } from "./answer-collector.ts";

/**
 * Only a few at once: each decoding uses a thread, and memory up to the size limit of an answer.
 */
const decodingsMax = 2;
/** How many answers may be in decoding or wait for it; further ones are passed on compressed. */
const acceptedMax = 1_000;

/** Decodes answers; results and webhooks have one decoder each, so neither delays the other. */
export class AnswerDecoder {
  readonly #bytesMax: number;
  readonly #ownerKeyOf: OwnerKeyOf;
  /** `half`: an owner that already has a slot does not get the last free one. */
  readonly #gate = new Gate({ max: decodingsMax, keyMax: "half", waitingMax: acceptedMax });
  /** How many answers are in decoding or wait for it. */
  #accepted = 0;

  /** An answer that is longer than `bytesMax` when decoded stays compressed. */
  constructor(bytesMax: number, ownerKeyOf: OwnerKeyOf) {
    this.#bytesMax = bytesMax;
    this.#ownerKeyOf = ownerKeyOf;
  }

  /** True when the answer is compressed. */
  isNeeded({ body, contentFields }: CollectedAnswer): boolean {
    return body !== null && body.length > 0 && contentFields?.["content-encoding"] !== undefined;
  }

  /** The decoded answer, or the same answer if it cannot be decoded. Never rejects. */
  async readable<Answer extends CollectedAnswer>(
    answer: Answer,
    projectId: ProjectId,
  ): Promise<Answer> {
    if (!this.isNeeded(answer) || this.#accepted === acceptedMax) return answer;
    this.#accepted++;
    try {
      // Each owner has a share of the slots. If the database cannot name the owner, the project
      // counts as an owner of its own.
      const key = await this.#ownerKeyOf(projectId).catch(() => projectId);
      return await this.#decoded(answer, key);
    } finally {
      this.#accepted--;
    }
  }

  async #decoded<Answer extends CollectedAnswer>(answer: Answer, key: string): Promise<Answer> {
    const { body, contentFields } = answer;
    const { "content-encoding": coding, ...otherFields } = contentFields ?? {};
    if (body === null || coding === undefined) return answer;
    const leave = await this.#gate.enter({ key });
    if (leave === null) return answer;
    const decoded = await withoutCodings(body, coding, this.#bytesMax).finally(leave);
    if (decoded === null) return answer;
    return { ...answer, body: decoded, bodyBytes: decoded.length, contentFields: otherFields };
  }
}
