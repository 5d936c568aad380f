// Records attempts of authenticated callers that were refused or failed, in a separate transaction since there is no
// change to combine them with.
import type { AuditAction } from "@slipway/contract/words.ts";
import type { By } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

export type Attempt = {
  /** Null: no project. */
  readonly projectId: ProjectId | null;
  readonly action: AuditAction;
  readonly by: By;
  /** The target, as named in the path of the request. */
  readonly resource: { readonly type: string; readonly id: string };
  /** A sentence without secrets. */
  readonly reason: string;
};

/** Records failed attempts. */
export class Attempts {
  readonly #db: Db;

  constructor({ db }: { readonly db: Db }) {
    this.#db = db;
  }

  /** Adds an audit row with the outcome failure. */
  async recordFailure(attempt: Attempt): Promise<void> {
    await record(this.#db, { ...attempt, outcome: "failure" });
  }
}
