// Checks claims: looks up their records, and writes what follows from them. A loop does this for
// all claims that are due, and the API for a claim that somebody asks about. A name passes from one
// app to another only here.
import { platformActor, record, type AuditEntry } from "#audit/record.ts";
import type { AppHosts } from "#lib/app-hosts.ts";
import { Loop } from "#lib/loop.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { notify } from "#store/notify.ts";
import type { DomainLookup } from "./domain-lookup.ts";
import {
  checkedClaim,
  type DomainClaim,
  type DnsRecords,
  type CheckedClaim,
} from "./domain-proof.ts";
import * as store from "./domain-store.ts";

export type DomainChecksParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly lookup: Pick<DomainLookup, "look">;
  readonly appHosts: Pick<AppHosts, "dnsNameOf">;
};

/** The longest time from when a claim is due to its check. */
const intervalMs = 15_000;
/** The maximum number of claims from which one turn chooses. */
const dueMax = 2_000;
/**
 * The maximum number of claims of one project in a turn; its other claims wait for the next turn.
 * So name servers that do not answer delay the claims of other projects by seconds only.
 */
const dueOfProjectMax = 8;

/** Checks claims. */
export class DomainChecks {
  readonly #parts: DomainChecksParts;
  /** Checks the claims that are due. The caller starts and stops this loop with the platform. */
  readonly loop: Loop;

  constructor(parts: DomainChecksParts) {
    const { clock, log } = parts;
    this.#parts = parts;
    this.loop = new Loop({
      name: "domains",
      intervalMs,
      turn: () => this.#checkDue(),
      // A wrong time could make a claim fail, and a failed claim is not checked again by itself.
      waitsForClock: true,
      clock,
      log,
    });
  }

  /** Checks one claim, unless it is removed meanwhile. Throws what `DomainLookup.look` throws. */
  async check(row: store.DomainRow): Promise<void> {
    const { db, lookup } = this.#parts;
    const { name, app_id: appId } = row;
    const records = await lookup.look(row.project_id, name);
    await db.transaction().execute(async (tx) => {
      const claims = await store.lockClaims(tx, name);
      const own = claims.find((claim) => claim.app_id === appId);
      if (own !== undefined) await this.#apply(tx, own, { claims, records });
    });
  }

  /** The claim in a row. */
  claimOf(row: store.DomainRow): DomainClaim {
    const { name, token, state, project_id: projectId, app_name: appName } = row;
    return {
      name,
      token,
      state,
      appHost: this.#parts.appHosts.dnsNameOf({ projectId, appName }),
      pendingSinceMs: row.pending_since.getTime(),
      missingSinceMs: row.missing_since?.getTime() ?? null,
    };
  }

  async #checkDue(): Promise<void> {
    const { db, clock, log } = this.#parts;
    const due = await store.readDueDomains(db, new Date(clock.now()), dueMax);
    const checks = fewOfEach(due).map((row) =>
      this.check(row).catch((error: unknown) =>
        log.error({ err: error, domain: row.name }, "a domain could not be checked"),
      ),
    );
    await Promise.all(checks);
  }

  /** Writes what the records say of the claim `own`, and of the claim that had the name so far. */
  async #apply(
    tx: Tx,
    own: store.DomainRow,
    {
      claims,
      records,
    }: {
      readonly claims: readonly store.DomainRow[];
      readonly records: DnsRecords;
    },
  ): Promise<void> {
    const now = new Date(this.#parts.clock.now());
    const others = claims.filter((claim) => claim.app_id !== own.app_id);
    const holderRow = others.find(({ state }) => state === "Validated");
    const holder = holderRow === undefined ? null : this.claimOf(holderRow);
    const outcome = checkedClaim(this.claimOf(own), { holder, records, nowMs: now.getTime() });
    if (holderRow !== undefined && outcome.isTakenOver) {
      const found = "the name was proven by another app of this platform";
      await fail(tx, holderRow, found);
    }
    if (outcome.state === "Failed") return await fail(tx, own, outcome.found ?? "", now);
    await store.updateDomain(tx, keyOf(own), {
      ...columnsOf(outcome),
      checked_at: now,
      ...(own.state !== "Validated" && outcome.state === "Validated" ? { validated_at: now } : {}),
    });
    if (own.state === "Validated" || outcome.state !== "Validated") return;
    await recordChange(tx, own, { action: "domain.validate" });
    await notify(tx, "domains", own.name);
  }
}

function columnsOf({ state, found, checkAtMs, missingSinceMs }: CheckedClaim) {
  return {
    state,
    found,
    check_at: checkAtMs === null ? null : new Date(checkAtMs),
    missing_since: missingSinceMs === null ? null : new Date(missingSinceMs),
  };
}

/**
 * Ends a claim, so that the name is free. `checkedAt` undefined: only another claim was checked.
 */
async function fail(tx: Tx, row: store.DomainRow, found: string, checkedAt?: Date): Promise<void> {
  await store.updateDomain(tx, keyOf(row), {
    state: "Failed",
    found,
    check_at: null,
    missing_since: null,
    ...(checkedAt === undefined ? {} : { checked_at: checkedAt }),
  });
  await recordChange(tx, row, { action: "domain.fail", changes: { found: { new: found } } });
  if (row.state === "Validated") await notify(tx, "domains", row.name);
}

function keyOf({ app_id: appId, name }: store.DomainRow): store.DomainKey {
  return { appId, name };
}

/** Records what the platform itself has found out about a claim. */
async function recordChange(
  tx: Tx,
  { project_id: projectId, name }: store.DomainRow,
  entry: Pick<AuditEntry, "action" | "changes">,
): Promise<void> {
  const resource = { type: "domain", id: name };
  await record(tx, { ...entry, projectId, by: { actor: platformActor }, resource });
}

/** The first claims of each project, in their order. */
function fewOfEach(due: readonly store.DomainRow[]): store.DomainRow[] {
  const counts = new Map<string, number>();
  return due.filter(({ project_id: projectId }) => {
    const count = (counts.get(projectId) ?? 0) + 1;
    counts.set(projectId, count);
    return count <= dueOfProjectMax;
  });
}
