// Stores when and from where tokens were last used. A call only leaves a note in memory; a loop
// writes the notes in batches, and records in the audit log when an account is used from a new
// address.
import { plainAddress } from "#lib/client-address.ts";
import type { TokenId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { LruMap } from "#lib/lru-map.ts";
import { record } from "#audit/record.ts";
import type { Foundation } from "#store/foundation.ts";
import { actorOf, type TokenCaller } from "./caller.ts";
import { addAddresses, markUsed, readAddresses, refreshAddresses } from "./token-use-store.ts";

/** The uses of a token since the last batch was written. */
type Use = {
  readonly caller: TokenCaller;
  /** The address of the latest use. */
  address: string;
  /** The time of the latest use. */
  atMs: number;
  /** All addresses, at most `addressesOfBatchMax`; null: `address` is the only one. */
  addresses: Set<string> | null;
};

const flushMs = 10_000;
/**
 * The maximum number of tokens in a batch. The uses of further tokens are not noted until the batch
 * is written.
 */
const tokensMax = 10_000;
/** The maximum number of addresses of one token in a batch. */
const addressesOfBatchMax = 20;
/**
 * The maximum number of known addresses of an account. An account with more is used by programs on
 * many machines, where a new address is no news.
 */
const addressesMax = 100;
/** When an account has too many addresses, those that were unused for this long are forgotten. */
const unusedMs = 90 * 86_400_000;
/** How precisely the last use of an address is stored. */
const refreshMs = 3_600_000;

/** Notes uses. `start()` begins to write the notes, `stop()` writes those that are left. */
export class TokenUses {
  readonly #parts: Pick<Foundation, "db" | "clock" | "log">;
  readonly #loop: Loop;
  #uses = new Map<TokenId, Use>();
  /**
   * When each address of an account was last stored, so that not every batch asks the database. The
   * key is the account's id and the address.
   */
  readonly #storedAtMs = new LruMap<string, number>(tokensMax);

  constructor(parts: Pick<Foundation, "db" | "clock" | "log">) {
    this.#parts = parts;
    const { log, clock } = parts;
    this.#loop = new Loop({
      name: "token uses",
      turn: () => this.flush(),
      intervalMs: flushMs,
      log,
      clock,
    });
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.flush();
  }

  /** Notes a use. Cheap, since every call does this. */
  note(caller: TokenCaller, address: string): void {
    const use = this.#uses.get(caller.tokenId);
    if (use === undefined) {
      if (this.#uses.size >= tokensMax) return;
      this.#uses.set(caller.tokenId, {
        caller,
        address,
        atMs: this.#parts.clock.now(),
        addresses: null,
      });
      return;
    }
    use.atMs = this.#parts.clock.now();
    if (use.address === address) return;
    use.addresses ??= new Set([use.address]);
    use.address = address;
    if (use.addresses.size < addressesOfBatchMax) use.addresses.add(address);
  }

  /** Writes the notes. Rejects when the database does not answer, and then keeps them. */
  async flush(): Promise<void> {
    if (this.#uses.size === 0) return;
    const uses = [...this.#uses.values()];
    this.#uses = new Map();
    try {
      await markUsed(
        this.#parts.db,
        uses.map(({ caller, address, atMs }) => ({
          id: caller.tokenId,
          address: plainAddress(address),
          at: new Date(atMs),
        })),
      );
      for (const use of uses) await this.#storeAddresses(use);
    } catch (error) {
      // A token that was used meanwhile keeps its newer note.
      for (const use of uses)
        if (!this.#uses.has(use.caller.tokenId)) this.#uses.set(use.caller.tokenId, use);
      throw error;
    }
  }

  /** Stores the addresses of a use, and adds those that are new to the account. */
  async #storeAddresses({ caller, address, atMs, addresses }: Use): Promise<void> {
    const { accountId } = caller;
    const keyOf = (used: string): string => `${accountId} ${used}`;
    const isDue = (used: string): boolean => {
      const storedAtMs = this.#storedAtMs.get(keyOf(used)) ?? Number.NEGATIVE_INFINITY;
      return atMs - storedAtMs >= refreshMs;
    };
    const usedAddresses = new Set([...(addresses ?? []), address].map(plainAddress));
    // A connection that closed before its address was read has this in place of an address.
    usedAddresses.delete("unknown");
    const due = [...usedAddresses].filter(isDue);
    if (due.length === 0) return;
    const at = new Date(atMs);
    const known = new Set(await readAddresses(this.#parts.db, accountId, due));
    await refreshAddresses(this.#parts.db, { accountId, addresses: [...known], at });
    const newAddresses = due.filter((used) => !known.has(used));
    if (newAddresses.length > 0) await this.#addNew(caller, newAddresses, at);
    for (const used of due) this.#storedAtMs.set(keyOf(used), atMs);
  }

  /** Adds new addresses to the account's known ones, and records each in the audit log. */
  async #addNew(caller: TokenCaller, addresses: readonly string[], at: Date): Promise<void> {
    const { accountId, name, kind } = caller;
    const unusedSince = new Date(at.getTime() - unusedMs);
    const count = await this.#parts.db.transaction().execute(async (tx) => {
      const added = await addAddresses(tx, {
        accountId,
        addresses,
        at,
        max: addressesMax,
        unusedSince,
      });
      for (const address of added) {
        await record(tx, {
          projectId: caller.projectId,
          action: "token.new_address",
          by: { actor: actorOf(caller), request: { id: null, address, userAgent: null } },
          resource: { type: kind, id: accountId, name },
        });
      }
      return added.length;
    });
    if (count > 0)
      this.#parts.log.debug({ accountId, count }, "a token was used from new addresses");
  }
}
