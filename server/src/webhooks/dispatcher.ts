// Sends the deliveries that wait in the database, fairly across receivers. Claims only deliveries
// that have a slot, so every leased delivery is in progress. A lost nudge only costs time: a survey
// of all endpoints finds the waiting deliveries.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import { assert } from "#lib/assert.ts";
import type { EndpointId, ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import {
  claimRows,
  listHeads,
  readHeads,
  type ClaimedRow,
  type Head,
  type Holder,
} from "./delivery-store.ts";
import { deliverySecretContext, type HeldDelivery } from "./delivery.ts";
import { endpointOf } from "./endpoint.ts";
import type { InFlight } from "./in-flight.ts";
import type { DeliverySlot, DeliverySlots, Wish } from "./delivery-slots.ts";
import { EndpointBacklog } from "./endpoint-backlog.ts";
import type { WebhookStep } from "./webhook-step.ts";

export type DispatcherParts = Pick<Foundation, "db" | "sealer" | "clock" | "log"> & {
  readonly holder: Holder;
  readonly slots: DeliverySlots;
  readonly inFlight: InFlight;
  readonly ownerKeyOf: OwnerKeyOf;
  readonly onStep: (name: WebhookStep) => void;
  /** The maximum time between two surveys. */
  readonly surveyMs: number;
};

/** The lane of a delivery, see `endpoint.ts`, and its project. */
export type Destination = { readonly lane: string; readonly projectId: ProjectId };

/** The maximum number of endpoints in one step of a survey, which then takes up to about 20 ms. */
const surveyStepMax = 1000;
/** The maximum number of endpoints, and of deliveries, in one claim. */
const claimEndpointsMax = 100;
const claimMax = 200;
/** An id below those of all endpoints: a survey begins after it. */
const firstEndpoint = "00000000-0000-0000-0000-000000000000" as EndpointId;

/** One endpoint's share of a claim. */
type Share = {
  readonly endpointId: EndpointId;
  readonly wish: Wish;
  readonly slots: DeliverySlot[];
};

/**
 * Claims waiting deliveries and sends them. Call `start()` once. `stop()` ends claiming; deliveries
 * in progress continue.
 */
export class Dispatcher {
  readonly #parts: DispatcherParts;
  readonly #waiting: EndpointBacklog;
  readonly #loop: Loop;
  /** Endpoints that may have waiting deliveries, as a notification said; the next turn checks. */
  readonly #reported = new Set<EndpointId>();
  /** The cursor of the current survey; null: none is running. The first turn begins a survey. */
  #surveyAfter: EndpointId | null = firstEndpoint;
  /** When the latest step of a survey began, by `Clock.monotonicMs`. */
  #surveyedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: DispatcherParts) {
    const { clock, log, surveyMs } = parts;
    this.#parts = parts;
    this.#waiting = new EndpointBacklog({ clock, onDue: () => this.#loop.nudge() });
    this.#loop = new Loop({
      name: "webhooks",
      turn: (signal) => this.#turn(signal),
      intervalMs: surveyMs,
      clock,
      log,
    });
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#waiting.close();
    await this.#loop.stop();
  }

  /** Called when the endpoint has a waiting delivery. */
  noteWaiting(endpointId: EndpointId, { lane, projectId }: Destination): void {
    const note = (ownerKey: string): void => {
      this.#waiting.add(endpointId, { lane, ownerKey }, 0);
      this.#loop.nudge();
    };
    // Without its owner's key, the endpoint is not noted: the database is away, so nothing is sent
    // now, and later a survey finds the delivery.
    this.#parts.ownerKeyOf(projectId).then(note, () => undefined);
  }

  /** Called when the endpoint may have a waiting delivery; null: check all endpoints. */
  lookAt(endpointId: EndpointId | null): void {
    // Checking so many reported endpoints would take as long as a survey of all endpoints.
    if (endpointId === null || this.#reported.size >= surveyStepMax)
      this.#surveyAfter = firstEndpoint;
    else if (!this.#waiting.touch(endpointId)) this.#reported.add(endpointId);
    this.#loop.nudge();
  }

  /** Sends a held delivery, and releases `slot` when the attempt has ended. */
  #send(held: HeldDelivery, wish: Wish, slot: DeliverySlot): void {
    const { inFlight } = this.#parts;
    inFlight.begin(held, wish, {
      onEnd: (retryMs) => {
        slot.release();
        if (retryMs !== null) this.#noteLater(held.delivery.endpointId, wish, retryMs);
        if (this.#waiting.isAnyDue()) this.#loop.nudge();
      },
    });
  }

  async #turn(signal: AbortSignal): Promise<void> {
    await this.#survey();
    await this.#readReported();
    const shares = this.#share();
    if (shares.length === 0 || signal.aborted) return release(shares);
    const claimed = await this.#claim(shares);
    if (claimed > 0) this.#loop.nudge();
  }

  /** Does one step of the current survey, or begins a new one that is due. */
  async #survey(): Promise<void> {
    const { db, clock, surveyMs } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (this.#surveyAfter === null && nowMs - this.#surveyedMs < surveyMs) return;
    const after = this.#surveyAfter ?? firstEndpoint;
    // Cleared before the query: `lookAt` may request a new survey meanwhile, which is kept.
    this.#surveyAfter = null;
    this.#surveyedMs = nowMs;
    try {
      const heads = await listHeads(db, { after, limit: surveyStepMax });
      for (const head of heads) this.#noteHead(head);
      const last = heads.at(-1);
      if (heads.length < surveyStepMax || last === undefined) return;
      this.#surveyAfter ??= last.endpointId;
      this.#loop.nudge();
    } catch (error) {
      this.#surveyAfter ??= after;
      throw error;
    }
  }

  async #readReported(): Promise<void> {
    if (this.#reported.size === 0) return;
    const reported = [...this.#reported];
    this.#reported.clear();
    for (const head of await readHeads(this.#parts.db, reported)) this.#noteHead(head);
  }

  #noteHead(head: Head): void {
    if (head.isPaused) this.#waiting.delete(head.endpointId);
    else this.#noteLater(head.endpointId, wishOf(head), Math.max(0, head.waitMs));
  }

  /** Deliveries due much later are not tracked: a survey finds them in time. */
  #noteLater(endpointId: EndpointId, wish: Wish, waitMs: number): void {
    if (waitMs <= 2 * this.#parts.surveyMs) this.#waiting.add(endpointId, wish, waitMs);
  }

  /** Takes slots for the due endpoints in turn: for each as many as it can get. */
  #share(): Share[] {
    const { slots } = this.#parts;
    const shares: Share[] = [];
    // Endpoints of failing receivers, which get no slot for `waitMs`.
    const closed: { readonly endpointId: EndpointId; readonly waitMs: number }[] = [];
    let count = 0;
    for (const [endpointId, { wish }] of this.#waiting.due()) {
      if (shares.length === claimEndpointsMax || count === claimMax || slots.isFull) break;
      const endpointSlots: DeliverySlot[] = [];
      for (let slot = slots.take(wish); slot !== null; slot = slots.take(wish)) {
        endpointSlots.push(slot);
        count += 1;
        if (count === claimMax) break;
      }
      const waitMs = slots.closedMs(wish.lane);
      if (endpointSlots.length > 0) shares.push({ endpointId, wish, slots: endpointSlots });
      else if (waitMs > 0) closed.push({ endpointId, waitMs });
    }
    for (const { endpointId, waitMs } of closed) this.#waiting.defer(endpointId, waitMs);
    return shares;
  }

  async #claim(shares: readonly Share[]): Promise<number> {
    const { db, holder, slots, onStep } = this.#parts;
    const bounds = { bytesMax: slots.bytesLeft, hasCapacity: slots.hasCapacity };
    for (const { endpointId } of shares) this.#waiting.begin(endpointId);
    try {
      const wanted = shares.map((share) => ({
        endpointId: share.endpointId,
        max: share.slots.length,
      }));
      const rows = await claimRows(db, { wanted, ...bounds }, holder);
      if (rows.length > 0) onStep("claimed");
      const bytes = rows.reduce((sum, row) => sum + (row.body?.length ?? 0), 0);
      // If less than a quarter of the memory for bodies is left, it may have kept an endpoint from
      // getting all the rows that were requested. So the endpoint may have more due deliveries.
      const isTight = bounds.bytesMax - bytes < slots.bytesMax / 4;
      const rowsByEndpoint = Map.groupBy(rows, (row) => row.endpointId);
      for (const share of shares) {
        // An endpoint with as many rows as slots may have more due deliveries, too.
        const endpointRows = rowsByEndpoint.get(share.endpointId) ?? [];
        this.#waiting.end(share.endpointId, endpointRows.length === share.slots.length || isTight);
        for (const row of endpointRows) this.#sendClaimed(row, share);
      }
      return rows.length;
    } finally {
      release(shares);
    }
  }

  #sendClaimed(row: ClaimedRow, share: Share): void {
    const slot = share.slots.pop();
    assert(slot, "no more deliveries of an endpoint are claimed than there are slots");
    try {
      const held = this.#open(row);
      slot.hold(held.delivery.body.length);
      this.#send(held, share.wish, slot);
    } catch (error) {
      // The other deliveries of the claim continue. The lease of this delivery runs out, and then
      // the delivery is claimed again.
      slot.release();
      this.#parts.log.error({ err: error, delivery: row.id }, "a webhook delivery cannot be read");
    }
  }

  #open({ epoch, secretSealed, body, ...row }: ClaimedRow): HeldDelivery {
    const { sealer } = this.#parts;
    const secret =
      secretSealed === null ? null : sealer.open(secretSealed, deliverySecretContext(row.id));
    assert(body !== null, "a delivery that waits has a body");
    return { delivery: { ...row, secret, body }, epoch };
  }
}

function wishOf({ projectId, ownerKey, url }: Head): Wish {
  return { ownerKey, lane: endpointOf(projectId, url).lane };
}

/** Releases the slots that no delivery has taken. */
function release(shares: readonly Share[]): void {
  for (const { slots } of shares) {
    for (const slot of slots.splice(0)) slot.release();
  }
}
