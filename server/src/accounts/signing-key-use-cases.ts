// What operators do with the keys that sign tokens: see them, have a new one sign, withdraw one that was stolen or is not
// needed any more. A change and its audit row are one transaction; every platform follows within a second of the commit.
import { Fault } from "#lib/fault.ts";
import type { Clock } from "#lib/clock.ts";
import type { By } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { countedKeys, markWithdrawn, type CountedKey } from "./key-store.ts";
import type { SigningKeys } from "./keys.ts";

/** The use cases. */
export class SigningKeyUseCases {
  readonly #db: Db;
  readonly #keys: SigningKeys;
  readonly #clock: Clock;

  constructor(parts: { readonly db: Db; readonly keys: SigningKeys; readonly clock: Clock }) {
    this.#db = parts.db;
    this.#keys = parts.keys;
    this.#clock = parts.clock;
  }

  /** Newest first, withdrawn ones too. */
  list(): Promise<CountedKey[]> {
    return countedKeys(this.#db, new Date(this.#clock.now()));
  }

  /** Has a new key sign from now on; what the others signed stays valid. */
  async rotate(by: By): Promise<CountedKey> {
    const { id } = await this.#db.transaction().execute((tx) => this.#keys.rotate(tx, by));
    await this.#keys.load(this.#db);
    return await this.#one(id);
  }

  /**
   * Ends a retired key and what it signed. Throws `Fault("conflict")` for the one that signs and, unless forced, while valid
   * tokens with a row are signed by it; access tokens of people have none, and last some hours.
   */
  async withdraw(id: string, isForced: boolean, by: By): Promise<CountedKey> {
    const key = await this.#one(id);
    if (key.retired_at === null)
      throw new Fault("conflict", `The key ${id} is the current signing key: create a new one first.`);
    if (key.validTokens > 0 && !isForced) {
      const message = `The key ${id} has signed ${key.validTokens} tokens that are still valid: rotate them first, or revoke them with force=true.`;
      throw new Fault("conflict", message);
    }
    await this.#db.transaction().execute(async (tx) => {
      const [at, publicSealed] = [new Date(this.#clock.now()), this.#keys.sealedForWithdrawal(id)];
      if (!(await markWithdrawn(tx, { keyId: id, at, publicSealed }))) throw notThere(id);
      await record(tx, {
        projectId: null,
        action: "signing_key.withdraw",
        by,
        resource: { type: "signing_key", id },
        changes: { validTokens: { old: key.validTokens, new: 0 } },
      });
      await notify(tx, "tokens", id);
    });
    await this.#keys.load(this.#db);
    return await this.#one(id);
  }

  async #one(id: string): Promise<CountedKey> {
    const key = (await this.list()).find((candidate) => candidate.id === id);
    if (key === undefined) throw notThere(id);
    return key;
  }
}

function notThere(id: string): Fault {
  return new Fault("not_found", `There is no signing key ${id}, or it was already withdrawn.`);
}
