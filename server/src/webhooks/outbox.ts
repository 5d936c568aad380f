// Accepts deliveries: rows in the transaction that ends a run, and answers of plain calls, posted in the background. If
// capacity allows, a row is leased to this platform as it is written, and sent after the commit without a read.
import { Batcher } from "#lib/batcher.ts";
import { newDeliveryId, type DeliveryId, type EndpointId } from "#lib/ids.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { addRows, tellWaiting, type AddedRow, type Holder, type NewDeliveryRow } from "./delivery-store.ts";
import { deliverySecretContext, type HeldDelivery, type NewDelivery } from "./delivery.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { endpointOf } from "./endpoint.ts";
import type { DeliverySlot, Wish } from "./delivery-slots.ts";
import type { WebhookStep } from "./webhook-step.ts";

/** An inserted delivery: what `committed` needs of it. */
export type AddedDelivery = {
  readonly id: DeliveryId;
  readonly endpointId: EndpointId;
  readonly wish: Wish;
  /** `sent`: this platform sends it; `waiting`: any platform with capacity does; `idle`: not to be sent now, or never. */
  readonly kind: "sent" | "waiting" | "idle";
};

export type OutboxParts = Pick<Foundation, "db" | "sealer" | "clock" | "log"> & {
  readonly holder: Holder;
  readonly dispatcher: Pick<Dispatcher, "takeAtOnce" | "noteWaiting" | "send">;
  readonly onStep: (name: WebhookStep) => void;
};

/** A slot for a row whose transaction may not be committed yet. */
type Reserved = {
  readonly held: HeldDelivery;
  readonly wish: Wish;
  readonly slot: DeliverySlot;
  readonly sinceMs: number;
};

/** A delivery being inserted. */
type Draft = { readonly row: NewDeliveryRow; readonly wish: Wish; readonly reserved: Reserved | null };

type MadeColumns = Pick<NewDeliveryRow, "id" | "endpointId" | "endpointUrl" | "failedReason" | "wantsLease">;

const postedMax = 10_000;
const postedBytesMax = 64 * 1024 * 1024;
const postBatchMax = 200;
const postBatchBytesMax = 16 * 1024 * 1024;
/** A longer database outage loses answers of plain calls, which carry no promise to be kept; it is logged. */
const postBackoff = { firstMs: 100, factor: 2, msMax: 5000, jitter: 0.2 };
const posting: RetryPolicy = { ...postBackoff, triesMax: 8, hasTryAtStop: true };
const lostLogMs = 10_000;

/** Accepts deliveries. */
export class Outbox {
  readonly #parts: OutboxParts;
  readonly #reserved = new Map<DeliveryId, Reserved>();
  readonly #posts: Batcher<NewDelivery>;
  readonly #posting = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  #postedBytes = 0;
  #lost = 0;
  #lostLogged = 0;
  #lastLostMs = Number.NEGATIVE_INFINITY;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
    this.#posts = new Batcher({
      write: (deliveries) => this.#write(deliveries),
      batchMax: postBatchMax,
      queueMax: postedMax,
      weigh: (delivery) => delivery.body?.length ?? 0,
      batchWeightMax: postBatchBytesMax,
      clock: parts.clock,
    });
  }

  /** How many answers of plain calls were dropped because of a full queue or an unavailable database. */
  get lostCount(): number {
    return this.#lost;
  }

  /** Runs within the transaction that ends the runs; at most two statements for any number of deliveries. */
  async add(tx: Tx, deliveries: readonly NewDelivery[]): Promise<readonly AddedDelivery[]> {
    if (deliveries.length === 0) return [];
    const drafts = deliveries.map((delivery) => this.#draft(delivery));
    try {
      const rows = drafts.map((draft) => draft.row);
      const became = new Map((await addRows(tx, rows, this.#parts.holder)).map((row) => [row.id, row]));
      const added = drafts.map((draft) => this.#added(draft, became.get(draft.row.id)));
      const waiting = new Set(added.filter(({ kind }) => kind === "waiting").map(({ endpointId }) => endpointId));
      if (waiting.size > 0) await tellWaiting(tx, [...waiting]);
      return added;
    } catch (error) {
      for (const { row } of drafts) this.#giveBack(row.id);
      throw error;
    }
  }

  /** After the commit: sends what has a slot at once, without reading it back. */
  committed(added: readonly AddedDelivery[]): void {
    const { dispatcher, onStep } = this.#parts;
    if (added.length > 0) onStep("added");
    for (const { id, endpointId, wish, kind } of added) {
      const reserved = this.#reserved.get(id);
      if (kind === "waiting") dispatcher.noteWaiting(endpointId, wish);
      // The commit took so long that the slot was released: the lease expires and the delivery is claimed.
      if (kind !== "sent" || reserved === undefined) continue;
      this.#reserved.delete(id);
      dispatcher.send(reserved.held, reserved.wish, reserved.slot);
    }
  }

  /**
   * For plain calls: own transactions, in batches, in the background. If bodies fill the memory, a delivery is only
   * recorded, as failed; beyond the queue limit it is counted and logged.
   */
  post(given: NewDelivery): void {
    const count = this.#posting.size;
    if (count >= postedMax) return this.#lose("too many answers wait to be written");
    const hasCapacity = count === 0 || this.#postedBytes + (given.body?.length ?? 0) <= postedBytesMax;
    const delivery = hasCapacity ? given : { ...given, body: null };
    const bytes = delivery.body?.length ?? 0;
    this.#postedBytes += bytes;
    const posting = this.#post(delivery).finally(() => {
      this.#posting.delete(posting);
      this.#postedBytes -= bytes;
    });
    this.#posting.add(posting);
  }

  /** Releases slots whose transaction was rolled back, or stayed uncommitted for longer than a lease. */
  sweep(): void {
    const { clock, holder } = this.#parts;
    const beforeMs = clock.monotonicMs() - holder.leaseMs;
    for (const [id, { sinceMs }] of this.#reserved) if (sinceMs < beforeMs) this.#giveBack(id);
    this.#logLost("too many answers waited or the database did not take them");
  }

  /** Resolves when nothing is left to write. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the platform stops"));
    await Promise.all(this.#posting);
    await this.#posts.stop();
    for (const id of this.#reserved.keys()) this.#giveBack(id);
  }

  #draft(delivery: NewDelivery): Draft {
    const { dispatcher, clock } = this.#parts;
    const { body, runId, projectId, url, secret, statusCode, contentType } = delivery;
    const id = newDeliveryId();
    const failedReason = unsendable(delivery);
    const endpoint = endpointOf(projectId, URL.canParse(url) ? url : "http://invalid/");
    const { id: endpointId, url: endpointUrl, lane } = endpoint;
    const wish = { lane, projectId };
    const slot = failedReason === null ? dispatcher.takeAtOnce(endpointId, wish, body?.length ?? 0) : null;
    let reserved: Reserved | null = null;
    if (slot !== null && body !== null) {
      const sent = { id, endpointId, projectId, runId, url, secret, statusCode, contentType, body };
      const held = { delivery: { ...sent, scheduleAttempts: 0 }, epoch: 1 };
      reserved = { held, wish, slot, sinceMs: clock.monotonicMs() };
      this.#reserved.set(id, reserved);
    }
    const wantsLease = reserved !== null;
    return { row: this.#row(delivery, { id, endpointId, endpointUrl, failedReason, wantsLease }), wish, reserved };
  }

  #row({ secret, contentType, ...delivery }: NewDelivery, made: MadeColumns): NewDeliveryRow {
    const sealed = secret === null ? null : this.#parts.sealer.seal(secret.reveal(), deliverySecretContext(made.id));
    return { ...delivery, ...made, contentType: contentType?.replaceAll("\0", "") ?? null, secretSealed: sealed };
  }

  #added({ row, wish, reserved }: Draft, became: AddedRow | undefined): AddedDelivery {
    const { id, endpointId, failedReason } = row;
    const isIdle = failedReason !== null || became?.isPaused === true;
    if (reserved !== null && became?.isHeld !== true) this.#giveBack(id);
    const kind = isIdle ? "idle" : became?.isHeld === true ? "sent" : "waiting";
    return { id, endpointId, wish, kind };
  }

  #giveBack(id: DeliveryId): void {
    this.#reserved.get(id)?.slot.release();
    this.#reserved.delete(id);
  }

  async #post(delivery: NewDelivery): Promise<void> {
    const { clock, log } = this.#parts;
    const { signal } = this.#stopping;
    const onFailure = (error: unknown, _tries: number, isLast: boolean): void => {
      if (!isLast) return;
      log.error({ err: error }, "an answer for a webhook could not be written");
      this.#lose("the database did not take them");
    };
    await retry({ ...posting, clock, signal, onFailure }, () => this.#posts.add(delivery));
  }

  async #write(deliveries: readonly NewDelivery[]): Promise<void> {
    this.committed(await this.#parts.db.transaction().execute((tx) => this.add(tx, deliveries)));
  }

  #lose(why: string): void {
    this.#lost++;
    this.#logLost(why);
  }

  #logLost(why: string): void {
    const { clock, log } = this.#parts;
    const lost = this.#lost - this.#lostLogged;
    if (lost === 0 || clock.monotonicMs() - this.#lastLostMs < lostLogMs) return;
    this.#lastLostMs = clock.monotonicMs();
    this.#lostLogged = this.#lost;
    log.warn({ lost, why }, "answers of plain calls were not delivered to their webhooks");
  }
}

/** Why it cannot be delivered at all; null: it can. */
function unsendable({ url, body, bodyBytes }: NewDelivery): string | null {
  if (!URL.canParse(url)) return "Its webhookEndpoint is not a URL.";
  if (body !== null) return null;
  return `The answer has ${bodyBytes} bytes: more than the delivery limit (SLIPWAY_RESULT_LIMIT_MB), or too many long answers arrived at once.`;
}
