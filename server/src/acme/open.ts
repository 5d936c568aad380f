// Opens the certificates that the platform gets by itself.
import { readFileSync } from "node:fs";
import { CannotStart } from "#lib/cannot-start.ts";
import { errorCode } from "#lib/error-code.ts";
import type { Clock } from "#lib/clock.ts";
import { Loop } from "#lib/loop.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import { AcmeAuthority, type AcmeSettings } from "./acme-authority.ts";
import { CertificateKeeper } from "./certificate-keeper.ts";
import { CertificateUseCases } from "./certificate-use-cases.ts";
import { CloudflareRecords } from "./dns-cloudflare.ts";
import { DigitalOceanRecords } from "./dns-digitalocean.ts";
import { DnsHook } from "./dns-hook.ts";
import { dnsProver, type TxtRecords } from "./dns-records.ts";
import type { NameSource } from "./name-source.ts";
import { Proofs } from "./shown-proofs.ts";

export type OpenAcmeSettings = Omit<AcmeSettings, "trusted"> & {
  /** A file with authorities of TLS that are trusted instead of the usual ones; null: none. */
  readonly caFile: string | null;
  readonly challenge: "http-01" | "tls-alpn-01";
  /** Who changes the records that prove the platform's own names; null: nobody. */
  readonly dns: DnsSettings | null;
  /** For how many new names of one project certificates are ordered in a week. */
  readonly newNamesPerWeek: number;
  /** The environment of tools, for a program that changes records. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
};

type DnsSettings = (
  | { readonly by: "hook"; readonly program: string }
  | { readonly by: "cloudflare" | "digitalocean"; readonly token: Secret }
) & { readonly servers: readonly string[] };

type Parts = Foundation & {
  readonly sources: readonly NameSource[];
  /** Sends a mail in the background; null: mail is not configured. */
  readonly mail: { post(mail: Mail): void } | null;
};

type Mail = { readonly to: string; readonly subject: string; readonly text: string };

/** What the rest of the platform uses. */
export type OpenedAcme = {
  readonly proofs: Proofs;
  readonly keeper: CertificateKeeper;
  readonly useCases: CertificateUseCases;
  readonly serve: CertificateKeeper["serve"];
};

/** How often the keeper checks which certificates are due. */
const intervalMs = 60_000;

/** Opens the area, and reads the stored certificates. Orders begin with `lifecycle.start()`. */
export async function openAcme(
  { caFile, challenge, dns, newNamesPerWeek, toolEnvironment, ...settings }: OpenAcmeSettings,
  { sources, mail, ...foundation }: Parts,
): Promise<OpenedAcme> {
  const { lifecycle, log, clock } = foundation;
  const proofs = new Proofs();
  const prover = challenge === "http-01" ? proofs.overHttp() : proofs.overTls();
  const ownProver =
    dns === null
      ? prover
      : dnsProver({
          records: recordsOf(dns, toolEnvironment, clock),
          servers: dns.servers,
          clock,
        });
  const trusted = caFile === null ? null : readTrusted(caFile);
  const authority = new AcmeAuthority({ ...settings, trusted }, foundation);
  const keeper = new CertificateKeeper({
    ...foundation,
    authority,
    sources,
    newNamesPerWeek,
    mailOperator: mail === null ? null : (one) => mail.post({ to: settings.email, ...one }),
    proverFor: (zone) => (zone === "own" ? ownProver : prover),
  });
  await keeper.load();
  const loop = new Loop({
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
  });
  loop.startWithin(lifecycle);
  const requests = { needs: (name: string) => keeper.needs(name), nudge: () => loop.nudge() };
  const useCases = new CertificateUseCases({ ...foundation, keeper: requests });
  return { proofs, keeper, useCases, serve: (user) => keeper.serve(user) };
}

function recordsOf(
  dns: DnsSettings,
  environment: Readonly<Record<string, string>>,
  clock: Clock,
): TxtRecords {
  if (dns.by === "hook") return new DnsHook({ program: dns.program, environment, clock });
  const { token } = dns;
  return dns.by === "cloudflare"
    ? new CloudflareRecords({ token, clock })
    : new DigitalOceanRecords({ token, clock });
}

function readTrusted(caFile: string): string {
  try {
    return readFileSync(caFile, "utf8");
  } catch (error) {
    const message = `SLIPWAY_ACME_CA_FILE (${caFile}) cannot be read: ${errorCode(error)}.`;
    throw new CannotStart(message, { cause: error });
  }
}
