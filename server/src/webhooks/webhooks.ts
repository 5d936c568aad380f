// Webhooks of one platform: creates the parts, connects them, and opens and closes them in order.
// The outbox accepts deliveries, the dispatcher sends them, and the API calls `useCases`.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import type { EndpointId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import { Leases } from "#store/lease.ts";
import type { Notifications } from "#store/notify.ts";
import type { PostClient } from "./attempt.ts";
import { WebhookUseCases } from "./use-cases.ts";
import { Dispatcher } from "./dispatcher.ts";
import { endpointWatch } from "./endpoint-watch.ts";
import { InFlight } from "./in-flight.ts";
import { Outbox } from "./outbox.ts";
import { DeliverySlots } from "./delivery-slots.ts";
import { WebhookSecretUseCases } from "./secret-use-cases.ts";
import { WebhookSigningKeys } from "./signing-keys.ts";
import type { WebhookStep } from "./webhook-step.ts";

export type WebhooksOptions = Pick<Foundation, "db" | "sealer" | "clock" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  readonly ownerKeyOf: OwnerKeyOf;
  /** The instance of the data folder, which only one process holds at a time. */
  readonly instanceId: string;
  /** The client for outgoing requests: `OutwardClient`. */
  readonly client: PostClient;
  /** The maximum number of concurrent deliveries. */
  readonly atOnce: number;
  /** Called right after each durable step; see `webhookSteps`. */
  readonly onStep: (name: WebhookStep) => void;
  /** The time limit of one attempt. */
  readonly timeoutMs?: number;
  /** How long a lease of a delivery lasts unless it is renewed. */
  readonly leaseMs?: number;
  /** The maximum time until deliveries without a notification are noticed. */
  readonly surveyMs?: number;
  /**
   * The maximum number of body bytes in memory. A body for which too few are left waits until less
   * than half of them are in use.
   */
  readonly bytesMax?: number;
  /** How long attempts in progress may take once the platform stops. */
  readonly drainMs?: number;
};

const timeoutMsDefault = 20_000;
/**
 * Leases are renewed three times within this time. After a kill, deliveries wait for this long
 * unless a platform restarts in the same folder.
 */
const leaseMsDefault = 15_000;
const surveyMsDefault = 5000;
const drainMsDefault = 10_000;
/** The size of eight answers with the default of SLIPWAY_RESULT_LIMIT_MB. */
const bytesMaxDefault = 128 * 1024 * 1024;
/** The maximum number of expired leases that one statement ends. */
const reapMax = 1000;

/**
 * Call `start()` once; deliveries can be added before that call. `stop()` lets attempts in progress
 * end, within a bound.
 */
export class Webhooks {
  readonly outbox: Outbox;
  readonly useCases: WebhookUseCases;
  readonly #options: WebhooksOptions;
  readonly #leases: Leases<"webhook_deliveries">;
  readonly #inFlight: InFlight;
  readonly #dispatcher: Dispatcher;
  readonly #keys: WebhookSigningKeys;
  readonly #loops: readonly Loop[];
  #unlisten: (() => void) | undefined;

  constructor(options: WebhooksOptions) {
    const { db, sealer, notifications, instanceId, client, atOnce, clock, log, onStep } = options;
    const {
      leaseMs = leaseMsDefault,
      timeoutMs = timeoutMsDefault,
      surveyMs = surveyMsDefault,
    } = options;
    this.#options = options;
    const leaseHolder = { holder: `webhooks-${instanceId}`, leaseMs };
    this.#leases = new Leases({ ...leaseHolder, db, clock, log, table: "webhook_deliveries" });
    const slots = new DeliverySlots({
      atOnce,
      clock,
      bytesMax: options.bytesMax ?? bytesMaxDefault,
    });
    this.#keys = new WebhookSigningKeys({ db, sealer, clock, notifications });
    const shared = { db, sealer, holder: leaseHolder, slots, clock, log, onStep };
    this.#inFlight = new InFlight({
      ...shared,
      atOnce,
      client,
      timeoutMs,
      keys: this.#keys,
      leases: this.#leases,
    });
    this.#dispatcher = new Dispatcher({
      ...shared,
      surveyMs,
      ownerKeyOf: options.ownerKeyOf,
      inFlight: this.#inFlight,
    });
    this.outbox = new Outbox({ ...shared, dispatcher: this.#dispatcher });
    this.useCases = new WebhookUseCases({
      db,
      onStep,
      secrets: new WebhookSecretUseCases({ db, sealer }),
    });
    this.#loops = [
      new Loop({
        name: "webhook leases",
        turn: () => this.#keepLeases(),
        intervalMs: leaseMs / 3,
        clock,
        log,
      }),
      endpointWatch(shared),
    ];
  }

  /** How many deliveries this platform is sending. */
  get underWay(): number {
    return this.#inFlight.count;
  }

  /** Attempts of this process, by result. */
  get attempts(): InFlight["attempts"] {
    return this.#inFlight.attempts;
  }

  /** Takes over the deliveries that an earlier process of this folder was sending, and starts. */
  async start(): Promise<void> {
    const { notifications } = this.#options;
    await this.#leases.endEarlier();
    this.#unlisten = notifications.listen("deliveries", (id) =>
      this.#dispatcher.lookAt(id as EndpointId | null),
    );
    this.#dispatcher.start();
    for (const loop of this.#loops) loop.start();
  }

  /** Closes all parts; no delivery may be added afterwards. */
  async stop(): Promise<void> {
    this.#unlisten?.();
    await this.outbox.stop();
    await this.#dispatcher.stop();
    // Leases are renewed until the last attempt has ended.
    await this.#inFlight.stop(this.#options.drainMs ?? drainMsDefault);
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    this.#keys.close();
  }

  /** Renews our leases, has the outbox log lost answers, and ends leases that have expired. */
  async #keepLeases(): Promise<void> {
    await this.#inFlight.renew();
    this.outbox.sweep();
    for (;;) {
      const lost = await this.#leases.reap(reapMax);
      if (lost.length > 0) this.#dispatcher.lookAt(null);
      if (lost.length < reapMax) return;
    }
  }
}
