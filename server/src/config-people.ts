// The settings for sign-in, read for config.ts: mail, OpenID Connect, GitHub, and who may become a
// person.
import { Secret } from "#lib/secret.ts";
import type { PeopleSettings, ProviderSettings } from "#people/people-settings.ts";
import type { PlatformSettingName, SettingReader } from "./config-table.ts";

/** Sign-in settings and the mail server. `mail` is null when no mail server is configured. */
export type PeopleConfig = PeopleSettings & {
  readonly mail: { readonly url: Secret; readonly from: string } | null;
};

type Reader = SettingReader & { readonly url: SettingReader["text"] };

/** Reads the settings. Refuses a group of settings of which only some are set. */
export function readPeople(reader: Reader): PeopleConfig {
  const signUp = reader.text("SLIPWAY_SIGN_UP");
  if (signUp !== "invited" && signUp !== "open") {
    return reader.refuse(`SLIPWAY_SIGN_UP is "${signUp}", but must be one of invited, open.`);
  }
  return { signUp, mail: readMail(reader), oidc: readOidc(reader), github: readGithub(reader) };
}

function readMail({ text, refuse }: Reader): PeopleConfig["mail"] {
  const url = text("SLIPWAY_SMTP_URL");
  const from = text("SLIPWAY_MAIL_FROM");
  if (url === null && from === null) return null;
  if (url === null || !/^smtps?:$/.test(URL.parse(url)?.protocol ?? "")) {
    return refuse("SLIPWAY_SMTP_URL must start with smtp:// or smtps:// (its value is not shown).");
  }
  // A name without control characters may precede the address, which may be in angle brackets.
  if (from === null || !/^[^\x00-\x1f\x7f]*[^\s<>@]+@[^\s<>@]+>?$/.test(from)) {
    return refuse(
      `SLIPWAY_MAIL_FROM is "${from ?? ""}", but must be an email address, with or without a name.`,
    );
  }
  return { url: new Secret(url), from };
}

function readOidc(reader: Reader): ProviderSettings | null {
  const { text, url } = reader;
  const names = [
    "SLIPWAY_OIDC_ISSUER",
    "SLIPWAY_OIDC_CLIENT_ID",
    "SLIPWAY_OIDC_CLIENT_SECRET",
  ] as const;
  const [issuer, clientId, clientSecret] = allOrNone(reader, names);
  if (issuer === undefined || clientId === undefined || clientSecret === undefined) return null;
  // The name has a default in the table, and the issuer is set, so no empty text is ever used.
  const name = text("SLIPWAY_OIDC_NAME") ?? "";
  // `url` refuses an issuer that is no URL.
  return {
    url: url("SLIPWAY_OIDC_ISSUER") ?? "",
    clientId,
    clientSecret: new Secret(clientSecret),
    name,
  };
}

function readGithub(reader: Reader): ProviderSettings | null {
  const names = ["SLIPWAY_GITHUB_CLIENT_ID", "SLIPWAY_GITHUB_CLIENT_SECRET"] as const;
  const [clientId, clientSecret] = allOrNone(reader, names);
  if (clientId === undefined || clientSecret === undefined) return null;
  // The table has a default for this setting, so the empty text is never used.
  const url = reader.url("SLIPWAY_GITHUB_URL") ?? "";
  return { url, clientId, clientSecret: new Secret(clientSecret), name: "GitHub" };
}

/** The values of settings that only work together; empty when none is set. */
function allOrNone({ text, refuse }: Reader, names: readonly PlatformSettingName[]): string[] {
  const values = names.map((name) => text(name)).filter((value) => value !== null);
  if (values.length === 0 || values.length === names.length) return values;
  return refuse(`${names.join(", ")} belong together: set all of them or none.`);
}
