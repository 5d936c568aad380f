// What operators do with the certificates that the platform gets by itself: list them, have one
// requested at once, have one revoked. Called by the API.
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { pageOf, type Page } from "#lib/page-token.ts";
import type { Foundation } from "#store/foundation.ts";
import * as store from "./acme-store.ts";
import type { RevocationReason } from "./authority.ts";

type Parts = Pick<Foundation, "db" | "clock"> & {
  /** Requests and revokes; null: this platform requests no certificates. */
  readonly keeper: {
    /** Whether a certificate for the name is needed, so that one is requested when it is due. */
    needs(name: string): Promise<boolean>;
    /** Makes it check now which certificates are due. */
    nudge(): void;
  } | null;
};

/** A certificate as operators see it. */
export type ListedCertificate = {
  readonly name: string;
  readonly state: "waiting" | "valid" | "failing" | "ended" | "revoking";
  readonly beginsAt: Date | null;
  readonly endsAt: Date | null;
  readonly nextTryAt: Date;
  readonly failures: number;
  /** The first failed try since the last success; null: no try has failed since then. */
  readonly failingSince: Date | null;
  readonly lastError: string | null;
};

/** `after`: the token of the page; null: the first page. */
type PageQuery = { readonly size: number; readonly after: string | null };

/** The use cases. They throw `Fault("not_found" | "conflict")`. */
export class CertificateUseCases {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * A page of the certificates: first those with which something is wrong, then by name. One that
   * changes sides while somebody reads page after page may be on two pages, or on none. If this
   * platform requests none, they are from an earlier start.
   */
  async list({ size, after }: PageQuery): Promise<Page<ListedCertificate>> {
    const { db, clock } = this.#parts;
    const now = new Date(clock.now());
    // One more row shows whether there is another page.
    const page = { now, after: after === null ? null : cursorIn(after), limit: size + 1 };
    const rows = await store.listCertificates(db, page);
    const { items, nextToken } = pageOf(rows, size, tokenAfter);
    return { items: items.map((row) => listed(row, now.getTime())), nextToken };
  }

  /** The certificates that this platform requests for these names, by name. */
  async ofNames(names: readonly string[]): Promise<ReadonlyMap<string, ListedCertificate>> {
    const { db, clock, keeper } = this.#parts;
    if (keeper === null || names.length === 0) return new Map();
    const rows = await store.certificatesOf(db, names);
    return new Map(rows.map((row) => [row.name, listed(row, clock.now())]));
  }

  /** Has a certificate requested at once, however long the present one is still valid. */
  async renew(name: string, by: By): Promise<ListedCertificate> {
    return await this.#request(name, { action: "certificate.renew", revocation: null, by });
  }

  /**
   * Has the certificate revoked as soon as the authority answers, and another one requested if the
   * name still needs one.
   */
  revoke(name: string, revocation: RevocationReason, by: By): Promise<ListedCertificate> {
    return this.#request(name, { action: "certificate.revoke", revocation, by });
  }

  async #request(name: string, { action, revocation, by }: Wish): Promise<ListedCertificate> {
    const { db, clock, keeper } = this.#parts;
    const isNeeded = keeper !== null && (await keeper.needs(name));
    const row = await db.transaction().execute(async (tx) => {
      const now = new Date(clock.now());
      const isRequested = await store.requestNow(tx, name, { now, revocation });
      const changed = await store.certificateOf(tx, name);
      if (changed === undefined) throw unknownName(name);
      if (keeper === null) throw new Fault("conflict", requestsNone);
      if (!isNeeded && revocation === null) throw notNeeded(name);
      if (!isRequested)
        throw new Fault("conflict", `There is no certificate for ${name} to revoke.`);
      await record(tx, {
        projectId: null,
        action,
        by,
        resource: { type: "certificate", id: name },
        ...(revocation === null ? {} : { changes: { reason: { new: revocation } } }),
      });
      return changed;
    });
    keeper?.nudge();
    return listed(row, clock.now());
  }
}

type Wish = {
  readonly action: "certificate.renew" | "certificate.revoke";
  readonly revocation: RevocationReason | null;
  readonly by: By;
};

const requestsNone =
  "This platform requests and revokes no certificates, since SLIPWAY_ACME_EMAIL is not set.";

function notNeeded(name: string): Fault {
  return new Fault(
    "conflict",
    `Nothing needs a certificate for ${name} any more, so the present one is not renewed. To have it revoked: slipway certificates revoke ${name}`,
  );
}

function unknownName(name: string): Fault {
  return new Fault(
    "not_found",
    `No certificate is requested for ${name}. To see the names: slipway certificates`,
  );
}

function listed(row: store.CertificateRow, nowMs: number): ListedCertificate {
  return {
    name: row.name,
    state: stateOf(row, nowMs),
    beginsAt: row.begins_at,
    endsAt: row.ends_at,
    nextTryAt: row.next_try_at,
    failures: row.failures,
    failingSince: row.failing_since,
    lastError: row.last_error,
  };
}

/** The token of the page after this row, such as `1-slipway.example.org`. */
function tokenAfter({ is_fine: isFine, name }: store.ListedRow): string {
  return `${isFine ? 1 : 0}-${name}`;
}

function cursorIn(token: string): Pick<store.ListedRow, "is_fine" | "name"> {
  return { is_fine: token.startsWith("1"), name: token.slice(2) };
}

/** The state; `is_fine` of a listed row says that it is waiting or valid. */
function stateOf(
  { ends_at: endsAt, failures, revocation }: store.CertificateRow,
  nowMs: number,
): ListedCertificate["state"] {
  if (revocation !== null) return "revoking";
  if (endsAt !== null && endsAt.getTime() <= nowMs) return "ended";
  if (failures > 0) return "failing";
  return endsAt === null ? "waiting" : "valid";
}
