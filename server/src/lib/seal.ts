// Encryption at rest for tokens, credentials and app secrets: AES-256-GCM with a key id. Keys can
// be rotated: the first key seals, every listed key opens.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { assert } from "./assert.ts";
import { Secret } from "./secret.ts";

type Key = { readonly id: string; readonly bytes: Buffer };

/** The form of a key: 32 bytes as 64 hexadecimal digits. */
const keyForm = /^[0-9a-f]{64}$/i;

/**
 * Seals and opens short strings. `context` names the sealed value (for example
 * `secret:p-1:app:NAME`); a text moved to another context does not open.
 */
export class Sealer {
  readonly #keys: readonly Key[];

  /** `keys`: 64 hexadecimal digits each; the first one seals. */
  constructor(keys: readonly string[]) {
    assert(keys.length > 0, "a sealer needs at least one key");
    this.#keys = keys.map((key) => {
      assert(keyForm.test(key), "a secret key must be 64 hexadecimal digits");
      const bytes = Buffer.from(key, "hex");
      // Eight digits are enough to tell a few keys apart.
      return { id: createHash("sha256").update(bytes).digest("hex").slice(0, 8), bytes };
    });
  }

  /** The ids of all keys, first the id of the key that seals. A sealed text names its key's id. */
  keyIds(): string[] {
    return this.#keys.map((key) => key.id);
  }

  /** Returns `v1.<key id>.<nonce>.<ciphertext and tag>`, the last two parts in base64url. */
  seal(plain: string, context: string): string {
    const key = this.#keys[0];
    assert(key, "a sealer needs at least one key");
    // GCM is made for nonces of 12 bytes.
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", key.bytes, nonce).setAAD(Buffer.from(context));
    const sealed = Buffer.concat([
      cipher.update(plain, "utf8"),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
    return `v1.${key.id}.${nonce.toString("base64url")}.${sealed.toString("base64url")}`;
  }

  /** Decrypts the text. Throws when its key is unknown or the text was altered. */
  open(sealed: string, context: string): Secret {
    const [version, keyId, nonce, body] = sealed.split(".");
    assert(version === "v1" && keyId && nonce && body, "sealed text has an unknown form");
    const key = this.#keys.find((candidate) => candidate.id === keyId);
    assert(key, `secret key ${keyId} is not among the configured ones`);
    const bytes = Buffer.from(body, "base64url");
    // The last 16 bytes are the authentication tag.
    const decipher = createDecipheriv("aes-256-gcm", key.bytes, Buffer.from(nonce, "base64url"));
    decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-16));
    return new Secret(
      Buffer.concat([decipher.update(bytes.subarray(0, -16)), decipher.final()]).toString("utf8"),
    );
  }
}
