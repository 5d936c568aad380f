// Tokens that must be rejected: altered, unsigned, signed by the wrong key or in the wrong way.
// Each is derived from a valid one, so that its defect is the only reason to reject it.
import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  sign,
  type JsonWebKey,
  type KeyObject,
} from "node:crypto";

/**
 * Name → the value after "Authorization: ". `valid` is a token, `jwk` the public key of its
 * signature.
 */
export function badTokens(valid: string, jwk: JsonWebKey): Readonly<Record<string, string>> {
  const [head = "", payload = "", signature = ""] = valid.split(".");
  const header = decoded(head);
  const strange = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const publicKey = createPublicKey({ key: jwk, format: "jwk" });
  const pem = publicKey.export({ type: "spki", format: "pem" }).toString();
  const der = publicKey.export({ type: "spki", format: "der" });
  const bearer = (token: string): string => `Bearer ${token}`;
  return {
    "no text at all": "Bearer",
    "another scheme": `Basic ${valid}`,
    "the token without a scheme": valid,
    "not a token": bearer("secret"),
    "three empty parts": bearer(".."),
    "five parts": bearer(`${valid}.${payload}.${signature}`),
    "without a signature": bearer(`${head}.${payload}.`),
    "cut off": bearer(valid.slice(0, -1)),
    "another project in the payload": bearer(
      `${head}.${encoded({ ...decoded(payload), projectId: "p-00000000" })}.${signature}`,
    ),
    "another token's id in the payload": bearer(
      `${head}.${encoded({ ...decoded(payload), jti: "00000000-0000-4000-8000-000000000000" })}.${signature}`,
    ),
    "alg none": bearer(`${encoded({ ...header, alg: "none" })}.${payload}.`),
    "alg None with a signature": bearer(
      `${encoded({ ...header, alg: "None" })}.${payload}.${signature}`,
    ),
    "HS256 with the public key as PEM": bearer(hmac({ ...header, alg: "HS256" }, payload, pem)),
    "HS256 with the public key as DER": bearer(hmac({ ...header, alg: "HS256" }, payload, der)),
    "HS256 with the modulus": bearer(hmac({ ...header, alg: "HS256" }, payload, jwk.n ?? "")),
    "another's key under a known id": bearer(signed(header, payload, strange.privateKey)),
    "another's key under its own id": bearer(
      signed({ ...header, kid: "0123456789abcdef" }, payload, strange.privateKey),
    ),
    "another's key without an id": bearer(signed({ alg: "RS256" }, payload, strange.privateKey)),
    "a key of its own in the head": bearer(
      signed(
        { ...header, jwk: strange.publicKey.export({ format: "jwk" }) },
        payload,
        strange.privateKey,
      ),
    ),
    "an id that is a path": bearer(
      signed({ ...header, kid: "../../dev/null" }, payload, strange.privateKey),
    ),
  };
}

/** A token with this payload, signed by this key under this key id. */
export function signedToken(
  payload: object,
  key: { readonly id: string; readonly privateKey: KeyObject },
): string {
  return signed({ alg: "RS256", typ: "JWT", kid: key.id }, encoded(payload), key.privateKey);
}

function signed(header: object, payload: string, key: KeyObject): string {
  const text = `${encoded(header)}.${payload}`;
  return `${text}.${sign("RSA-SHA256", Buffer.from(text), key).toString("base64url")}`;
}

function hmac(header: object, payload: string, key: string | Buffer): string {
  const text = `${encoded(header)}.${payload}`;
  return `${text}.${createHmac("sha256", key).update(text).digest("base64url")}`;
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decoded(part: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;
}
