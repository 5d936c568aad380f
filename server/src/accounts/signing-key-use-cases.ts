// Operators list the keys that sign tokens, switch to a new one, and withdraw one that was stolen or is no longer needed. A
// change and its audit row are one transaction; every platform follows within a second of the commit.
import { Fault } from "#lib/fault.ts";
import type { Clock } from "#lib/clock.ts";
import type { By } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { countedKeys, markWithdrawn, type CountedKey } from "./key-store.ts";
import type { SigningKeys } from "./keys.ts";

/** Use cases for signing keys. */
export class SigningKeyUseCases {
  readonly #db: Db;
  readonly #keys: SigningKeys;
  readonly #clock: Clock;

  constructor(parts: { readonly db: Db; readonly keys: SigningKeys; readonly clock: Clock }) {
    this.#db = parts.db;
    this.#keys = parts.keys;
    this.#clock = parts.clock;
  }

  /** Newest first, including withdrawn ones. */
  list(): Promise<CountedKey[]> {
    return countedKeys(this.#db, new Date(this.#clock.now()));
  }

  /** Creates a new key that signs from now on; tokens of the other keys stay valid. */
  async rotate(by: By): Promise<CountedKey> {
    const { id } = await this.#db.transaction().execute((tx) => this.#keys.rotate(tx, by));
    await this.#keys.load(this.#db);
    return await this.#one(id);
  }

  /**
   * Ends a retired key and its signatures. Throws `Fault("conflict")` for the current key and, unless forced, while the key has
   * valid tokens with a row; access tokens of people have no row, and last some hours.
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
