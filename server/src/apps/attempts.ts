// Records what an authenticated caller tried and was refused, or what failed under way: by itself, since there is no
// change to be one transaction with.
import type { AuditAction } from "@slipway/contract/words.ts";
import type { By } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

export type Attempt = {
  /** Null: of no project. */
  readonly projectId: ProjectId | null;
  readonly action: AuditAction;
  readonly by: By;
  /** What was to be acted on, as the path of the request names it. */
  readonly resource: { readonly type: string; readonly id: string };
  /** A sentence without secrets. */
  readonly reason: string;
};

/** Attempts that led to nothing. */
export class Attempts {
  readonly #db: Db;

  constructor({ db }: { readonly db: Db }) {
    this.#db = db;
  }

  /** Adds a row with the outcome failure. */
  async recordFailure(attempt: Attempt): Promise<void> {
    await record(this.#db, { ...attempt, outcome: "failure" });
  }
}
