// Accepts deliveries. The delivery of a run is written in the transaction that ends the run; the
// answers of plain calls are written in the background. After the commit, the dispatcher learns
// which endpoints have deliveries to send.
import { Batcher, BatcherFull } from "#lib/batcher.ts";
import { newDeliveryId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { addRows, type NewDeliveryRow } from "./delivery-store.ts";
import { deliverySecretContext, type NewDelivery } from "./delivery.ts";
import type { Destination, Dispatcher } from "./dispatcher.ts";
import { endpointOf } from "./endpoint.ts";
import type { WebhookStep } from "./webhook-step.ts";

/** What `committed` needs to know of a delivery that was inserted. */
export type AddedDelivery = Pick<NewDeliveryRow, "id" | "endpointId" | "failedReason"> & {
  readonly destination: Destination;
};

export type OutboxParts = Pick<Foundation, "db" | "sealer" | "clock" | "log"> & {
  readonly dispatcher: Pick<Dispatcher, "noteWaiting">;
  readonly onStep: (name: WebhookStep) => void;
};

/** The maximum number of answers of plain calls that wait to be written. */
const postedMax = 10_000;
const postBatchMax = 200;
const postBatchBytesMax = 16 * 1024 * 1024;
/**
 * The maximum size of the bodies that wait to be written: 64 MiB together with the batch that is
 * being written.
 */
const postedBytesMax = 48 * 1024 * 1024;
/**
 * Long enough for a restart of the database. A longer outage loses answers of plain calls, whose
 * delivery is not guaranteed.
 */
const retryForMs = 30_000;
/** Lost answers are logged at most once in this time. */
const lostLogMs = 10_000;

/** Accepts deliveries. */
export class Outbox {
  readonly #parts: OutboxParts;
  readonly #posts: Batcher<NewDelivery>;
  #lost = 0;
  /** How many of the lost answers the log has reported, and when it last reported some. */
  #lostLogged = 0;
  #loggedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
    this.#posts = new Batcher({
      write: (deliveries) => this.#write(deliveries),
      batchMax: postBatchMax,
      queueMax: postedMax,
      weigh: (delivery) => delivery.body?.length ?? 0,
      batchWeightMax: postBatchBytesMax,
      queueWeightMax: postedBytesMax,
      retryForMs,
      onFailure: (error, { length }) =>
        parts.log.warn(
          { err: error, answers: length },
          "answers for webhooks could not be written",
        ),
      clock: parts.clock,
    });
  }

  /**
   * How many answers of plain calls were dropped because of a full queue or an unavailable
   * database.
   */
  get lostCount(): number {
    return this.#lost;
  }

  /** Inserts deliveries in the transaction that ends their runs, with one statement. */
  async add(tx: Tx, deliveries: readonly NewDelivery[]): Promise<readonly AddedDelivery[]> {
    if (deliveries.length === 0) return [];
    const rows = deliveries.map((delivery) => this.#row(delivery));
    await addRows(tx, rows);
    return rows;
  }

  /**
   * Called after the transaction of `add`, so that the deliveries are sent. If the platform ends
   * before this call, the dispatcher finds them in the database later.
   */
  committed(added: readonly AddedDelivery[]): void {
    const { dispatcher, onStep } = this.#parts;
    if (added.length > 0) onStep("added");
    for (const { endpointId, destination, failedReason } of added) {
      if (failedReason === null) dispatcher.noteWaiting(endpointId, destination);
    }
  }

  /**
   * Queues the answer of a plain call, which is written in the background. When the waiting bodies
   * take too much memory, the delivery is recorded as failed, without its body. When too many
   * deliveries wait, the answer is lost: it is only counted and logged.
   */
  post(delivery: NewDelivery): void {
    if (this.#posts.isFull) return this.#lose("too many answers wait to be written");
    this.#posts
      .add(delivery)
      .catch((error: unknown) => {
        // The queue was not full before, so it is the body that does not fit.
        if (!(error instanceof BatcherFull)) throw error;
        return this.#posts.add({ ...delivery, body: null });
      })
      .catch(() => this.#lose("the database did not take them"));
  }

  /** Logs the lost answers that were not logged because the last log line was too recent. */
  sweep(): void {
    this.#logLost("too many answers waited or the database did not take them");
  }

  /** Resolves when nothing is left to write. */
  async stop(): Promise<void> {
    await this.#posts.stop();
  }

  #row(delivery: NewDelivery): NewDeliveryRow & AddedDelivery {
    const { secret, contentType, ...rest } = delivery;
    const { projectId, url, body } = delivery;
    const id = newDeliveryId();
    // Every row needs an endpoint, even when the delivery fails at once since its URL is not valid.
    const endpoint = endpointOf(projectId, URL.canParse(url) ? url : "http://invalid/");
    return {
      ...rest,
      id,
      endpointId: endpoint.id,
      endpointUrl: endpoint.url,
      // The database stores no text with a zero character.
      contentType: contentType?.replaceAll("\0", "") ?? null,
      // A delivery without its body is never sent, so nothing is signed.
      secretSealed:
        secret === null || body === null
          ? null
          : this.#parts.sealer.seal(secret.reveal(), deliverySecretContext(id)),
      failedReason: unsendable(delivery),
      destination: { lane: endpoint.lane, projectId },
    };
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
    if (lost === 0 || clock.monotonicMs() - this.#loggedMs < lostLogMs) return;
    this.#loggedMs = clock.monotonicMs();
    this.#lostLogged = this.#lost;
    log.warn({ lost, why }, "answers of plain calls were not delivered to their webhooks");
  }
}

/** Why the delivery can never be sent; null when it can. */
function unsendable({ url, body, bodyBytes }: NewDelivery): string | null {
  if (!URL.canParse(url)) return "Its webhookEndpoint is not a URL.";
  if (body !== null) return null;
  return `The answer has ${bodyBytes} bytes: more than the delivery limit (SLIPWAY_RESULT_LIMIT_MB), or too many long answers arrived at once.`;
}
