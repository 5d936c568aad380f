// Opens the certificates that the platform gets by itself.
import { readFileSync } from "node:fs";
import { CannotStart } from "#lib/cannot-start.ts";
import { errorCode } from "#lib/error-code.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import { AcmeAuthority, type AcmeSettings } from "./acme-authority.ts";
import { CertificateKeeper } from "./certificate-keeper.ts";
import type { NameSource } from "./name-source.ts";
import { Proofs } from "./shown-proofs.ts";

export type OpenAcmeSettings = Omit<AcmeSettings, "trusted"> & {
  /** A file with authorities of TLS that are trusted instead of the usual ones; null: none. */
  readonly caFile: string | null;
  readonly challenge: "http-01" | "tls-alpn-01";
};

/** What the rest of the platform uses. */
export type OpenedAcme = {
  readonly proofs: Proofs;
  readonly keeper: CertificateKeeper;
  readonly serve: CertificateKeeper["serve"];
};

/** How often it is looked which certificates are due. */
const intervalMs = 60_000;

/** Reads the stored certificates; orders begin with the platform. */
export async function openAcme(
  { caFile, challenge, ...settings }: OpenAcmeSettings,
  { sources, ...foundation }: Foundation & { readonly sources: readonly NameSource[] },
): Promise<OpenedAcme> {
  const { lifecycle, log, clock } = foundation;
  const proofs = new Proofs();
  const prover = challenge === "http-01" ? proofs.overHttp() : proofs.overTls();
  const trusted = caFile === null ? null : readTrusted(caFile);
  const authority = new AcmeAuthority({ ...settings, trusted }, foundation);
  const keeper = new CertificateKeeper({
    ...foundation,
    authority,
    sources,
    proverFor: () => prover,
  });
  await keeper.load();
  new Loop({
    name: "certificates by ACME",
    turn: (signal) => keeper.turn(signal),
    listen: (nudge) => {
      const ends = sources.map((source) => source.onChange(nudge));
      return () => {
        for (const end of ends) end();
      };
    },
    intervalMs,
    waitsForClock: true,
    log,
    clock,
  }).startWithin(lifecycle);
  return { proofs, keeper, serve: (user) => keeper.serve(user) };
}

function readTrusted(caFile: string): string {
  try {
    return readFileSync(caFile, "utf8");
  } catch (error) {
    const message = `SLIPWAY_ACME_CA_FILE (${caFile}) cannot be read: ${errorCode(error)}.`;
    throw new CannotStart(message, { cause: error });
  }
}
