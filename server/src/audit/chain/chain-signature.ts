// Signatures over the header, checkpoints and stubs of a chain: compact JWS (RFC 7515) with
// detached payload. A verifier rebuilds the payload from the line: `signedText` in
// export-format.ts.
import type { KeyObject } from "node:crypto";
import {
  decodeProtectedHeader,
  errors,
  FlattenedSign,
  flattenedVerify,
  type CompactJWSHeaderParameters,
} from "jose";

/** Signs chains; the platform passes in the keys that also sign tokens. */
export type ChainSigner = {
  current(): { readonly id: string; readonly privateKey: KeyObject };
  /**
   * The public half of a key; undefined after its withdrawal, since its signatures no longer prove
   * anything.
   */
  verifier(keyId: string): KeyObject | undefined;
  /** The public half of a withdrawn key: identifies signatures that were once ours. */
  withdrawn(keyId: string): KeyObject | undefined;
};

/** A signature and the key that made it. */
export type ChainSignature = { readonly jws: string; readonly keyId: string };

/** Signs a text with the current key. */
export async function signText(signer: ChainSigner, text: string): Promise<ChainSignature> {
  const { id, privateKey } = signer.current();
  const signing = new FlattenedSign(Buffer.from(text)).setProtectedHeader(headerOf(id));
  const { protected: header, signature } = await signing.sign(privateKey);
  // The payload between the two dots is left out: a verifier rebuilds it.
  return { jws: `${header}..${signature}`, keyId: id };
}

/** Public keys by their ids. */
export type PublicKeys = ReadonlyMap<string, KeyObject>;

/** Checks a signature over a text; null when it is valid. */
export async function signatureFault(
  jws: string,
  text: string,
  keys: PublicKeys,
): Promise<"malformed" | "unknown key" | "wrong" | null> {
  const keyId = keyIdOf(jws);
  const signature = jws.split(".").at(-1) ?? "";
  // A signature is accepted in exactly one form: other encodings of the same bytes are refused, and
  // other headers too.
  const isOurs =
    keyId !== null && jws === `${toBase64Url(JSON.stringify(headerOf(keyId)))}..${signature}`;
  if (!isOurs || signature !== toBase64Url(Buffer.from(signature, "base64url"))) return "malformed";
  const key = keys.get(keyId);
  if (key === undefined) return "unknown key";
  try {
    const [header = ""] = jws.split(".");
    await flattenedVerify({ protected: header, payload: toBase64Url(text), signature }, key, {
      algorithms: [algorithm],
    });
    return null;
  } catch (error) {
    // A TypeError concerns the key: it is too short, so it cannot have made the signature.
    if (error instanceof errors.JOSEError || error instanceof TypeError) return "wrong";
    throw error;
  }
}

/** The id of the key that a signature names; null when it is unreadable. */
export function keyIdOf(jws: string): string | null {
  try {
    const { kid } = decodeProtectedHeader(jws);
    return typeof kid === "string" ? kid : null;
  } catch {
    // The text does not have three parts, or the first is not JSON.
    return null;
  }
}

const algorithm = "RS256";

/** The header of a signature. `typ` distinguishes it from everything else that these keys sign. */
function headerOf(keyId: string): CompactJWSHeaderParameters {
  return { alg: algorithm, kid: keyId, typ: "slipway-audit" };
}

function toBase64Url(bytes: string | Buffer): string {
  return Buffer.from(bytes).toString("base64url");
}
