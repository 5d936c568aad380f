// Real exports of real audit log chains, and keys to sign them, for tests and benchmarks that need
// no platform.
import { generateKeyPairSync } from "node:crypto";
import { AuditChain } from "#audit/chain/audit-chain.ts";
import type { ChainSigner, PublicKeys } from "#audit/chain/chain-signature.ts";
import { AuditExport, type ExportWish } from "#audit/export/audit-export.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { Db } from "#store/database.ts";
import { byPlatform } from "./accounts.ts";

/** A signer and the keys that verify its signatures. */
export type TestSigner = ChainSigner & {
  readonly publicKeys: PublicKeys;
  readonly jwks: { readonly keys: readonly object[] };
};

/** One new key. */
export function testSigner(id: string = "test-key"): TestSigner {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const jwk = { ...publicKey.export({ format: "jwk" }), kid: id, alg: "RS256", use: "sig" };
  const publicKeys = new Map([[id, publicKey]]);
  const current = () => ({ id, privateKey });
  const verifier = (keyId: string) => publicKeys.get(keyId);
  return { current, verifier, withdrawn: () => undefined, publicKeys, jwks: { keys: [jwk] } };
}

/** The chain's signatures; not started. */
export function chainOn(db: Db, signer: ChainSigner, clock: Clock = systemClock): AuditChain {
  return new AuditChain({ db, clock, log: silentLog, signer });
}

/** The export request for a project's whole audit log, with its chain. */
export function wholeLog(projectId: ProjectId): ExportWish {
  return {
    projectId,
    format: "ndjson",
    from: null,
    to: null,
    action: null,
    actorId: null,
    outcome: null,
  };
}

/** A project's whole audit log, exported as the API does. */
export async function exportChain(
  db: Db,
  signer: ChainSigner,
  projectId: ProjectId,
): Promise<string> {
  const chain = chainOn(db, signer);
  const exporter = new AuditExport({ db, clock: systemClock, chain, retentionOf: () => 36_500 });
  let text = "";
  for await (const part of await exporter.begin(wholeLog(projectId), byPlatform)) text += part;
  return text;
}
