// Certificates as rows have them, and the settings of a platform that requests some; no authority
// is asked for anything.
import type { Insertable } from "kysely";
import type { Config } from "#config.ts";
import type { Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

type Row = Partial<Insertable<Tables["certificates"]>> & { readonly name: string };

/** Settings with which the platform requests certificates, from an authority that is nowhere. */
export const acmeSettings: Partial<Config> = {
  publicUrl: "https://slipway.example.org",
  tls: {
    port: 443,
    files: [],
    acme: {
      email: "operator@example.org",
      directoryUrl: "https://authority.invalid/directory",
      caFile: null,
      challenge: "http-01",
      newNamesPerWeek: 25,
      dns: null,
      externalAccount: null,
    },
    hstsSeconds: 0,
    redirects: false,
  },
};

/** A time so many days from now. */
export function daysFromNow(days: number): Date {
  return new Date(Date.now() + days * 86_400_000);
}

/** What a row has when there is a certificate that ends then. */
export function heldUntil(endsAt: Date) {
  const begins_at = new Date(endsAt.getTime() - 90 * 86_400_000);
  return { chain: "a chain", key_sealed: "a key", begins_at, ends_at: endsAt };
}

/** Inserts one that is requested in ten days, if `row` does not say otherwise. */
export async function insertCertificate(db: Db, row: Row): Promise<void> {
  const values = { next_try_at: daysFromNow(10), ...row };
  await db.insertInto("certificates").values(values).execute();
}
