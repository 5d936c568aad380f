// Signatures over the header, the checkpoints and the stubs of a chain: JWS (RFC 7515) in the compact form with the
// payload left out, since whoever checks one makes it from the line: `signedText` in export-format.ts.
import type { KeyObject } from "node:crypto";
import { decodeProtectedHeader, errors, FlattenedSign, flattenedVerify, type CompactJWSHeaderParameters } from "jose";

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

/** Signs a text with the current key. */
export async function signText(signer: ChainSigner, text: string): Promise<ChainSignature> {
  const { id, privateKey } = signer.current();
  const signing = new FlattenedSign(Buffer.from(text)).setProtectedHeader(headerOf(id));
  const { protected: header, signature } = await signing.sign(privateKey);
  return { jws: `${header}..${signature}`, keyId: id };
}

/** Public keys by their ids. */
export type PublicKeys = ReadonlyMap<string, KeyObject>;

/** What is wrong with a signature over a text, or null. */
export async function signatureFault(
  jws: string,
  text: string,
  keys: PublicKeys,
): Promise<"malformed" | "unknown key" | "wrong" | null> {
  const keyId = keyIdOf(jws);
  const signature = jws.split(".").at(-1) ?? "";
  // One text for each signature: other spellings of the same bytes are not taken.
  const isOurs = keyId !== null && jws === `${encode(JSON.stringify(headerOf(keyId)))}..${signature}`;
  if (!isOurs || signature !== encode(Buffer.from(signature, "base64url"))) return "malformed";
  const key = keys.get(keyId);
  if (key === undefined) return "unknown key";
  try {
    const [header = ""] = jws.split(".");
    await flattenedVerify({ protected: header, payload: encode(text), signature }, key, { algorithms: [algorithm] });
    return null;
  } catch (error) {
    // A TypeError is about the key: one that cannot have made it, as it is too short.
    if (error instanceof errors.JOSEError || error instanceof TypeError) return "wrong";
    throw error;
  }
}

/** The id of the key that a signature names; null when it cannot be read. */
export function keyIdOf(jws: string): string | null {
  try {
    const { kid } = decodeProtectedHeader(jws);
    return typeof kid === "string" ? kid : null;
  } catch {
    // Not three parts, or the first is not JSON.
    return null;
  }
}

const algorithm = "RS256";

/** The type keeps it from being taken for anything else that these keys sign. */
function headerOf(keyId: string): CompactJWSHeaderParameters {
  return { alg: algorithm, kid: keyId, typ: "slipway-audit" };
}

function encode(bytes: string | Buffer): string {
  return Buffer.from(bytes).toString("base64url");
}
