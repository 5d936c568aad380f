// The real authority: an account there, and the steps of an order. The library acme-client speaks
// the protocol. What must survive a restart of the platform is stored: the account here, orders and
// certificates by the callers.
import acme, { type Authorization, type Client, type Order } from "acme-client";
import { errorMessage } from "#lib/error-message.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import * as store from "./acme-store.ts";
import {
  AuthorityError,
  revocationReasons,
  type Authority,
  type CertificateOrder,
  type Proof,
  type Prover,
  type RevocationReason,
} from "./authority.ts";
import { problemOf, useTransport } from "./authority-transport.ts";

export type AcmeSettings = {
  readonly directoryUrl: string;
  /** The address that the authority may write to about the account. */
  readonly email: string;
  /** Ties the account to one that the authority knows already; null: it asks for no such tie. */
  readonly externalAccount: { readonly keyId: string; readonly hmacKey: Secret } | null;
  /** Authorities that TLS trusts instead of the usual ones, in PEM; null: the usual ones. */
  readonly trusted: string | null;
};

type Parts = Pick<Foundation, "db" | "sealer" | "clock" | "log">;

type Challenge = Authorization["challenges"][number];

/** The wait before the authority is asked a second time whether it has done its part. */
const pollFirstMs = 1_000;
/** The wait before each further time. */
const pollMs = 5_000;
/** How often the authority is asked. With these waits, that takes three minutes at most. */
const pollsMax = 36;

/** The context with which the key of an account is sealed. */
export function accountKeyContext(directoryUrl: string): string {
  return `acme-account:${directoryUrl}`;
}

/** An authority that speaks ACME. */
export class AcmeAuthority implements Authority {
  readonly #settings: AcmeSettings;
  readonly #parts: Parts;
  #account: Promise<Client> | null = null;

  constructor(settings: AcmeSettings, parts: Parts) {
    this.#settings = settings;
    this.#parts = parts;
    useTransport({ clock: parts.clock, trusted: settings.trusted });
  }

  async issue(wish: CertificateOrder): Promise<string> {
    const { name, key, prover, signal } = wish;
    const client = await this.#client();
    // An earlier order may have any of the states, so each step is skipped if it is done already.
    const order = await this.#order(client, wish);
    if (order.status === "pending") {
      for (const authorization of await client.getAuthorizations(order))
        await this.#prove(client, { authorization, prover, signal });
    }
    const proven = await this.#poll(signal, async () => {
      const current = await client.getOrder(order);
      return current.status === "pending" ? null : current;
    });
    if (proven.status === "ready") {
      const [, request] = await acme.crypto.createCsr({ altNames: [name] }, key);
      await client.finalizeOrder(proven, request);
    }
    const ended = await this.#poll(signal, async () => {
      const current = await client.getOrder(order);
      return current.status === "valid" || current.status === "invalid" ? current : null;
    });
    if (ended.status === "invalid")
      throw new AuthorityError(reasonIn(ended) ?? "the authority has ended the order");
    return await client.getCertificate(ended);
  }

  async revoke(chain: string, reason: RevocationReason): Promise<void> {
    const client = await this.#client();
    try {
      await client.revokeCertificate(chain, { reason: revocationReasons[reason] });
    } catch (error) {
      if (!isProblem(error, "alreadyRevoked")) throw error;
    }
  }

  /** The order that was made before, if it can still be used, or a new one. */
  async #order(client: Client, { name, url, onOrder }: CertificateOrder): Promise<Order> {
    const earlier = url === null ? null : await earlierOrder(client, url);
    if (earlier !== null && earlier.status !== "invalid") return earlier;
    try {
      const order = await client.createOrder({ identifiers: [{ type: "dns", value: name }] });
      await onOrder(order.url);
      return order;
    } catch (error) {
      if (isProblem(error, "accountDoesNotExist")) await this.#forgetAccount();
      throw error;
    }
  }

  /** The authority does not know the account any more: the next order makes it again. */
  async #forgetAccount(): Promise<void> {
    const { directoryUrl } = this.#settings;
    const { db } = this.#parts;
    this.#account = null;
    const row = await store.accountAt(db, directoryUrl);
    if (row !== undefined) await store.putAccount(db, { ...row, account_url: null });
  }

  async #prove(client: Client, work: ProofWork): Promise<void> {
    const { authorization, prover, signal } = work;
    if (authorization.status === "valid") return;
    const { value: name } = authorization.identifier;
    const challenge = authorization.challenges.find(({ type }) => type === prover.kind);
    if (challenge === undefined) {
      const offered = authorization.challenges.map(({ type }) => type).join(", ");
      throw new AuthorityError(
        `the authority does not take ${prover.kind} for ${name}, but ${offered || "nothing"}`,
      );
    }
    const answer = await client.getChallengeKeyAuthorization(challenge);
    const proof: Proof = { name, token: challenge.token, answer };
    try {
      await prover.show(proof, signal);
      await client.completeChallenge(challenge);
      const judged = await this.#poll(signal, async () => {
        // The library reads only this member of the order.
        const [current] = await client.getAuthorizations({
          authorizations: [authorization.url],
        } as Order);
        return current === undefined || current.status === "pending" ? null : current;
      });
      if (judged.status !== "valid") throw new AuthorityError(whyNotProven(judged));
    } finally {
      await this.#hide(prover, proof);
    }
  }

  /** Takes the proof away. A proof that stays does no harm, so a failure must not end the order. */
  async #hide(prover: Prover, proof: Proof): Promise<void> {
    try {
      await prover.hide(proof);
    } catch (error) {
      const reason = errorMessage(error);
      this.#parts.log.warn({ name: proof.name, reason }, "a proof could not be taken away");
    }
  }

  /** Asks until the answer is not null. Throws `AuthorityError` when `pollsMax` is reached. */
  async #poll<Answer>(signal: AbortSignal, ask: () => Promise<Answer | null>): Promise<Answer> {
    const { clock } = this.#parts;
    for (let asked = 0; asked < pollsMax; asked++) {
      if (asked > 0) await clock.sleep(asked === 1 ? pollFirstMs : pollMs, signal);
      signal.throwIfAborted();
      const answer = await ask();
      if (answer !== null) return answer;
    }
    throw new AuthorityError("the authority has not come to an end within three minutes");
  }

  /**
   * The client of the account, which is opened once. After a failure, the next order tries again.
   */
  #client(): Promise<Client> {
    this.#account ??= this.#openAccount().catch((error: unknown) => {
      this.#account = null;
      throw error;
    });
    return this.#account;
  }

  async #openAccount(): Promise<Client> {
    const { directoryUrl, email, externalAccount } = this.#settings;
    const { db, sealer } = this.#parts;
    const context = accountKeyContext(directoryUrl);
    const row = await store.accountAt(db, directoryUrl);
    const key =
      row === undefined
        ? (await acme.crypto.createPrivateEcdsaKey()).toString()
        : sealer.open(row.key_sealed, context).reveal();
    const kept = {
      directory_url: directoryUrl,
      key_sealed: row?.key_sealed ?? sealer.seal(key, context),
      account_url: row?.account_url ?? null,
    };
    // The key is stored before the authority knows of it: if the key were lost, nobody could use
    // the account that the authority has.
    if (row === undefined) await store.putAccount(db, { ...kept, email: null });
    const binding =
      externalAccount === null
        ? {}
        : {
            externalAccountBinding: {
              kid: externalAccount.keyId,
              hmacKey: externalAccount.hmacKey.reveal(),
            },
          };
    const client = new acme.Client({
      directoryUrl,
      accountKey: key,
      ...(kept.account_url === null ? {} : { accountUrl: kept.account_url }),
      ...binding,
    });
    // Makes the account if there is no row or no URL, and otherwise changes its address.
    if (row?.account_url === null || row?.email !== email) {
      await client.createAccount({ termsOfServiceAgreed: true, contact: [`mailto:${email}`] });
      await store.putAccount(db, { ...kept, account_url: client.getAccountUrl(), email });
    }
    return client;
  }
}

type ProofWork = {
  readonly authorization: Authorization;
  readonly prover: Prover;
  readonly signal: AbortSignal;
};

/**
 * The order at the URL; null: the authority refuses it, since it does not know the order any more.
 * A refusal for too many requests says nothing about the order.
 */
async function earlierOrder(client: Client, url: string): Promise<Order | null> {
  try {
    // The library reads only this member of the order.
    return await client.getOrder({ url } as Order);
  } catch (error) {
    if (error instanceof AuthorityError && error.type !== null && error.type !== "rateLimited")
      return null;
    throw error;
  }
}

function isProblem(error: unknown, type: string): boolean {
  return error instanceof AuthorityError && error.type === type;
}

function whyNotProven(authorization: Authorization): string {
  const name = authorization.identifier.value;
  const reasons = authorization.challenges.map((one: Challenge) => reasonIn(one));
  const reason = reasons.find((one) => one !== null) ?? `the proof is ${authorization.status}`;
  return `the authority could not see that ${name} leads here: ${reason}`;
}

/** The reason that an object of the authority carries, or null. */
function reasonIn(item: object): string | null {
  return "error" in item ? problemOf(item.error).detail : null;
}
