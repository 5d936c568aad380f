// The settings of certificates that the platform gets by itself, read for config.ts.
import { Secret } from "#lib/secret.ts";
import type { PlatformSettingName, SettingReader } from "./config-table.ts";

/** How the platform gets certificates; null: it does not. */
export type AcmeConfig = NonNullable<ReturnType<typeof readAcme>>;

type AcmeReader = SettingReader & {
  readonly url: (name: PlatformSettingName) => string | null;
  readonly isAgreed: boolean;
  readonly challenge: "http-01" | "tls-alpn-01";
};

/** An address as the authority takes it; what it finds wrong, it says itself. */
const emailForm = /^[^\s@,]{1,64}@[^\s@,]{1,255}$/;

/** Reads the settings; null: no certificates are requested. */
export function readAcme({ text, refuse, url, isAgreed, challenge }: AcmeReader) {
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
  const keyId = text("SLIPWAY_ACME_EXTERNAL_KEY_ID");
  const hmacKey = text("SLIPWAY_ACME_EXTERNAL_HMAC_KEY");
  if ((keyId === null) !== (hmacKey === null)) {
    refuse(
      "SLIPWAY_ACME_EXTERNAL_KEY_ID and SLIPWAY_ACME_EXTERNAL_HMAC_KEY need each other: set both, or neither.",
    );
  }
  return {
    email,
    directoryUrl: url("SLIPWAY_ACME_DIRECTORY") ?? "",
    /** Relative to the working directory of the platform; null: only the usual authorities. */
    caFile: text("SLIPWAY_ACME_CA_FILE"),
    challenge,
    externalAccount:
      keyId === null || hmacKey === null ? null : { keyId, hmacKey: new Secret(hmacKey) },
  };
}
