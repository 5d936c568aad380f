// Tracks when and from where tokens were last used. Calls only leave a note in memory; a loop
// writes the notes in batches, and records an account's first use from a new address.
import { plainAddress } from "#lib/client-address.ts";
import type { TokenId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import { LruMap } from "#lib/lru-map.ts";
import { record } from "#audit/record.ts";
import type { Foundation } from "#store/foundation.ts";
import { actorOf, type TokenCaller } from "./caller.ts";
import { addAddresses, markUsed, readAddresses, refreshAddresses } from "./token-use-store.ts";

/** The use of a token since the last batch. */
type Use = {
  readonly caller: TokenCaller;
  address: string;
  atMs: number;
  /** All addresses of the batch, including the latest; null: only the latest. */
  addresses: Set<string> | null;
};

const flushMs = 10_000;
/** Tokens per batch; further ones are noted with a later batch. */
const tokensMax = 10_000;
/** Addresses per token and batch. */
const addressesOfBatchMax = 20;
/**
 * Known addresses per account. An account with more is in programs of many users, where a new
 * address means nothing.
 */
const addressesMax = 100;
/** An address unused for this long makes way for a new one, and counts as new when it returns. */
const unusedMs = 90 * 86_400_000;
/** The precision of an address's last use. */
const refreshMs = 3_600_000;

/** Notes uses. `start()` begins to write them, `stop()` writes the remaining ones. */
export class TokenUses {
  readonly #parts: Pick<Foundation, "db" | "clock" | "log">;
  readonly #loop: Loop;
  #uses = new Map<TokenId, Use>();
  /** Account and address → last check in the database, so that not every batch queries it. */
  readonly #noted = new LruMap<string, number>(tokensMax);

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

  /** Every call does this, so it only costs a map lookup. */
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
      for (const use of uses) await this.#learn(use);
    } catch (error) {
      for (const use of uses)
        if (!this.#uses.has(use.caller.tokenId)) this.#uses.set(use.caller.tokenId, use);
      throw error;
    }
  }

  /** Adds a token's new addresses to the account's known ones, and records them. */
  async #learn({ caller, address, atMs, addresses }: Use): Promise<void> {
    const { accountId } = caller;
    const keyOf = (one: string): string => `${accountId} ${one}`;
    const used = [...new Set([...(addresses ?? []), address].map(plainAddress))].filter(
      (one) => one !== "unknown",
    );
    const unnoted = used.filter(
      (one) => atMs - (this.#noted.get(keyOf(one)) ?? Number.NEGATIVE_INFINITY) >= refreshMs,
    );
    if (unnoted.length === 0) return;
    const at = new Date(atMs);
    const known = new Set(await readAddresses(this.#parts.db, accountId, unnoted));
    await refreshAddresses(this.#parts.db, { accountId, addresses: [...known], at });
    const fresh = unnoted.filter((one) => !known.has(one));
    if (fresh.length > 0) await this.#record(caller, fresh, at);
    for (const one of unnoted) this.#noted.set(keyOf(one), atMs);
  }

  async #record(caller: TokenCaller, addresses: readonly string[], at: Date): Promise<void> {
    const { accountId, name, kind } = caller;
    const unusedSince = new Date(at.getTime() - unusedMs);
    await this.#parts.db.transaction().execute(async (tx) => {
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
    });
    this.#parts.log.debug(
      { accountId, count: addresses.length },
      "a token was used from new addresses",
    );
  }
}
