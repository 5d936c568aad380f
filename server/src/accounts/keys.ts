// The keys that sign tokens: RSA pairs whose private half is sealed in the database. One key signs;
// retired keys still verify. The JWKS of public keys is derived from the sealed halves, so that
// write access to the database alone is not enough to plant a key.
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  randomBytes,
  type KeyObject,
} from "node:crypto";
import { promisify } from "node:util";
import type { JSONWebKeySet, JWK } from "jose";
import { must } from "#lib/assert.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { record, type By } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { notify } from "#store/notify.ts";
import * as store from "./key-store.ts";
import type { Foundation } from "#store/foundation.ts";

/** The only signature algorithm; a token that names another is not valid. */
export const signatureAlgorithm = "RS256";

/** The size of new keys, which is the smallest that RS256 allows. */
const modulusBits = 2048;
const generatePair = promisify(generateKeyPair);

/** A key that signs. */
export type SigningKey = { readonly id: string; readonly privateKey: KeyObject };

/** The keys of the database, cached in memory. Call `load()` before use and after each change. */
export class SigningKeys {
  readonly #parts: Pick<Foundation, "sealer" | "clock">;
  #current: SigningKey | undefined;
  #rows = new Map<string, store.SigningKeyRow>();
  /** How many loads have begun. The result of an older load must not replace a newer one. */
  #loadsBegun = 0;
  /** The number of the load whose result is in use. */
  #loadInUse = 0;
  /** Public halves of all keys that verify, by id. */
  #public = new Map<string, { key: KeyObject; jwk: JWK }>();
  /** Public halves of withdrawn keys: they prove that a signature was once ours. */
  #withdrawn = new Map<string, KeyObject>();

  constructor(parts: Pick<Foundation, "sealer" | "clock">) {
    this.#parts = parts;
  }

  /** Reads all keys. Throws `CannotStart` when they cannot be opened. */
  async load(db: Db): Promise<void> {
    this.#loadsBegun += 1;
    const load = this.#loadsBegun;
    const rows = await store.listSigningKeys(db);
    const withdrawn = await store.listWithdrawnKeys(db);
    if (load < this.#loadInUse) return;
    this.#loadInUse = load;
    this.#rows = new Map(rows.map((row) => [row.id, row]));
    this.#public = new Map(rows.map((row) => [row.id, publicHalf(row.id, this.#openPrivate(row))]));
    this.#withdrawn = new Map(
      withdrawn.map(({ id, sealed }) => [
        id,
        createPublicKey(this.#open(sealed, withdrawnKeyContext(id))),
      ]),
    );
    const current = rows.find((row) => row.retired_at === null);
    this.#current =
      current === undefined
        ? undefined
        : { id: current.id, privateKey: this.#openPrivate(current) };
  }

  /** The key that signs new tokens. */
  current(): SigningKey {
    return must(this.#current, "there is a signing key");
  }

  /** The key with this id, even if retired, to repeat its signatures; undefined when it is gone. */
  signer(keyId: string): SigningKey | undefined {
    if (keyId === this.#current?.id) return this.#current;
    const row = this.#rows.get(keyId);
    return row === undefined ? undefined : { id: row.id, privateKey: this.#openPrivate(row) };
  }

  /** The public key that verifies signatures of the key with this id, or undefined. */
  verifier(keyId: string): KeyObject | undefined {
    return this.#public.get(keyId)?.key;
  }

  /**
   * The public half of a withdrawn key, or undefined. The key's signatures are no longer valid, but
   * were once ours.
   */
  withdrawn(keyId: string): KeyObject | undefined {
    return this.#withdrawn.get(keyId);
  }

  /**
   * The sealed public half of a key, which is stored when the key is withdrawn; null when there is
   * no such key.
   */
  sealedForWithdrawal(keyId: string): string | null {
    const key = this.verifier(keyId);
    if (key === undefined) return null;
    const text = key.export({ type: "spki", format: "pem" }).toString();
    return this.#parts.sealer.seal(text, withdrawnKeyContext(keyId));
  }

  /** The public keys of all keys that verify: of retired keys too, but not of withdrawn ones. */
  jwks(): JSONWebKeySet {
    return { keys: [...this.#public.values()].map(({ jwk }) => jwk) };
  }

  /**
   * Creates a new key that signs from now on, and retires the others, which still verify. Call
   * `load` after the commit.
   */
  async rotate(tx: Db, by: By): Promise<SigningKey> {
    const id = randomBytes(8).toString("hex");
    const { privateKey, publicKey } = await generatePair("rsa", { modulusLength: modulusBits });
    const jwk = jwkOf(id, publicKey);
    const text = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    await store.insertSigningKey(tx, {
      id,
      public_jwk: toJson(jwk),
      private_key_sealed: this.#parts.sealer.seal(text, signingKeyContext(id)),
      created_at: new Date(this.#parts.clock.now()),
    });
    const retired = await store.retireOtherKeys(tx, id, new Date(this.#parts.clock.now()));
    // Only one key was not retired before: the one that signed.
    await record(tx, {
      projectId: null,
      action: "signing_key.create",
      by,
      resource: { type: "signing_key", id },
      changes: { current: { old: retired[0], new: id } },
    });
    await notify(tx, "tokens", id);
    return { id, privateKey };
  }

  #openPrivate(row: store.SigningKeyRow): KeyObject {
    return createPrivateKey(this.#open(row.private_key_sealed, signingKeyContext(row.id)));
  }

  #open(sealed: string, context: string): string {
    try {
      return this.#parts.sealer.open(sealed, context).reveal();
    } catch (error) {
      throw new CannotStart(
        "The database was used with a different secret key: set SLIPWAY_SECRET_KEY to that key (old keys may follow the new one, separated by commas), or restore the file secret.key in the data folder.",
        { cause: error },
      );
    }
  }
}

/** The context with which the private half of a key is sealed. */
export function signingKeyContext(keyId: string): string {
  return `signing_key:${keyId}`;
}

/** The context with which the public half of a withdrawn key is sealed. */
export function withdrawnKeyContext(keyId: string): string {
  return `withdrawn_signing_key:${keyId}`;
}

function publicHalf(id: string, privateKey: KeyObject): { key: KeyObject; jwk: JWK } {
  const key = createPublicKey(privateKey);
  return { key, jwk: jwkOf(id, key) };
}

function jwkOf(id: string, key: KeyObject): JWK {
  return { ...key.export({ format: "jwk" }), kid: id, alg: signatureAlgorithm, use: "sig" };
}
