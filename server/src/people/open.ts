// Opens the part of the platform for people: how they sign in, and their membership of projects.
import type { SigningKeys } from "#accounts/keys.ts";
import { ownerAddresses } from "#accounts/project-store.ts";
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { startRetention, type RemovalStep } from "#lib/retention.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { olderRows } from "#store/older-rows.ts";
import { loadAuthSecret } from "./auth-secret.ts";
import { InvitationUseCases } from "./invitation-use-cases.ts";
import { Mailer, type Mail } from "./mailer.ts";
import { MemberUseCases } from "./member-use-cases.ts";
import type { PeopleSettings } from "./people-settings.ts";
import { People } from "./people.ts";

export type OpenPeopleSettings = {
  readonly people: PeopleSettings & {
    readonly mail: { readonly url: Secret; readonly from: string } | null;
  };
};

/** Members and invitations. */
export type OpenedMembership = {
  readonly members: MemberUseCases;
  readonly invitations: InvitationUseCases;
  /** Sends a mail in the background; null: mail is not configured. */
  readonly postMail: ((mail: Mail) => void) | null;
  /** Sends a mail to the owners of a project in the background, if mail is configured. */
  readonly mailOwners: (projectId: ProjectId, mail: Omit<Mail, "to">) => Promise<void>;
};

/** Opens the sign-in of people. `baseUrl` is not called before the platform listens. */
export async function openPeople(
  { people: settings }: OpenPeopleSettings,
  foundation: Foundation & { readonly keys: SigningKeys; readonly baseUrl: () => string },
): Promise<People> {
  const { db, sealer, keys, lifecycle, log, clock, baseUrl } = foundation;
  const mailer = settings.mail === null ? null : new Mailer({ ...settings.mail, clock, log });
  if (mailer !== null) lifecycle.onClose("mail", () => mailer.close());
  const secret = await loadAuthSecret(db, sealer);
  const people = new People({ db, keys, clock, log, mailer, baseUrl, secret, settings });
  lifecycle.onClose("people", () => people.close());
  const steps = () => peopleCleanup({ db, clock });
  startRetention({
    name: "expired sessions",
    steps,
    intervalMs: cleanupIntervalMs,
    clock,
    log,
    lifecycle,
  });
  return people;
}

/**
 * Opens the use cases for members and invitations. `personChanged` is called after each change of a
 * membership.
 */
export function openMembership(
  { db, clock }: Pick<Foundation, "db" | "clock">,
  {
    people,
    personChanged,
  }: { readonly people: People; readonly personChanged: (personId: string) => void },
): OpenedMembership {
  const { mailer, hashes } = people;
  const mailOwners: OpenedMembership["mailOwners"] = async (projectId, mail) => {
    if (mailer === null) return;
    for (const to of await ownerAddresses(db, projectId)) mailer.post({ to, ...mail });
  };
  return {
    mailOwners,
    members: new MemberUseCases({ db, personChanged }),
    invitations: new InvitationUseCases({ db, clock, hashes, personChanged }),
    postMail: mailer === null ? null : (mail) => mailer.post(mail),
  };
}

/** Expired rows must not pile up while strangers try many addresses, each of which adds a row. */
const cleanupIntervalMs = 600_000;

/** The steps that remove expired sessions, links, challenges and counts of attempts. */
export function peopleCleanup({
  db,
  clock,
}: {
  readonly db: Db;
  readonly clock: Clock;
}): RemovalStep[] {
  const before = new Date(clock.now());
  return [
    olderRows(db, { name: "sessions", table: "person_sessions", time: "expires_at", before }),
    olderRows(db, {
      name: "verifications",
      table: "person_verifications",
      time: "expires_at",
      before,
    }),
    olderRows(db, { name: "tries", table: "person_attempts", time: "ends_at", before }),
  ];
}
