// Connects who may do what: signing keys, the check of tokens, people and their sign-in.
import { SigningKeys } from "#accounts/keys.ts";
import { SigningKeyUseCases } from "#accounts/signing-key-use-cases.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { TokenUseCases } from "#accounts/token-use-cases.ts";
import { Authenticator } from "#accounts/authenticator.ts";
import { TokenUses } from "#accounts/token-uses.ts";
import type { MemberParts } from "#api/members.ts";
import { startRetention } from "#lib/retention.ts";
import { InvitationUseCases } from "#people/invitation-use-cases.ts";
import { cleanupIntervalMs, peopleCleanup } from "#people/cleanup.ts";
import { Mailer } from "#people/mailer.ts";
import { MemberUseCases } from "#people/member-use-cases.ts";
import { openPeopleArea, type People } from "#people/people.ts";
import type { Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";

/** Keys and the check of tokens, which the API and the proxy share, and people. */
export type OpenedPeople = {
  readonly keys: SigningKeys;
  readonly tokens: Authenticator;
  readonly tokenUseCases: TokenUseCases;
  readonly keyUseCases: SigningKeyUseCases;
  readonly people: People;
  readonly membership: MemberParts;
  /** To be told of people whose projects have changed. */
  readonly personChanged: (personId: string) => void;
};

/** Opens them; they are closed with the platform. `baseUrl` is asked only once the platform listens. */
export async function openPeople(
  config: Config,
  foundation: Foundation & { readonly baseUrl: () => string },
): Promise<OpenedPeople> {
  const { db, notifications, sealer, lifecycle, log, clock, baseUrl } = foundation;
  const keys = new SigningKeys({ sealer, clock });
  await keys.load(db);
  const mailer = config.people.mail === null ? null : new Mailer({ ...config.people.mail, clock, log });
  if (mailer !== null) lifecycle.onClose("mail", () => mailer.close());
  const people = await openPeopleArea({ db, sealer, keys, clock, log, mailer, baseUrl, settings: config.people });
  lifecycle.onClose("people", () => people.close());
  const steps = () => peopleCleanup({ db, clock });
  startRetention({ name: "expired sessions", steps, intervalMs: cleanupIntervalMs, clock, log, lifecycle });
  const check = new TokenCheck({ db, keys, notifications, clock, people: people.lookup });
  lifecycle.onClose("tokens", () => check.close());
  const uses = new TokenUses({ db, clock, log });
  uses.start();
  lifecycle.onClose("uses of tokens", () => uses.stop());
  const tokens = new Authenticator({ check, uses, failedPerMinute: config.failedTokensPerMinute, clock });
  const useCases = {
    tokenUseCases: new TokenUseCases({ db, keys, clock }),
    keyUseCases: new SigningKeyUseCases({ db, keys, clock }),
  };
  const personChanged = (personId: string): void => check.personChanged(personId);
  const membership: MemberParts = {
    members: new MemberUseCases({ db, personChanged }),
    invitations: new InvitationUseCases({ db, clock, hashes: people.hashes, personChanged }),
    postMail: mailer === null ? null : (mail) => mailer.post(mail),
  };
  return { keys, tokens, ...useCases, people, membership, personChanged };
}
