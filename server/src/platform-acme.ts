// Opens the certificates that the platform gets by itself, if the settings ask for them: a part of
// `platform.ts`. Says which names these are.
import type { NameSource } from "#acme/name-source.ts";
import { openAcme, type OpenedAcme } from "#acme/open.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Config } from "./config.ts";

/** Null: the platform gets no certificates by itself. Throws `CannotStart`. */
export async function openOwnCertificates(
  config: Pick<Config, "tls" | "publicUrl">,
  foundation: Foundation,
): Promise<OpenedAcme | null> {
  const { tls, publicUrl } = config;
  if (tls === null || tls.acme === null || publicUrl === null) return null;
  const ownName: NameSource = {
    zone: "own",
    names: () => [new URL(publicUrl).hostname],
    onChange: () => () => undefined,
  };
  return await openAcme(tls.acme, { ...foundation, sources: [ownName] });
}
