// When and from where tokens were used last. Calls only leave a note in memory; a loop writes the notes in batches, and
// records the first use of an account's tokens from an address that is not known for it.
import type { Clock } from "#lib/clock.ts";
import { plainAddress } from "#lib/client-address.ts";
import type { TokenId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import { LruMap } from "#lib/lru-map.ts";
import { record } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import { actorOf, type TokenCaller } from "./caller.ts";
import { addAddresses, markUsed, readAddresses, refreshAddresses } from "./token-use-store.ts";

/** What was noted of a token since the last batch. */
type Use = {
  readonly caller: TokenCaller;
  address: string;
  atMs: number;
  /** Those of the batch, the latest too; null: there is only the latest. */
  addresses: Set<string> | null;
};

const flushMs = 10_000;
/** Tokens of one batch; those beyond it are noted with the next. */
const tokensMax = 10_000;
/** Addresses of one token that are kept of one batch. */
const addressesOfBatchMax = 20;
/** Addresses that are known of an account. One with more is used by strangers' programs, of which a new one says nothing. */
const addressesMax = 100;
/** An address that was not used for this long gives its place to a new one, and is new when it comes back. */
const unusedMs = 90 * 86_400_000;
/** How exactly it is known when an address was used last. */
const refreshMs = 3_600_000;

/** Notes uses. `start()` begins to write them, `stop()` writes what is left. */
export class TokenUses {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #loop: Loop;
  #uses = new Map<TokenId, Use>();
  /** Account and address → when the database was last keyOf, so that it is not asked with each batch. */
  readonly #noted = new LruMap<string, number>(tokensMax);

  constructor(parts: { readonly db: Db; readonly clock: Clock; readonly log: Log }) {
    const { db, clock, log } = parts;
    this.#db = db;
    this.#clock = clock;
    this.#log = log;
    this.#loop = new Loop({ name: "token uses", turn: () => this.flush(), intervalMs: flushMs, log, clock });
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.flush();
  }

  /** Costs a look into a map: every call does this. */
  note(caller: TokenCaller, address: string): void {
    const use = this.#uses.get(caller.tokenId);
    if (use === undefined) {
      if (this.#uses.size >= tokensMax) return;
      this.#uses.set(caller.tokenId, { caller, address, atMs: this.#clock.now(), addresses: null });
      return;
    }
    use.atMs = this.#clock.now();
    if (use.address === address) return;
    use.addresses ??= new Set([use.address]);
    use.address = address;
    if (use.addresses.size < addressesOfBatchMax) use.addresses.add(address);
  }

  /** Writes what was noted. Rejects when the database does not answer; it is then noted still. */
  async flush(): Promise<void> {
    if (this.#uses.size === 0) return;
    const uses = [...this.#uses.values()];
    this.#uses = new Map();
    try {
      await markUsed(
        this.#db,
        uses.map(({ caller, address, atMs }) => ({
          id: caller.tokenId,
          address: plainAddress(address),
          at: new Date(atMs),
        })),
      );
      for (const use of uses) await this.#learn(use);
    } catch (error) {
      for (const use of uses) if (!this.#uses.has(use.caller.tokenId)) this.#uses.set(use.caller.tokenId, use);
      throw error;
    }
  }

  /** Takes the addresses of a token that are not known of its account for known, and records that they are new. */
  async #learn({ caller, address, atMs, addresses }: Use): Promise<void> {
    const { accountId } = caller;
    const keyOf = (one: string): string => `${accountId} ${one}`;
    const used = [...new Set([...(addresses ?? []), address].map(plainAddress))].filter((one) => one !== "unknown");
    const unnoted = used.filter((one) => atMs - (this.#noted.get(keyOf(one)) ?? Number.NEGATIVE_INFINITY) >= refreshMs);
    if (unnoted.length === 0) return;
    const at = new Date(atMs);
    const known = new Set(await readAddresses(this.#db, accountId, unnoted));
    await refreshAddresses(this.#db, { accountId, addresses: [...known], at });
    const fresh = unnoted.filter((one) => !known.has(one));
    if (fresh.length > 0) await this.#record(caller, fresh, at);
    for (const one of unnoted) this.#noted.set(keyOf(one), atMs);
  }

  async #record(caller: TokenCaller, addresses: readonly string[], at: Date): Promise<void> {
    const { accountId, name, kind } = caller;
    const unusedSince = new Date(at.getTime() - unusedMs);
    await this.#db.transaction().execute(async (tx) => {
      const added = await addAddresses(tx, { accountId, addresses, at, max: addressesMax, unusedSince });
      for (const address of added) {
        await record(tx, {
          projectId: caller.projectId,
          action: "token.new_address",
          by: { actor: actorOf(caller), request: { id: null, address, userAgent: null } },
          resource: { type: kind, id: accountId, name },
        });
      }
    });
    this.#log.debug({ accountId, count: addresses.length }, "a token was used from new addresses");
  }
}
