// Keeps a certificate for each name that needs one: requests the first, renews it in time, and
// tries again after failures. Everything is read from the rows, so that a restart goes on where it
// was, and requests nothing twice.
import { createPrivateKey, X509Certificate } from "node:crypto";
import acme from "acme-client";
import type { ProjectId } from "#lib/ids.ts";
import { errorMessage } from "#lib/error-message.ts";
import { Gate } from "#lib/gate.ts";
import { oneLine } from "#lib/one-line.ts";
import { unlessAborted } from "#lib/unless-aborted.ts";
import type { Foundation } from "#store/foundation.ts";
import * as store from "./acme-store.ts";
import { AuthorityError, type Authority, type Prover, type RevocationReason } from "./authority.ts";
import type { NameSource } from "./name-source.ts";
import { countedMs, NewNames } from "./new-names.ts";
import { chosenNames } from "./wanted-names.ts";
import { isToWarn, nextTryMs, renewalMs } from "./when.ts";

/** A certificate with its chain, and its key, both in PEM. */
type Texts = { readonly certificate: string; readonly key: string };

/** Who uses the certificates. */
type User = {
  /** Gets a certificate, or null when the name has none any more. */
  take(name: string, texts: Texts | null): void;
  /** Whether the user has a certificate for the name from elsewhere, so that none is requested. */
  isGiven(name: string): boolean;
};

export type KeeperOptions = Pick<Foundation, "db" | "sealer" | "log" | "clock"> & {
  readonly authority: Authority;
  readonly sources: readonly NameSource[];
  /** How the names of a source are proven. */
  readonly proverFor: (zone: NameSource["zone"]) => Prover;
  /** For how many new names of one project certificates are ordered in a week. */
  readonly newNamesPerWeek: number;
  /** Writes to the operator; null: mail is not configured. */
  readonly mailOperator: ((mail: { subject: string; text: string }) => void) | null;
};

/** How a name that needs a certificate is proven. */
type Need = {
  readonly name: string;
  readonly zone: NameSource["zone"];
  readonly prover: Prover;
  /** Whose name it is; null: the platform's own. */
  readonly project: ProjectId | null;
};

/** How many orders are under way at once: enough for progress, and no burden for the authority. */
const atOnceMax = 4;
/** How many of them may be for names of one project. */
const atOnceOfProjectMax = 3;
/** The maximum number of names with certificates, which the projects share. */
const namesMax = 2_000;
/**
 * How long a turn may begin orders. Names that are still due then wait for the next turn, behind
 * names that have become more urgent: apps may have many names whose orders are slow to fail.
 */
const beginMs = 300_000;
/** How long an order may take, with the wait until a DNS record is seen. */
const orderMs = 900_000;
/** The maximum length of a stored reason, in characters. */
const reasonLengthMax = 1_000;

/** The context with which the key of a certificate is sealed. */
export function certificateKeyContext(name: string): string {
  return `certificate:${name}`;
}

/** The context with which the key of an order is sealed. */
export function orderKeyContext(name: string): string {
  return `certificate-order:${name}`;
}

/** The certificates of all names. Call `load` once, then `turn` again and again. */
export class CertificateKeeper {
  readonly #options: KeeperOptions;
  /** The certificates that the users have now, by name. */
  readonly #held = new Map<string, Texts>();
  readonly #users: User[] = [];
  /**
   * Until then, no first certificate for a name of the platform's own zone is requested, because
   * the authority has said that there were too many.
   */
  #pausedUntilMs = 0;
  /** Failed tries since the start of the process. */
  failures = 0;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /** Hands the user all certificates now, and each that comes or goes (null) later. */
  serve(user: User): void {
    this.#users.push(user);
    for (const [name, texts] of this.#held) user.take(name, texts);
  }

  /** Reads the stored certificates of the names that need them. */
  async load(): Promise<void> {
    const wanted = await this.#wanted();
    for (const row of await store.certificatesOf(this.#options.db, [...wanted.keys()]))
      this.#hold(row);
  }

  /** Requests the certificates that are due, a few at once, and revokes those that are to be. */
  async turn(signal: AbortSignal): Promise<void> {
    const { db, clock, newNamesPerWeek } = this.#options;
    const wanted = await this.#wanted();
    await this.#forget([...wanted.keys()]);
    const rows = await this.#scheduled(wanted);
    const needed = rows.filter(({ name }) => wanted.has(name));
    // A name that was not needed at the start may have a certificate all the same.
    const unread = needed.filter(
      ({ name, ends_at: endsAt }) => endsAt !== null && !this.#held.has(name),
    );
    for (const row of await store.certificatesOf(
      db,
      unread.map(({ name }) => name),
    ))
      this.#hold(row);
    await this.#warn(needed);
    const due = rows
      .filter(({ name, revocation }) => wanted.has(name) || revocation !== null)
      .filter((row) => row.next_try_at.getTime() <= clock.now())
      .toSorted(byUrgency);
    const beginUntilMs = clock.now() + beginMs;
    // All names that are due may wait for their turn.
    const gate = new Gate({
      max: atOnceMax,
      keyMax: atOnceOfProjectMax,
      waitingMax: due.length,
    });
    const newNames = new NewNames(rows, { max: newNamesPerWeek, nowMs: clock.now() });
    await Promise.all(
      due.map((row) => {
        const need = wanted.get(row.name) ?? null;
        const request = async (): Promise<void> => {
          if (signal.aborted || clock.now() > beginUntilMs || this.#isPaused(row, need)) return;
          if (await this.#mustWait(row, need, newNames)) return;
          await this.#request(row, need, signal);
        };
        return gate.run(request, { key: need?.project ?? "" });
      }),
    );
  }

  /** Whether a certificate for the name is needed now, so that it is renewed. */
  async needs(name: string): Promise<boolean> {
    return (await this.#wanted()).has(name);
  }

  /** What is known of all names, with rows for those that are needed from now on. */
  async #scheduled(wanted: ReadonlyMap<string, Need>): Promise<store.ScheduledCertificate[]> {
    const { db, clock } = this.#options;
    const rows = await store.readAllNames(db);
    const known = new Set(rows.map(({ name }) => name));
    const added = [...wanted.keys()].filter((name) => !known.has(name));
    if (added.length === 0) return rows;
    await store.addNames(db, added, new Date(clock.now()));
    return await store.readAllNames(db);
  }

  /** Removes the certificates that are not needed any more. */
  async #forget(wanted: readonly string[]): Promise<void> {
    const { db, clock } = this.#options;
    const now = new Date(clock.now());
    const countedSince = new Date(clock.now() - countedMs);
    const removed = await store.removeUnwanted(db, wanted, { now, countedSince });
    for (const name of removed) this.#give(name, null);
  }

  /**
   * Warns the operator of certificates that end and could not be renewed, once a day. A row that is
   * due is left out: it is tried again first.
   */
  async #warn(rows: readonly store.ScheduledCertificate[]): Promise<void> {
    const { db, log, clock, mailOperator } = this.#options;
    const nowMs = clock.now();
    for (const row of rows) {
      const { name, begins_at: begins, ends_at: ends, failures, last_error: reason } = row;
      if (begins === null || ends === null || row.next_try_at.getTime() <= nowMs) continue;
      const beginsAtMs = begins.getTime();
      const endsAtMs = ends.getTime();
      const warnedAtMs = row.warned_at?.getTime() ?? null;
      if (!isToWarn({ beginsAtMs, endsAtMs, failures, warnedAtMs }, nowMs)) continue;
      await store.storeWarned(db, name, new Date(nowMs));
      log.error({ name, endsAt: ends, reason }, "a TLS certificate ends, and is not renewed");
      mailOperator?.({
        subject: `The certificate of ${name} is not renewed`,
        text: `The TLS certificate of ${name} ends on ${ends.toUTCString()}. Slipway has tried ${failures} times to renew it; the last try failed: ${reason ?? "no reason is known"}.\n\nThis is repeated every day until it is renewed.\n`,
      });
    }
  }

  /** The names that need certificates. */
  async #wanted(): Promise<Map<string, Need>> {
    const { sources, proverFor } = this.#options;
    const needs = new Map<string, Need>();
    for (const source of sources) {
      const { zone } = source;
      for (const name of await source.names()) {
        if (needs.has(name) || this.#users.some((user) => user.isGiven(name))) continue;
        needs.set(name, { name, zone, prover: proverFor(zone), project: source.projectOf(name) });
      }
    }
    return new Map(chosenNames([...needs.values()], namesMax).map((need) => [need.name, need]));
  }

  /** Whether the name is new, and must wait since its project has had too many new ones. */
  async #mustWait(
    { name, ends_at: endsAt, first_order_at: firstOrderAt }: store.ScheduledCertificate,
    need: Need | null,
    newNames: NewNames,
  ): Promise<boolean> {
    const projectId = need?.project ?? null;
    if (projectId === null || endsAt !== null || firstOrderAt !== null) return false;
    const { db, log, clock, newNamesPerWeek: max } = this.#options;
    const waits = newNames.take(projectId);
    if (waits === null) {
      await store.storeFirstOrder(db, name, { projectId, now: new Date(clock.now()) });
      return false;
    }
    const nextTryAt = new Date(waits.waitUntilMs);
    const reason = `certificates for ${max} new names of the project ${projectId} were requested in 7 days, which is the maximum (SLIPWAY_CERTIFICATES_PER_WEEK)`;
    await store.storeWait(db, name, { reason, nextTryAt });
    log.warn({ name, projectId, nextTryAt, reason }, "a TLS certificate is not requested yet");
    return true;
  }

  /**
   * Whether the name must wait for the end of the pause. Renewals and revocations go on, and so do
   * the domains of apps, each of which has its own time to wait.
   */
  #isPaused({ ends_at: endsAt }: store.ScheduledCertificate, need: Need | null): boolean {
    const isNew = need?.zone === "own" && endsAt === null;
    return isNew && this.#options.clock.now() < this.#pausedUntilMs;
  }

  /**
   * Revokes the present certificate, if somebody has asked for that, and requests another one, if
   * the name needs one; stores how it went.
   */
  async #request(
    row: store.ScheduledCertificate,
    need: Need | null,
    stop: AbortSignal,
  ): Promise<void> {
    const { clock } = this.#options;
    const late = new AbortController();
    const cancel = clock.after(orderMs, () =>
      late.abort(new AuthorityError(`there was no end within ${orderMs / 60_000} minutes`)),
    );
    try {
      await this.#revoke(row);
      if (need !== null) await this.#issue(row, need.prover, AbortSignal.any([stop, late.signal]));
    } catch (error) {
      if (!stop.aborted) await this.#failed(row, need, error);
    } finally {
      cancel();
    }
  }

  /** Has the row's certificate revoked, if somebody has asked for that. */
  async #revoke({ name, revocation }: store.ScheduledCertificate): Promise<void> {
    if (revocation === null) return;
    const { db, authority, log } = this.#options;
    const chain = (await store.certificateOf(db, name))?.chain ?? null;
    if (chain === null) return;
    await authority.revoke(chain, revocation as RevocationReason);
    await store.forgetRevoked(db, name);
    this.#give(name, null);
    log.info({ name, reason: revocation }, "a TLS certificate was revoked");
  }

  async #issue(
    row: store.ScheduledCertificate,
    prover: Prover,
    signal: AbortSignal,
  ): Promise<void> {
    const { db, sealer, authority, log, clock } = this.#options;
    const { name } = row;
    const context = orderKeyContext(name);
    const key =
      row.order_key_sealed === null
        ? (await acme.crypto.createPrivateEcdsaKey()).toString()
        : sealer.open(row.order_key_sealed, context).reveal();
    const issued = authority.issue({
      name,
      key,
      url: row.order_url,
      onOrder: (url) => store.storeOrder(db, name, { url, keySealed: sealer.seal(key, context) }),
      prover,
      signal,
    });
    const chain = await unlessAborted(signal, issued);
    const { beginsAtMs, endsAtMs } = checked(chain, { name, key });
    const nextTryAt = new Date(renewalMs({ beginsAtMs, endsAtMs }, clock.random()));
    const keySealed = sealer.seal(key, certificateKeyContext(name));
    const beginsAt = new Date(beginsAtMs);
    const endsAt = new Date(endsAtMs);
    const issuedNow = { chain, keySealed, beginsAt, endsAt, nextTryAt };
    // If not, the next turn revokes the present one, and goes on with this order, which has ended.
    if (!(await store.storeCertificate(db, name, issuedNow))) return;
    this.#give(name, { certificate: chain, key });
    log.info({ name, endsAt, renewalAt: nextTryAt }, "a TLS certificate was issued");
  }

  async #failed(row: store.ScheduledCertificate, need: Need | null, error: unknown): Promise<void> {
    const { db, log, clock } = this.#options;
    const { name } = row;
    this.failures += 1;
    const isExpected = error instanceof AuthorityError;
    const reason = oneLine(errorMessage(error));
    const retryAfterMs = isExpected ? error.retryAfterMs : 0;
    const isRateLimited = isExpected && error.type === "rateLimited";
    const wait = { failures: row.failures + 1, isRateLimited, retryAfterMs };
    const waitMs = nextTryMs(wait, clock.random());
    const now = new Date(clock.now());
    const nextTryAt = new Date(now.getTime() + waitMs);
    // A domain of an app pauses nothing: its owner can use up what the authority allows for it.
    if (isRateLimited && need?.zone === "own") this.#pausedUntilMs = nextTryAt.getTime();
    const shown = reason.slice(0, reasonLengthMax);
    // Owners of domains see the reason, too; what is wrong with the platform is not for them.
    const stored = isExpected ? shown : "the platform failed; its log says why";
    await store.storeFailure(db, name, { reason: stored, now, nextTryAt });
    const about = { name, reason: shown, nextTryAt, endsAt: row.ends_at };
    if (isExpected) log.warn(about, "a TLS certificate could not be issued");
    else log.error({ ...about, err: error }, "a TLS certificate could not be issued");
  }

  #hold({ name, chain, key_sealed: sealed }: store.CertificateRow): void {
    if (chain === null || sealed === null) return;
    const key = this.#options.sealer.open(sealed, certificateKeyContext(name)).reveal();
    this.#give(name, { certificate: chain, key });
  }

  #give(name: string, texts: Texts | null): void {
    if (texts === null) this.#held.delete(name);
    else this.#held.set(name, texts);
    for (const user of this.#users) user.take(name, texts);
  }
}

/**
 * First the certificate that ends first. Names without a certificate come last, and among them
 * first the name that has been due for longer.
 */
function byUrgency(one: store.ScheduledCertificate, other: store.ScheduledCertificate): number {
  const endOf = ({ ends_at: endsAt }: store.ScheduledCertificate): number =>
    endsAt?.getTime() ?? Number.MAX_SAFE_INTEGER;
  return endOf(one) - endOf(other) || one.next_try_at.getTime() - other.next_try_at.getTime();
}

/** The times of the certificate. Throws when it is none for the name and the key. */
function checked(
  chain: string,
  { name, key }: { readonly name: string; readonly key: string },
): { readonly beginsAtMs: number; readonly endsAtMs: number } {
  const leaf = new X509Certificate(chain);
  // A wildcard is checked with a name that it covers.
  const example = name.replace(/^\*/, "any");
  if (leaf.checkHost(example) === undefined || !leaf.checkPrivateKey(createPrivateKey(key)))
    throw new AuthorityError("the authority has issued a certificate for another name or key");
  return { beginsAtMs: Date.parse(leaf.validFrom), endsAtMs: Date.parse(leaf.validTo) };
}
