// Makes answers readable for whoever did not ask the app for them: results that are looked up
// later, webhooks. Their content codings are undone; an answer where that cannot be done keeps its
// field Content-Encoding.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import { withoutCodings } from "#lib/content-coding.ts";
import { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { CollectedAnswer } from "./answer-collector.ts";

/**
 * Decoding works in threads, of which there are few, and each holds up to the size limit of an
 * answer.
 */
const atOnceMax = 2;
/** Further answers are passed on as they are; most of these wait. */
const underWayMax = 1_000;

/** One for each way that answers take. */
export class AnswerDecoder {
  readonly #bytesMax: number;
  readonly #ownerKeyOf: OwnerKeyOf;
  readonly #gate = new Gate({ max: atOnceMax, keyMax: "half", waitingMax: underWayMax });
  #underWay = 0;

  /** `bytesMax`: a longer answer keeps its coding. */
  constructor(bytesMax: number, ownerKeyOf: OwnerKeyOf) {
    this.#bytesMax = bytesMax;
    this.#ownerKeyOf = ownerKeyOf;
  }

  /** True when the answer has a coding. */
  isNeeded({ body, contentFields }: CollectedAnswer): boolean {
    return body !== null && body.length > 0 && contentFields?.["content-encoding"] !== undefined;
  }

  /** The answer as everybody can read it. Never rejects. */
  async readable<Answer extends CollectedAnswer>(
    answer: Answer,
    projectId: ProjectId,
  ): Promise<Answer> {
    if (!this.isNeeded(answer) || this.#underWay === underWayMax) return answer;
    this.#underWay++;
    try {
      // While the database is away, a project counts to itself.
      const key = await this.#ownerKeyOf(projectId).catch(() => projectId);
      return await this.#decoded(answer, key);
    } finally {
      this.#underWay--;
    }
  }

  async #decoded<Answer extends CollectedAnswer>(answer: Answer, key: string): Promise<Answer> {
    const { body, contentFields } = answer;
    const { "content-encoding": coding, ...others } = contentFields ?? {};
    if (body === null || coding === undefined) return answer;
    const leave = await this.#gate.enter({ key });
    if (leave === null) return answer;
    const decoded = await withoutCodings(body, coding, this.#bytesMax).finally(leave);
    if (decoded === null) return answer;
    return { ...answer, body: decoded, bodyBytes: decoded.length, contentFields: others };
  }
}
