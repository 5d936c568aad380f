// Use cases for the domains of apps: list, add, check now, remove. Each change and its audit row
// are one transaction. Whether a name is proven is decided by `domain-checks`.
import { randomBytes } from "node:crypto";
import { lockProject } from "#accounts/project-store.ts";
import { hasApp, lockAppForChange, noSuchApp } from "#apps/app-store.ts";
import { record, type By } from "#audit/record.ts";
import type { AuditAction, DomainState } from "@slipway/contract/words.ts";
import { Fault } from "#lib/fault.ts";
import type { AppKey, ProjectId } from "#lib/ids.ts";
import { perMinute, RateLimit } from "#lib/rate-limit.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import type { DomainChecks } from "./domain-checks.ts";
import { challengeLabel, readDomainName, type PlatformNames } from "./domain-name.ts";
import { failsAtMs } from "./domain-proof.ts";
import * as store from "./domain-store.ts";

/** A domain as it is listed. */
export type DomainView = {
  readonly name: string;
  readonly state: DomainState;
  /**
   * What the last check found instead of the proof; null: it found the proof, or did not run yet.
   */
  readonly found: string | null;
  /** The CNAME record that proves the name; null: the app has no host name of its own. */
  readonly cname: DnsRecord | null;
  /** The TXT record that proves the name. */
  readonly txt: DnsRecord;
  readonly createdAt: Date;
  readonly checkedAt: Date | null;
  readonly nextCheckAt: Date | null;
  readonly validatedAt: Date | null;
  /** When the claim fails if nothing changes; null: it has failed, or nothing is missing. */
  readonly failsAt: Date | null;
};

type DnsRecord = { readonly name: string; readonly value: string };
type DomainRef = AppKey & { readonly name: string };

/** The maximum number of domains of a project, since each is looked up again and again. */
const domainsMax = 100;
/** The maximum number of checks that a project asks for per minute. */
const checksMax = 30;
/** The maximum number of names that a project adds per minute; each is looked up at once. */
const addedMax = 120;

export type DomainsParts = Pick<Foundation, "db" | "clock"> & {
  readonly checks: DomainChecks;
  /** Not called before the platform listens. */
  readonly platformNames: () => PlatformNames;
};

/** Use cases; their methods throw `Fault`. */
export class Domains {
  readonly #parts: DomainsParts;
  /** Limits the checks that a project asks for. */
  readonly #asked: RateLimit;
  /** Limits the names that a project adds. */
  readonly #added: RateLimit;

  constructor(parts: DomainsParts) {
    const text = perMinute((used) => `The project's domains were checked ${used} times`);
    this.#parts = parts;
    this.#asked = new RateLimit({ max: checksMax, clock: parts.clock, text });
    const addedText = perMinute((used) => `The project has added ${used} domains`);
    this.#added = new RateLimit({ max: addedMax, clock: parts.clock, text: addedText });
  }

  /** The domains of an app, by name. */
  async list({ projectId, appId }: AppKey): Promise<DomainView[]> {
    if (!(await hasApp(this.#parts.db, projectId, appId))) throw noSuchApp(appId);
    return (await store.readDomains(this.#parts.db, appId)).map((row) => this.#view(row));
  }

  /**
   * Adds a claim of a name, which is checked soon. If the app already has a claim of the name, that
   * claim stays as it is, or is pending again if it has failed. Throws `Fault("invalid" |
   * "conflict" | "rate_limited")`.
   */
  async add(app: AppKey, text: string, by: By): Promise<DomainView> {
    const name = readDomainName(text, this.#parts.platformNames());
    this.#added.take(app.projectId);
    const row = await this.#parts.db.transaction().execute(async (tx) => {
      await lockAppForChange(tx, app);
      const ref = { ...app, name };
      const before = await store.readDomain(tx, ref);
      if (before !== undefined && before.state !== "Failed") return before;
      if (before === undefined) await this.#insert(tx, ref);
      else await this.#begin(tx, ref);
      await recordAction(tx, ref, "domain.add", by);
      return await this.#require(tx, ref);
    });
    this.#parts.checks.loop.nudge();
    return this.#view(row);
  }

  /**
   * Looks up the records of a name now; a claim that has failed is pending again. Throws
   * `Fault("not_found" | "rate_limited")`.
   */
  async check(ref: DomainRef, by: By): Promise<DomainView> {
    const { db, checks } = this.#parts;
    this.#asked.take(ref.projectId);
    const row = await db.transaction().execute(async (tx) => {
      await lockAppForChange(tx, ref);
      const before = await this.#require(tx, ref);
      if (before.state === "Failed") await this.#begin(tx, ref);
      await recordAction(tx, ref, "domain.check", by);
      // The check reads the claim again, so it does not matter that this row may be outdated.
      return before;
    });
    await checks.check(row);
    return this.#view(await this.#require(db, ref));
  }

  /** Removes a name; the app no longer answers on it. Throws `Fault("not_found")`. */
  async remove(ref: DomainRef, by: By): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      await lockAppForChange(tx, ref);
      const removed = await store.deleteDomain(tx, ref);
      if (removed === undefined) throw noSuchDomain(ref.name);
      if (removed.wasProven) await notify(tx, "domains", ref.name);
      await recordAction(tx, ref, "domain.remove", by);
    });
  }

  async #insert(tx: Tx, ref: DomainRef): Promise<void> {
    // With the lock, no other request adds one meanwhile.
    await lockProject(tx, ref.projectId);
    if ((await store.countDomains(tx, ref.projectId)) >= domainsMax) {
      throw new Fault(
        "conflict",
        `The project has ${domainsMax} domains, which is the maximum; remove one that is no longer used.`,
      );
    }
    await store.insertDomain(tx, { ...ref, token: randomBytes(16).toString("hex") });
  }

  /** Makes the claim pending, with the full time for proving the name. */
  async #begin(tx: Tx, ref: DomainRef): Promise<void> {
    const now = new Date(this.#parts.clock.now());
    await store.updateDomain(tx, ref, { state: "Pending", pending_since: now, check_at: now });
  }

  async #require(db: Tx | Foundation["db"], ref: DomainRef): Promise<store.DomainRow> {
    const row = await store.readDomain(db, ref);
    if (row === undefined) throw noSuchDomain(ref.name);
    return row;
  }

  #view(row: store.DomainRow): DomainView {
    const claim = this.#parts.checks.claimOf(row);
    const failsAt = failsAtMs(claim);
    return {
      name: row.name,
      state: row.state,
      found: row.found,
      cname: claim.appHost === null ? null : { name: row.name, value: claim.appHost },
      txt: { name: `${challengeLabel}.${row.name}`, value: row.token },
      createdAt: row.created_at,
      checkedAt: row.checked_at,
      nextCheckAt: row.check_at,
      validatedAt: row.validated_at,
      failsAt: failsAt === null ? null : new Date(failsAt),
    };
  }
}

function noSuchDomain(name: string): Fault {
  return new Fault("not_found", `The app has no domain ${name}; slipway domains list shows all.`);
}

async function recordAction(
  tx: Tx,
  { projectId, name }: { readonly projectId: ProjectId; readonly name: string },
  action: AuditAction,
  by: By,
): Promise<void> {
  await record(tx, { projectId, action, by, resource: { type: "domain", id: name } });
}
