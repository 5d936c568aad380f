// Forwards entries of the audit log to receivers, in the order of each chain and at least once.
// The platform polls every few seconds for unclaimed forwardings with something to send. New
// entries send no notification: that would make concurrent changes wait for each other.
import { Loop } from "#lib/loop.ts";
import { readWebhookSecret } from "#lib/webhook-signature.ts";
import type { Foundation } from "#store/foundation.ts";
import { Leases } from "#store/lease.ts";
import type { Notifications } from "#store/notify.ts";
import {
  sendBatches,
  type SenderParts,
  type ForwardingLease,
  type Receiver,
} from "./forwarding-sender.ts";
import { forwardingSecretContext } from "./forwarding-use-cases.ts";
import {
  dueForwardings,
  followChains,
  forgetChains,
  forgetDeletedProjects,
  type ForwardingRow,
} from "./forwarding-store.ts";

type Scope = ForwardingRow["scope"];

export type ForwarderOptions = Pick<Foundation, "db" | "sealer" | "clock" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  /** The id of the instance. Only one process at a time holds its data folder. */
  readonly instanceId: string;
  /** The client for URLs from project owners. */
  readonly client: Receiver["client"];
  /** The operator's receiver of all chains; null: none. */
  readonly platform: Receiver | null;
  /** The polling interval; 2 s by default. */
  readonly intervalMs?: number;
  /** Timeout of one attempt; 20 s by default. */
  readonly timeoutMs?: number;
};

/**
 * The maximum number of forwardings at once. Those of projects and those to the operator's receiver
 * are limited separately, so that neither kind waits for the other. Each forwarding may hold a
 * connection to its receiver and, now and then, one to the database.
 */
const concurrentMax = { project: 24, platform: 8 } as const;
const intervalMsDefault = 2_000;
const timeoutMsDefault = 20_000;
/** Longer than an attempt and the writes around it. */
const leaseMs = 60_000;

/**
 * Call `start()` once. `stop()` ends running work. Close the clients before awaiting `stop()`,
 * which otherwise waits for the receivers' answers.
 */
export class Forwarder {
  readonly #options: ForwarderOptions;
  readonly #leases: Leases<"audit_forwardings">;
  readonly #loop: Loop;
  readonly #stopping = new AbortController();
  /** The forwardings under way, which count towards `concurrentMax`. */
  readonly #sending = { project: new Set<Promise<void>>(), platform: new Set<Promise<void>>() };

  constructor(options: ForwarderOptions) {
    const { db, clock, log, instanceId, notifications, intervalMs = intervalMsDefault } = options;
    this.#options = options;
    const holder = `audit-${instanceId}`;
    this.#leases = new Leases({ db, clock, log, leaseMs, table: "audit_forwardings", holder });
    this.#loop = new Loop({
      name: "audit forwarding",
      intervalMs,
      clock,
      log,
      turn: () => this.#turn(),
      listen: (nudge) => notifications.listen("audit", nudge),
    });
  }

  /** Ends the leases of an earlier process with this data folder, then starts the loop. */
  async start(): Promise<void> {
    const { db, platform } = this.#options;
    await this.#leases.endEarlier();
    if (platform === null) await forgetChains(db);
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the platform is stopping"));
    await this.#loop.stop();
    await Promise.all([...this.#sending.project, ...this.#sending.platform]);
  }

  async #turn(): Promise<void> {
    const { db, platform } = this.#options;
    if (platform !== null) await followChains(db);
    await forgetDeletedProjects(db);
    await this.#claim("project");
    if (platform !== null) await this.#claim("platform");
  }

  async #claim(scope: Scope): Promise<void> {
    const limit = concurrentMax[scope] - this.#sending[scope].size;
    if (limit <= 0 || this.#stopping.signal.aborted) return;
    const leases = await this.#leases.claim({ ...dueForwardings(scope), limit });
    for (const lease of leases) this.#begin(lease, scope);
  }

  #begin(lease: ForwardingLease, scope: Scope): void {
    const underWay = this.#sending[scope];
    const { db, clock, log, timeoutMs = timeoutMsDefault } = this.#options;
    const receiverOf = (row: ForwardingRow): Receiver | null => this.#receiverOf(row);
    const parts: SenderParts = {
      db,
      clock,
      log,
      timeoutMs,
      receiverOf,
      leases: this.#leases,
      stopping: this.#stopping.signal,
    };
    const sending = sendBatches(lease, parts)
      .catch((error: unknown) =>
        log.error(
          { err: error, forwarding: lease.id },
          "audit entries could not be forwarded; they will be sent again",
        ),
      )
      .finally(() => {
        underWay.delete(sending);
        // The next turn may claim another forwarding in place of this one.
        this.#loop.nudge();
      });
    underWay.add(sending);
  }

  #receiverOf({ id, scope, url, secret_sealed: sealed }: ForwardingRow): Receiver | null {
    const { sealer, client, platform } = this.#options;
    if (scope === "platform") return platform;
    if (url === null || sealed === null) return null;
    return {
      url,
      key: readWebhookSecret(sealer.open(sealed, forwardingSecretContext(id)).reveal()),
      client,
    };
  }
}
