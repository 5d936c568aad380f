// The settings of certificates that the platform gets by itself, read for config.ts.
import { isAbsolute } from "node:path";
import { Secret } from "#lib/secret.ts";
import { readDnsServers } from "./config-dns.ts";
import type { PlatformSettingName, SettingReader } from "./config-table.ts";

/** How the platform gets certificates. */
export type AcmeConfig = NonNullable<ReturnType<typeof readAcme>>;

type AcmeReader = SettingReader & {
  readonly url: (name: PlatformSettingName) => string | null;
  /** Whether the operator agrees to the authority's terms of service. */
  readonly isAgreed: boolean;
  readonly challenge: "http-01" | "tls-alpn-01";
  /** For how many new names of one project certificates are requested in a week. */
  readonly newNamesPerWeek: number;
};

/** The rough form of a mail address. The authority checks the rest, and says what is wrong. */
const emailForm = /^[^\s@,]{1,64}@[^\s@,]{1,255}$/;

/** Reads the settings; null: no certificates are requested. */
export function readAcme({ text, refuse, url, isAgreed, challenge, newNamesPerWeek }: AcmeReader) {
  const email = text("SLIPWAY_ACME_EMAIL");
  if (email === null) {
    return isAgreed
      ? refuse("SLIPWAY_ACME_AGREE_TO_TERMS is set, but SLIPWAY_ACME_EMAIL is not.")
      : null;
  }
  if (!emailForm.test(email))
    refuse(`SLIPWAY_ACME_EMAIL is "${email}", but must be one mail address.`);
  if (!isAgreed) {
    refuse(
      "SLIPWAY_ACME_EMAIL is set, so certificates are requested: agree to the authority's terms of service with SLIPWAY_ACME_AGREE_TO_TERMS=true, or unset it.",
    );
  }
  const dns = readDns({ text, refuse });
  const keyId = text("SLIPWAY_ACME_EXTERNAL_KEY_ID");
  const hmacKey = text("SLIPWAY_ACME_EXTERNAL_HMAC_KEY");
  if ((keyId === null) !== (hmacKey === null)) {
    refuse(
      "SLIPWAY_ACME_EXTERNAL_KEY_ID and SLIPWAY_ACME_EXTERNAL_HMAC_KEY need each other: set both, or neither.",
    );
  }
  return {
    email,
    // The table has a default for this setting, so the empty text is never used.
    directoryUrl: url("SLIPWAY_ACME_DIRECTORY") ?? "",
    /**
     * The file with the certificates that the authority's own TLS is checked with, relative to the
     * working directory of the platform. Null: the usual certificates are used.
     */
    caFile: text("SLIPWAY_ACME_CA_FILE"),
    challenge,
    newNamesPerWeek,
    dns,
    externalAccount:
      keyId === null || hmacKey === null ? null : { keyId, hmacKey: new Secret(hmacKey) },
  };
}

type DnsConfig = (
  | { readonly by: "hook"; readonly program: string }
  | { readonly by: "cloudflare" | "digitalocean"; readonly token: Secret }
) & { readonly servers: readonly string[] };

/** Reads how names are proven by DNS records; null: they are not. */
function readDns({ text, refuse }: SettingReader): DnsConfig | null {
  const by = text("SLIPWAY_ACME_DNS");
  const program = text("SLIPWAY_ACME_DNS_HOOK");
  const token = text("SLIPWAY_ACME_DNS_TOKEN");
  const servers = readDnsServers("SLIPWAY_ACME_DNS_SERVERS", { text, refuse });
  if (by === null) return null;
  if (by === "hook") {
    if (program === null || !isAbsolute(program)) {
      const is = program === null ? "not set" : `"${program}"`;
      return refuse(
        `SLIPWAY_ACME_DNS is hook, so SLIPWAY_ACME_DNS_HOOK must be the absolute path of a program; it is ${is}.`,
      );
    }
    return { by, program, servers };
  }
  if (by !== "cloudflare" && by !== "digitalocean") {
    return refuse(
      `SLIPWAY_ACME_DNS is "${by}", but must be one of hook, cloudflare, digitalocean.`,
    );
  }
  if (token === null)
    return refuse(`SLIPWAY_ACME_DNS is ${by}, so SLIPWAY_ACME_DNS_TOKEN must be its token.`);
  return { by, token: new Secret(token), servers };
}
