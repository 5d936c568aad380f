// The settings of the HTTPS port, read for config.ts.
import { isAddressOrLocalhost } from "#lib/nameless-host.ts";
import type { AcmeConfig } from "./config-acme.ts";
import type { SettingReader } from "./config-table.ts";

/** The HTTPS port and its certificates. */
export type TlsConfig = {
  readonly port: number;
  /** The first pair is for clients that name no host, or a host that no pair is for. */
  readonly files: readonly TlsFiles[];
  /** How the platform gets certificates by itself; null: it does not. */
  readonly acme: AcmeConfig | null;
  /** How long browsers are to use only HTTPS for a host; 0: they are not told. */
  readonly hstsSeconds: number;
  /** Whether plain HTTP of other machines is redirected to HTTPS, or refused except for pages. */
  readonly redirects: boolean;
};

type TlsFiles = { readonly certificateFile: string; readonly keyFile: string };

type TlsReader = SettingReader & {
  readonly list: (name: "SLIPWAY_TLS_CERTIFICATE" | "SLIPWAY_TLS_KEY") => readonly string[];
  readonly port: number;
  readonly hstsSeconds: number;
  readonly redirects: boolean;
  readonly publicUrl: string | null;
  readonly acme: AcmeConfig | null;
};

/** Reads the settings; null: there is no HTTPS port. */
export function readTls({ list, refuse, publicUrl, ...rest }: TlsReader): TlsConfig | null {
  const certificates = list("SLIPWAY_TLS_CERTIFICATE");
  const keys = list("SLIPWAY_TLS_KEY");
  if (certificates.length !== keys.length) {
    const given = `${certificates.length} and ${keys.length}`;
    return refuse(
      `SLIPWAY_TLS_CERTIFICATE and SLIPWAY_TLS_KEY must name the same number of files, but name ${given}.`,
    );
  }
  // Both lists have the same length here, so each certificate has a key.
  const pairs = certificates.map((certificateFile, index) => ({
    certificateFile,
    keyFile: keys[index] ?? "",
  }));
  const { port, hstsSeconds, redirects, acme } = rest;
  if (pairs.length === 0 && acme === null) {
    if (hstsSeconds > 0) return refuse(needsCertificate("SLIPWAY_HSTS_SECONDS"));
    return redirects ? refuse(needsCertificate("SLIPWAY_REDIRECT_TO_HTTPS")) : null;
  }
  if (publicUrl === null || !publicUrl.startsWith("https://")) {
    const given = publicUrl === null ? "not set" : `"${publicUrl}"`;
    const name = acme === null ? "SLIPWAY_TLS_CERTIFICATE" : "SLIPWAY_ACME_EMAIL";
    return refuse(
      `${name} is set, so SLIPWAY_PUBLIC_URL must be the https URL at which people reach the platform, such as https://slipway.example.org; it is ${given}.`,
    );
  }
  // With files, the address may have a certificate from there.
  if (acme !== null && pairs.length === 0 && isAddressOrLocalhost(new URL(publicUrl).hostname)) {
    return refuse(
      `SLIPWAY_ACME_EMAIL is set, so SLIPWAY_PUBLIC_URL must have a host name that DNS knows, such as https://slipway.example.org: authorities issue certificates for names. It is "${publicUrl}". For an address, use a certificate of your own (SLIPWAY_TLS_CERTIFICATE).`,
    );
  }
  return { port, files: pairs, acme, hstsSeconds, redirects };
}

function needsCertificate(name: string): string {
  return `${name} is set, but neither SLIPWAY_TLS_CERTIFICATE nor SLIPWAY_ACME_EMAIL is.`;
}
