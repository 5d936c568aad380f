// Signatures over the header, the checkpoints and the stubs of a chain: JWS (RFC 7515) in the compact form with the
// payload left out, since whoever checks one makes it from the line: `signedText` in export-format.ts.
import { sign, verify, type KeyObject } from "node:crypto";
import { promisify } from "node:util";

/** What signs; the platform hands in the keys that sign tokens. */
export type ChainSigner = {
  current(): { readonly id: string; readonly privateKey: KeyObject };
  /** The public half of a key; undefined when it was withdrawn: what it signed proves nothing any more. */
  verifier(keyId: string): KeyObject | undefined;
  /** The public half of a key that was withdrawn: what it signed was once ours. */
  withdrawn(keyId: string): KeyObject | undefined;
};

/** A signature and the key that made it. */
export type ChainSignature = { readonly jws: string; readonly keyId: string };

/** RSASSA-PKCS1-v1_5 with SHA-256, as RS256 is. */
const digest = "sha256";
/** Keeps it from being taken for anything else that these keys sign. */
const signatureType = "slipway-audit";
const signInBackground = promisify(sign) as (algorithm: string, data: Buffer, key: KeyObject) => Promise<Buffer>;

/** Signs a text with the current key. */
export async function signText(signer: ChainSigner, text: string): Promise<ChainSignature> {
  const { id, privateKey } = signer.current();
  const head = headOf(id);
  const signature = await signInBackground(digest, signedBytes(head, text), privateKey);
  return { jws: `${head}..${signature.toString("base64url")}`, keyId: id };
}

/** Public keys by their ids. */
export type PublicKeys = ReadonlyMap<string, KeyObject>;

/** What is wrong with a signature over a text, or null. */
export function signatureFault(
  jws: string,
  text: string,
  keys: PublicKeys,
): "malformed" | "unknown key" | "wrong" | null {
  const [head = "", payload, encoded = "", ...more] = jws.split(".");
  const keyId = keyIdOf(head);
  const signature = Buffer.from(encoded, "base64url");
  // One text for each signature: other spellings of the same bytes are not taken.
  const isOurs = payload === "" && more.length === 0 && keyId !== null && head === headOf(keyId);
  if (!isOurs || keyId === null || signature.toString("base64url") !== encoded) return "malformed";
  const key = keys.get(keyId);
  if (key === undefined) return "unknown key";
  return verify(digest, signedBytes(head, text), key, signature) ? null : "wrong";
}

/** The id of the key that a signature names; null when it cannot be read. */
export function keyIdOf(jws: string): string | null {
  try {
    const head: unknown = JSON.parse(Buffer.from(jws.split(".")[0] ?? "", "base64url").toString());
    if (typeof head !== "object" || head === null || !("kid" in head)) return null;
    return typeof head.kid === "string" ? head.kid : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function headOf(keyId: string): string {
  return Buffer.from(JSON.stringify({ alg: "RS256", kid: keyId, typ: signatureType })).toString("base64url");
}

function signedBytes(head: string, text: string): Buffer {
  return Buffer.from(`${head}.${Buffer.from(text).toString("base64url")}`);
}
