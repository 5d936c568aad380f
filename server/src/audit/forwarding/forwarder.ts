// Sends entries of the audit log on to those who want them, in the order of each chain and at least once. Every platform on
// the database looks every few seconds for forwardings that have something to send and that nobody works on. Entries
// announce nothing themselves: a notification in every change would make changes wait for each other.
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import type { Sealer } from "#lib/seal.ts";
import { readWebhookSecret } from "#lib/webhook-signature.ts";
import type { Db } from "#store/database.ts";
import { Leases } from "#store/lease.ts";
import type { Notifications } from "#store/notify.ts";
import { sendBatches, type SenderParts, type ForwardingLease, type Receiver } from "./forwarding-sender.ts";
import { forwardingSecretContext } from "./forwarding-use-cases.ts";
import { followChains, forgetChains, forgetDeletedProjects, type ForwardingRow } from "./forwarding-store.ts";

type Scope = ForwardingRow["scope"];

export type ForwarderOptions = {
  readonly db: Db;
  readonly sealer: Sealer;
  readonly notifications: Pick<Notifications, "listen">;
  /** Of this process on its data folder; absent: there is none. */
  readonly instanceId?: string;
  /** For URLs that owners of projects chose. */
  readonly client: Receiver["client"];
  /** The operator's receiver of all chains. */
  readonly platform: Receiver | null;
  readonly clock: Clock;
  readonly log: Log;
  /** The longest time between two looks; 2 s unless given. */
  readonly intervalMs?: number;
  /** Of one attempt; 20 s unless given. */
  readonly timeoutMs?: number;
};

/**
 * Forwardings at once, of projects and of chains to the operator's receiver apart, so that neither waits for the other. Each
 * may hold a connection to its receiver, and now and then one to the database.
 */
const atOnceMax = { project: 24, platform: 8 } as const;
const intervalMsUsual = 2_000;
const timeoutMsUsual = 20_000;
/** More than an attempt and what is written around it take. */
const leaseMs = 60_000;

/** `start()` once. `stop()` ends what is under way; call it after the clients were closed, else it waits for them. */
export class Forwarder {
  readonly #options: ForwarderOptions;
  readonly #leases: Leases<"audit_forwardings">;
  readonly #loop: Loop;
  readonly #stopping = new AbortController();
  readonly #sending = { project: new Set<Promise<void>>(), platform: new Set<Promise<void>>() };
  #unlisten: (() => void) | undefined;

  constructor(options: ForwarderOptions) {
    const { db, clock, log, instanceId, intervalMs = intervalMsUsual } = options;
    this.#options = options;
    const holder = `audit-${instanceId ?? randomUUID()}`;
    this.#leases = new Leases({ db, clock, log, leaseMs, table: "audit_forwardings", holder });
    this.#loop = new Loop({ name: "audit forwarding", intervalMs, clock, log, turn: () => this.#turn() });
  }

  /** Takes back what an earlier process of this folder was sending, and begins. */
  async start(): Promise<void> {
    const { db, instanceId, notifications, platform } = this.#options;
    if (instanceId !== undefined) await this.#leases.endEarlier();
    if (platform === null) await forgetChains(db);
    this.#unlisten = notifications.listen("audit", () => this.#loop.nudge());
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#unlisten?.();
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
    const limit = atOnceMax[scope] - this.#sending[scope].size;
    if (limit <= 0 || this.#stopping.signal.aborted) return;
    const where = sql`
      scope = ${scope} and paused_at is null and due_at <= clock_timestamp()
      and exists (select from audit_links as link
                   where link.chain = audit_forwardings.chain and link.number > audit_forwardings.position)`;
    // Those that wait for the longest time first.
    const leases = await this.#leases.claim({ where, order: sql`coalesce(delivered_at, created_at), id`, limit });
    for (const lease of leases) this.#begin(lease, scope);
  }

  #begin(lease: ForwardingLease, scope: Scope): void {
    const underWay = this.#sending[scope];
    const { db, clock, log, timeoutMs = timeoutMsUsual } = this.#options;
    const receiverOf = (row: ForwardingRow): Receiver | null => this.#receiverOf(row);
    const parts: SenderParts = {
      ...{ db, clock, log, timeoutMs, receiverOf, leases: this.#leases, stopping: this.#stopping.signal },
    };
    const sending = sendBatches(lease, parts)
      .catch((error: unknown) => log.error({ err: error, forwarding: lease.id }, "sending entries on failed"))
      .finally(() => {
        underWay.delete(sending);
        this.#loop.nudge();
      });
    underWay.add(sending);
  }

  #receiverOf({ id, scope, url, secret_sealed: sealed }: ForwardingRow): Receiver | null {
    const { sealer, client, platform } = this.#options;
    if (scope === "platform") return platform;
    if (url === null || sealed === null) return null;
    return { url, key: readWebhookSecret(sealer.open(sealed, forwardingSecretContext(id)).reveal()), client };
  }
}
