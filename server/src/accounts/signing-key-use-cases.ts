// Operators list the keys that sign tokens, switch to a new one, and withdraw one that was stolen
// or is no longer needed. A change and its audit row are one transaction; every platform follows
// within a second of the commit.
import { Fault } from "#lib/fault.ts";
import { record, type By } from "#audit/record.ts";
import type { Foundation } from "#store/foundation.ts";
import { notify } from "#store/notify.ts";
import { countedKeys, markWithdrawn, type CountedKey } from "./key-store.ts";
import type { SigningKeys } from "./keys.ts";

type KeyParts = Pick<Foundation, "db" | "clock"> & { readonly keys: SigningKeys };

/** Use cases for signing keys. */
export class SigningKeyUseCases {
  readonly #parts: KeyParts;

  constructor(parts: KeyParts) {
    this.#parts = parts;
  }

  /** Lists the keys, including withdrawn ones, newest first. */
  list(): Promise<CountedKey[]> {
    return countedKeys(this.#parts.db, new Date(this.#parts.clock.now()));
  }

  /** Creates a new key that signs from now on; tokens of the other keys stay valid. */
  async rotate(by: By): Promise<CountedKey> {
    const { id } = await this.#parts.db
      .transaction()
      .execute((tx) => this.#parts.keys.rotate(tx, by));
    await this.#parts.keys.load(this.#parts.db);
    return await this.#keyById(id);
  }

  /**
   * Ends a retired key and its signatures. Throws `Fault("conflict")` for the current key and,
   * unless forced, while a token signed by the key is valid. Only tokens with a row count: access
   * tokens of people have none, and last only some hours.
   */
  async withdraw(id: string, isForced: boolean, by: By): Promise<CountedKey> {
    const key = await this.#keyById(id);
    if (key.retired_at === null)
      throw new Fault(
        "conflict",
        `The key ${id} is the current signing key: create a new one first.`,
      );
    if (key.validTokens > 0 && !isForced) {
      const message = `The key ${id} has signed ${key.validTokens} tokens that are still valid: rotate them first, or revoke them with force=true.`;
      throw new Fault("conflict", message);
    }
    await this.#parts.db.transaction().execute(async (tx) => {
      const at = new Date(this.#parts.clock.now());
      const publicSealed = this.#parts.keys.sealedForWithdrawal(id);
      if (!(await markWithdrawn(tx, { keyId: id, at, publicSealed }))) throw noSuchKey(id);
      await record(tx, {
        projectId: null,
        action: "signing_key.withdraw",
        by,
        resource: { type: "signing_key", id },
        changes: { validTokens: { old: key.validTokens, new: 0 } },
      });
      await notify(tx, "tokens", id);
    });
    await this.#parts.keys.load(this.#parts.db);
    return await this.#keyById(id);
  }

  async #keyById(id: string): Promise<CountedKey> {
    const key = (await this.list()).find((candidate) => candidate.id === id);
    if (key === undefined) throw noSuchKey(id);
    return key;
  }
}

function noSuchKey(id: string): Fault {
  return new Fault("not_found", `There is no signing key ${id}, or it was already withdrawn.`);
}
