// Keys that sign chains of the audit log, for tests and benchmarks that need no platform around them.
import { generateKeyPairSync } from "node:crypto";
import type { ChainSigner, PublicKeys } from "#audit/chain-signature.ts";

/** A signer and what verifies its signatures. */
export type TestSigner = ChainSigner & {
  readonly publicKeys: PublicKeys;
  readonly jwks: { readonly keys: readonly object[] };
};

/** One new key. */
export function testSigner(id: string = "test-key"): TestSigner {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const jwk = { ...publicKey.export({ format: "jwk" }), kid: id, alg: "RS256", use: "sig" };
  return { current: () => ({ id, privateKey }), publicKeys: new Map([[id, publicKey]]), jwks: { keys: [jwk] } };
}
